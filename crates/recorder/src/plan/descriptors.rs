//! How many file descriptors a recording takes: counted before anything is opened.

use super::Stop;
use super::facts::{Facts, Question};
use crate::error::Error;

/// Number of descriptors for all that is not an event: wakers of rings, files, pipes, objects.
const OTHER_DESCRIPTORS: u64 = 64;

/// The counts from which the number of descriptors of a recording follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    /// The number of sampled threads; 1 where whole CPUs are sampled.
    pub(crate) threads: usize,
    /// The number of further threads, on which only the sideband event is opened.
    pub(crate) siblings: usize,
    /// The number of CPUs on which each event is opened.
    pub(crate) cpus: usize,
    /// The number of sampling events, without the sideband event.
    pub(crate) events: usize,
    /// The number of processes or threads whose ends are waited for.
    pub(crate) watched: usize,
}

/// Returns the number of file descriptors that attaching to this many threads on this many CPUs takes, with one event.
pub fn descriptors_for(threads: u64, cpus: usize) -> u64 {
    threads
        .saturating_mul(EVENTS_PER_THREAD)
        .saturating_mul(cpus.max(1) as u64)
        .saturating_add(OTHER_DESCRIPTORS)
}

/// Returns the number of threads to which a recording with one event can attach with this many file descriptors on this many CPUs.
pub fn attachable_threads(descriptors: u64, cpus: usize) -> u64 {
    descriptors.saturating_sub(OTHER_DESCRIPTORS) / EVENTS_PER_THREAD / cpus.max(1) as u64
}

/// A sampling event and the sideband event.
const EVENTS_PER_THREAD: u64 = 2;

impl Descriptors {
    /// The number of descriptors that are needed.
    pub(crate) fn needed(self) -> u64 {
        let events = (self.threads as u64)
            .saturating_mul(self.events as u64 + 1)
            .saturating_add(self.siblings as u64)
            .saturating_mul(self.cpus as u64);
        events.saturating_add(self.watched as u64).saturating_add(OTHER_DESCRIPTORS)
    }

    /// Refuses what would run out of descriptors half-way, where the limit cannot be raised either.
    pub(crate) fn check(self, facts: &Facts) -> Result<(), Stop> {
        Ok(self.fit(facts.answer_to(Question::Descriptors(self.needed()))?.unwrap_or(0))?)
    }

    /// Returns true if there may be so many descriptors.
    pub(crate) fn are_allowed(self, facts: &Facts) -> Result<bool, Stop> {
        let needed = self.needed();
        Ok(facts.answer_to(Question::Descriptors(needed))?.is_ok_and(|limit| needed <= limit))
    }

    /// Refuses more descriptors than `limit`.
    pub(crate) fn fit(self, limit: u64) -> Result<(), Error> {
        let needed = self.needed();
        if needed <= limit {
            Ok(())
        } else {
            Err(Error::Descriptors { needed, detail: self.in_words(), limit })
        }
    }

    /// The number of descriptors for each purpose, in words.
    fn in_words(self) -> String {
        let Self { threads, siblings, cpus, events, watched } = self;
        let cpus_in_words = counted(cpus, "CPU", "CPUs");
        // The event for mappings and names comes on top of those that sample.
        let of_threads = format!(
            "{} for events ({} × {cpus_in_words} × {})",
            threads.saturating_mul(cpus).saturating_mul(events + 1),
            counted(threads, "thread", "threads"),
            counted(events + 1, "event", "events"),
        );
        let of_siblings = (siblings > 0).then(|| {
            let threads = counted(siblings, "more thread", "more threads");
            format!("{} for the mappings of {threads}", siblings.saturating_mul(cpus))
        });
        let rest = format!("{} for files and processes", OTHER_DESCRIPTORS + watched as u64);
        [Some(of_threads), of_siblings, Some(rest)].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_takes_its_events_on_each_cpu() {
        let one = Descriptors { threads: 1, siblings: 0, cpus: 4, events: 2, watched: 0 };
        assert_eq!(one.needed(), 4 * 3 + OTHER_DESCRIPTORS);
        let thread_of_many = Descriptors { siblings: 999, watched: 1, ..one };
        assert_eq!(thread_of_many.needed(), 4 * (3 + 999) + 1 + OTHER_DESCRIPTORS);
        let beyond = Descriptors { threads: usize::MAX, siblings: 0, ..one };
        assert!(
            beyond.fit(1 << 30).unwrap_err().to_string().contains("try: sudo prlimit --pid $$ --nofile=")
        );
    }

    #[test]
    fn the_parts_add_up_to_the_sum() {
        let numbers = |text: &str| -> Vec<u64> {
            let parts = text.split(", ").map(|part| part.split(' ').next().unwrap().parse().unwrap());
            parts.collect()
        };
        let one = Descriptors { threads: 1, siblings: 0, cpus: 2, events: 1, watched: 1 };
        assert_eq!(one.in_words(), "4 for events (1 thread × 2 CPUs × 2 events), 65 for files and processes");
        for descriptors in [one, Descriptors { threads: 3, siblings: 40, cpus: 8, events: 5, watched: 2 }] {
            let words = descriptors.in_words();
            assert_eq!(numbers(&words).iter().sum::<u64>(), descriptors.needed(), "{words}");
        }
    }
}
