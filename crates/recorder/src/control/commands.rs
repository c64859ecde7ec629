//! Reads commands to a running recording from a named pipe and a socket: one per line, each answered by a line.

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

/// Maximum number of simultaneous clients; further connections wait in the socket.
const MAX_CLIENTS: usize = 16;
/// A client's unread bytes are dropped when there are more than this: no command is as long.
const MAX_UNREAD_BYTES: usize = 4096;

impl Command {
    /// Parses a command; the flag is true if the answer names the file. `snapshot` is perf's word for a dump, and is answered as
    /// perf does: without a file name.
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

/// The sources of commands.
#[derive(Debug, Default)]
pub struct CommandSources {
    pipe: Option<(File, Option<File>)>,
    socket: Option<CommandSocket>,
}

impl CommandSources {
    /// Reads commands from `commands` and writes answers to `answers`. Both are named pipes, opened for reading and writing and in
    /// non-blocking mode, so that the processes at their other ends may come and go.
    #[must_use]
    pub fn with_pipe(self, commands: File, answers: Option<File>) -> Self {
        Self { pipe: Some((commands, answers)), ..self }
    }

    /// Accepts connections at `socket` and reads commands from them.
    #[must_use]
    pub fn with_socket(self, socket: CommandSocket) -> Self {
        Self { socket: Some(socket), ..self }
    }

    fn is_empty(&self) -> bool {
        self.pipe.is_none() && self.socket.is_none()
    }
}

/// The outcome of a command: the file that it made, if it makes one, or why it failed.
type Outcome = Result<Option<PathBuf>, String>;

/// The sending side of answers to commands.
#[derive(Clone)]
pub(crate) struct Answers {
    answers: Sender<(u64, Outcome)>,
    waker: Arc<Waker>,
}

impl Answers {
    /// Sends the answer to the command with this ticket. It is dropped if the thread has ended.
    pub(crate) fn send(&self, ticket: u64, outcome: Outcome) {
        if self.answers.send((ticket, outcome)).is_ok() {
            self.waker.wake();
        }
    }
}

/// The thread that waits for commands. When this is dropped, it sends the pending answers and ends.
pub(crate) struct CommandThread {
    over: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl CommandThread {
    /// Starts the thread; `None` if there are no sources.
    pub(crate) fn start(sources: CommandSources, messages: Outbox) -> Result<Option<(Self, Answers)>, Error> {
        if sources.is_empty() {
            return Ok(None);
        }
        let failed = |errno| Error::System { what: "cannot start a thread", errno };
        let (over, waker) = (Arc::new(AtomicBool::new(false)), Arc::new(Waker::new().map_err(failed)?));
        let (sender, answers) = unbounded();
        let mut clients = Vec::new();
        if let Some((commands, answers)) = sources.pipe {
            clients.push(Client::new(Connection::Pipe { commands, answers }));
        }
        let listener = CommandListener {
            socket: sources.socket,
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
            .spawn(move || listener.run())
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
            // The thread is awake and does not panic; if it did, there would be nothing to do about it.
            let _ = thread.join();
        }
    }
}

struct CommandListener {
    socket: Option<CommandSocket>,
    clients: Vec<Client>,
    messages: Outbox,
    answers: Receiver<(u64, Outcome)>,
    waker: Arc<Waker>,
    over: Arc<AtomicBool>,
    tickets: u64,
}

impl CommandListener {
    fn run(mut self) {
        loop {
            let mut poll = PollSet::default();
            let waker = poll.add(self.waker.as_fd());
            let has_room = self.clients.len() < MAX_CLIENTS;
            let socket = self.socket.as_ref().filter(|_| has_room);
            let socket = socket.map(|socket| (socket, poll.add(socket.as_fd())));
            let places: Vec<Option<usize>> = self
                .clients
                .iter()
                .map(|client| client.unanswered.is_none().then(|| poll.add(client.end.as_fd())))
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
                let waits = |client: &&mut Client| client.unanswered.is_some_and(|(its, _)| its == ticket);
                if let Some(client) = self.clients.iter_mut().find(waits) {
                    client.answer(&outcome);
                }
            }
            if is_over {
                return;
            }
            if let Some((socket, place)) = socket
                && poll.ready(place).readable
                && let Some(stream) = socket.accept()
            {
                self.clients.push(Client::new(Connection::Stream(stream)));
            }
            for client in &mut self.clients {
                client.send_next_command(&self.messages, &mut self.tickets);
            }
            self.clients.retain(|client| !client.is_gone || client.unanswered.is_some());
        }
    }
}

/// One sender of commands.
struct Client {
    end: Connection,
    unread: Vec<u8>,
    /// The ticket of the command that has no answer yet, and whether the answer names a file.
    unanswered: Option<(u64, bool)>,
    is_gone: bool,
}

enum Connection {
    /// It never hangs up, because we hold both ends open.
    Pipe {
        commands: File,
        answers: Option<File>,
    },
    Stream(UnixStream),
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Pipe { commands, .. } => commands.as_fd(),
            Self::Stream(stream) => stream.as_fd(),
        }
    }
}

impl Client {
    fn new(end: Connection) -> Self {
        Self { end, unread: Vec::new(), unanswered: None, is_gone: false }
    }

    fn read(&mut self) {
        let mut bytes = [0; 1024];
        let read = match &mut self.end {
            Connection::Pipe { commands, .. } => commands.read(&mut bytes),
            Connection::Stream(stream) => stream.read(&mut bytes),
        };
        match read {
            Ok(0) => self.is_gone = true,
            Ok(length) => self.unread.extend_from_slice(bytes.get(..length).unwrap_or_default()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.is_gone = true,
        }
    }

    /// Sends the next command to the session, unless the previous one has no answer yet.
    fn send_next_command(&mut self, messages: &Outbox, tickets: &mut u64) {
        while self.unanswered.is_none() && !self.unread.is_empty() {
            let end = self.unread.iter().position(|&byte| byte == b'\n' || byte == 0);
            let line: Vec<u8> = match end {
                Some(end) => self.unread.drain(..=end).collect(),
                // A command without a line end is complete: none is the beginning of another one.
                None if Command::parse(&self.unread).is_some() => std::mem::take(&mut self.unread),
                None if self.unread.len() > MAX_UNREAD_BYTES => std::mem::take(&mut self.unread),
                None => return,
            };
            let line = line.strip_suffix(&[0]).unwrap_or(&line).trim_ascii();
            match Command::parse(line) {
                Some((command, names_file)) => {
                    *tickets += 1;
                    self.unanswered = Some((*tickets, names_file));
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

    /// Writes the answer. It is lost if the client does not read and its pipe or socket is full.
    fn answer(&mut self, outcome: &Outcome) {
        let names_file = self.unanswered.take().is_some_and(|(_, names_file)| names_file);
        let line = match outcome {
            Ok(Some(path)) if names_file => {
                format!("ack {}\n", Name::from(path.as_os_str().as_encoded_bytes()))
            }
            Ok(_) => "ack\n".to_owned(),
            Err(why) => format!("error: {}\n", Name::from(why.as_str())),
        };
        match &mut self.end {
            Connection::Pipe { answers: Some(answers), .. } => drop(answers.write(line.as_bytes())),
            Connection::Pipe { answers: None, .. } => {}
            Connection::Stream(stream) => self.is_gone |= stream.write_all(line.as_bytes()).is_err(),
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
        let (outbox, inbox) = messages::queue();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut client = Client::new(Connection::Stream(theirs));
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
            client.send_next_command(&outbox, &mut tickets);
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
