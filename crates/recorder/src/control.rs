//! How a recording is stopped from outside.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use host::sys::pidfd::PidFd;
use host::sys::poll::{PollSet, Waker};
use host::sys::signals::{Received, SIGHUP, SIGINT, SIGTERM, SIGUSR2, SignalFd, SignalMask};

use crate::commands::{Command, CommandSources};
use crate::error::Error;
use crate::messages::{Message, Outbox};

/// Stops a recording; cheap to clone and usable from any thread.
#[derive(Clone, Debug)]
pub struct Control {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    stop: AtomicBool,
    /// Wakes the watcher for `stop`, or because the recording is over.
    waker: Waker,
    signals: Option<SignalFd>,
    /// The signal mask that a command begins with.
    mask: SignalMask,
    /// Until the recording begins.
    commands: Mutex<CommandSources>,
}

/// An event outside the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OutsideEvent {
    /// [`Control::stop`] was called.
    Stop,
    /// A signal arrived that ends the recording.
    Signal(Received),
    /// One arrived that asks for a file with what is kept.
    Dump,
    /// One of [`crate::Options::dump_when`] has happened: its place there.
    Condition(usize),
    /// A command came, which is answered with its ticket.
    Command(Command, u64),
    /// The process at this place of the list has ended.
    Ended(usize),
}

impl Control {
    /// A control that signals do not reach: the caller takes them itself, by `signals`. A command does not inherit that
    /// they are held back.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn beside(signals: &SignalFd) -> io::Result<Self> {
        Self::with(None, signals.mask_before())
    }

    /// A control that SIGINT, SIGTERM and SIGHUP reach, instead of ending the process, as long as it lives. To be made
    /// before any thread is started.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn with_signals() -> io::Result<Self> {
        let signals = SignalFd::new(&[SIGINT, SIGTERM, SIGHUP])?;
        let mask = signals.mask_before();
        Self::with(Some(signals), mask)
    }

    /// As [`Control::with_signals`]; SIGUSR2 asks for a file with what is kept ([`crate::Destination::dump`]).
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn with_signals_and_dumps() -> io::Result<Self> {
        let signals = SignalFd::new(&[SIGINT, SIGTERM, SIGHUP, SIGUSR2])?;
        let mask = signals.mask_before();
        Self::with(Some(signals), mask)
    }

    /// Takes commands from `sources`, too, while it records.
    pub fn listen_to(&self, sources: CommandSources) {
        *self.inner.commands.lock().unwrap_or_else(PoisonError::into_inner) = sources;
    }

    pub(crate) fn take_commands(&self) -> CommandSources {
        std::mem::take(&mut *self.inner.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with(signals: Option<SignalFd>, mask: SignalMask) -> io::Result<Self> {
        let (stop, commands) = (AtomicBool::new(false), Mutex::default());
        let inner = Inner { stop, waker: Waker::new()?, signals, mask, commands };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Ends the recording: the file is finished as if the target had ended.
    pub fn stop(&self) {
        self.inner.stop.store(true, Ordering::Release);
        self.inner.waker.wake();
    }

    /// The signal mask that a command shall begin with.
    pub(crate) fn mask_for_command(&self) -> SignalMask {
        self.inner.mask
    }

    /// Waits until `process` has ended, or a signal arrives.
    pub(crate) fn wait_for(&self, process: &PidFd) -> Option<Received> {
        let mut poll = PollSet::default();
        let ended = poll.add(process.as_fd());
        if let Some(signals) = &self.inner.signals {
            poll.add(signals.as_fd());
        }
        loop {
            if poll.wait(None).is_err() || poll.ready(ended).readable {
                return None;
            }
            let signal = self.inner.signals.as_ref().and_then(SignalFd::next);
            // There is nothing left to be asked for.
            if let Some(signal) = signal.filter(|signal| signal.signal != SIGUSR2) {
                return Some(signal);
            }
        }
    }
}

/// A poller of outside events, which needs no thread of its own.
pub(crate) struct Outside {
    control: Control,
    poll: PollSet,
    /// The process at each of these places of the set.
    processes: Vec<usize>,
    /// Kept open.
    _pidfds: Vec<PidFd>,
    /// Processes that live.
    pub(crate) left: usize,
    /// True if a signal has come, and was passed on.
    pub(crate) has_signal: bool,
}

impl Outside {
    /// Waits for the ends of `processes`, and for what `control` hears.
    pub(crate) fn new(control: &Control, processes: Vec<PidFd>) -> Self {
        let mut poll = PollSet::default();
        poll.add(control.inner.waker.as_fd());
        if let Some(signals) = &control.inner.signals {
            poll.add(signals.as_fd());
        }
        let places = processes.iter().map(|process| poll.add(process.as_fd())).collect();
        let (left, control) = (processes.len(), control.clone());
        Self { control, poll, processes: places, _pidfds: processes, left, has_signal: false }
    }

    /// The next event; `None` where `timeout` was over before.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Option<OutsideEvent> {
        let inner = &self.control.inner;
        if inner.stop.load(Ordering::Acquire) {
            return Some(OutsideEvent::Stop);
        }
        self.poll.wait(timeout).ok()?;
        if let Some(signal) = inner.signals.as_ref().and_then(SignalFd::next) {
            return Some(OutsideEvent::Signal(signal));
        }
        if inner.stop.load(Ordering::Acquire) {
            return Some(OutsideEvent::Stop);
        }
        let ended = self.processes.iter().position(|&place| self.poll.ready(place).readable)?;
        self.poll.ignore(*self.processes.get(ended)?);
        self.left = self.left.saturating_sub(1);
        Some(OutsideEvent::Ended(ended))
    }
}

/// The thread that waits for signals, for the processes' ends and for [`Control::stop`].
pub(crate) struct Watcher {
    control: Control,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts it; what it sees goes to `messages`.
    pub(crate) fn start(control: &Control, processes: Vec<PidFd>, messages: Outbox) -> Result<Self, Error> {
        let over = Arc::new(AtomicBool::new(false));
        let watched = Watched { control: control.clone(), over: Arc::clone(&over), processes, messages };
        let thread = std::thread::Builder::new()
            .name("watcher".to_owned())
            .stack_size(128 << 10)
            .spawn(move || watched.run())
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        Ok(Self { control: control.clone(), over, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.control.inner.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It does not panic, and there is nothing to do if it had.
            let _ = thread.join();
        }
    }
}

struct Watched {
    control: Control,
    over: Arc<AtomicBool>,
    processes: Vec<PidFd>,
    messages: Outbox,
}

impl Watched {
    fn run(self) {
        let inner = &self.control.inner;
        let mut poll = PollSet::default();
        let waker = poll.add(inner.waker.as_fd());
        let signals = inner.signals.as_ref().map(|signals| poll.add(signals.as_fd()));
        let processes: Vec<usize> = self.processes.iter().map(|process| poll.add(process.as_fd())).collect();
        let send = |event| {
            let left = self.messages.leave(Message::Outside(event)).is_ok();
            self.messages.wake();
            left
        };
        loop {
            if poll.wait(None).is_err() {
                return;
            }
            if poll.ready(waker).readable {
                inner.waker.clear();
                if self.over.load(Ordering::Acquire) {
                    return;
                }
                if inner.stop.load(Ordering::Acquire) && !send(OutsideEvent::Stop) {
                    return;
                }
            }
            if signals.is_some_and(|place| poll.ready(place).readable) {
                while let Some(signal) = inner.signals.as_ref().and_then(SignalFd::next) {
                    let is_dump = signal.signal == SIGUSR2;
                    let event = if is_dump { OutsideEvent::Dump } else { OutsideEvent::Signal(signal) };
                    if !send(event) {
                        return;
                    }
                }
            }
            for (index, &place) in processes.iter().enumerate() {
                if poll.ready(place).readable {
                    poll.ignore(place);
                    if !send(OutsideEvent::Ended(index)) {
                        return;
                    }
                }
            }
        }
    }
}
