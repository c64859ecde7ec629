//! Commands that come while it records, through a named pipe or a socket: a line each, answered by a line.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use host::files::CommandSocket;
use host::sys::poll::{PollSet, Waker};
use model::Name;

use super::messages::{Message, Outbox};
use super::{Command, OutsideEvent};
use crate::error::Error;

/// Connections at a time.
const MOST_CLIENTS: usize = 16;
/// Bytes of lines that are not carried out yet. No command is as long.
const MOST_UNREAD: usize = 4096;

impl Command {
    /// `snapshot` is perf's word for a dump, and answered as perf does: without the file's name.
    fn parse(word: &[u8]) -> Option<(Self, bool)> {
        Some(match word.trim_ascii() {
            b"enable" => (Self::Enable, false),
            b"disable" => (Self::Disable, false),
            b"dump" => (Self::Dump, true),
            b"snapshot" => (Self::Dump, false),
            b"ping" => (Self::Ping, false),
            b"stop" => (Self::Stop, false),
            _ => return None,
        })
    }
}

/// The sources that commands come from.
#[derive(Debug, Default)]
pub struct CommandSources {
    pipe: Option<(File, Option<File>)>,
    sockets: Vec<CommandSocket>,
}

impl CommandSources {
    /// Reads commands from `commands` and writes answers to `answers`: named pipes, opened for both directions and without
    /// waiting, so that whoever has their other ends may come and go.
    #[must_use]
    pub fn with_pipe(self, commands: File, answers: Option<File>) -> Self {
        Self { pipe: Some((commands, answers)), ..self }
    }

    /// Reads commands from whoever connects to `socket`, too.
    #[must_use]
    pub fn with_socket(mut self, socket: CommandSocket) -> Self {
        self.sockets.push(socket);
        self
    }

    fn is_empty(&self) -> bool {
        self.pipe.is_none() && self.sockets.is_empty()
    }
}

/// The outcome of a command: the file that it made, or why it could not be.
type Outcome = Result<Option<PathBuf>, String>;

/// Tells those who sent commands what became of them.
#[derive(Clone)]
pub(crate) struct Answers {
    answers: Sender<(u64, Outcome)>,
    waker: Arc<Waker>,
}

impl Answers {
    /// Answers the command with this ticket.
    pub(crate) fn send(&self, ticket: u64, outcome: Outcome) {
        // Who does not listen any more has no question either.
        if self.answers.send((ticket, outcome)).is_ok() {
            self.waker.wake();
        }
    }
}

/// The thread that waits for commands. Dropped, it tells the answers that there are, and ends.
pub(crate) struct CommandThread {
    over: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl CommandThread {
    /// Starts it, where commands may come at all.
    pub(crate) fn start(sources: CommandSources, messages: Outbox) -> Result<Option<(Self, Answers)>, Error> {
        if sources.is_empty() {
            return Ok(None);
        }
        let failed = |errno| Error::System { what: "cannot start a thread", errno };
        let (over, waker) = (Arc::new(AtomicBool::new(false)), Arc::new(Waker::new().map_err(failed)?));
        let (sender, answers) = unbounded();
        let mut clients = Vec::new();
        if let Some((commands, answers)) = sources.pipe {
            clients.push(Client::new(End::Pipe { commands, answers }));
        }
        let listening = Listening {
            sockets: sources.sockets,
            clients,
            messages,
            answers,
            waker: Arc::clone(&waker),
            over: Arc::clone(&over),
            tickets: 0,
        };
        let thread = std::thread::Builder::new()
            .name("commands".to_owned())
            .stack_size(128 << 10)
            .spawn(move || listening.run())
            .map_err(failed)?;
        let answers = Answers { answers: sender, waker: Arc::clone(&waker) };
        Ok(Some((Self { over, waker, thread: Some(thread) }, answers)))
    }
}

impl Drop for CommandThread {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It waits for nobody, does not panic, and there is nothing to do if it had.
            let _ = thread.join();
        }
    }
}

struct Listening {
    sockets: Vec<CommandSocket>,
    clients: Vec<Client>,
    messages: Outbox,
    answers: Receiver<(u64, Outcome)>,
    waker: Arc<Waker>,
    over: Arc<AtomicBool>,
    tickets: u64,
}

impl Listening {
    fn run(mut self) {
        loop {
            let mut poll = PollSet::default();
            let waker = poll.add(self.waker.as_fd());
            let has_room = self.clients.len() < MOST_CLIENTS;
            let sockets: Vec<usize> =
                self.sockets.iter().filter(|_| has_room).map(|socket| poll.add(socket.as_fd())).collect();
            let places: Vec<Option<usize>> = self
                .clients
                .iter()
                .map(|client| client.waits_for.is_none().then(|| poll.add(client.end.as_fd())))
                .collect();
            if poll.wait(None).is_err() {
                return;
            }
            let is_over = self.over.load(Ordering::Acquire);
            if poll.ready(waker).readable {
                self.waker.clear();
            }
            for (client, place) in self.clients.iter_mut().zip(places) {
                let Some(place) = place else { continue };
                if poll.ready(place).readable {
                    client.read();
                } else if poll.ready(place).hung_up {
                    client.is_gone = true;
                }
            }
            while let Ok((ticket, outcome)) = self.answers.try_recv() {
                let waits = |client: &&mut Client| client.waits_for.is_some_and(|(its, _)| its == ticket);
                if let Some(client) = self.clients.iter_mut().find(waits) {
                    client.answer(&outcome);
                }
            }
            if is_over {
                return;
            }
            for (socket, place) in self.sockets.iter().zip(sockets) {
                if poll.ready(place).readable
                    && let Some(stream) = socket.accept()
                {
                    self.clients.push(Client::new(End::Stream(stream)));
                }
            }
            for client in &mut self.clients {
                client.carry_out(&self.messages, &mut self.tickets);
            }
            self.clients.retain(|client| !client.is_gone || client.waits_for.is_some());
        }
    }
}

/// Somebody who sends commands.
struct Client {
    end: End,
    unread: Vec<u8>,
    /// The ticket of the command whose answer is not there yet, and whether that names a file.
    waits_for: Option<(u64, bool)>,
    is_gone: bool,
}

enum End {
    /// It never hangs up: we have both ends.
    Pipe {
        commands: File,
        answers: Option<File>,
    },
    Stream(UnixStream),
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe { commands, .. } => commands.as_fd(),
            Self::Stream(stream) => stream.as_fd(),
        }
    }
}

impl Client {
    fn new(end: End) -> Self {
        Self { end, unread: Vec::new(), waits_for: None, is_gone: false }
    }

    fn read(&mut self) {
        let mut bytes = [0; 1024];
        let read = match &mut self.end {
            End::Pipe { commands, .. } => commands.read(&mut bytes),
            End::Stream(stream) => stream.read(&mut bytes),
        };
        match read {
            Ok(0) => self.is_gone = true,
            Ok(length) => self.unread.extend_from_slice(bytes.get(..length).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// Passes the next command on, if there is one.
    fn carry_out(&mut self, messages: &Outbox, tickets: &mut u64) {
        while self.waits_for.is_none() && !self.unread.is_empty() {
            let end = self.unread.iter().position(|&byte| byte == b'\n' || byte == 0);
            let line: Vec<u8> = match end {
                Some(end) => self.unread.drain(..=end).collect(),
                // Of no command is another one the beginning.
                None if Command::parse(&self.unread).is_some() => std::mem::take(&mut self.unread),
                None if self.unread.len() > MOST_UNREAD => std::mem::take(&mut self.unread),
                None => return,
            };
            let line = line.strip_suffix(&[0]).unwrap_or(&line).trim_ascii();
            match Command::parse(line) {
                Some((command, names_file)) => {
                    *tickets += 1;
                    self.waits_for = Some((*tickets, names_file));
                    let event = OutsideEvent::Command(command, *tickets);
                    if messages.leave(Message::Outside(event)).is_err() {
                        self.is_gone = true;
                    }
                    messages.wake();
                }
                None if line.is_empty() => {}
                None => {
                    let line = Name::from(line.get(..40).unwrap_or(line));
                    let why = format!("{line:?} is no command; these are: enable, disable, dump, ping, stop");
                    self.answer(&Err(why));
                }
            }
        }
    }

    /// Answers, where somebody reads. Who lets answers pile up loses them.
    fn answer(&mut self, outcome: &Outcome) {
        let names_file = self.waits_for.take().is_some_and(|(_, names_file)| names_file);
        let line = match outcome {
            Ok(Some(path)) if names_file => {
                format!("ack {}\n", Name::from(path.as_os_str().as_encoded_bytes()))
            }
            Ok(_) => "ack\n".to_owned(),
            Err(why) => format!("error: {}\n", Name::from(why.as_str())),
        };
        match &mut self.end {
            End::Pipe { answers: Some(answers), .. } => drop(answers.write(line.as_bytes())),
            End::Pipe { answers: None, .. } => {}
            End::Stream(stream) => self.is_gone |= stream.write_all(line.as_bytes()).is_err(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages;
    use super::*;
    use std::io::{BufRead, BufReader};

    #[test]
    fn lines_are_commands_and_each_is_answered() {
        let (outbox, inbox) = messages::boxes();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut client = Client::new(End::Stream(theirs));
        let mut tickets = 0;
        ours.write_all(b"ping\nnonsense\x1b[2J\n\ndump\nsnapshot").unwrap();
        let mut answers = BufReader::new(ours.try_clone().unwrap());
        let mut answer = || {
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            line
        };
        let mut next = |client: &mut Client| {
            client.read();
            client.carry_out(&outbox, &mut tickets);
            match inbox.next(Some(std::time::Instant::now())) {
                Ok(Message::Outside(OutsideEvent::Command(command, _))) => command,
                _ => panic!("no command"),
            }
        };
        assert_eq!(next(&mut client), Command::Ping);
        client.answer(&Ok(None));
        assert_eq!(answer(), "ack\n");
        ours.write_all(b"\n").unwrap();
        assert_eq!(next(&mut client), Command::Dump);
        let unknown = answer();
        assert!(unknown.starts_with("error: ") && !unknown.contains('\x1b'), "{unknown:?}");
        client.answer(&Ok(Some("a\nb".into())));
        let named = answer();
        assert!(named.starts_with("ack a") && named.ends_with("b\n") && named.len() > 8, "{named:?}");
        ours.write_all(b"stop\n").unwrap();
        assert_eq!(next(&mut client), Command::Dump);
        client.answer(&Ok(Some("a".into())));
        assert_eq!(answer(), "ack\n");
        assert_eq!(next(&mut client), Command::Stop);
        drop((ours, answers));
        client.answer(&Ok(None));
        client.read();
        assert!(client.is_gone);
    }
}
