//! Waits for signals, [`Control::stop`], and the ends of processes: polled by a count, and by a thread for a recording.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use host::process_handle::ProcessHandle;
use host::sys::poll::PollSet;
use host::sys::signals::{SIGUSR2, SignalFd};

use super::messages::{Message, Outbox};
use super::{Control, OutsideEvent};
use crate::error::Error;

/// The name of the thread that receives SIGUSR2 where it requests a file: it tells such recordings from others.
pub const DUMP_SIGNAL_THREAD: &str = "dump-signal";

/// Polls for outside events on the caller's thread.
pub(crate) struct OutsidePoller {
    control: Control,
    poll: PollSet,
    /// The index in `poll` of each process.
    processes: Vec<usize>,
    /// Kept as long as `poll` refers to them.
    _handles: Vec<ProcessHandle>,
    /// Number of processes that have not ended.
    pub(crate) left: usize,
    /// True if a signal has arrived and was forwarded to the command.
    pub(crate) has_signal: bool,
}

impl OutsidePoller {
    /// Prepares to wait for the ends of `processes`, and for signals and stops of `control`.
    pub(crate) fn new(control: &Control, processes: Vec<ProcessHandle>) -> Self {
        let mut poll = PollSet::default();
        poll.add(control.inner.waker.as_fd());
        if let Some(signals) = &control.inner.signals {
            poll.add(signals.as_fd());
        }
        let places = processes.iter().map(|process| process.add_to(&mut poll)).collect();
        let (left, control) = (processes.len(), control.clone());
        Self { control, poll, processes: places, _handles: processes, left, has_signal: false }
    }

    /// Waits for the next event; `None` after `timeout`.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Option<OutsideEvent> {
        let inner = &self.control.inner;
        if inner.stop.load(Ordering::Acquire) {
            return Some(OutsideEvent::Stop);
        }
        if self.poll.wait(timeout).is_err() {
            return Some(OutsideEvent::Stop); // Nothing could end the count any more.
        }
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

/// The thread that waits for outside events and sends them to the session. Ends when this is dropped.
pub(crate) struct Watcher {
    control: Control,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts the thread, which sends its events to `messages`.
    pub(crate) fn start(
        control: &Control,
        processes: Vec<ProcessHandle>,
        messages: Outbox,
    ) -> Result<Self, Error> {
        let over = Arc::new(AtomicBool::new(false));
        let name = if control.inner.has_dumps { DUMP_SIGNAL_THREAD } else { "watcher" };
        let watcher =
            WatcherThread { control: control.clone(), over: Arc::clone(&over), processes, messages };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(128 << 10)
            .spawn(move || watcher.run())
            .map_err(|errno| Error::System { what: "cannot start a thread", errno })?;
        Ok(Self { control: control.clone(), over, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.control.inner.waker.wake();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic, and nothing could be done if it did.
            let _ = thread.join();
        }
    }
}

struct WatcherThread {
    control: Control,
    over: Arc<AtomicBool>,
    processes: Vec<ProcessHandle>,
    messages: Outbox,
}

impl WatcherThread {
    fn run(self) {
        let inner = &self.control.inner;
        let mut poll = PollSet::default();
        let waker = poll.add(inner.waker.as_fd());
        let signals = inner.signals.as_ref().map(|signals| poll.add(signals.as_fd()));
        let processes: Vec<usize> = self.processes.iter().map(|process| process.add_to(&mut poll)).collect();
        let send = |event| {
            let left = self.messages.leave(Message::Outside(event)).is_ok();
            self.messages.wake();
            left
        };
        loop {
            if poll.wait(None).is_err() {
                // Nothing could end the recording any more.
                send(OutsideEvent::Stop);
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
                    let is_dump = inner.has_dumps && signal.signal == SIGUSR2;
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
