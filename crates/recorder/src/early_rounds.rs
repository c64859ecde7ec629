//! Rounds that come earlier than the rings ask for, because functions of running processes were not found: the sooner a process is read after
//! a sample, the more of what it ran is still there.

use std::time::{Duration, Instant};

/// A budget of early rounds. Each costs as much as ten samples.
#[derive(Debug)]
pub(crate) struct EarlyRounds {
    /// True if functions were not found since the last round.
    is_wanted: bool,
    left: u32,
    /// The time at which the last one was added to the budget.
    added: Instant,
}

/// Early rounds at the beginning: for some seconds, in which most functions are met for the first time.
const FIRST_EARLY_ROUNDS: u32 = 500;
/// The interval at which another one is allowed.
const EARLY_ROUND_INTERVAL: Duration = Duration::from_millis(50);

impl Default for EarlyRounds {
    fn default() -> Self {
        Self { is_wanted: false, left: FIRST_EARLY_ROUNDS, added: Instant::now() }
    }
}

impl EarlyRounds {
    /// Asks for one: frames are read sooner after their samples then, and are found more often.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Returns true if the next round should come early.
    pub(crate) fn is_due(&self) -> bool {
        self.is_wanted && self.left > 0
    }

    /// Counts a round, before its samples come.
    pub(crate) fn begin_round(&mut self) {
        if std::mem::take(&mut self.is_wanted) {
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
