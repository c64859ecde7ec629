//! Samples that carry counters (`perf record -e '{cycles,instructions}:S'`): one event of a group takes the samples,
//! and each says how far all have counted.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use decoder::values::CounterValues;
use model::Tid;

/// The counters as the sample before had them.
///
/// An event that threads inherit counts for each of them apart, under one id (`PERF_SAMPLE_READ` with `inherit`, since
/// Linux 6.12): its values are kept by thread. An event of a CPU counts all threads together.
#[derive(Default, Debug)]
pub(super) struct Counts(BTreeMap<(Counting, Option<u64>), u64>);

/// Whom a counter counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Counting {
    /// Whoever the event was opened on.
    All,
    /// One of the threads that inherited the event.
    Thread(Tid),
}

impl Counts {
    /// Returns the count of each event since it was last seen, under the event's id: the sample stands for one of
    /// each, as in perf (`deliver_sample_group()` in `tools/perf/util/session.c`). Events that have not moved are
    /// left out.
    /// A counter without an id is that of the sample's own event.
    pub(super) fn since_last(
        &mut self,
        counting: Counting,
        values: &CounterValues<'_>,
    ) -> Vec<(Option<u64>, u64)> {
        let counted = values.iter().map(|counter| {
            let before = self.0.insert((counting, counter.id), counter.value).unwrap_or(0);
            // A counter that has less than before was reset, and counts from zero.
            (counter.id, counter.value.checked_sub(before).unwrap_or(counter.value))
        });
        counted.filter(|&(_, count)| count != 0).collect()
    }

    /// Forgets the counters of a thread that has ended: its number will be another's.
    pub(super) fn forget(&mut self, thread: Tid) {
        let of_thread = Counting::Thread(thread);
        let keys: Vec<_> =
            self.0.range((of_thread, None)..=(of_thread, Some(u64::MAX))).map(|(&key, _)| key).collect();
        for key in keys {
            self.0.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::values::U64s;
    use decoder::{Endian, ReadFormat};

    fn next(counts: &mut Counts, counting: Counting, words: &[u64]) -> Vec<(Option<u64>, u64)> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let format = ReadFormat::GROUP | ReadFormat::ID;
        let values = U64s::new(&bytes, Endian::Little);
        counts.since_last(counting, &CounterValues::new(format, (0, 0), None, values))
    }

    #[test]
    fn counters_become_differences() {
        let mut counts = Counts::default();
        assert_eq!(next(&mut counts, Counting::All, &[100, 1, 20, 2]), [(Some(1), 100), (Some(2), 20)]);
        assert_eq!(next(&mut counts, Counting::All, &[150, 1, 20, 2]), [(Some(1), 50)]);
        assert_eq!(next(&mut counts, Counting::All, &[30, 1, 20, 2]), [(Some(1), 30)], "it was reset");
    }

    #[test]
    fn threads_that_inherited_an_event_count_apart_under_its_id() {
        let mut counts = Counts::default();
        let (a, b) = (Counting::Thread(Tid(1)), Counting::Thread(Tid(2)));
        assert_eq!(next(&mut counts, a, &[100, 7]), [(Some(7), 100)]);
        assert_eq!(next(&mut counts, b, &[40, 7]), [(Some(7), 40)]);
        assert_eq!(next(&mut counts, a, &[110, 7]), [(Some(7), 10)]);
        assert_eq!(next(&mut counts, b, &[45, 7]), [(Some(7), 5)]);
        counts.forget(Tid(2));
        assert_eq!(next(&mut counts, b, &[90, 7]), [(Some(7), 90)], "another thread with its number");
        assert_eq!(next(&mut counts, a, &[111, 7]), [(Some(7), 1)]);
        assert_eq!(counts.0.len(), 2);
    }
}
