//! The recordings of a watch: one, or for a user whose processes are attached to, one after the other, so that it waits for the first
//! process and does not miss those that begin later.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use analysis::Notices;
use anyhow::Context;
use crossbeam_channel::{Sender, bounded};
use host::procfs;
use host::sys::perf_event::own_pid;
use host::sys::signals::SignalFd;
use live::snapshot::Snapshot;
use live::{Engine, EngineEvent, EngineSettings};
use model::{Pid, Tid};
use recorder::{Control, Error, Notice, Options};

use crate::commands::recording::print_notice;
use crate::console::Console;

/// Time between two looks for processes that nobody attached to has started. Reading a process takes 15 µs.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Time between two looks whether a user without processes has one now.
const WAIT_INTERVAL: Duration = Duration::from_secs(1);

/// The recordings of a watch: their options, and the receiver of their intervals.
pub(super) struct Recordings {
    pub(super) options: Options,
    pub(super) settings: EngineSettings,
    pub(super) signals: Arc<SignalFd>,
    pub(super) current: Arc<CurrentRecording>,
    /// Receives a snapshot of each interval.
    pub(super) news: Sender<Arc<Snapshot>>,
}

impl Recordings {
    /// Records until the target has ended, or the recording is ended. Calls `before` when it can be ended and has not begun.
    pub(super) fn record(&self, console: &Console, before: impl FnOnce()) -> anyhow::Result<()> {
        let control = Control::without_signals(&self.signals).context("cannot wait for signals")?;
        if !self.current.begin(&control) {
            return Ok(());
        }
        // The engine gets no orders: it makes intervals by itself. They come until the sender is dropped.
        let (_orders, ordered) = bounded(0);
        let (news, tells_lost) = (self.news.clone(), console.clone());
        let tell = move |event| {
            // The thread of the recording waits for nobody.
            if let EngineEvent::Snapshot(snapshot) = event
                && news.try_send(snapshot).is_err()
            {
                tells_lost.say("an interval was lost, because profiles of four others are still being made");
            }
        };
        let mut engine =
            Engine::new(self.settings.clone(), ordered, tell).context("cannot start a thread")?;
        before();
        let mut notices = |notice: Notice| print_notice(&notice, console);
        live::record(&self.options, &control, &mut engine, &mut notices)?;
        Ok(())
    }

    /// Records the processes that a user has, and again when others have begun. Waits while there are none.
    pub(super) fn record_processes_of(&self, user: u32, console: &Console) -> anyhow::Result<()> {
        let mut says_waiting = true;
        while !self.current.is_over_after(Duration::ZERO) {
            let processes = AttachedProcesses::of(user);
            if processes.is_empty {
                if std::mem::take(&mut says_waiting) {
                    console.say(&format!("user {user} has no processes; waiting for one"));
                }
                self.current.is_over_after(WAIT_INTERVAL);
                continue;
            }
            says_waiting = true;
            let has_ended = Arc::new(AtomicBool::new(false));
            let (current, ended) = (Arc::clone(&self.current), Arc::clone(&has_ended));
            let look = move || processes.end_for_newcomers(&current, || ended.load(Ordering::Relaxed));
            let begin = || {
                // Without the thread, others are seen when all of these have ended.
                let _ = thread::Builder::new().name("newcomers".to_owned()).spawn(look);
            };
            let result = self.record(console, begin);
            has_ended.store(true, Ordering::Relaxed);
            let is_gone = |error: &anyhow::Error| {
                matches!(error.downcast_ref::<Error>(), Some(Error::NoProcessOf { .. }))
            };
            // They may have ended before they were attached to.
            result.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })?;
        }
        Ok(())
    }
}

/// The recording that runs, for the threads that may end it.
#[derive(Default)]
pub(super) struct CurrentRecording {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    control: Option<Control>,
    /// True if no recording follows.
    is_over: bool,
}

impl CurrentRecording {
    /// Sets the recording that begins. Returns false if none is to begin.
    pub(super) fn begin(&self, control: &Control) -> bool {
        let mut state = self.lock();
        state.control = Some(control.clone());
        !state.is_over
    }

    /// Ends the recording that runs. Another one may follow.
    pub(super) fn end(&self) {
        self.lock().control.iter().for_each(Control::stop);
    }

    /// Ends the recording that runs, and all.
    pub(super) fn end_all(&self) {
        self.lock().is_over = true;
        self.end();
        self.ended.notify_all();
    }

    /// Waits for this time, or until all recordings have ended. Returns true if they have.
    pub(super) fn is_over_after(&self, time: Duration) -> bool {
        let goes_on = |state: &mut State| !state.is_over;
        let waited = self.ended.wait_timeout_while(self.lock(), time, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The processes of a user that are attached to, with all that these have started.
pub(super) struct AttachedProcesses {
    user: u32,
    followed: HashSet<Pid>,
    /// True if there are none but us and our helpers.
    is_empty: bool,
}

impl AttachedProcesses {
    /// Notes the processes that the user has now.
    pub(super) fn of(user: u32) -> Self {
        let processes: Vec<_> = processes_of(user).collect();
        let own = own_pid();
        let is_empty = processes.iter().all(|&(pid, parent)| pid == own || parent == own);
        Self { user, followed: processes.into_iter().map(|(pid, _)| pid).collect(), is_empty }
    }

    /// Ends the recording when the user has a process that nobody attached to has started. Returns when all recordings have ended, or this one.
    pub(super) fn end_for_newcomers(mut self, recording: &CurrentRecording, is_over: impl Fn() -> bool) {
        while !recording.is_over_after(LOOK_INTERVAL) && !is_over() {
            if self.has_newcomers(&processes_of(self.user).collect::<Vec<_>>()) {
                return recording.end();
            }
        }
    }

    /// Returns true if one of `now`, processes with their parents, was started by none that is followed. The kernel follows the others.
    fn has_newcomers(&mut self, now: &[(Pid, Pid)]) -> bool {
        self.followed.retain(|&pid| now.iter().any(|&(known, _)| known == pid));
        loop {
            let new = now.iter().filter(|(pid, _)| !self.followed.contains(pid));
            let children: Vec<Pid> =
                new.filter(|(_, parent)| self.followed.contains(parent)).map(|&(pid, _)| pid).collect();
            if children.is_empty() {
                return now.iter().any(|(pid, _)| !self.followed.contains(pid));
            }
            self.followed.extend(children);
        }
    }
}

/// Reads the processes of a user, with their parents.
fn processes_of(user: u32) -> impl Iterator<Item = (Pid, Pid)> {
    let all = procfs::processes().unwrap_or_default().into_iter();
    all.filter_map(move |pid| {
        let status = procfs::status(Tid(pid.0)).ok()?;
        (status.user == user).then_some((pid, status.parent))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newcomers_are_those_that_nobody_known_has_started() {
        let mut attached =
            AttachedProcesses { user: 1000, followed: HashSet::from([Pid(7), Pid(8)]), is_empty: false };
        let process = |pid, parent| (Pid(pid), Pid(parent));
        assert!(!attached.has_newcomers(&[process(7, 1), process(10, 9), process(9, 7)]), "grandchildren");
        assert!(!attached.has_newcomers(&[process(10, 1)]), "its parents have ended");
        assert!(attached.has_newcomers(&[process(10, 1), process(11, 1)]));
        assert!(attached.has_newcomers(&[process(8, 1)]), "its number was another one's");
    }

    #[test]
    fn recordings_end_one_by_one_or_all() {
        let recording = CurrentRecording::default();
        assert!(!recording.is_over_after(Duration::ZERO));
        recording.end();
        assert!(!recording.is_over_after(Duration::ZERO));
        recording.end_all();
        assert!(recording.is_over_after(Duration::from_secs(600)));
    }
}
