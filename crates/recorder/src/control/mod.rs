//! How a recording is controlled from outside: signals, commands, conditions on which kept records are written, the end of the
//! target; and the messages by which all threads reach the one that writes.

mod commands;
mod conditions;
mod dump_requests;
pub(crate) mod messages;
mod outside_event;
mod slow_calls;
mod watcher;
pub(crate) mod workload;

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use host::sys::pidfd::PidFd;
use host::sys::poll::{PollSet, Waker};
use host::sys::signals::{Received, SIGHUP, SIGINT, SIGTERM, SIGUSR2, SignalFd, SignalMask};

pub use commands::CommandSources;
pub(crate) use commands::{Answers, CommandThread};
pub(crate) use conditions::ConditionThread;
pub(crate) use dump_requests::{NOBODY, Requests};
pub(crate) use outside_event::{Command, OutsideEvent};
pub(crate) use slow_calls::CallWatch;
pub(crate) use watcher::{Outside, Watcher};

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

impl Control {
    /// A control that signals do not reach: the caller takes them itself, by `signals`. A command does not inherit that
    /// they are held back.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn without_signals(signals: &SignalFd) -> io::Result<Self> {
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

    /// As [`Control::with_signals`]; SIGUSR2 asks for a file with what is kept ([`crate::RecordingSink::request_dump`]).
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn with_signals_and_dumps() -> io::Result<Self> {
        let signals = SignalFd::new(&[SIGINT, SIGTERM, SIGHUP, SIGUSR2])?;
        let mask = signals.mask_before();
        Self::with(Some(signals), mask)
    }

    /// Takes commands from `sources`, too, while it records.
    pub fn accept_commands_from(&self, sources: CommandSources) {
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
