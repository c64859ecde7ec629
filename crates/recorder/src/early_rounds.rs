//! Rounds that come earlier than the rings ask for, because callers or functions are read in running processes: the sooner a process is
//! read after a sample, the more of what it ran is still there.

use std::time::{Duration, Instant};

/// A budget of early rounds. Each costs as much as ten samples.
#[derive(Debug)]
pub(crate) struct EarlyRounds {
    /// How many of the next rounds should come early.
    wanted: u32,
    left: u32,
    /// The time at which the last one was added to the budget.
    added: Instant,
}

/// Early rounds at the beginning: for some seconds, in which most functions are met for the first time.
const FIRST_EARLY_ROUNDS: u32 = 500;
/// The rounds that come early after one that had to read in a process. Programs that follow each other are alike: of forty rustc in a row 86 %
/// of the stacks were complete with one, 97 % with 20 (`prof record -v -- sh -c 'for i in $(seq 40); do rustc -O fixtures/programs/big.rs;
/// done'`), for no more CPU time.
const ROUNDS_AFTER_A_READ: u32 = 20;
/// The interval at which another one is allowed.
const EARLY_ROUND_INTERVAL: Duration = Duration::from_millis(50);

impl Default for EarlyRounds {
    fn default() -> Self {
        Self { wanted: 0, left: FIRST_EARLY_ROUNDS, added: Instant::now() }
    }
}

impl EarlyRounds {
    /// Asks for the next ones, because callers are read or functions were not found: sooner after their samples, more are there.
    pub(crate) fn want(&mut self) {
        self.wanted = self.wanted.max(ROUNDS_AFTER_A_READ);
    }

    /// Asks for three: that of an exec, which has arrived, the next, and that in which the first samples' turn comes. What the program executes
    /// may be Python, at which nothing looks before.
    pub(crate) fn want_first_samples(&mut self) {
        self.wanted = 3;
    }

    /// Returns true if the next round should come early.
    pub(crate) fn is_due(&self) -> bool {
        self.wanted > 0 && self.left > 0
    }

    /// Counts a round, before its samples come.
    pub(crate) fn begin_round(&mut self) {
        if self.wanted > 0 {
            self.wanted -= 1;
            self.left = self.left.saturating_sub(1);
        }
        let due = self.added.elapsed().as_nanos() / EARLY_ROUND_INTERVAL.as_nanos();
        if due > 0 {
            self.added = Instant::now();
            self.left = u32::try_from(due)
                .map_or(FIRST_EARLY_ROUNDS, |due| self.left.saturating_add(due).min(FIRST_EARLY_ROUNDS));
        }
    }
}
