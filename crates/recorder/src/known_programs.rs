//! The programs that processes run, with what is known of each: an exec begins anew, and the end of a process ends it.

use std::collections::HashMap;

use model::Pid;
use rustc_hash::FxBuildHasher;
use tracker::Tracker;

/// The programs that processes run, each with what a caller knows of it.
#[derive(Debug)]
pub(crate) struct KnownPrograms<P>(HashMap<Pid, Program<P>, FxBuildHasher>);

#[derive(Debug)]
struct Program<P> {
    /// The number of the program among those that the process has run: [`Tracker::program`].
    number: Option<u32>,
    known: P,
}

/// The maximum number of processes; with more, all are forgotten: most have ended.
const MAX_PROCESSES: usize = 256;

impl<P> Default for KnownPrograms<P> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<P> KnownPrograms<P> {
    /// Returns what is known of the program that a process runs. `begin` makes it where the process is new, has executed another program,
    /// or runs one of which `is_current` returns false.
    pub(crate) fn of(
        &mut self,
        pid: Pid,
        tracker: &Tracker,
        is_current: impl Fn(&P) -> bool,
        begin: impl Fn() -> P,
    ) -> &mut P {
        let number = tracker.program(pid);
        if self.0.len() >= MAX_PROCESSES && !self.0.contains_key(&pid) {
            self.0.clear();
        }
        let begin = || Program { number, known: begin() };
        let program = self.0.entry(pid).or_insert_with(begin);
        if program.number != number || !is_current(&program.known) {
            *program = begin();
        }
        &mut program.known
    }

    /// Returns what is known of the program that a process ran last.
    pub(crate) fn known(&mut self, pid: Pid) -> Option<&mut P> {
        self.0.get_mut(&pid).map(|program| &mut program.known)
    }

    /// Forgets processes that the tracker has forgotten.
    pub(crate) fn forget_ended(&mut self, tracker: &Tracker) {
        self.0.retain(|&pid, _| tracker.knows(pid));
    }
}
