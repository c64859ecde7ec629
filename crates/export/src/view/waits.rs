//! When threads were off the CPU, as the page's lanes show it.

use model::{Pid, Tid};

use super::PageWait;
use super::blocks::Column;
use super::samples::Clock;

/// Waits that a page has at the most. Where there are more, the shortest are left out.
const MOST_WAITS: usize = 2_000_000;

/// A wait of a lane, in units of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Wait {
    lane: u32,
    from: u64,
    to: u64,
    is_ready: bool,
}

/// The waits of all lanes, in the order of lanes and time.
#[derive(Default, Debug)]
pub(crate) struct Waits {
    waits: Vec<Wait>,
    /// Waits shorter than so many microseconds are left out.
    least: u64,
}

impl Waits {
    /// Puts waits into the page's units. Those outside of its time, and of threads without a lane, go.
    pub(crate) fn new(waits: &[PageWait], clock: Clock, lane_of: impl Fn(Pid, Tid) -> Option<u32>) -> Self {
        let units = |time: u64| ((time / 1000).saturating_sub(clock.origin) / clock.unit).min(clock.length);
        let in_units = |wait: &PageWait| {
            let (from, to) = (units(wait.from), units(wait.to));
            let lane = lane_of(wait.pid, wait.tid).filter(|_| to > from)?;
            Some(Wait { lane, from, to, is_ready: wait.is_ready })
        };
        let mut waits: Vec<Wait> = waits.iter().filter_map(in_units).collect();
        waits.sort_unstable();
        let mut least = 0;
        while waits.len() > MOST_WAITS {
            least = (least * 2).max(clock.unit);
            waits.retain(|wait| (wait.to - wait.from) * clock.unit >= least);
        }
        Self { waits, least }
    }

    /// Says what was left out.
    pub(crate) fn left_out(&self) -> Option<String> {
        (self.least > 0)
            .then(|| format!("lanes show no waits shorter than {} µs: there are too many", self.least))
    }

    /// Lanes with how many waits they have, and the block `waits`; `None` where there are none.
    pub(crate) fn columns(&self) -> Option<(Vec<(u32, usize)>, Column)> {
        let (mut counts, mut column) = (Vec::new(), Column::default());
        for lane in self.waits.chunk_by(|one, other| one.lane == other.lane) {
            counts.push((lane.first()?.lane, lane.len()));
            let mut end = 0;
            for wait in lane {
                // Two that overlap are the mistake of a recording: the later one gives way.
                let from = wait.from.max(end);
                column.push(from - end);
                end = wait.to.max(from);
                column.push((end - from) * 2 + u64::from(wait.is_ready));
            }
        }
        (!counts.is_empty()).then_some((counts, column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_lanes_within_the_page_s_time() {
        let clock = Clock { origin: 1_000, unit: 2, length: 50 };
        let wait = |tid, from: u64, to: u64, is_ready| PageWait {
            pid: Pid(1),
            tid: Tid(tid),
            from: from * 1000,
            to: to * 1000,
            is_ready,
        };
        let lane = |_, tid: Tid| (tid.0 < 3).then_some(tid.0 as u32);
        let told = [
            wait(2, 1_010, 1_020, true),
            wait(1, 900, 1_004, false),
            wait(1, 1_090, 5_000, false),
            wait(1, 6_000, 7_000, false),
            wait(7, 1_010, 1_020, false),
        ];
        let waits = Waits::new(&told, clock, lane);
        let (counts, column) = waits.columns().unwrap();
        assert_eq!(counts, [(1, 2), (2, 1)]);
        assert_eq!(column.into_bytes(), [0, 4, 43, 10, 5, 11]);
        assert!(waits.left_out().is_none() && Waits::default().columns().is_none());
    }
}
