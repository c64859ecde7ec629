//! How many threads ran at a time, and where the only one was.

use crate::FrameId;

use super::lanes::{Doing, Lanes};

/// How many threads of a recording ran at a time, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Parallelism {
    /// The time in which so many threads ran as the position says.
    pub times: Vec<u64>,
    /// Where a thread was that ran alone, by the innermost of the program's own functions; the most first.
    pub alone: Vec<(FrameId, u64)>,
}

impl Parallelism {
    /// Counts the threads that ran, within a range of time if given.
    pub(super) fn of(lanes: &Lanes, range: Option<(u64, u64)>) -> Self {
        let (begin, end) = range.unwrap_or((0, u64::MAX));
        // Beginnings and ends of stretches on a CPU, with the place.
        let mut events = Vec::new();
        for segment in lanes.lanes.iter().flat_map(|lane| &lane.segments) {
            let (from, to) = (segment.start.max(begin), segment.end.min(end));
            if segment.doing == Doing::Running && from < to {
                events.extend([(from, true, segment.place.0), (to, false, segment.place.0)]);
            }
        }
        events.sort_unstable();
        let first = range.map(|(begin, _)| begin).or(events.first().map(|event| event.0)).unwrap_or(0);
        // The places of the threads that run are known by their sum where only one is left.
        let (mut at, mut running, mut places, mut found) = (first, 0_usize, 0_u64, Self::default());
        let last = range.map(|(_, end)| (end, false, 0));
        for (time, begins, place) in events.into_iter().chain(last) {
            if running >= found.times.len() {
                found.times.resize(running + 1, 0);
            }
            found.times[running] += time - at;
            if running == 1
                && let Some(&function) = lanes.places.get(places as usize).and_then(|place| place.own.last())
            {
                super::add(&mut found.alone, function, time - at);
            }
            at = time;
            (running, places) = match begins {
                true => (running + 1, places + u64::from(place)),
                false => (running.saturating_sub(1), places.saturating_sub(u64::from(place))),
            };
        }
        found.alone.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        found
    }
}
