//! The screen's loop: what the terminal, signals and the engine tell, to the state; the state to the screen.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use analysis::Notices;
use anyhow::{Context, anyhow};
use crossbeam_channel::{Receiver, Sender, unbounded};
use crossterm::event::{self, Event};
use host::sys::poll::PollSet;
use host::sys::schedule::{PriorityGuard, RealtimeGuard};
use host::sys::signals::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SignalFd};
use live::snapshot::{Snapshot, Span};
use live::views::Scope;
use live::{Engine, EngineCommand, EngineEvent, EngineSettings};
use model::Name;
use recorder::{Control, Importance, Notice, Options};

use super::app::App;
use super::code_view::{self, CodeAnswer, CodeRequest};
use super::draw::draw;
use super::keys::Request;
use super::save;
use super::screen::Screen;
use super::theme::Theme;
use crate::console::Console;

/// What the loop is told.
enum Message {
    Started,
    Snapshot(Arc<Snapshot>),
    Notice(Notice),
    Ended(Result<(), recorder::Error>),
    Input(Event),
    /// The code of a function.
    Code(CodeAnswer),
    /// What became of a file that was to be saved.
    Saved(String),
    /// There is no terminal to read from any more.
    InputEnded(io::Error),
    Signal(i32),
}

/// Snapshots beyond so many waiting messages are dropped: the screen has not drawn the last ones yet.
const BACKLOG: usize = 4;

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
    // Before any thread is started, so that all of them hold the signals back.
    let signals =
        SignalFd::new(&[SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT]).context("cannot wait for signals")?;
    let (sender, messages) = unbounded();
    let (orders, ordered) = unbounded();
    let control = Control::without_signals(&signals).context("cannot make the recording stoppable")?;
    let recording = start(options, settings, control.clone(), ordered, sender.clone())?;
    let result = match wait_for_start(&messages, console) {
        Ok(notices) => {
            listen(signals, sender.clone())?;
            let answers = sender.clone();
            let tell = move |answer| {
                // Nobody listens any more when the screen has been left.
                let _ = answers.send(Message::Code(answer));
            };
            let code = code_view::start(tell).context("cannot start a thread")?;
            let mut saving = Saving { told: sender, running: Vec::new() };
            let asking = Asking { orders: orders.clone(), code };
            let mut app = App::new(scope, Span::Window);
            let wanted = notices.iter().filter(|notice| is_wanted(notice, console.verbosity()));
            app.message = wanted.map(ToString::to_string).reduce(|all, notice| format!("{all}; {notice}"));
            let shown = show(&messages, &asking, &mut app, &mut saving);
            saving.finish(console);
            // The screen had no room for all of them.
            app.snapshot.status.remarks.iter().for_each(|remark| console.warn(remark));
            shown
        }
        Err(error) => Err(error),
    };
    drop(orders);
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
    orders: Receiver<EngineCommand>,
    messages: Sender<Message>,
) -> anyhow::Result<thread::JoinHandle<()>> {
    let news = messages.clone();
    let tell = move |item| {
        let message = match item {
            EngineEvent::Started => Message::Started,
            EngineEvent::Snapshot(_) if news.len() > BACKLOG => return,
            EngineEvent::Snapshot(snapshot) => Message::Snapshot(snapshot),
        };
        // Nobody listens any more when the screen has been left.
        let _ = news.send(message);
    };
    let mut engine = Engine::new(settings, orders, tell).context("cannot start a thread")?;
    let record = move || {
        let mut notices = |notice| {
            let _ = messages.send(Message::Notice(notice));
        };
        let result = live::record(&options, &control, &mut engine, &mut notices);
        let _ = messages.send(Message::Ended(result.map(|_| ())));
    };
    thread::Builder::new().name("recording".to_owned()).spawn(record).context("cannot start a thread")
}

/// Waits until samples are taken, so that what forbids it is said on an ordinary terminal.
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
        Importance::Normal => true,
        Importance::Detail => verbosity > 0,
        Importance::Attributes => false,
    }
}

/// Starts to read the terminal and the signals. Both threads end with the process.
fn listen(signals: SignalFd, sender: Sender<Message>) -> anyhow::Result<()> {
    let keys = sender.clone();
    let read_terminal = move || {
        let _urgent = PriorityGuard::acquire();
        loop {
            let message = match event::read() {
                Ok(event) => Message::Input(event),
                Err(error) => Message::InputEnded(error),
            };
            let last = matches!(message, Message::InputEnded(_));
            if keys.send(message).is_err() || last {
                return;
            }
        }
    };
    let read_signals = move || {
        let mut poll = PollSet::default();
        poll.add(std::os::fd::AsFd::as_fd(&signals));
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
    thread::Builder::new()
        .name("terminal".to_owned())
        .spawn(read_terminal)
        .context("cannot start a thread")?;
    thread::Builder::new().name("signals".to_owned()).spawn(read_signals).context("cannot start a thread")?;
    Ok(())
}

/// Files that are being saved, each by a thread of its own: the screen goes on, and drawing a picture is nothing that has to
/// be done before what others do.
struct Saving {
    told: Sender<Message>,
    running: Vec<thread::JoinHandle<String>>,
}

impl Saving {
    /// Begins to save what is shown; the message says what becomes of it.
    fn begin(&mut self, name: String, app: &mut App) {
        let (snapshot, scope, told) = (Arc::clone(&app.snapshot), app.scope.clone(), self.told.clone());
        app.message = Some(format!("saving {} …", Name::from(name.as_str())));
        let save = move || {
            let text = save::save(&name, &snapshot, &scope).unwrap_or_else(|error| format!("{error:#}"));
            // Who has left the screen is told behind it.
            let _ = told.send(Message::Saved(text.clone()));
            text
        };
        self.running.retain(|thread| !thread.is_finished());
        match thread::Builder::new().name("saving".to_owned()).spawn(save) {
            Ok(thread) => self.running.push(thread),
            Err(error) => app.message = Some(format!("cannot start a thread: {error}")),
        }
    }

    /// Waits for what is not finished, and tells of it.
    fn finish(self, console: &Console) {
        for thread in self.running.into_iter().filter(|thread| !thread.is_finished()) {
            if let Ok(text) = thread.join() {
                console.say(&text);
            }
        }
    }
}

/// The ways to ask others.
struct Asking {
    orders: Sender<EngineCommand>,
    code: std::sync::mpsc::Sender<CodeRequest>,
}

impl Asking {
    /// A recording that has ended takes no orders.
    fn order(&self, order: EngineCommand) {
        let _ = self.orders.send(order);
    }

    /// Asks for code; the thread that answers lives as long as we do.
    fn code(&self, request: CodeRequest) {
        let _ = self.code.send(request);
    }
}

/// What a message led to.
enum Next {
    Draw,
    Leave(ExitCode),
}

fn show(
    messages: &Receiver<Message>,
    asking: &Asking,
    app: &mut App,
    saving: &mut Saving,
) -> anyhow::Result<ExitCode> {
    // Whoever looks at a machine that is too busy wants an answer from this one thread. It works little.
    let _urgent = PriorityGuard::acquire();
    let theme = Theme::of_environment(|name| std::env::var(name).ok());
    let mut screen = Screen::enter().context("cannot use the terminal")?;
    let mut dirty = true;
    // Other sessions' compilers have as much right to a CPU as all of ours together, however urgent one thread is.
    let mut turn = None;
    loop {
        if dirty {
            screen.draw(|frame| draw(frame, app, &theme)).context("cannot draw")?;
        }
        drop(turn.take());
        // What came in the meantime is drawn at once, not piece by piece.
        let first = messages.recv_timeout(Duration::from_secs(3600)).ok();
        dirty = first.is_some();
        turn = dirty.then(RealtimeGuard::acquire);
        for message in first.into_iter().chain(messages.try_iter()) {
            match take(message, app, &mut screen, asking, saving)? {
                Next::Draw => {}
                Next::Leave(code) => return Ok(code),
            }
        }
    }
}

fn take(
    message: Message,
    app: &mut App,
    screen: &mut Screen,
    asking: &Asking,
    saving: &mut Saving,
) -> anyhow::Result<Next> {
    match message {
        Message::Started => {}
        Message::Snapshot(snapshot) => {
            app.receive(snapshot);
            app.ask_for_code().into_iter().for_each(|request| asking.code(request));
        }
        Message::Code(answer) => app.take_code(answer),
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
            Some(Request::Reset) => asking.order(EngineCommand::Reset),
            Some(Request::Span(span)) => asking.order(EngineCommand::Span(span)),
            Some(Request::Code(request)) => asking.code(request),
            Some(Request::Save(name)) => saving.begin(name, app),
        },
    }
    Ok(Next::Draw)
}
