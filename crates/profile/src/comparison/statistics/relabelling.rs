//! Relabellings: the signs of pairs or the sides of runs as they could have been if nothing had changed.

use super::observations::{Design, Layout};

/// Maximum number of relabellings. All are tried if there are no more; with 4,096 drawn ones, a probability of 1 % has a standard
/// error of 0.16 %.
const MAX_RELABELLINGS: usize = 4096;

/// Maximum number of units whose labels are enumerated: 2^16 candidates take a millisecond.
const MAX_ENUMERATED_UNITS: usize = 16;

/// Ways to label the units of an experiment, its own first.
pub(super) struct Relabellings {
    labels: Vec<Vec<bool>>,
}

impl Relabellings {
    /// All ways to label the units, or so many drawn ones, the same each time.
    pub(super) fn new(layout: &Layout) -> Self {
        let own = layout.labels();
        let all = count(layout);
        let mut labels = vec![own.clone()];
        if all <= MAX_RELABELLINGS as f64 && layout.units() <= MAX_ENUMERATED_UNITS {
            for bits in 0..1_u32 << layout.units() {
                let chosen: Vec<bool> = (0..layout.units()).map(|unit| bits >> unit & 1 == 1).collect();
                let fits = match layout.design {
                    Design::Pairs => true,
                    Design::Groups => chosen.iter().filter(|&&after| after).count() == layout.runs[1],
                };
                if fits && chosen != own {
                    labels.push(chosen);
                }
            }
            return Self { labels };
        }
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        while labels.len() < MAX_RELABELLINGS {
            let mut drawn = own.clone();
            match layout.design {
                Design::Pairs => drawn.iter_mut().for_each(|label| *label = random.below(2) == 1),
                Design::Groups => {
                    for last in (1..drawn.len()).rev() {
                        drawn.swap(last, random.below(last + 1));
                    }
                }
            }
            labels.push(drawn);
        }
        Self { labels }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[bool]> {
        self.labels.iter().map(Vec::as_slice)
    }

    /// The smallest probability that a test can give: both signs of the own labels are as extreme.
    pub(super) fn smallest_probability(layout: &Layout) -> f64 {
        2.0 / count(layout)
    }
}

/// The number of ways to label the units.
fn count(layout: &Layout) -> f64 {
    match layout.design {
        Design::Pairs => 2_f64.powi(i32::try_from(layout.units()).unwrap_or(i32::MAX)),
        Design::Groups => {
            let [before, after] = layout.runs;
            (1..=before).map(|chosen| (after + chosen) as f64 / chosen as f64).product()
        }
    }
}

/// Numbers without a pattern that matters here (xorshift, G. Marsaglia, 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % bound.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_are_tried_where_they_are_few() {
        let layout = |design, runs| Layout::new(design, runs).unwrap();
        let pairs = layout(Design::Pairs, [8, 8]);
        assert_eq!(Relabellings::new(&pairs).labels.len(), 256);
        assert_eq!(Relabellings::smallest_probability(&pairs), 2.0 / 256.0);
        let groups = layout(Design::Groups, [5, 5]);
        assert_eq!(Relabellings::new(&groups).labels.len(), 252);
        assert_eq!(Relabellings::smallest_probability(&groups), 2.0 / 252.0);
        let many = Relabellings::new(&layout(Design::Groups, [10, 12]));
        assert_eq!(many.labels.len(), MAX_RELABELLINGS);
        assert!(many.iter().all(|labels| labels.iter().filter(|&&after| after).count() == 12));
    }
}
