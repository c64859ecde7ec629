//! The loop of the screen: receives keys, signals and snapshots, changes the state by them, and draws it.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use analysis::Notices;
use anyhow::{Context, anyhow};
use crossbeam_channel::{Receiver, Sender, unbounded};
use crossterm::event::{self, Event};
use host::sys::poll::PollSet;
use host::sys::schedule::{PriorityGuard, RealtimeGuard};
use host::sys::signals::{SIGCONT, SIGTSTP, SignalFd};
use live::snapshot::{Snapshot, Span};
use live::views::Scope;
use live::{Engine, EngineCommand, EngineEvent, EngineSettings};
use model::{Harm, Name};
use recorder::{Control, Importance, Notice, Options, ends_with_command, signals_of_recordings};

use super::app::App;
use super::draw::draw;
use super::keys::Request;
use super::save;
use super::screen::Screen;
use super::theme::Theme;
use crate::console::Console;

/// A message to the loop.
enum Message {
    Started,
    Snapshot(Arc<Snapshot>),
    Notice(Notice),
    Ended(Result<(), recorder::Error>),
    Input(Event),
    /// A file was saved, or why it was not, in words.
    Saved(String),
    /// There is no terminal to read from any more.
    InputEnded(io::Error),
    Signal(i32),
}

/// Number of waiting messages beyond which snapshots are dropped: the screen has not drawn the earlier ones yet.
const MAX_BACKLOG: usize = 4;

/// Shows the live view until the user leaves.
///
/// # Errors
/// Where nothing can be recorded, or the terminal fails.
pub(crate) fn run(
    options: Options,
    settings: EngineSettings,
    scope: Scope,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    // Before any thread is started: threads inherit the mask that blocks these signals.
    let mut read = signals_of_recordings();
    read.extend([SIGTSTP, SIGCONT]);
    let signals = SignalFd::new(&read).context("cannot wait for signals")?;
    let (sender, messages) = unbounded();
    let (commands, command_receiver) = unbounded();
    let control = Control::without_signals(&signals).context("cannot make the recording stoppable")?;
    let has_command = options.workload.is_some();
    let recording = start(options, settings, control.clone(), command_receiver, sender.clone())?;
    let result = match wait_for_start(&messages, console) {
        Ok(notices) => {
            listen_to_signals(signals, sender.clone())?;
            let mut saving = Saving { told: sender.clone(), running: Vec::new() };
            let mut app = App::new(scope, Span::Window);
            let wanted = notices.iter().filter(|notice| is_wanted(notice, console.verbosity()));
            app.message = wanted.map(ToString::to_string).reduce(|all, notice| format!("{all}; {notice}"));
            let shown = show((sender, &messages), &commands, &mut app, &mut saving, has_command);
            saving.finish(console);
            // The screen shows only the first remark.
            app.snapshot.status.remarks.iter().for_each(|remark| console.warn(Harm::Names, remark));
            shown
        }
        Err(error) => Err(error),
    };
    drop(commands);
    control.stop();
    if recording.join().is_err() {
        return Err(anyhow!(
            "an internal error ended the recording; please report it with the message above"
        ));
    }
    result
}

/// Starts the recording on its own thread.
fn start(
    options: Options,
    settings: EngineSettings,
    control: Control,
    commands: Receiver<EngineCommand>,
    messages: Sender<Message>,
) -> anyhow::Result<thread::JoinHandle<()>> {
    let sender = messages.clone();
    let send = move |item| {
        let message = match item {
            EngineEvent::Started => Message::Started,
            EngineEvent::Snapshot(_) if sender.len() > MAX_BACKLOG => return,
            EngineEvent::Snapshot(snapshot) => Message::Snapshot(snapshot),
        };
        // Sending fails when the screen has been left.
        let _ = sender.send(message);
    };
    let mut engine = Engine::new(settings, commands, send).context("cannot start a thread")?;
    let record = move || {
        let mut notices = |notice| {
            let _ = messages.send(Message::Notice(notice));
        };
        let result = live::record(&options, &control, &mut engine, &mut notices);
        let _ = messages.send(Message::Ended(result.map(|_| ())));
    };
    thread::Builder::new().name("recording".to_owned()).spawn(record).context("cannot start a thread")
}

/// Waits until samples are taken, before the screen takes the terminal over: an error is printed on an ordinary terminal.
fn wait_for_start(messages: &Receiver<Message>, console: &Console) -> anyhow::Result<Vec<Notice>> {
    let mut notices = Vec::new();
    loop {
        match messages.recv().context("the recording ended by an internal error")? {
            Message::Started => return Ok(notices),
            Message::Notice(notice) => notices.push(notice),
            Message::Ended(Err(error)) => {
                for notice in notices.iter().filter(|notice| is_wanted(notice, console.verbosity())) {
                    console.say(&notice.to_string());
                }
                return Err(error.into());
            }
            _ => {}
        }
    }
}

fn is_wanted(notice: &Notice, verbosity: u8) -> bool {
    match notice.importance() {
        Importance::Event | Importance::Problem(_) => true,
        Importance::Detail => verbosity > 0,
        Importance::Attributes => false,
    }
}

/// The thread that reads the terminal. It has ended when this value is gone: what is typed from then on is for the shell.
struct Keyboard {
    is_left: Arc<AtomicBool>,
    reader: Option<thread::JoinHandle<()>>,
}

/// How long the thread that reads the terminal waits before it looks whether it should end, and so how long leaving may take.
const KEY_INTERVAL: Duration = Duration::from_millis(50);

impl Keyboard {
    fn start(messages: Sender<Message>) -> io::Result<Self> {
        let is_left = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_left);
        let read = move || {
            let _urgent = PriorityGuard::acquire();
            let mut pause = KEY_INTERVAL;
            while !ends.load(Ordering::Acquire) {
                let event = next_event(pause);
                // Keys that were read together are known already.
                pause = if matches!(event, Ok(Some(_))) { Duration::ZERO } else { KEY_INTERVAL };
                let message = match event {
                    Ok(None) => continue,
                    Ok(Some(event)) => Message::Input(event),
                    Err(error) => Message::InputEnded(error),
                };
                let last = matches!(message, Message::InputEnded(_));
                if messages.send(message).is_err() || last {
                    return;
                }
            }
        };
        let reader = thread::Builder::new().name("terminal".to_owned()).spawn(read)?;
        Ok(Self { is_left, reader: Some(reader) })
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.is_left.store(true, Ordering::Release);
        if !terminal_ended(Duration::ZERO).is_ok_and(|is_gone| is_gone) {
            // A panic there was printed there.
            let _ = self.reader.take().map(thread::JoinHandle::join);
        }
    }
}

/// Waits up to `pause` for something to read from the terminal, and returns what it is.
///
/// # Errors
/// The terminal is gone, or cannot be read.
fn next_event(pause: Duration) -> io::Result<Option<Event>> {
    // crossterm would read a terminal that is gone for ever.
    if terminal_ended(pause)? {
        return Err(io::Error::other("it is gone"));
    }
    if event::poll(Duration::ZERO)? { event::read().map(Some) } else { Ok(None) }
}

/// Waits up to `pause` for something to read from the terminal, and returns true if the terminal is gone.
///
/// # Errors
/// As [`PollSet::wait`].
fn terminal_ended(pause: Duration) -> io::Result<bool> {
    let screen = io::stdout();
    let mut poll = PollSet::default();
    let terminal = poll.add(screen.as_fd());
    poll.wait(Some(pause))?;
    Ok(poll.ready(terminal).hung_up)
}

/// Starts a thread that reads signals until the process ends.
fn listen_to_signals(signals: SignalFd, sender: Sender<Message>) -> anyhow::Result<()> {
    let read_signals = move || {
        let mut poll = PollSet::default();
        poll.add(signals.as_fd());
        loop {
            if poll.wait(None).is_err() {
                return;
            }
            while let Some(received) = signals.next() {
                if sender.send(Message::Signal(received.signal)).is_err() {
                    return;
                }
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(read_signals).context("cannot start a thread")?;
    Ok(())
}

/// Files that are being saved, each by a thread of its own with ordinary priority, so that the screen goes on meanwhile.
struct Saving {
    told: Sender<Message>,
    running: Vec<thread::JoinHandle<String>>,
}

impl Saving {
    /// Starts to save what is shown. A message on the screen says how it ended.
    fn begin(&mut self, name: String, app: &mut App) {
        let (snapshot, scope, told) = (Arc::clone(&app.snapshot), app.scope.clone(), self.told.clone());
        app.message = Some(format!("saving {} …", Name::from(name.as_str())));
        let save = move || {
            let text = save::save(&name, &snapshot, &scope).unwrap_or_else(|error| format!("{error:#}"));
            // Sending fails when the screen has been left; then `finish` prints the text.
            let _ = told.send(Message::Saved(text.clone()));
            text
        };
        self.running.retain(|thread| !thread.is_finished());
        match thread::Builder::new().name("saving".to_owned()).spawn(save) {
            Ok(thread) => self.running.push(thread),
            Err(error) => app.message = Some(format!("cannot start a thread: {error}")),
        }
    }

    /// Waits for files that are still being saved, and prints how each ended.
    fn finish(self, console: &Console) {
        for thread in self.running.into_iter().filter(|thread| !thread.is_finished()) {
            if let Ok(text) = thread.join() {
                console.say(&text);
            }
        }
    }
}

/// What the loop does after a message.
enum Next {
    Draw,
    Leave(ExitCode),
}

fn show(
    (sender, messages): (Sender<Message>, &Receiver<Message>),
    commands: &Sender<EngineCommand>,
    app: &mut App,
    saving: &mut Saving,
    mut command_runs: bool,
) -> anyhow::Result<ExitCode> {
    // The user of a busy machine waits for this thread, which needs little CPU time.
    let _urgent = PriorityGuard::acquire();
    let theme = Theme::from_environment(|name| std::env::var(name).ok());
    let mut screen = Screen::enter().context("cannot use the terminal")?;
    // Declared behind the screen, and so gone before it.
    let _keyboard = Keyboard::start(sender).context("cannot start a thread")?;
    let mut dirty = true;
    // A high priority counts within our session alone (sched(7), autogroups); a realtime policy also counts beside other sessions.
    let mut realtime = None;
    loop {
        if dirty {
            screen.draw(|frame| draw(frame, app, &theme)).context("cannot draw")?;
        }
        drop(realtime.take());
        // All messages that have arrived are handled before the next drawing.
        let first = messages.recv().ok();
        dirty = first.is_some();
        realtime = dirty.then(RealtimeGuard::acquire);
        for message in first.into_iter().chain(messages.try_iter()) {
            match message {
                Message::Ended(_) => command_runs = false,
                Message::Signal(SIGTSTP | SIGCONT) => {}
                Message::Signal(signal) if command_runs && !ends_with_command(signal) => continue,
                _ => {}
            }
            match handle(message, app, &mut screen, commands, saving)? {
                Next::Draw => {}
                Next::Leave(code) => return Ok(code),
            }
        }
    }
}

fn handle(
    message: Message,
    app: &mut App,
    screen: &mut Screen,
    commands: &Sender<EngineCommand>,
    saving: &mut Saving,
) -> anyhow::Result<Next> {
    match message {
        Message::Started => {}
        Message::Snapshot(snapshot) => app.receive(snapshot),
        Message::Notice(notice) => {
            if is_wanted(&notice, 0) {
                app.message = Some(notice.to_string());
            }
        }
        Message::Saved(text) => app.message = Some(text),
        // The last snapshot says that the target has ended; the user decides when to leave.
        Message::Ended(Ok(())) => {}
        Message::Ended(Err(error)) => return Err(error.into()),
        Message::InputEnded(error) => return Err(error).context("cannot read from the terminal"),
        Message::Signal(SIGTSTP) => screen.suspend().context("cannot use the terminal")?,
        Message::Signal(SIGCONT) => screen.resume().context("cannot use the terminal")?,
        Message::Signal(signal) => {
            return Ok(Next::Leave(ExitCode::from(128_u8.saturating_add(u8::try_from(signal).unwrap_or(0)))));
        }
        Message::Input(event) => match app.input(&event) {
            None => {}
            Some(Request::Quit) => return Ok(Next::Leave(ExitCode::SUCCESS)),
            Some(Request::Suspend) => screen.suspend().context("cannot use the terminal")?,
            Some(Request::Redraw) => screen.clear().context("cannot use the terminal")?,
            // Sending fails when the recording has ended.
            Some(Request::Reset) => drop(commands.send(EngineCommand::Reset)),
            Some(Request::Span(span)) => drop(commands.send(EngineCommand::Span(span))),
            Some(Request::Save(name)) => saving.begin(name, app),
        },
    }
    Ok(Next::Draw)
}
