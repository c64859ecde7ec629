//! Controlling a recording from outside: signals, commands, conditions on which kept records are written, the end of the target;
//! and the message queue to the thread that runs the session.

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
pub(crate) use dump_requests::{DumpRequests, NO_TICKET};
pub(crate) use outside_event::{Command, OutsideEvent};
pub(crate) use slow_calls::SlowCallDetector;
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
        Self::with(None, signals.mask_before())
    }

    /// Creates a control that SIGINT, SIGTERM and SIGHUP stop, instead of ending the process, as long as it lives. Must be called
    /// before any thread is started: threads inherit the signal mask.
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn with_signals() -> io::Result<Self> {
        let signals = SignalFd::new(&[SIGINT, SIGTERM, SIGHUP])?;
        let mask = signals.mask_before();
        Self::with(Some(signals), mask)
    }

    /// As [`Control::with_signals`], and SIGUSR2 requests a file with the kept records ([`crate::RecordingSink::request_dump`]).
    ///
    /// # Errors
    /// No more file descriptors.
    pub fn with_signals_and_dumps() -> io::Result<Self> {
        let signals = SignalFd::new(&[SIGINT, SIGTERM, SIGHUP, SIGUSR2])?;
        let mask = signals.mask_before();
        Self::with(Some(signals), mask)
    }

    /// Has the recording accept commands from `sources`.
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

    /// Stops the recording. Its file is finished as if the target had ended.
    pub fn stop(&self) {
        self.inner.stop.store(true, Ordering::Release);
        self.inner.waker.wake();
    }

    /// Returns the signal mask that a command starts with.
    pub(crate) fn mask_for_command(&self) -> SignalMask {
        self.inner.mask
    }

    /// Waits until `process` has ended (`None`), or a signal other than SIGUSR2 arrives.
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
            // The recording is over, so SIGUSR2 has no records to request.
            if let Some(signal) = signal.filter(|signal| signal.signal != SIGUSR2) {
                return Some(signal);
            }
        }
    }
}
