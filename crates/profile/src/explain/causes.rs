//! The few paths that make up most of the time.
//!
//! The call tree is followed from its roots. A function that hands nearly all of its time to one callee is a wrapper, and is
//! passed by; one that divides it among a few is passed, too, and each of them is followed; one whose time is spread over many,
//! or spent in itself, is a cause.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::stacks::{FoldedStacks, Node, ROOT};
use super::{Part, sorted};
use crate::FrameId;

/// A callee with this share of its caller's time makes the caller a wrapper.
const WRAPPED: f64 = 0.85;
/// Callees that are followed have this share of their caller's time together; with less, the caller is the cause.
const DIVIDED: f64 = 0.6;
/// A callee is followed by itself with at least this share of the whole.
const LEAST_BRANCH: f64 = 0.04;
/// A cause has at least this share of the whole.
const LEAST_CAUSE: f64 = 0.02;

/// A path that much of the time is spent on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// The thread's frame, the functions at which the time divides, and the function that is the cause.
    pub path: Vec<FrameId>,
    /// Its weight; of causes that were found further inside, it has no part.
    pub weight: u64,
    /// True if causes further inside were taken out.
    pub is_rest: bool,
    /// The functions that its samples were taken in, heaviest first.
    pub inside: Vec<Part<FrameId>>,
}

/// Weighs the functions that samples below `node` were taken in, without the parts below `without`.
fn inside(stacks: &FoldedStacks<'_>, node: usize, without: &[usize]) -> Vec<Part<FrameId>> {
    let mut sums: HashMap<FrameId, u64, FxBuildHasher> = HashMap::default();
    let mut open = vec![node];
    while let Some(at) = open.pop() {
        let Node { frame, own, callees, .. } = stacks.node(at);
        if *own > 0 {
            let sum = sums.entry(*frame).or_default();
            *sum = sum.saturating_add(*own);
        }
        open.extend(callees.iter().filter(|callee| !without.contains(callee)));
    }
    sorted(sums)
}

/// A node that is still to be looked at, and the path to it.
struct Open {
    node: usize,
    path: Vec<FrameId>,
}

/// Finds the causes.
pub(super) fn causes(stacks: &FoldedStacks<'_>) -> Vec<Cause> {
    let whole = stacks.total() as f64;
    let total_of = |node: usize| stacks.node(node).total;
    let mut causes = Vec::new();
    let mut open = vec![Open { node: ROOT, path: Vec::new() }];
    while let Some(Open { mut node, mut path }) = open.pop() {
        // Skips wrapper functions, but never the thread.
        loop {
            let Node { total, callees, .. } = stacks.node(node);
            let heaviest = callees.first().copied();
            match heaviest {
                Some(callee) if total_of(callee) as f64 >= WRAPPED * *total as f64 => {
                    if path.is_empty() && node != ROOT {
                        path.push(stacks.node(node).frame);
                    }
                    node = callee;
                }
                _ => break,
            }
        }
        let Node { frame, total, callees, .. } = stacks.node(node);
        let branches: Vec<usize> = callees
            .iter()
            .copied()
            .filter(|&callee| total_of(callee) as f64 >= LEAST_BRANCH * whole)
            .collect();
        let divided: u64 = branches.iter().map(|&callee| total_of(callee)).sum();
        if node != ROOT {
            path.push(*frame);
        }
        let is_divided = node == ROOT || divided as f64 >= DIVIDED * *total as f64;
        let followed: &[usize] = if is_divided { &branches } else { &[] };
        let followed_weight: u64 = followed.iter().map(|&callee| total_of(callee)).sum();
        let weight = total.saturating_sub(followed_weight);
        if node != ROOT && weight as f64 >= LEAST_CAUSE * whole {
            let inside = inside(stacks, node, followed);
            causes.push(Cause { path: path.clone(), weight, is_rest: !followed.is_empty(), inside });
        }
        for &callee in followed {
            open.push(Open { node: callee, path: path.clone() });
        }
    }
    causes.sort_unstable_by(|one, other| (other.weight, &one.path).cmp(&(one.weight, &other.path)));
    causes
}
