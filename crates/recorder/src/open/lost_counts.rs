//! Reads from the events how many of their samples the kernel lost (`PERF_FORMAT_LOST`, Linux 6.0).

use std::io;

use decoder::{Attr, ReadFormat, ReadValues};

use super::opened::{OpenEvent, Opened};
use crate::consumer::LostCount;

impl Opened {
    /// Returns the number of samples that each event lost: first the sampling events, then the sideband event. `None` where the
    /// kernel does not count them.
    pub(crate) fn lost(&self) -> Option<Vec<LostCount>> {
        let sampling = self.samplers().map(|(index, event)| {
            let group =
                self.events.iter().filter(|other| event.leader.is_some() && other.leader == event.leader);
            if event.attr.read_format.contains(ReadFormat::GROUP) && !self.leads(index) {
                // Its leader takes the samples, and loses them.
                return Some(LostCount::default());
            }
            let members = group.count();
            let instances = self.instances_of(index);
            sum(
                &event.attr,
                instances.map(|instance| lost_by(&event.attr, members, |values| instance.read(values))),
            )
        });
        let OpenEvent { attr, instances, .. } = &self.sideband;
        let sideband = instances.iter().map(|instance| lost_by(attr, 1, |values| instance.read(values)));
        sampling.chain([sum(attr, sideband)]).collect()
    }
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
