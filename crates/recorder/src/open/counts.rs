//! Reads from the events what they counted, and how many of their samples the kernel lost (`PERF_FORMAT_LOST`, Linux 6.0).

use std::io;
use std::sync::Arc;

use decoder::{Attr, ReadFormat, ReadValues};
use host::sys::perf_event::PerfEvent;

use super::opened::{OpenEvent, Opened};
use super::task_clock::read_count;
use crate::consumer::LostCount;
use crate::counting::{self, Reading, Uncounted};

/// Returns the count of the event at `index` on all CPUs and threads, in its own unit; `None` where an instance cannot be read.
pub(crate) fn counted(opened: &Opened, index: usize) -> Option<u64> {
    opened.instances_of(index).map(|instance| read_count(instance)).sum()
}

/// Returns the sampling events that were enabled and never counted, with the cause (`perf_event_open(2)`, "BUGS": that an event
/// opens does not mean that it can run).
pub(crate) fn never_ran(opened: &Opened) -> Vec<(String, Uncounted)> {
    let cause = |(index, event): (usize, &OpenEvent)| {
        let (mut sum, mut read, mut open) = (Reading::default(), false, false);
        for instance in opened.instances_of(index) {
            open = true;
            // A pinned event without a counter gives no words. Where an instance cannot be read, no cause is known.
            match counting::read_alone(instance, event.attr.read_format) {
                Ok(Some(reading)) => (sum, read) = (sum.plus(&reading), true),
                Ok(None) => {}
                Err(()) => return None,
            }
        }
        let in_group = event.leader.is_some();
        let why = match (read, sum.running_ns) {
            (false, _) if open => Uncounted::Pinned,
            (true, 0) if sum.enabled_ns > 0 => {
                let watchdog = host::machine::nmi_watchdog_counts();
                Uncounted::without_counter(&event.attr, in_group, sum.enabled_ns, watchdog)
            }
            _ => return None,
        };
        Some((event.name.clone(), why))
    };
    opened.samplers().filter_map(cause).collect()
}

/// Returns the number of samples that each event lost: first the sampling events, then the sideband event. `None` where the
/// kernel does not count them.
pub(crate) fn lost_samples(opened: &Opened) -> Option<Vec<LostCount>> {
    let sampling = opened.samplers().map(|(index, event)| {
        let group =
            opened.events.iter().filter(|other| event.leader.is_some() && other.leader == event.leader);
        if event.attr.read_format.contains(ReadFormat::GROUP) && !opened.leads(index) {
            // Its leader takes the samples, and loses them.
            return Some(LostCount::default());
        }
        let members = group.count();
        let instances = opened.instances_of(index);
        sum(
            &event.attr,
            instances.map(|instance| lost_by(&event.attr, members, |values| instance.read(values))),
        )
    });
    let sideband = &opened.sideband;
    let of_instance = |instance: &Arc<PerfEvent>| lost_by(&sideband.attr, 1, |values| instance.read(values));
    sampling.chain([sum(&sideband.attr, sideband.instances.iter().map(of_instance))]).collect()
}

fn sum(attr: &Attr, counts: impl Iterator<Item = Option<u64>>) -> Option<LostCount> {
    let counts = counts.map(|count| match count {
        Some(samples) => LostCount { samples, unread: 0 },
        None => LostCount { samples: 0, unread: 1 },
    });
    let sum = counts.fold(LostCount::default(), |sum, count| sum + count);
    attr.read_format.contains(ReadFormat::LOST).then_some(sum)
}

/// Returns the number of samples that an event lost, by what `read` gives of it, the leader of a group of `members`. `None` where it
/// cannot be read, or gives too few words: a pinned event that got no counter gives none.
fn lost_by(attr: &Attr, members: usize, read: impl FnOnce(&mut [u64]) -> io::Result<usize>) -> Option<u64> {
    let mut words = vec![0_u64; attr.read_format.read_words(members)];
    let count = read(&mut words).ok()?;
    let values = ReadValues::parse(attr.read_format, words.get(..count)?)?;
    values.counters.first()?.lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ENOSPC;

    fn attr(format: ReadFormat) -> Attr {
        Attr { read_format: format | ReadFormat::ID | ReadFormat::LOST, ..Attr::default() }
    }

    /// A kernel that gives these words, or ENOSPC where there is no room for them.
    fn kernel(words: Vec<u64>) -> impl FnOnce(&mut [u64]) -> io::Result<usize> {
        move |values| {
            let room = values.get_mut(..words.len()).ok_or_else(|| io::Error::from_raw_os_error(ENOSPC))?;
            room.copy_from_slice(&words);
            Ok(words.len())
        }
    }

    #[test]
    fn the_count_is_found_in_every_format() {
        let times = ReadFormat::TOTAL_TIME_ENABLED;
        assert_eq!(lost_by(&attr(ReadFormat::empty()), 0, kernel(vec![100, 7, 5])), Some(5));
        assert_eq!(lost_by(&attr(times), 0, kernel(vec![100, 1_000, 7, 5])), Some(5));
        let group = ReadFormat::GROUP;
        assert_eq!(lost_by(&attr(group), 2, kernel(vec![2, 100, 7, 5, 3, 8, 0])), Some(5));
        assert_eq!(lost_by(&attr(group | times), 1, kernel(vec![1, 1_000, 100, 7, 5])), Some(5));
    }

    #[test]
    fn a_group_of_any_size_is_read() {
        for members in [1, 21, 22, 23, 600] {
            let of_member = |member: u64| [9, member, if member == 0 { 5 } else { 0 }];
            let words = [members as u64].into_iter().chain((0..members as u64).flat_map(of_member)).collect();
            assert_eq!(lost_by(&attr(ReadFormat::GROUP), members, kernel(words)), Some(5), "{members}");
        }
    }

    #[test]
    fn a_count_that_cannot_be_read_is_unknown() {
        let single = attr(ReadFormat::empty());
        assert_eq!(lost_by(&single, 0, kernel(vec![])), None, "a pinned event in error state");
        assert_eq!(lost_by(&single, 0, kernel(vec![100, 7])), None);
        assert_eq!(lost_by(&single, 0, |_| Err(io::Error::from_raw_os_error(ENOSPC))), None);
        let count = |counts: &[Option<u64>]| sum(&single, counts.iter().copied());
        assert_eq!(count(&[Some(3), None, Some(4), None]), Some(LostCount { samples: 7, unread: 2 }));
        let old = Attr { read_format: ReadFormat::ID, ..Attr::default() };
        assert_eq!(sum(&old, [None].into_iter()), None, "before Linux 6.0");
    }
}
