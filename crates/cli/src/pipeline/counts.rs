//! Samples that carry counters (`perf record -e '{cycles,instructions}:S'`): one event of a group takes the samples,
//! and each says how far all have counted.

use std::collections::HashMap;

use decoder::values::CounterValues;

/// The counters as the sample before had them, by event id.
#[derive(Default)]
pub struct Counts(HashMap<Option<u64>, u64>);

impl Counts {
    /// What each event has counted since it was last seen, under the event's id: the sample stands for one of each, as
    /// in perf (`deliver_sample_group()` in `tools/perf/util/session.c`). Events that have not moved are left out.
    /// A counter without an id is that of the sample's own event.
    pub fn since_last(&mut self, values: &CounterValues<'_>) -> Vec<(Option<u64>, u64)> {
        let counted = values.iter().map(|counter| {
            let before = self.0.insert(counter.id, counter.value).unwrap_or(0);
            // A counter that was reset counts from zero; perf lets the difference wrap.
            (counter.id, counter.value.wrapping_sub(before))
        });
        counted.filter(|&(_, count)| count != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::values::U64s;
    use decoder::{Endian, ReadFormat};

    #[test]
    fn counters_become_differences() {
        let mut counts = Counts::default();
        let mut next = |words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let format = ReadFormat::GROUP | ReadFormat::ID;
            let values = U64s::new(&bytes, Endian::Little);
            counts.since_last(&CounterValues::new(format, (0, 0), None, values))
        };
        assert_eq!(next(&[100, 1, 20, 2]), [(Some(1), 100), (Some(2), 20)]);
        assert_eq!(next(&[150, 1, 20, 2]), [(Some(1), 50)]);
    }
}
