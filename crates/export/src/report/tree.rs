//! The lines of a call tree: selects and sorts them, and sums up what is omitted.

use std::cmp::Reverse;

use profile::queries::{CallTree, NodeId, Weights};

use super::function_match::ChosenFunctions;
use super::shares::share;
use super::{Options, keys};

/// The root and the direction of a tree.
pub(super) enum Direction {
    /// From the outermost functions on.
    Roots,
    /// From the innermost functions on, to their callers.
    Leaves,
    /// From functions to their callers.
    Callers(ChosenFunctions),
    /// From functions to what they call.
    Callees(ChosenFunctions),
}

/// A tree as lines.
pub(super) struct Tree {
    pub(super) lines: Vec<Line>,
    /// The calls at the top that were omitted.
    pub(super) omitted: Omitted,
    /// The total of each event, which is 100 %.
    pub(super) totals: Vec<u64>,
}

/// A line of the tree, for one call.
pub(super) struct Line {
    /// The index of the line of the caller (or callee); `None` at the top.
    pub(super) parent: Option<usize>,
    /// Its depth; 0 at the top.
    pub(super) depth: usize,
    pub(super) function: String,
    pub(super) module: String,
    pub(super) line: String,
    pub(super) weights: Vec<Weights>,
    /// The number of lines directly below it.
    pub(super) children: usize,
    pub(super) omitted: Omitted,
}

/// Calls that were omitted, with their totals in each event.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Omitted {
    pub(super) calls: usize,
    pub(super) totals: Vec<u64>,
}

impl Tree {
    pub(super) fn new(calls: &CallTree, direction: Direction, options: &Options) -> Self {
        let totals = calls.totals(NodeId::ROOT).to_vec();
        let min_share = options.min_share();
        let is_shown = |weights: &[u64]| {
            weights
                .iter()
                .zip(&totals)
                .any(|(&weight, &total)| weight > 0 && share(weight, total) >= min_share)
        };
        let asks_for_functions = matches!(direction, Direction::Callers(_) | Direction::Callees(_));
        let tree = match direction {
            Direction::Roots if options.per_thread => None,
            Direction::Roots => Some(calls.merged_threads()),
            Direction::Leaves => Some(calls.from_leaves(is_shown)),
            Direction::Callers(chosen) => Some(calls.callers(|frame| chosen.contains(frame), is_shown)),
            Direction::Callees(chosen) => Some(calls.callees(|frame| chosen.contains(frame))),
        };
        let tree = tree.as_ref().unwrap_or(calls);
        let mut shown = Self { lines: Vec::new(), omitted: Omitted::default(), totals: totals.clone() };
        let most = options.most_rows();
        // The nodes that are still to be visited, the next one last.
        let mut rest: Vec<(NodeId, Option<usize>)> = Vec::new();
        let mut at = (NodeId::ROOT, None);
        loop {
            let (node, line) = at;
            // The functions of the query are shown, however little they weigh.
            let is_asked_for = asks_for_functions && node == NodeId::ROOT;
            let (mut children, left): (Vec<NodeId>, Vec<NodeId>) =
                tree.children(node).partition(|&child| is_asked_for || is_shown(tree.totals(child)));
            for child in left {
                shown.omit(tree, child, line);
            }
            children.sort_by_key(|&child| (Reverse(tree.totals(child)), tree.frame(child)));
            rest.extend(children.into_iter().rev().map(|child| (child, line)));
            let Some((node, parent)) = rest.pop() else { break };
            if shown.lines.len() >= most {
                shown.omit(tree, node, parent);
                for (node, parent) in rest.drain(..).rev() {
                    shown.omit(tree, node, parent);
                }
                break;
            }
            shown.push(tree, node, parent);
            at = (node, Some(shown.lines.len() - 1));
        }
        shown
    }

    fn push(&mut self, tree: &CallTree, node: NodeId, parent: Option<usize>) {
        let Some(frame) = tree.frame(node).and_then(|frame| tree.frames().get(frame.index())) else { return };
        let weights = tree.self_weights(node).iter().zip(tree.totals(node));
        let depth = parent.and_then(|parent| self.lines.get(parent)).map_or(0, |parent| parent.depth + 1);
        if let Some(parent) = parent.and_then(|parent| self.lines.get_mut(parent)) {
            parent.children += 1;
        }
        self.lines.push(Line {
            parent,
            depth,
            function: keys::function(frame),
            module: keys::module(frame),
            line: keys::line(frame),
            weights: weights.map(|(&self_weight, &total)| Weights { self_weight, total }).collect(),
            children: 0,
            omitted: Omitted::default(),
        });
    }

    fn omit(&mut self, tree: &CallTree, node: NodeId, parent: Option<usize>) {
        let omitted = match parent.and_then(|parent| self.lines.get_mut(parent)) {
            Some(parent) => &mut parent.omitted,
            None => &mut self.omitted,
        };
        omitted.calls += 1;
        let totals = tree.totals(node);
        omitted.totals.resize(totals.len(), 0);
        omitted.totals.iter_mut().zip(totals).for_each(|(sum, &total)| *sum = sum.saturating_add(total));
    }
}
