//! For how long the kernel throttled events.

use std::collections::HashMap;
use std::time::Duration;

use decoder::{kind, offsets};
use rustc_hash::FxBuildHasher;

use crate::records::{each, u32_at, u64_at};

/// Adds up the spans between THROTTLE and UNTHROTTLE of each event's instances.
#[derive(Debug, Default)]
pub(crate) struct Throttling {
    /// The times since which instances are throttled, by their ids.
    since: HashMap<u64, u64, FxBuildHasher>,
    total_ns: u64,
}

impl Throttling {
    /// Adds the records of a ring.
    pub(crate) fn add(&mut self, records: &[u8]) {
        for record in each(records) {
            let kind = u32_at(record, offsets::KIND);
            if !matches!(kind, Some(kind::THROTTLE | kind::UNTHROTTLE)) {
                continue;
            }
            let (Some(time), Some(id)) =
                (u64_at(record, offsets::THROTTLE_TIME), u64_at(record, offsets::THROTTLE_STREAM))
            else {
                continue;
            };
            if kind == Some(kind::THROTTLE) {
                self.since.insert(id, time);
            } else if let Some(since) = self.since.remove(&id) {
                self.total_ns = self.total_ns.saturating_add(time.saturating_sub(since));
            }
        }
    }

    /// Returns true if an instance is throttled now.
    pub(crate) fn is_throttled(&self) -> bool {
        !self.since.is_empty()
    }

    /// Returns the sum of the spans that have ended.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.total_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_each_instance_are_added_up() {
        let record = |kind: u32, id: u64, time: u64| {
            let header = u64::from(kind) | 40 << 48;
            [header, time, 1, id, 0].iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>()
        };
        let mut throttling = Throttling::default();
        // Two CPUs at once, an end without a beginning, and a beginning without an end.
        for (kind, id, time) in [
            (kind::UNTHROTTLE, 7, 90),
            (kind::THROTTLE, 7, 100),
            (kind::THROTTLE, 8, 120),
            (kind::UNTHROTTLE, 7, 150),
            (kind::UNTHROTTLE, 8, 160),
            (kind::THROTTLE, 7, 200),
        ] {
            throttling.add(&record(kind, id, time));
        }
        assert_eq!(throttling.total(), Duration::from_nanos(90));
    }
}
