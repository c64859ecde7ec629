//! Samples of large recordings, merged until a page has room for them.
//!
//! There are two steps, each only where it is needed. First times get coarser, and samples of one thread, CPU and stack within a unit of
//! time become one row. Then one row stands for its neighbours: rows of one thread, CPU and unit of time are taken together in the order of
//! the tree, where neighbours have most callers in common, until they weigh as much as a few usual rows; one of them gets the weight of
//! all. The chance of each goes with its weight, so that the time of each function is right in the mean. That of threads, CPUs and units of time stays
//! as it is.

use super::samples::{Clock, Row, Samples, Segment};

/// Units by which the time of a page is divided at the least if samples are merged: about the pixels of a wide window.
const MIN_MERGED_UNITS: u64 = 2_000;

/// The factor from one unit of time to the next that is tried.
const UNIT_STEP: u64 = 4;

/// How coarse the samples of a page are after merging.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Merged {
    pub(crate) clock: Clock,
    /// True if rows stand for neighbours of other stacks.
    pub(crate) has_neighbours: bool,
}

impl Samples {
    /// Merges samples as long as there are more rows than `most`. `weighted` is true for events that are weighted by period.
    pub(crate) fn merge(&mut self, clock: Clock, weighted: &[bool], most: usize) -> Merged {
        if self.row_count() <= most {
            return Merged { clock, has_neighbours: false };
        }
        let clock = self.merge_stacks(clock, most);
        let mut least: Vec<u64> =
            (0..).zip(weighted).map(|(event, &weighted)| self.mean_weight(event, weighted)).collect();
        let (mut choices, mut before) = (Choices::default(), usize::MAX);
        while (most + 1..before).contains(&self.row_count()) {
            before = self.row_count();
            least.iter_mut().for_each(|least| *least = least.saturating_mul(2));
            for segment in &mut self.segments {
                let event = segment.event as usize;
                segment.merge_neighbours(clock.unit, weighted[event], least[event], &mut choices);
            }
        }
        Merged { clock, has_neighbours: choices.made > 0 }
    }

    /// Merges samples of one event, thread, CPU and stack that lie within one unit of time. Returns the clock: its unit is the shortest one
    /// that leaves no more rows than `most`, or the longest that is tried. Leaves the rows of each segment in the order of unit, CPU and stack.
    fn merge_stacks(&mut self, clock: Clock, most: usize) -> Clock {
        let stacks = self.rows().map(|row| row.leaf as usize + 1).max().unwrap_or(0);
        let mut recent = Recents { unit: 0, of_stacks: vec![(0, 0); stacks] };
        let length = clock.length.saturating_mul(clock.unit);
        let longer = |unit: u64| unit.checked_mul(UNIT_STEP).filter(|unit| length / unit >= MIN_MERGED_UNITS);
        let mut unit = longer(clock.unit).unwrap_or(clock.unit);
        loop {
            self.segments.iter_mut().for_each(|segment| segment.merge_stacks(unit, &mut recent));
            match longer(unit) {
                Some(next) if self.row_count() > most => unit = next,
                _ => break,
            }
        }
        self.segments.iter_mut().for_each(|segment| segment.sort_within(unit));
        let origin = clock.origin / unit * unit;
        let last = self.rows().map(|row| row.time).max().unwrap_or(0);
        Clock { origin, unit, length: (last / unit).saturating_sub(origin / unit) + 1 }
    }

    /// Returns the mean weight of an event's rows.
    fn mean_weight(&self, event: u32, weighted: bool) -> u64 {
        let rows = || self.segments.iter().filter(|segment| segment.event == event).flat_map(|of| &of.rows);
        let weight = rows().fold(0_u64, |sum, row| sum.saturating_add(row.weight(weighted)));
        weight.checked_div(rows().count() as u64).unwrap_or(0)
    }
}

/// The last row of each stack.
struct Recents {
    /// Counts units of time of all segments, from 1.
    unit: u32,
    /// The unit of the last row of each stack, and the row's number in its segment.
    of_stacks: Vec<(u32, usize)>,
}

impl Row {
    /// Adds the samples of another row.
    fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.period = self.period.saturating_add(other.period);
        self.time = self.time.min(other.time);
    }
}

impl Segment {
    /// Merges samples of one stack that lie within one `unit`, a power of two, with none on another CPU between them.
    fn merge_stacks(&mut self, unit: u64, recent: &mut Recents) {
        let mut kept = 0;
        let mut last = None;
        for at in 0..self.rows.len() {
            let row = self.rows[at];
            let time = row.time >> unit.trailing_zeros();
            if last.replace(time) != Some(time) {
                recent.unit += 1;
            }
            let of_stack = &mut recent.of_stacks[row.leaf as usize];
            if of_stack.0 == recent.unit && self.rows[of_stack.1].cpu == row.cpu {
                self.rows[of_stack.1].add(&row);
            } else {
                *of_stack = (recent.unit, kept);
                self.rows[kept] = row;
                kept += 1;
            }
        }
        self.rows.truncate(kept);
    }

    /// Puts the rows of each unit in the order of CPU and stack.
    fn sort_within(&mut self, unit: u64) {
        let unit_of = |row: &Row| row.time >> unit.trailing_zeros();
        for rows in self.rows.chunk_by_mut(|one, next| unit_of(one) == unit_of(next)) {
            rows.sort_unstable_by_key(|row| (row.cpu, row.leaf, row.time));
        }
    }

    /// Lets one row stand for its neighbours, for rows that weigh less than `least`.
    fn merge_neighbours(&mut self, unit: u64, weighted: bool, least: u64, choices: &mut Choices) {
        let rows = std::mem::take(&mut self.rows);
        let mut neighbours: Vec<Row> = Vec::new();
        for group in rows.chunk_by(|one, next| (one.time / unit, one.cpu) == (next.time / unit, next.cpu)) {
            let first = self.rows.len();
            let mut weight = 0_u64;
            for row in group {
                if row.weight(weighted) >= least {
                    self.rows.push(*row);
                    continue;
                }
                neighbours.push(*row);
                weight = weight.saturating_add(row.weight(weighted));
                if weight >= least {
                    self.rows.extend(choices.one_of(&neighbours, weight, weighted));
                    neighbours.clear();
                    weight = 0;
                }
            }
            self.rows.extend(choices.one_of(&neighbours, weight, weighted));
            neighbours.clear();
            self.rows[first..].sort_by_key(|row| row.leaf);
        }
    }
}

/// Chooses rows that stand for others.
#[derive(Default)]
struct Choices {
    /// How many were chosen.
    made: u64,
}

impl Choices {
    /// Returns the row that stands for these, which weigh `weight` together, with the samples of all; `None` of none.
    fn one_of(&mut self, rows: &[Row], weight: u64, weighted: bool) -> Option<Row> {
        /// The golden ratio's fraction of 2^64: its multiples lie evenly, however many there are.
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let turn = self.made.wrapping_mul(GOLDEN);
        self.made += 1;
        let at = ((u128::from(turn) * u128::from(weight)) >> 64) as u64;
        let mut upto = 0_u64;
        let is_at = |row: &&Row| {
            upto = upto.saturating_add(row.weight(weighted));
            at < upto
        };
        let chosen = rows.iter().find(is_at).or(rows.first())?;
        let mut all = rows.iter().copied().reduce(|mut all, row| {
            all.add(&row);
            all
        })?;
        all.leaf = chosen.leaf;
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time: u64, leaf: u32) -> Row {
        Row { leaf, thread: 0, cpu: 0, time, period: 2, count: 1 }
    }

    fn samples(rows: Vec<Row>) -> Samples {
        let mut samples = Samples::default();
        samples.segments.push(Segment { event: 0, lane: 0, rows });
        samples.is_timed = true;
        samples
    }

    #[test]
    fn samples_of_one_stack_that_lie_close_together_become_one_where_there_are_too_many() {
        let mut samples = samples((0..40_000).map(|time| row(time, (time % 3) as u32)).collect());
        let clock = samples.clock().unwrap();
        let merged = samples.merge(clock, &[false], 40_000);
        assert_eq!(merged, Merged { clock, has_neighbours: false }, "few stay as they are");
        let Merged { clock, has_neighbours } = samples.merge(clock, &[false], 10_000);
        assert_eq!((clock.unit, clock.length, samples.row_count()), (16, 2_500, 7_500));
        assert!(!has_neighbours);
        assert_eq!(samples.count(0), 40_000);
        assert_eq!(samples.rows().map(|row| row.period).sum::<u64>(), 80_000);
        // The time stays as fine as lanes are drawn.
        let coarsest = samples.merge(clock, &[false], 1);
        assert_eq!((coarsest.clock, samples.row_count()), (clock, 2_500));
    }

    #[test]
    fn one_stack_stands_for_its_neighbours_where_times_are_coarse_and_there_are_still_too_many() {
        // Half of the samples have stack 0, the others one of a thousand each, on two CPUs.
        let leaf = |at: u64| if at.is_multiple_of(2) { 0 } else { 1 + (at * 7 % 1000) as u32 };
        let of = |at: u64| Row { cpu: at.is_multiple_of(7).into(), ..row(at / 100, leaf(at)) };
        let mut samples = samples((0..400_000).map(of).collect());
        let sums = |samples: &Samples, of: &dyn Fn(&Row) -> u64| {
            let mut sums = std::collections::BTreeMap::<u64, u32>::new();
            samples.rows().for_each(|row| *sums.entry(of(row)).or_default() += row.count);
            sums
        };
        let clock = samples.clock().unwrap();
        let kept = |samples: &Samples| {
            [sums(samples, &|row| row.time / clock.unit), sums(samples, &|row| row.cpu.into())]
        };
        let before = kept(&samples);
        let stacks = sums(&samples, &|row| row.leaf.into());
        let merged = samples.merge(clock, &[false], 100_000);
        assert_eq!(merged, Merged { clock, has_neighbours: true });
        assert!((20_000..100_000).contains(&samples.row_count()), "{}", samples.row_count());
        assert!(kept(&samples) == before, "time and CPUs stay");
        let after = sums(&samples, &|row| row.leaf.into());
        for tenth in 0..10 {
            let sum = |sums: &std::collections::BTreeMap<u64, u32>| {
                f64::from(sums.range(tenth * 100 + 1..=tenth * 100 + 100).map(|(_, sum)| sum).sum::<u32>())
            };
            assert!(
                (sum(&after) / sum(&stacks) - 1.0).abs() < 0.03,
                "{tenth}: {} {}",
                sum(&after),
                sum(&stacks)
            );
        }
    }

    #[test]
    fn what_weighs_much_stands_for_itself() {
        let long = Row { period: 1_000_000, ..row(5, 9) };
        let mut rows: Vec<Row> = (0..1_000).map(|at| row(5, 10 + at)).collect();
        rows.insert(0, long);
        let mut samples = samples(rows);
        let clock = samples.clock().unwrap();
        samples.merge(clock, &[true], 10);
        assert!(samples.rows().any(|row| (row.leaf, row.period, row.count) == (9, 1_000_000, 1)));
        assert_eq!(samples.rows().map(|row| row.period).sum::<u64>(), 1_002_000);
    }
}
