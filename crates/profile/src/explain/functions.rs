//! The hottest functions, each with those of the program's own that call it most.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::call_tree::ROOT;
use super::stacks::Stacks;
use super::{Part, sorted};
use crate::{FrameId, Label};

/// A function, and who calls it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotFunction {
    /// The function.
    pub function: FrameId,
    /// Weight of the samples taken in it.
    pub own: u64,
    /// Weight of the samples with it on their stack.
    pub total: u64,
    /// The nearest of its callers that are the program's own functions, by the weight of its own samples that came through them; a
    /// thread where there is none.
    pub callers: Vec<Part<FrameId>>,
}

/// Weighs all functions that samples were taken in. Threads and processes are none.
pub(super) fn functions(stacks: &Stacks<'_>) -> Vec<HotFunction> {
    let is_function = |frame: FrameId| {
        let label = stacks.label(frame);
        matches!(label, Label::Function(..) | Label::Module(..) | Label::Unknown(_))
    };
    let mut callers: HashMap<FrameId, HashMap<FrameId, u64, FxBuildHasher>, FxBuildHasher> =
        HashMap::default();
    for node in stacks.tree.nodes() {
        for end in node.ends.iter().filter(|end| is_function(end.what)) {
            let mut caller = if node.frame == end.what || node.is_called { node.caller } else { continue };
            while caller != ROOT && stacks.tree.node(caller).is_called {
                caller = stacks.tree.node(caller).caller;
            }
            let sums = callers.entry(end.what).or_default();
            let sum = sums.entry(stacks.tree.node(caller).frame).or_default();
            *sum = sum.saturating_add(end.weight);
        }
    }
    let mut functions: Vec<HotFunction> = callers
        .into_iter()
        .map(|(function, callers)| {
            let own = callers.values().fold(0, |sum: u64, weight| sum.saturating_add(*weight));
            HotFunction { function, own, total: stacks.total_of(function), callers: sorted(callers) }
        })
        .collect();
    functions.sort_unstable_by_key(|function| (std::cmp::Reverse(function.own), function.function));
    functions
}
