//! The few paths that make up most of the time.
//!
//! The call tree of the program's own functions is followed from its threads. A function that divides its time among a few callees
//! is passed, and each of them is followed; one whose time is spread over many, or spent in itself, is a cause. Where many ways
//! meet again in one function, that function is followed in their place.

use std::cmp::Reverse;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::call_tree::{CallTree, Node, Nodes, ROOT};
use super::{Part, sorted};
use crate::FrameId;

/// A callee with this share of its caller's time makes the caller a wrapper.
const WRAPPED: f64 = 0.85;
/// Callees that are followed have this share of their caller's time together; with less, the caller is the cause.
const DIVIDED: f64 = 0.6;
/// A callee is followed by itself with at least this share of the whole.
const LEAST_BRANCH: f64 = 0.04;
/// A function is followed in any case with at least this share of the whole, by whatever ways it is called.
const LARGE: f64 = 0.1;
/// As many ways are few: each is told by itself, also where they meet again.
const FEW: usize = 4;
/// A cause has at least this share of the whole.
const LEAST_CAUSE: f64 = 0.02;

/// A function on the path to a cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Step {
    /// The function; at the beginning the thread.
    pub frame: FrameId,
    /// True if the path is another one without it: the time divides at it or right before it, or it is the cause, or it is the last
    /// function of the program's own.
    pub stands: bool,
    /// The number of ways that lead to it from the step before it, where these are too many to be told; 0 if that calls it.
    pub ways: usize,
}

/// A path that much of the time is spent on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// The thread, the program's own functions from the outermost to the cause, and what the cause calls if that is one function.
    pub path: Vec<Step>,
    /// Its weight; of causes that were found further inside, it has no part.
    pub weight: u64,
    /// True if causes further inside were taken out.
    pub is_rest: bool,
    /// The functions that its samples were taken in, heaviest first.
    pub inside: Vec<Part<FrameId>>,
}

/// A node that is still to be looked at, and the path to it.
struct Open {
    node: usize,
    path: Vec<Step>,
}

/// Finds the causes.
pub(super) fn causes(tree: &mut CallTree) -> Vec<Cause> {
    let whole = tree.node(ROOT).total as f64;
    let mut causes = Vec::new();
    let mut open = vec![Open { node: ROOT, path: Vec::new() }];
    while let Some(Open { node, path }) = open.pop() {
        let Branches { followed, met } = branches(tree, node, whole);
        let is_wrapper = wrapped(tree, node).is_some();
        let stands = |path: &[Step]| {
            let mut path = path.to_vec();
            if let Some(last) = path.last_mut() {
                last.stands = true;
            }
            path
        };
        let without: Nodes = followed.iter().chain(met.iter().flatten()).copied().collect();
        let inside_weight: u64 = without.iter().map(|&node| tree.node(node).total).sum();
        let weight = tree.node(node).total.saturating_sub(inside_weight);
        if node != ROOT && weight as f64 >= LEAST_CAUSE * whole {
            let inside = inside(tree, node, &without);
            causes.push(Cause { path: stands(&path), weight, is_rest: !without.is_empty(), inside });
        }
        for (number, &callee) in followed.iter().enumerate() {
            let Node { frame, is_called, .. } = *tree.node(callee);
            let divides = node == ROOT || !(is_wrapper && number == 0);
            let mut path = if divides || is_called { stands(&path) } else { path.clone() };
            path.push(Step { frame, stands: divides, ways: 0 });
            open.push(Open { node: callee, path });
        }
        for nodes in met {
            let mut path = stands(&path);
            let (frame, ways) = (tree.node(nodes[0]).frame, nodes.len());
            path.push(Step { frame, stands: true, ways });
            open.push(Open { node: tree.join(nodes), path });
        }
    }
    causes.sort_unstable_by(|one, other| (other.weight, &one.path).cmp(&(one.weight, &other.path)));
    causes
}

/// Returns the callee that a node hands nearly all of its time to.
fn wrapped(tree: &CallTree, node: usize) -> Option<usize> {
    let Node { total, callees, .. } = tree.node(node);
    let heaviest = callees.first().copied()?;
    (tree.node(heaviest).total as f64 >= WRAPPED * *total as f64).then_some(heaviest)
}

/// Where to go on from a node.
struct Branches {
    /// The callees that are followed by themselves, heaviest first.
    followed: Vec<usize>,
    /// The functions below others in which many ways meet again, each with its nodes.
    met: Vec<Vec<usize>>,
}

fn branches(tree: &CallTree, node: usize, whole: f64) -> Branches {
    let Node { total, callees, .. } = tree.node(node);
    let total_of = |callee: usize| tree.node(callee).total as f64;
    let heavier = |share: f64, leading: &Nodes| -> Vec<usize> {
        let is_followed = |callee: &usize| total_of(*callee) >= share * whole && !leading.contains(callee);
        callees.iter().copied().filter(is_followed).collect()
    };
    let divides = |among: &[usize]| {
        among.iter().map(|&callee| total_of(callee)).sum::<f64>() >= DIVIDED * *total as f64
    };
    let mut followed = heavier(LEAST_BRANCH, &Nodes::default());
    if node == ROOT {
        return Branches { followed, met: Vec::new() };
    }
    if let Some(callee) = wrapped(tree, node)
        && followed.is_empty()
    {
        followed.push(callee);
    }
    if divides(&followed[..followed.len().min(FEW)]) {
        let without = followed.iter().copied().collect();
        let (met, _) = met_again(tree, node, without, whole);
        return Branches { followed, met };
    }
    let (met, leading) = met_again(tree, node, Nodes::default(), whole);
    let branches = heavier(LEAST_BRANCH, &leading);
    let followed = if divides(&branches) { branches } else { heavier(LARGE, &leading) };
    Branches { followed, met }
}

/// Returns the functions below a node, but for the parts below `without`, in which many ways meet again: those of the program's own
/// first, and of several on the same ways the outermost one; also the nodes on the ways to them, with their own.
fn met_again(tree: &CallTree, node: usize, mut without: Nodes, whole: f64) -> (Vec<Vec<usize>>, Nodes) {
    let mut leading = Nodes::default();
    let mut found = Vec::new();
    loop {
        let mut nodes: HashMap<(FrameId, bool), (u64, Vec<usize>), FxBuildHasher> = HashMap::default();
        // What leads to one that was found has no time of its own to be told by another name.
        let is_told = |below: &usize| *below != node && !leading.contains(below);
        for below in tree.below(node, &without).into_iter().filter(is_told) {
            let Node { frame, is_called, total, .. } = tree.node(below);
            let (sum, nodes) = nodes.entry((*frame, *is_called)).or_default();
            *sum = sum.saturating_add(*total);
            nodes.push(below);
        }
        let is_large = |(sum, nodes): &(u64, Vec<usize>)| nodes.len() > FEW && *sum as f64 >= LARGE * whole;
        let depth = |mut node: usize| {
            let mut depth = 0_usize;
            while node != ROOT {
                (node, depth) = (tree.node(node).caller, depth + 1);
            }
            depth
        };
        let large = nodes.into_iter().filter(|(_, found)| is_large(found));
        let first = large.min_by_key(|((frame, is_called), (sum, nodes))| {
            (*is_called, Reverse(*sum), nodes.iter().map(|&node| depth(node)).min(), *frame)
        });
        let Some((_, (_, nodes))) = first else { return (found, leading) };
        without.extend(&nodes);
        for &met in &nodes {
            let mut at = met;
            while at != node && leading.insert(at) {
                at = tree.node(at).caller;
            }
        }
        found.push(nodes);
    }
}

/// Weighs the functions that samples below `node` were taken in, without the parts below `without`.
fn inside(tree: &CallTree, node: usize, without: &Nodes) -> Vec<Part<FrameId>> {
    let mut sums: HashMap<FrameId, u64, FxBuildHasher> = HashMap::default();
    for end in tree.below(node, without).into_iter().flat_map(|node| &tree.node(node).ends) {
        let sum = sums.entry(end.what).or_default();
        *sum = sum.saturating_add(end.weight);
    }
    sorted(sums)
}
