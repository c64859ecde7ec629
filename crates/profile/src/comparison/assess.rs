//! What changed between the sides, function by function, and how sure that is.

use super::moved::{self, Move};
use super::paths::{self, PathChange};
use super::row::{Evidence, MIN_MARKED_SHARE, Row, Verdict};
use super::statistics::{Estimate, Item, NEEDED_RUNS, Observation, STANDS_OUT, compare, compare_totals};
use super::sums::Sums;
use super::{AFTER, BEFORE, Comparison, RunTotal};
use crate::FrameId;

/// The runs of a comparison, as far as recordings do not tell.
#[derive(Clone, Debug, Default)]
pub struct Experiment {
    /// Seconds from start to end of each run, of both sides; empty where unknown.
    pub wall: [Vec<f64>; 2],
    /// Exact counts by event, for each run of both sides.
    pub counts: Vec<(String, [Vec<f64>; 2])>,
    /// True if the sides were sampled at different rates. Each sample takes time itself (13 µs in a virtual machine: 4 % more at 5,000 Hz
    /// than at 2,000), so totals are not marked.
    pub has_other_rates: bool,
}

/// The quantity of a total.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TotalKind {
    /// The weight of all samples.
    Weight,
    /// The time from start to end.
    Wall,
    /// The number of samples.
    Samples,
    /// Everything that does not stand out: the scale that functions are compared with.
    EverythingElse,
    /// Exact counts of this event.
    Count(String),
}

/// A total of both sides.
#[derive(Clone, PartialEq, Debug)]
pub struct Total {
    /// The quantity.
    pub kind: TotalKind,
    /// Means over the runs before and after; `None` for everything else, which is a factor only.
    pub means: Option<[f64; 2]>,
    /// The estimate; `None` where there is no more than two numbers.
    pub estimate: Option<Estimate>,
}

/// A comparison with its doubts.
#[derive(Clone, Debug)]
pub struct Assessment {
    /// The basis.
    pub evidence: Evidence,
    /// Totals, the weight first.
    pub totals: Vec<Total>,
    /// The factor by which everything changed, if that is beyond noise, else 1. Differences of rows are beyond it.
    pub factor: f64,
    /// Functions: those that changed, by the size of the difference, then the others by self weight.
    pub rows: Vec<Row>,
    /// The number of rows that changed.
    pub changed: usize,
    /// Groups of functions among which weight moved.
    pub moves: Vec<Move>,
    /// Paths that explain the largest changes, and those to functions without a change of their own that are called otherwise.
    pub paths: Vec<PathChange>,
}

/// The part of an [`Assessment`] that grew more than a threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exceeding {
    /// A row.
    Row(usize),
    /// The sum of a move.
    Move(usize),
    /// A total.
    Total(usize),
}

impl Comparison {
    /// Says what changed. Without runs or samples on a side, nothing did.
    pub fn assess(&self, experiment: &Experiment) -> Assessment {
        let runs = [BEFORE, AFTER].map(|side| self.runs(side).len());
        let evidence = match runs {
            [1, 1] => Evidence::SingleRecordings,
            _ if runs.iter().any(|&runs| runs < NEEDED_RUNS) => Evidence::TooFewRuns,
            _ => Evidence::Runs,
        };
        let sums = Sums::of(self);
        let (tested, items) = sums.items(self);
        let family = compare(&items, runs);
        let scale = family.as_ref().and_then(|family| family.scale.clone());
        let mut totals = self.totals(experiment, scale, runs);
        let everything = totals.iter().find(|total| total.kind == TotalKind::EverythingElse);
        let is_separate = |estimate: &Estimate| match evidence {
            Evidence::Runs => estimate.is_marked(),
            _ => estimate.distance.abs() > STANDS_OUT,
        };
        let everything = everything.and_then(|total| total.estimate).filter(is_separate);
        let factor = everything.map_or(1.0, |estimate| estimate.log_ratio.exp());
        if experiment.has_other_rates {
            let estimates = totals.iter_mut().filter_map(|total| total.estimate.as_mut());
            estimates.for_each(|estimate| estimate.probability = None);
        }
        let row = |(index, function)| {
            let position = tested.binary_search(&index).ok();
            let mut estimate = position.and_then(|position| family.as_ref()?.items.get(position)).copied();
            let mut row = sums.row(function, factor);
            // Smaller functions help to find the level, but are not marked.
            if let Some(estimate) = estimate.as_mut().filter(|_| row.share < MIN_MARKED_SHARE) {
                estimate.probability = None;
            }
            row.estimate = estimate;
            row.verdict = verdict(&row, evidence);
            row
        };
        let mut rows: Vec<Row> = self.functions().iter().enumerate().map(row).collect();
        let moves = moved::find(self, &mut rows, evidence, |members| {
            let functions = members.iter().map(|&row| &self.functions()[row]);
            let merged = sums.item(self, &functions.collect::<Vec<_>>(), true);
            let is_other = |position: usize| tested.get(position).is_none_or(|row| !members.contains(row));
            let others = items.iter().enumerate().filter(|&(position, _)| is_other(position));
            let family: Vec<Item> = others.map(|(_, item)| item.clone()).chain([merged]).collect();
            compare(&family, runs)?.items.last().copied()
        });
        // Those that changed first, by the size of the difference; the others by their weight.
        let order = |row: &Row| match row.verdict {
            Verdict::Unchanged => (false, row.means[BEFORE].max(row.means[AFTER])),
            _ => (true, row.difference.abs()),
        };
        rows.sort_by(|one, other| {
            let ((changed, size), (other_changed, other_size)) = (order(one), order(other));
            let by_size = other_size.total_cmp(&size);
            other_changed.cmp(&changed).then(by_size).then(one.frame.cmp(&other.frame))
        });
        let changed = rows.iter().filter(|row| row.verdict != Verdict::Unchanged).count();
        let paths = match evidence {
            // Nothing is said of too few runs, only counted.
            Evidence::TooFewRuns => Vec::new(),
            // The intervals of paths are those of counting, so among runs they only explain functions that changed.
            Evidence::Runs => paths::explaining(self, &rows[..changed], changed, factor, 0.0, &sums),
            Evidence::SingleRecordings => {
                let error = totals.first().and_then(|total| total.estimate).map_or(0.0, |total| total.error);
                paths::explaining(self, &rows, changed, factor, error, &sums)
            }
        };
        Assessment { evidence, totals, factor, rows, changed, moves, paths }
    }

    /// Returns the totals. Weight, wall time and everything else are tested together.
    fn totals(&self, experiment: &Experiment, scale: Option<Item>, runs: [usize; 2]) -> Vec<Total> {
        let by_run = |value: fn(&RunTotal) -> f64| {
            [BEFORE, AFTER].map(|side| self.runs(side).iter().map(value).collect::<Vec<f64>>())
        };
        let exact = |sides: &[Vec<f64>; 2], is_tested: bool| Item {
            sides: sides.each_ref().map(|side| side.iter().copied().map(Observation::exact).collect()),
            is_tested,
        };
        let counted = |run: &RunTotal| Observation::of_samples(run.samples as f64, run.mean_weight());
        let counted = [BEFORE, AFTER].map(|side| self.runs(side).iter().map(counted).collect());
        let (weights, samples) = (by_run(|run| run.weight as f64), by_run(|run| run.samples as f64));
        let mut totals = vec![
            (TotalKind::Weight, Some(weights), Item { sides: counted, is_tested: true }),
            (TotalKind::Samples, Some(samples.clone()), exact(&samples, false)),
        ];
        let is_known = |sides: &[Vec<f64>; 2]| sides.each_ref().map(Vec::len) == runs;
        if is_known(&experiment.wall) {
            // Exact figures are counts: fractions of seconds would all be taken for none.
            let nanoseconds =
                experiment.wall.each_ref().map(|side| side.iter().map(|wall| wall * 1e9).collect());
            totals.push((TotalKind::Wall, Some(experiment.wall.clone()), exact(&nanoseconds, true)));
        }
        totals.extend(scale.map(|scale| (TotalKind::EverythingElse, None, scale)));
        let counts = experiment.counts.iter().filter(|(_, counts)| is_known(counts));
        totals.extend(counts.map(|(event, counts)| {
            (TotalKind::Count(event.clone()), Some(counts.clone()), exact(counts, false))
        }));
        let items: Vec<Item> = totals.iter().map(|(.., item)| item.clone()).collect();
        let estimates = compare_totals(&items, runs).unwrap_or_default();
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let totals = totals.into_iter().enumerate().map(|(index, (kind, values, _))| {
            let has_interval = match kind {
                TotalKind::Weight | TotalKind::EverythingElse => true,
                // One figure on each side has no interval.
                TotalKind::Wall | TotalKind::Count(_) => runs != [1, 1],
                TotalKind::Samples => false,
            };
            let estimate = estimates.get(index).copied().filter(|_| has_interval);
            Total { kind, means: values.map(|sides| sides.map(mean)), estimate }
        });
        totals.collect()
    }
}

fn verdict(row: &Row, evidence: Evidence) -> Verdict {
    let differs = |estimate: &Estimate| match evidence {
        Evidence::Runs => estimate.is_marked(),
        Evidence::TooFewRuns => false,
        Evidence::SingleRecordings => estimate.log_ratio.abs() > estimate.half_width,
    };
    match row.estimate.filter(|estimate| row.share >= MIN_MARKED_SHARE && differs(estimate)) {
        Some(estimate) if estimate.log_ratio > 0.0 => Verdict::Grown,
        Some(_) => Verdict::Shrunk,
        None => Verdict::Unchanged,
    }
}

impl Assessment {
    /// Returns what grew by more than the threshold, a share (0.03 for 3 per cent): functions that hold half a per cent and differ at
    /// the level, unless `is_ignored`; the sum of what moved, instead of its functions; and totals but wall time. Nothing without enough
    /// runs.
    pub fn exceeding(&self, threshold: f64, is_ignored: impl Fn(FrameId) -> bool) -> Vec<Exceeding> {
        if self.evidence != Evidence::Runs {
            return Vec::new();
        }
        let least = (1.0 + threshold).ln();
        let exceeds = |estimate: &Option<Estimate>| {
            estimate.is_some_and(|estimate| estimate.is_marked() && estimate.log_ratio > least)
        };
        let rows = self.rows.iter().enumerate().filter(|(_, row)| {
            row.verdict == Verdict::Grown && exceeds(&row.estimate) && !is_ignored(row.frame)
        });
        let moves = self.moves.iter().enumerate().filter(|(_, moved)| {
            exceeds(&moved.estimate) && !moved.functions.iter().all(|&frame| is_ignored(frame))
        });
        // Wall time has the waits for a CPU in it, which neighbours cause.
        let totals = self.totals.iter().enumerate();
        let totals = totals.filter(|(_, total)| total.kind != TotalKind::Wall && exceeds(&total.estimate));
        let rows = rows.map(|(index, _)| Exceeding::Row(index));
        let moves = moves.map(|(index, _)| Exceeding::Move(index));
        totals.map(|(index, _)| Exceeding::Total(index)).chain(rows).chain(moves).collect()
    }

    /// The largest growth that a function of at least this share could have had without a mark, as a share: 0.02 for 2 per cent.
    /// `None` if none of them was tested.
    pub fn smallest_change(&self, least_share: f64) -> Option<f64> {
        let rows =
            self.rows.iter().filter(|row| row.share >= least_share && row.verdict == Verdict::Unchanged);
        let changes = rows.filter_map(|row| row.estimate?.smallest).map(|log| log.exp() - 1.0);
        changes.max_by(f64::total_cmp)
    }
}
