//! The coverage of events as consumers get it: the share of each event's count that its samples stand for, and why samples are missing.

use std::time::Duration;

use decoder::{kind, offsets};
use model::{Coverage, MissingSamples, Shortfall};

use crate::records::{each, u32_at};

/// The facts that tell why samples of a recording are missing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Circumstances {
    /// For how long the kernel throttled events, the spans of all CPUs and threads added up.
    pub throttled: Duration,
    /// The threads that had events of their own; `None` where events are of whole CPUs.
    pub(crate) tasks: Option<Tasks>,
    /// The number of processes whose events the kernel ended.
    pub(crate) more_rights: u64,
    /// Counts of lost samples that could not be read.
    pub(crate) unread: u64,
}

/// The threads that had events of their own.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tasks {
    /// All of them.
    pub(crate) all: u64,
    /// Those that ended.
    pub(crate) ended: u64,
    /// The CPUs that each has an event on.
    pub(crate) cpus: u64,
}

impl Tasks {
    /// Counts the threads that records of a sideband ring begin and end.
    pub(crate) fn count(&mut self, records: &[u8]) {
        for record in each(records) {
            match u32_at(record, offsets::KIND) {
                Some(kind::FORK) => self.all += 1,
                Some(kind::EXIT) => self.ended += 1,
                _ => {}
            }
        }
    }
}

/// The coverage of each sampling event, and what is known of why samples are missing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EventCoverage {
    /// The coverages, in the order of the events.
    pub events: Vec<Coverage>,
    /// The facts that are known.
    pub circumstances: Circumstances,
    /// For each event whether it is a clock.
    pub(crate) are_clocks: Vec<bool>,
}

impl EventCoverage {
    /// Returns the events of which many samples are missing, other than `lost` ones.
    pub fn missing(&self, lost: u64) -> Vec<MissingSamples> {
        let events = (0..).zip(&self.events).zip(self.are_clocks.iter().chain(std::iter::repeat(&false)));
        let of_event = |((event, coverage), &is_clock): ((u64, &Coverage), &bool)| {
            let missing = coverage.missing(lost)?;
            let period = coverage.sampled.checked_div(coverage.samples).unwrap_or(0);
            let reason = self.circumstances.reason(missing, period, is_clock);
            let due = coverage.samples.saturating_add(missing);
            Some(MissingSamples { event, due, missing, period, reason })
        };
        events.filter_map(of_event).collect()
    }
}

impl Circumstances {
    /// Returns the main reason why `missing` samples of this mean period are missing.
    fn reason(&self, missing: u64, period: u64, is_clock: bool) -> Shortfall {
        let missing_ns = if is_clock { missing.saturating_mul(period) } else { 0 };
        let throttled_ns = nanoseconds(self.throttled);
        match self.tasks {
            _ if self.more_rights > 0 => Shortfall::MoreRights,
            _ if self.unread > 0 => Shortfall::UnreadLosses,
            _ if throttled_ns > 0 && throttled_ns.saturating_mul(2) >= missing_ns => Shortfall::Throttled,
            // On whole CPUs a period goes on from thread to thread.
            None if is_clock => Shortfall::LateTicks,
            None => Shortfall::Unknown,
            // Each thread has one unfinished period on each CPU at most: they explain less than half.
            Some(tasks) if is_clock && missing / 2 > tasks.all.saturating_mul(tasks.cpus) => {
                Shortfall::LateTicks
            }
            Some(tasks) if tasks.ended.saturating_mul(2) >= tasks.all => Shortfall::ShortLives,
            Some(_) => Shortfall::ShortRuns,
        }
    }
}

/// Returns a duration in nanoseconds.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_the_one_that_is_large_enough() {
        let tasks = |all, ended| Some(Tasks { all, ended, cpus: 2 });
        let here = Circumstances { tasks: tasks(400, 0), ..Circumstances::default() };
        let of_clock = |here: Circumstances, missing| here.reason(missing, 1_000_000, true);
        assert_eq!(of_clock(here, 500), Shortfall::ShortRuns, "they live on");
        assert_eq!(of_clock(here, 877), Shortfall::ShortRuns, "800 unfinished periods explain most of them");
        assert_eq!(of_clock(Circumstances { tasks: tasks(400, 390), ..here }, 500), Shortfall::ShortLives);
        let two_threads = Circumstances { tasks: tasks(3, 3), ..here };
        assert_eq!(of_clock(two_threads, 500), Shortfall::LateTicks, "more than six unfinished periods");
        assert_eq!(of_clock(Circumstances { tasks: None, ..here }, 500), Shortfall::LateTicks);
        let throttled =
            |milliseconds| Circumstances { throttled: Duration::from_millis(milliseconds), ..here };
        assert_eq!(of_clock(throttled(300), 500), Shortfall::Throttled);
        assert_eq!(of_clock(throttled(30), 500), Shortfall::ShortRuns, "throttling explains a tenth of it");
        assert_eq!(throttled(30).reason(500, 1_000_000, false), Shortfall::Throttled, "no clock");
        assert_eq!(of_clock(Circumstances { more_rights: 1, ..throttled(300) }, 500), Shortfall::MoreRights);
        assert_eq!(of_clock(Circumstances { unread: 1, ..throttled(300) }, 500), Shortfall::UnreadLosses);
    }
}
