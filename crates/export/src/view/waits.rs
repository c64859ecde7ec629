//! When threads were off the CPU, as the page's lanes show it.

use model::{Pid, Tid, WaitSpan};

use super::blocks::Column;
use super::samples::Clock;

/// Waits that a page has at the most. Where there are more, the shortest are left out.
const MOST_WAITS: usize = 2_000_000;
/// Parts of the page's time of which one is too short to be seen: unrecorded intervals that are closer than that are shown as one.
const VISIBLE_PARTS: u64 = 4_000;

/// A wait of a lane, in units of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Wait {
    lane: u32,
    from: u64,
    to: u64,
    is_runnable: bool,
    /// One more than the number of who ended it; 0 where that is not known.
    waker: u32,
}

/// The waits of all lanes, in the order of lanes and time.
#[derive(Default, Debug)]
pub(crate) struct Waits {
    waits: Vec<Wait>,
    /// The length, in microseconds, below which waits are left out.
    least: u64,
    /// The intervals in which no waits were recorded, as start and end in units of time, in order.
    pub(crate) unrecorded: Vec<(u64, u64)>,
    /// The share of the page's time in these intervals, from 0 to 1.
    unrecorded_share: f64,
}

impl Waits {
    /// Converts waits and the intervals without recorded ones (`gaps`, start and end in nanoseconds) to the page's units. Leaves out
    /// those outside of its time, and those of threads without a lane.
    pub(crate) fn new(
        waits: &[WaitSpan],
        gaps: &[(u64, u64)],
        clock: Clock,
        lane_of: impl Fn(Pid, Tid) -> Option<u32>,
    ) -> Self {
        let units = |time: u64| clock.units(time);
        let in_units = |wait: &WaitSpan| {
            let (from, to) = (units(wait.start.0), units(wait.end.0));
            let lane = lane_of(wait.pid, wait.tid).filter(|_| to > from)?;
            let waker = wait.waker.and_then(|waker| u32::try_from(waker + 1).ok()).unwrap_or(0);
            Some(Wait { lane, from, to, is_runnable: wait.is_runnable, waker })
        };
        let mut waits: Vec<Wait> = waits.iter().filter_map(in_units).collect();
        waits.sort_unstable();
        let mut least = 0;
        while waits.len() > MOST_WAITS {
            least = (least * 2).max(clock.unit);
            waits.retain(|wait| (wait.to - wait.from) * clock.unit >= least);
        }
        let gaps = gaps.iter().map(|&(from, to)| (units(from), units(to))).filter(|(from, to)| from < to);
        let (mut unrecorded, mut length): (Vec<(u64, u64)>, u64) = (Vec::new(), 0);
        for (from, to) in gaps {
            length += to - from;
            match unrecorded.last_mut() {
                Some((_, end)) if from.saturating_sub(*end) <= clock.length / VISIBLE_PARTS => {
                    *end = to.max(*end)
                }
                _ => unrecorded.push((from, to)),
            }
        }
        let unrecorded_share = length as f64 / clock.length.max(1) as f64;
        Self { waits, least, unrecorded, unrecorded_share }
    }

    /// Returns sentences about the waits that lanes do not show.
    pub(crate) fn caveats(&self) -> impl Iterator<Item = String> {
        let short = (self.least > 0)
            .then(|| format!("lanes show no waits shorter than {} µs: there are too many", self.least));
        let percent = 100.0 * self.unrecorded_share;
        let unrecorded = (!self.unrecorded.is_empty()).then(|| {
            format!(
                "threads switched too often to record every switch: for {percent:.0} % of the time (grey in the lanes), lanes show no \
                 waits; `prof report --off-cpu` estimates them"
            )
        });
        short.into_iter().chain(unrecorded)
    }

    /// The block `wakers`: who ended each blocked wait of the block `waits`.
    pub(crate) fn wakers(&self) -> Column {
        let mut column = Column::default();
        for wait in self.waits.iter().filter(|wait| !wait.is_runnable) {
            column.push(wait.waker.into());
        }
        column
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
                column.push((end - from) * 2 + u64::from(wait.is_runnable));
            }
        }
        (!counts.is_empty()).then_some((counts, column))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Timestamp;

    #[test]
    fn waits_are_those_of_lanes_within_the_page_s_time() {
        let clock = Clock { origin: 1_000, unit: 2, length: 50 };
        let wait = |tid, from: u64, to: u64, is_runnable| WaitSpan {
            pid: Pid(1),
            tid: Tid(tid),
            start: Timestamp(from * 1000),
            end: Timestamp(to * 1000),
            is_runnable,
            waker: (tid == 2 || from == 900).then_some(6),
        };
        let lane = |_, tid: Tid| (tid.0 < 3).then_some(tid.0 as u32);
        let told = [
            wait(2, 1_010, 1_020, true),
            wait(1, 900, 1_004, false),
            wait(1, 1_090, 5_000, false),
            wait(1, 6_000, 7_000, false),
            wait(7, 1_010, 1_020, false),
        ];
        let gaps =
            [(500_000, 1_010_000), (1_020_000, 1_030_000), (1_030_000, 1_040_000), (7_000_000, 9_000_000)];
        let waits = Waits::new(&told, &gaps, clock, lane);
        let (counts, column) = waits.columns().unwrap();
        assert_eq!(counts, [(1, 2), (2, 1)]);
        assert_eq!(column.into_bytes(), [0, 4, 43, 10, 5, 11]);
        assert_eq!(waits.wakers().into_bytes(), [7, 0], "runnable threads are not woken");
        assert_eq!(waits.unrecorded, [(0, 5), (10, 20)]);
        let caveats: Vec<String> = waits.caveats().collect();
        assert!(matches!(&*caveats, [caveat] if caveat.contains("for 30 % of the time")), "{caveats:?}");
        assert!(Waits::default().caveats().next().is_none() && Waits::default().columns().is_none());
    }
}
