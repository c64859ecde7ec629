//! The hottest functions, each with those that call it most.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::stacks::FoldedStacks;
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
    /// Its callers, by the weight of its own samples that came through them.
    pub callers: Vec<Part<FrameId>>,
}

/// Number of functions that are shown with their callers.
const WITH_CALLERS: usize = 40;

/// Weighs all functions of the stacks. Threads and processes are none.
pub(super) fn functions(stacks: &FoldedStacks<'_>) -> Vec<HotFunction> {
    let mut sums: HashMap<FrameId, (u64, u64), FxBuildHasher> = HashMap::default();
    stacks.each(|frames, weight| {
        for &frame in frames {
            let (_, total) = sums.entry(frame).or_default();
            *total = total.saturating_add(weight);
        }
        if let Some((own, _)) = frames.last().and_then(|frame| sums.get_mut(frame)) {
            *own = own.saturating_add(weight);
        }
    });
    let is_function = |frame: FrameId| {
        let label = stacks.label(frame);
        matches!(label, Label::Function(..) | Label::Module(..) | Label::Unknown(_))
    };
    let mut functions: Vec<HotFunction> = sums
        .into_iter()
        .filter(|&(frame, (own, _))| own > 0 && is_function(frame))
        .map(|(function, (own, total))| HotFunction { function, own, total, callers: Vec::new() })
        .collect();
    functions.sort_unstable_by_key(|function| (std::cmp::Reverse(function.own), function.function));
    let mut callers: HashMap<FrameId, HashMap<FrameId, u64, FxBuildHasher>, FxBuildHasher> =
        functions.iter().take(WITH_CALLERS).map(|hot| (hot.function, HashMap::default())).collect();
    stacks.each(|frames, weight| {
        if let [.., caller, function] = frames
            && let Some(callers) = callers.get_mut(function)
        {
            let sum = callers.entry(*caller).or_default();
            *sum = sum.saturating_add(weight);
        }
    });
    for hot in &mut functions {
        hot.callers = callers.remove(&hot.function).map_or_else(Vec::new, sorted);
    }
    functions
}
