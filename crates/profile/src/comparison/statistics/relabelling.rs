//! Relabellings: the sides of runs as they could have been if nothing had changed.

/// Probability with which a family without any change has a mark.
pub const LEVEL: f64 = 0.01;

/// The smallest number of runs of each side with which a test can reach [`LEVEL`]: 2 of 252 relabellings are as extreme as their own.
pub const NEEDED_RUNS: usize = 5;

/// Maximum number of relabellings. All are tried if there are no more; with 4,096 of more, a probability of 1 % has a standard error of
/// at most 0.16 %.
const MAX_RELABELLINGS: f64 = 4096.0;

/// Returns ways to say which runs are after the change: all of them, or as many of more, at equal distances in their order. None if they
/// are too few to reach [`LEVEL`].
pub(super) fn relabellings([before, after]: [usize; 2]) -> Vec<Vec<bool>> {
    let all: f64 = (1..=before).map(|chosen| (after + chosen) as f64 / chosen as f64).product();
    // Both signs of their own labels are as extreme.
    if 2.0 / all > LEVEL {
        return Vec::new();
    }
    let shown = all.round().min(MAX_RELABELLINGS);
    (0..shown as usize)
        .map(|number| labels((number as f64 + 0.5) * all / shown, all, before, after))
        .collect()
}

/// Returns the labels with this number among `all`. In their order, those come first whose first run is after the change.
fn labels(mut number: f64, mut all: f64, before: usize, after: usize) -> Vec<bool> {
    let mut left = after;
    let runs = (1..=before + after).rev();
    let chosen = runs.map(|runs| {
        let chosen = all * left as f64 / runs as f64;
        let is_after = left == runs || number < chosen;
        if is_after {
            (all, left) = (chosen, left - 1);
        } else {
            (all, number) = (all - chosen, number - chosen);
        }
        is_after
    });
    chosen.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn all_ways_are_tried_where_they_are_few() {
        let groups = relabellings([5, 5]);
        assert_eq!((groups.len(), groups.iter().collect::<HashSet<_>>().len()), (252, 252));
        assert!(relabellings([4, 4]).is_empty());
        for (runs, after) in [([10, 12], 12), ([300, 200], 200)] {
            let many = relabellings(runs);
            assert_eq!(many.iter().collect::<HashSet<_>>().len(), MAX_RELABELLINGS as usize);
            assert!(many.iter().all(|labels| labels.iter().filter(|&&after| after).count() == after));
        }
        // Each run is as often of either side.
        let often = |run: usize| relabellings([8, 8]).iter().filter(|labels| labels[run]).count();
        assert!(
            (0..16).all(|run| (1900..2200).contains(&often(run))),
            "{:?}",
            (0..16).map(often).collect::<Vec<_>>()
        );
    }
}
