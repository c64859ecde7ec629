//! Moves: weight that one function lost to its callers, callees or siblings, as when a compiler inlines or splits them.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Comparison;
use super::row::{Evidence, Presence, Row, Verdict};
use super::statistics::Estimate;
use crate::FrameId;

/// Distance from no change, in standard errors, from which a function is believed to have lost what another gained. One in 90
/// unchanged functions is so far off, in the right direction.
const MIN_DISTANCE: f64 = 2.3;

/// Share of what the functions of a group gained that they must have lost, or the other way round, to be called a move.
const BALANCE: f64 = 0.5;

/// Functions among which weight moved.
#[derive(Clone, PartialEq, Debug)]
pub struct Move {
    /// The functions, in the frames of the comparison's tree.
    pub functions: Vec<FrameId>,
    /// The sum of what they gained and lost.
    pub difference: f64,
    /// The estimate of their sum, relative to everything else.
    pub estimate: Option<Estimate>,
}

/// Finds groups of neighbours whose gains and losses nearly balance, and gives their rows the verdict. The rows are in the order of
/// the comparison's functions; `estimate` estimates the sum of some of them.
pub(super) fn find(
    comparison: &Comparison,
    rows: &mut [Row],
    evidence: Evidence,
    estimate: impl Fn(&[usize]) -> Option<Estimate>,
) -> Vec<Move> {
    if evidence == Evidence::TooFewRuns {
        return Vec::new();
    }
    let candidates: Vec<usize> = (0..rows.len())
        .filter(|&row| {
            let row = &rows[row];
            row.estimate.is_some_and(|estimate| estimate.distance.abs() >= MIN_DISTANCE)
        })
        .collect();
    let callers = callers(comparison, rows, &candidates);
    let mut group_of: HashMap<usize, usize> = HashMap::new();
    let is_seed = |row: &Row| row.verdict != Verdict::Unchanged || row.presence != Presence::Both;
    for &seed in candidates.iter().filter(|&&row| is_seed(&rows[row])) {
        for &other in &candidates {
            let is_opposite = rows[seed].difference * rows[other].difference < 0.0;
            if is_opposite && are_neighbours(seed, other, rows, &callers) {
                let own = *group_of.entry(seed).or_insert(seed);
                let group = *group_of.entry(other).or_insert(other);
                group_of.values_mut().filter(|value| **value == group).for_each(|value| *value = own);
            }
        }
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (row, group) in group_of {
        groups.entry(group).or_default().push(row);
    }
    let mut moves = Vec::new();
    for mut members in groups.into_values() {
        members.sort_unstable();
        let differences = || members.iter().map(|&row| rows[row].difference);
        let gained: f64 = differences().filter(|difference| *difference > 0.0).sum();
        let lost: f64 = differences().filter(|difference| *difference < 0.0).map(f64::abs).sum();
        if gained.min(lost) < BALANCE * gained.max(lost) {
            continue;
        }
        let (difference, estimate) = (differences().sum(), estimate(&members));
        for &row in &members {
            rows[row].verdict = Verdict::Moved(moves.len());
        }
        let functions = members.iter().map(|&row| rows[row].frame).collect();
        moves.push(Move { functions, difference, estimate });
    }
    moves
}

/// The callers of each candidate, by its row.
fn callers(comparison: &Comparison, rows: &[Row], candidates: &[usize]) -> HashMap<usize, HashSet<FrameId>> {
    let of_frame: HashMap<FrameId, usize> = candidates.iter().map(|&row| (rows[row].frame, row)).collect();
    let tree = comparison.tree();
    let mut callers: HashMap<usize, HashSet<FrameId>> = HashMap::new();
    for node in tree.nodes() {
        let row = tree.frame(node).and_then(|frame| of_frame.get(&frame));
        if let (Some(&row), Some(caller)) = (row, tree.frame(tree.parent(node))) {
            callers.entry(row).or_default().insert(caller);
        }
    }
    callers
}

/// Returns true if one calls the other, or both have a caller in common.
fn are_neighbours(
    one: usize,
    other: usize,
    rows: &[Row],
    callers: &HashMap<usize, HashSet<FrameId>>,
) -> bool {
    let calls = |caller: usize, callee: usize| {
        callers.get(&callee).is_some_and(|callers| callers.contains(&rows[caller].frame))
    };
    let are_siblings = || match (callers.get(&one), callers.get(&other)) {
        (Some(callers), Some(others)) => callers.intersection(others).next().is_some(),
        _ => false,
    };
    one != other && (calls(one, other) || calls(other, one) || are_siblings())
}
