//! How many file descriptors a recording takes: counted before anything is opened.

use host::sys::limits;

use crate::error::Error;

/// For everything that is not an event: rings' wakers, files, pipes, objects.
const OTHERS: u64 = 64;

/// What takes descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptors {
    /// Threads that are sampled; 1 where whole CPUs are.
    pub(super) threads: usize,
    /// Further threads, of which only the sideband event is opened.
    pub(super) siblings: usize,
    /// On how many CPUs each event is opened.
    pub(super) cpus: usize,
    /// Sampling events; the sideband event comes on top.
    pub(super) events: usize,
    /// Processes or threads whose ends are waited for.
    pub(super) watched: usize,
}

impl Descriptors {
    /// How many they are.
    fn needed(self) -> u64 {
        let events = (self.threads as u64)
            .saturating_mul(self.events as u64 + 1)
            .saturating_add(self.siblings as u64)
            .saturating_mul(self.cpus as u64);
        events.saturating_add(self.watched as u64).saturating_add(OTHERS)
    }

    /// Refuses what would run out of descriptors half-way, where the limit cannot be raised either.
    pub(super) fn check(self) -> Result<(), Error> {
        let needed = self.needed();
        let limit = limits::raise_open_files(needed).current;
        if needed <= limit {
            return Ok(());
        }
        let Self { threads, siblings, cpus, events, .. } = self;
        let detail = match siblings {
            0 => format!("threads × CPUs × events: {threads} × {cpus} × {}", events + 1),
            _ => format!("{siblings} threads beside, whose mappings are followed, on {cpus} CPUs"),
        };
        Err(Error::Descriptors { needed, detail, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_takes_its_events_on_each_cpu() {
        let one = Descriptors { threads: 1, siblings: 0, cpus: 4, events: 2, watched: 0 };
        assert_eq!(one.needed(), 4 * 3 + OTHERS);
        let thread_of_many = Descriptors { siblings: 999, watched: 1, ..one };
        assert_eq!(thread_of_many.needed(), 4 * (3 + 999) + 1 + OTHERS);
        let beyond = Descriptors { threads: usize::MAX, siblings: 0, ..one };
        assert!(beyond.check().unwrap_err().to_string().contains("try: ulimit -n"));
    }
}
