//! What the file of a recording says of switches that were held back: when they were, and the kernel's counts of threads.

use std::collections::BTreeMap;

use model::Tid;
use perfdata::sections::{Schedstat, SwitchSampling};

use super::outside::MAX_THREADS;
use crate::consumer::SwitchUpdate;

/// Collects updates about switches for the end of a recording.
#[derive(Default, Debug)]
pub(crate) struct SwitchLog {
    /// The start of the current gap, in nanoseconds of the recording's clock.
    gap: Option<u64>,
    gaps: Vec<(u64, u64)>,
    /// The first and the last of the kernel's counts of each thread.
    threads: BTreeMap<Tid, [Schedstat; 2]>,
}

impl SwitchLog {
    /// Adds an update; they must come in the order of time.
    pub(crate) fn add(&mut self, update: &SwitchUpdate) {
        match *update {
            SwitchUpdate::Watched(_) => {}
            SwitchUpdate::Paused(begin) => self.gap = Some(begin),
            SwitchUpdate::Resumed(end) => self.gaps.extend(self.gap.take().map(|begin| (begin, end))),
            SwitchUpdate::SchedStat(tid, counts) => {
                if let Some([_, last]) = self.threads.get_mut(&tid) {
                    *last = counts;
                } else if self.threads.len() < MAX_THREADS {
                    self.threads.insert(tid, [counts; 2]);
                }
            }
        }
    }

    /// Returns the gaps and counts of a recording that ended at `end`; `None` if there are none.
    pub(crate) fn finish(mut self, end: u64) -> Option<SwitchSampling> {
        self.gaps.extend(self.gap.take().map(|begin| (begin, end.max(begin))));
        let is_any = !self.gaps.is_empty() || !self.threads.is_empty();
        let threads = self.threads.into_iter().map(|(tid, counts)| (tid, counts.to_vec())).collect();
        is_any.then_some(SwitchSampling { gaps: self.gaps, threads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_lasts_to_the_end_and_a_thread_has_two_counts() {
        let counts = |time| Schedstat { time, running: time, runnable: 0 };
        let mut log = SwitchLog::default();
        for update in [SwitchUpdate::Paused(10), SwitchUpdate::Resumed(20), SwitchUpdate::Paused(30)] {
            log.add(&update);
        }
        (1..4).for_each(|time| log.add(&SwitchUpdate::SchedStat(Tid(7), counts(time))));
        let threads = vec![(Tid(7), vec![counts(1), counts(3)])];
        assert_eq!(log.finish(40), Some(SwitchSampling { gaps: vec![(10, 20), (30, 40)], threads }));
        assert_eq!(SwitchLog::default().finish(40), None);
    }
}
