//! Counts events of a command while it is sampled, from its first instruction to its end.

use model::Pid;

use super::open::Counters;
use super::{Plan, Reading};
use crate::options::{Extras, Options};
use crate::summary::ExactCount;

/// Counters that are open beside the events of a recording.
pub(crate) struct CountsBeside {
    counters: Option<Counters>,
}

impl CountsBeside {
    /// Opens the events of [`Options::counted`] on the waiting child, whose exec enables them. What this machine cannot count is left out:
    /// a recording does not fail for it.
    pub(crate) fn open(options: &Options, child: Option<Pid>) -> Self {
        if options.counted.is_empty() {
            return Self { counters: None };
        }
        let options = Options {
            events: options.counted.clone(),
            rate: None,
            delay: None,
            extras: Extras::default(),
            ..options.clone()
        };
        Self { counters: Counters::open(&options, Plan::default(), child, &mut |_| {}).ok() }
    }

    /// Returns the counts.
    pub(crate) fn read(&self) -> Vec<ExactCount> {
        let Some(counters) = &self.counters else { return Vec::new() };
        counters.disable();
        let counts = counters.counts(&counters.read());
        let event = |(index, event): (usize, &super::CountedEvent)| {
            let of_event = counts.iter().filter(|count| count.event == index && !count.unreadable);
            let sum =
                of_event.map(|count| count.reading).reduce(|sum: Reading, reading| sum.plus(&reading))?;
            Some(ExactCount { event: event.name.clone(), count: sum.scaled()? })
        };
        counters.plan.events.iter().enumerate().filter_map(event).collect()
    }
}
