//! What changed between the sides, function by function, and how sure that is.

use super::moved::{self, Move};
use super::paths::{self, PathChange};
use super::row::{Evidence, MIN_MARKED_SHARE, Row, Verdict};
use super::statistics::{Design, Estimate, Family, Item, Observation, compare, compare_totals, needed_runs};
use super::sums::Sums;
use super::{AFTER, BEFORE, Comparison, FunctionRuns};
use crate::FrameId;

/// Distance, in standard errors, from which the difference of everything is believed of single recordings, and taken out of rows.
const SEPARATE_SCALE: f64 = 3.0;

/// The runs of a comparison, as far as recordings do not tell.
#[derive(Clone, Debug, Default)]
pub struct Experiment {
    /// The way in which runs belong together; `None` for single recordings or slices of one.
    pub design: Option<Design>,
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
        let runs = [self.runs(BEFORE).len(), self.runs(AFTER).len()];
        let design = experiment.design.unwrap_or(Design::Groups);
        // Counting is all that a single recording says, whichever way.
        let design = if runs == [1, 1] { Design::Pairs } else { design };
        let few = |needed: usize| runs.iter().any(|&runs| runs < needed);
        let evidence = match experiment.design {
            None => Evidence::SingleRecordings,
            Some(design) if few(needed_runs(design)) => Evidence::TooFewRuns { needed: needed_runs(design) },
            Some(_) => Evidence::Runs,
        };
        let sums = Sums::of(self);
        let (tested, items) = sums.items(self);
        let family = compare(&items, design, runs);
        let mut totals = self.totals(experiment, family.as_ref(), design);
        let scale = family.as_ref().map(|family| &family.scale);
        let is_separate = match evidence {
            Evidence::Runs => totals
                .iter()
                .filter(|total| total.kind == TotalKind::EverythingElse)
                .any(|total| total.estimate.is_some_and(|estimate| estimate.is_marked())),
            _ => scale.is_some_and(|scale| scale.distance.abs() > SEPARATE_SCALE),
        };
        if experiment.has_other_rates {
            totals
                .iter_mut()
                .filter_map(|total| total.estimate.as_mut())
                .for_each(|it| it.probability = None);
        }
        let factor = scale.filter(|_| is_separate).map_or(1.0, |scale| scale.log_ratio.exp());
        let mut rows: Vec<Row> = self
            .functions()
            .iter()
            .enumerate()
            .map(|(index, function)| {
                let position = tested.binary_search(&index).ok();
                let estimate = position.and_then(|position| family.as_ref()?.items.get(position));
                sums.row(function, estimate.copied(), factor)
            })
            .collect();
        for row in &mut rows {
            row.verdict = verdict(row, evidence);
            // Smaller functions help to find the level, but are not marked.
            if let Some(estimate) = row.estimate.as_mut().filter(|_| row.share < MIN_MARKED_SHARE) {
                estimate.probability = None;
            }
        }
        let moves = moved::find(self, &mut rows, evidence, |members| {
            let members: Vec<usize> =
                members.iter().filter_map(|row| tested.binary_search(row).ok()).collect();
            merged_estimate(&items, &members, self, &sums, &tested, design, runs)
        });
        let is_changed = |row: &Row| row.verdict != Verdict::Unchanged;
        let changed = rows.iter().filter(|row| is_changed(row)).count();
        rows.sort_by(|one, other| {
            let size = |row: &Row| {
                if is_changed(row) { row.difference.abs() } else { row.means[BEFORE].max(row.means[AFTER]) }
            };
            is_changed(other)
                .cmp(&is_changed(one))
                .then(size(other).total_cmp(&size(one)))
                .then(one.frame.cmp(&other.frame))
        });
        let paths = match evidence {
            // Nothing is said of too few runs, only counted.
            Evidence::TooFewRuns { .. } => Vec::new(),
            // The intervals of paths are those of counting, so among runs they only explain functions that changed.
            Evidence::Runs => paths::explaining(self, &rows[..changed], changed, factor, 0.0, &sums),
            Evidence::SingleRecordings => {
                let error = totals.first().and_then(|total| total.estimate).map_or(0.0, |total| total.error);
                paths::explaining(self, &rows, changed, factor, error, &sums)
            }
        };
        Assessment { evidence, totals, factor, rows, changed, moves, paths }
    }

    fn totals(&self, experiment: &Experiment, family: Option<&Family>, design: Design) -> Vec<Total> {
        let runs = [self.runs(BEFORE).len(), self.runs(AFTER).len()];
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let by_run = |value: fn(&super::RunTotal) -> f64| {
            [BEFORE, AFTER].map(|side| self.runs(side).iter().map(value).collect::<Vec<f64>>())
        };
        let (weights, samples) = (by_run(|run| run.weight as f64), by_run(|run| run.samples as f64));
        let exact = |sides: &[Vec<f64>; 2]| Item {
            sides: sides.clone().map(|side| side.into_iter().map(Observation::exact).collect()),
            is_tested: true,
        };
        let counted = Item {
            sides: [BEFORE, AFTER].map(|side| {
                let run =
                    |run: &super::RunTotal| Observation::of_samples(run.samples as f64, run.mean_weight());
                self.runs(side).iter().map(run).collect()
            }),
            is_tested: true,
        };
        let has_wall = experiment.wall.iter().zip(runs).all(|(wall, runs)| wall.len() == runs);
        let mut tested = vec![(TotalKind::Weight, Some([mean(&weights[0]), mean(&weights[1])]), counted)];
        if has_wall {
            let means = [mean(&experiment.wall[0]), mean(&experiment.wall[1])];
            // Exact figures are counts: fractions of seconds would all be taken for none.
            let nanoseconds =
                experiment.wall.each_ref().map(|side| side.iter().map(|wall| wall * 1e9).collect());
            tested.push((TotalKind::Wall, Some(means), exact(&nanoseconds)));
        }
        if let Some(family) = family.filter(|family| family.in_scale.contains(&true)) {
            tested.push((TotalKind::EverythingElse, None, family.scale_item.clone()));
        }
        let items: Vec<Item> = tested.iter().map(|(_, _, item)| item.clone()).collect();
        let estimates = compare_totals(&items, design, runs).unwrap_or_default();
        let is_single = runs == [1, 1];
        let mut totals: Vec<Total> = tested
            .into_iter()
            .enumerate()
            .map(|(index, (kind, means, _))| {
                // One figure on each side has no interval.
                let estimate =
                    estimates.get(index).copied().filter(|_| !is_single || kind != TotalKind::Wall);
                Total { kind, means, estimate }
            })
            .collect();
        totals.insert(
            1,
            Total {
                kind: TotalKind::Samples,
                means: Some([mean(&samples[0]), mean(&samples[1])]),
                estimate: None,
            },
        );
        for (event, counts) in &experiment.counts {
            if counts.iter().zip(runs).any(|(counts, runs)| counts.len() != runs) {
                continue;
            }
            let item = Item { is_tested: false, ..exact(counts) };
            let estimates = compare_totals(&[item], design, runs).unwrap_or_default();
            totals.push(Total {
                kind: TotalKind::Count(event.clone()),
                means: Some([mean(&counts[0]), mean(&counts[1])]),
                estimate: estimates.first().copied().filter(|_| !is_single),
            });
        }
        totals
    }
}

fn verdict(row: &Row, evidence: Evidence) -> Verdict {
    let Some(estimate) = row.estimate else { return Verdict::Unchanged };
    let differs = match evidence {
        Evidence::Runs => estimate.is_marked() && row.share >= MIN_MARKED_SHARE,
        Evidence::TooFewRuns { .. } => false,
        Evidence::SingleRecordings => {
            estimate.log_ratio.abs() > estimate.half_width && row.share >= MIN_MARKED_SHARE
        }
    };
    match differs {
        true if estimate.log_ratio > 0.0 => Verdict::Grown,
        true => Verdict::Shrunk,
        false => Verdict::Unchanged,
    }
}

/// The estimate of several items as one, in the family of all others.
fn merged_estimate(
    items: &[Item],
    members: &[usize],
    comparison: &Comparison,
    sums: &Sums,
    tested: &[usize],
    design: Design,
    runs: [usize; 2],
) -> Option<Estimate> {
    let functions: Vec<&FunctionRuns> =
        members.iter().filter_map(|&member| comparison.functions().get(*tested.get(member)?)).collect();
    let merged = sums.item(comparison, &functions, true);
    let others = items.iter().enumerate().filter(|(index, _)| !members.contains(index));
    let others: Vec<Item> = others.map(|(_, item)| item.clone()).chain([merged]).collect();
    compare(&others, design, runs)?.items.last().copied()
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
