//! What the stacks of a scope weigh: each way of frames once, and callers with all that they called.

use super::Scope;
use crate::snapshot::{Branch, Snapshot};

/// Weights by branch.
pub(crate) struct Weights<'a> {
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    /// Of the stacks that end with a branch, and of those that begin with it.
    weights: Vec<(u64, u64)>,
}

/// A branch that weighs something.
#[derive(Clone, Copy)]
pub(crate) struct Weighed<'a> {
    /// Its number.
    pub(crate) number: usize,
    /// The branch.
    pub(crate) branch: &'a Branch,
    /// True if its frame is not hidden.
    pub(crate) is_shown: bool,
    /// Of the stacks that end here.
    pub(crate) own: u64,
    /// Of those that begin with it.
    pub(crate) total: u64,
}

impl<'a> Weights<'a> {
    /// Weighs the stacks of a scope.
    pub(crate) fn new(snapshot: &'a Snapshot, scope: &'a Scope) -> Self {
        let mut weights = vec![(0, 0); snapshot.branches.len()];
        for stack in scope.stacks(snapshot) {
            if let Some((own, total)) = weights.get_mut(stack.branch as usize) {
                *own += stack.weight;
                *total += stack.weight;
            }
        }
        // Callers come first.
        for number in (1..weights.len()).rev() {
            let ((_, weight), caller) = (weights[number], snapshot.branches[number].caller);
            if let Some((_, total)) = weights.get_mut(caller as usize) {
                *total += weight;
            }
        }
        Self { snapshot, scope, weights }
    }

    /// Iterates over everything that has a weight, callers first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Weighed<'a>> {
        let all = self.snapshot.branches.iter().zip(&self.weights).enumerate().skip(1);
        all.filter_map(|(number, (branch, &(own, total)))| {
            let is_shown = self.scope.shows(branch.frame);
            (total > 0).then_some(Weighed { number, branch, is_shown, own, total })
        })
    }

    /// For each branch, by number, the innermost part of it that weighs at least so much and is not hidden; 0 for none.
    pub(crate) fn at_least(&self, least: u64) -> Vec<u32> {
        let mut parts: Vec<u32> = Vec::with_capacity(self.weights.len());
        for (number, (branch, &(_, total))) in (0..).zip(self.snapshot.branches.iter().zip(&self.weights)) {
            let outer = parts.get(branch.caller as usize).copied().unwrap_or(0);
            let counts = number != 0 && total >= least.max(1) && self.scope.shows(branch.frame);
            parts.push(if counts { number } else { outer });
        }
        parts
    }

    /// The weight of all stacks that have one of these functions, each counted once.
    pub(crate) fn of_stacks_with(&self, functions: &[bool]) -> u64 {
        let mut has = vec![false; self.weights.len()];
        let mut sum = 0_u64;
        for Weighed { number, branch, is_shown, total, .. } in self.iter() {
            let outer = has.get(branch.caller as usize) == Some(&true);
            let here = is_shown && functions.get(branch.frame.function as usize) == Some(&true);
            sum += if here && !outer { total } else { 0 };
            has[number] = outer || here;
        }
        sum
    }
}
