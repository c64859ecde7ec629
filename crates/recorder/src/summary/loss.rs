//! Lost samples of a recording, from the kernel's counts and from LOST records.

use model::Loss;

use crate::consumer::LostCount;

/// Sums the kernel's counts (`PERF_FORMAT_LOST`) of the first `samplers` events and of the sideband events behind them. Falls back
/// to `rings`, the sums of LOST records, for counts that are not known: the kernel writes such a record when the ring has room
/// again, so that the last losses have none.
pub(crate) fn lost_samples(rings: Loss, counts: Option<&[LostCount]>, samplers: usize) -> Loss {
    let Some((samplers, sideband)) = counts.and_then(|counts| counts.split_at_checked(samplers)) else {
        return rings;
    };
    let sum = |counts: &[LostCount]| counts.iter().fold(LostCount::default(), |sum, count| sum + *count);
    let (sampled, sideband) = (sum(samplers), sum(sideband));
    let known = |count: LostCount, in_rings: u64| match count.unread {
        0 => count.samples,
        _ => count.samples.max(in_rings),
    };
    Loss {
        samples: known(sampled, rings.samples),
        unread: sampled.unread,
        sideband: known(sideband, rings.sideband),
        ..Loss::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_counted_is_told_by_the_rings() {
        let rings = Loss { samples: 40, sideband: 3, ..Loss::default() };
        let count = |samples, unread| LostCount { samples, unread };
        let lost = |counts: Option<&[LostCount]>| {
            let loss = lost_samples(rings, counts, 2);
            (loss.samples, loss.unread, loss.sideband)
        };
        assert_eq!(lost(Some(&[count(30, 0), count(5, 0), count(2, 0)])), (35, 0, 2));
        assert_eq!(lost(None), (40, 0, 3), "before Linux 6.0");
        let full = Loss { unread: 2, ..rings };
        assert_eq!(
            lost_samples(full, None, 2).unread,
            2,
            "what the last records found no room for is in no LOST record"
        );
        assert_eq!(lost(Some(&[count(30, 0), count(5, 1), count(2, 0)])), (40, 1, 2));
        assert_eq!(lost(Some(&[count(50, 2), count(0, 0), count(0, 1)])), (50, 2, 3));
    }
}
