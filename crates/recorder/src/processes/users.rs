//! The users of processes, where a view of whole CPUs shows those of one user.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use decoder::record::Record;
use host::procfs;
use model::{Pid, Tid};
use rustc_hash::FxBuildHasher;

use super::MAX_PROCESSES;

/// Time for which the user of an ended process is remembered: longer than an interval of `prof watch`, whose samples are told apart at its end.
const KEPT_AFTER_EXIT: Duration = Duration::from_secs(120);

/// The users of processes by number. A child has the user of its parent until `/proc` says otherwise, so that programs too short to be
/// read have one, too.
#[derive(Default, Debug)]
pub(super) struct ProcessUsers(HashMap<Pid, ProcessUser, FxBuildHasher>);

#[derive(Clone, Copy, Debug)]
struct ProcessUser {
    /// The number of the real user.
    user: u32,
    ended_at: Option<Instant>,
}

impl ProcessUsers {
    /// Reads the users of all processes.
    pub(super) fn of_all() -> Self {
        let mut users = Self::default();
        for pid in procfs::processes().unwrap_or_default() {
            users.read(pid);
        }
        users
    }

    /// Returns the user of a process; `None` if it is not known.
    pub(super) fn of(&self, pid: Pid) -> Option<u32> {
        self.0.get(&pid).map(|known| known.user)
    }

    /// Sets the user of a process that lives.
    pub(super) fn set(&mut self, pid: Pid, user: u32) {
        self.0.insert(pid, ProcessUser { user, ended_at: None });
    }

    /// Applies a record: a process may begin or end.
    pub(super) fn apply(&mut self, record: &Record<'_>) {
        match record {
            Record::Fork(task) if task.pid != task.parent_pid => match self.of(task.parent_pid) {
                Some(user) => self.set(task.pid, user),
                None => drop(self.0.remove(&task.pid)),
            },
            Record::Exit(task) if task.pid.0 == task.tid.0 => {
                if let Some(known) = self.0.get_mut(&task.pid) {
                    known.ended_at = Some(Instant::now());
                }
            }
            _ => {}
        }
    }

    /// Forgets processes that ended two minutes ago.
    pub(super) fn forget_old(&mut self) {
        self.0.retain(|_, known| known.ended_at.is_none_or(|at| at.elapsed() < KEPT_AFTER_EXIT));
        if self.0.len() > MAX_PROCESSES {
            *self = Self::of_all();
        }
    }

    fn read(&mut self, pid: Pid) {
        if let Some(user) = user_of(pid) {
            self.set(pid, user);
        }
    }
}

/// Reads the real user of a process; `None` if it has ended.
pub(super) fn user_of(pid: Pid) -> Option<u32> {
    procfs::status(Tid(pid.0)).ok().map(|status| status.user)
}
