//! Controlling a recording from outside: signals, commands, conditions on which kept records are written, the end of the target;
//! and the message queue to the thread that runs the session.

mod commands;
mod conditions;
mod dump_requests;
pub(crate) mod messages;
mod signals;
mod watcher;
pub(crate) mod workload;

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use host::process_handle::ProcessHandle;
use host::sys::poll::{PollSet, Waker};
use host::sys::signals::{Received, SignalFd, SignalMask};

pub use commands::CommandSources;
pub(crate) use commands::{Answers, CommandThread};
pub(crate) use conditions::ConditionThread;
pub(crate) use dump_requests::{DumpRequests, NO_TICKET};
pub(crate) use messages::{Command, OutsideEvent};
pub use signals::{ends_with_command, signals_of_recordings};
pub use watcher::DUMP_SIGNAL_THREAD;
pub(crate) use watcher::{OutsidePoller, Watcher};

/// A handle that stops a recording or count. It is cheap to clone and usable from any thread.
#[derive(Clone, Debug)]
pub struct Control {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    stop: AtomicBool,
    /// Wakes the watcher after `stop` was set, or because the recording is over.
    waker: Waker,
    signals: Option<SignalFd>,
    /// True if SIGUSR2 requests a file.
    has_dumps: bool,
    /// The signal mask that a command starts with.
    mask: SignalMask,
    /// Taken when the recording begins.
    commands: Mutex<CommandSources>,
}

impl Control {
    /// Creates a control for a caller that handles signals itself, with `signals`. A command starts with the signal mask from
    /// before `signals` blocked them.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn without_signals(signals: &SignalFd) -> io::Result<Self> {
        Self::with(None, false, signals.mask_before())
    }

    /// Creates a control that SIGINT, SIGTERM and SIGHUP stop, instead of ending the process, as long as it lives. Other signals of
    /// [`signals_of_recordings`] stop it only if no command of ours runs. Must be called before any thread is started: threads
    /// inherit the signal mask.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn with_signals() -> io::Result<Self> {
        Self::reading_signals(false)
    }

    /// As [`Control::with_signals`], and SIGUSR2 requests a file with the kept records ([`crate::RecordingSink::request_dump`]).
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn with_signals_and_dumps() -> io::Result<Self> {
        Self::reading_signals(true)
    }

    fn reading_signals(has_dumps: bool) -> io::Result<Self> {
        let signals = SignalFd::new(&signals_of_recordings())?;
        let mask = signals.mask_before();
        Self::with(Some(signals), has_dumps, mask)
    }

    /// Has the recording accept commands from `sources`.
    pub fn accept_commands_from(&self, sources: CommandSources) {
        *self.inner.commands.lock().unwrap_or_else(PoisonError::into_inner) = sources;
    }

    pub(crate) fn take_commands(&self) -> CommandSources {
        std::mem::take(&mut *self.inner.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn with(signals: Option<SignalFd>, has_dumps: bool, mask: SignalMask) -> io::Result<Self> {
        let (stop, commands) = (AtomicBool::new(false), Mutex::default());
        let inner = Inner { stop, waker: Waker::new()?, signals, has_dumps, mask, commands };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Stops the recording. Its file is finished as if the target had ended.
    pub fn stop(&self) {
        self.inner.stop.store(true, Ordering::Release);
        self.inner.waker.wake();
    }

    /// Returns the signal mask that a command starts with.
    pub(crate) fn mask_for_command(&self) -> SignalMask {
        self.inner.mask
    }

    /// Waits until the command `process` has ended (`None`), or a signal arrives that ends both.
    pub(crate) fn wait_for(&self, process: &ProcessHandle) -> Option<Received> {
        let mut poll = PollSet::default();
        let ended = process.add_to(&mut poll);
        if let Some(signals) = &self.inner.signals {
            poll.add(signals.as_fd());
        }
        loop {
            if poll.wait(None).is_err() || poll.ready(ended).readable {
                return None;
            }
            let signal = self.inner.signals.as_ref().and_then(SignalFd::next);
            if let Some(signal) = signal.filter(|signal| ends_with_command(signal.signal)) {
                return Some(signal);
            }
        }
    }
}
