//! The stacks of a view as a call tree of the program's own functions, with recursion folded.

use hashbrown::HashMap;
use model::{Blocked, Name, ThreadState, TruncationReason};
use rustc_hash::FxBuildHasher;

use super::call_tree::{CallTree, Frame, Growing, ROOT};
use super::costs::CostSums;
use super::own::OwnCode;
use super::{Part, sorted};
use crate::{FrameId, FrameKind, Label, StackId, ThreadId, View, ViewFrame};

/// The stacks of a view, and the sums over them.
pub(super) struct Stacks<'v> {
    frames: &'v [ViewFrame],
    /// First the thread's frame, then the program's own functions, each once, then what the innermost of them calls.
    pub(super) tree: CallTree,
    /// Those in which an event loop was idle, which are in none of the other sums.
    pub(super) rest: CallTree,
    /// Weight of the stacks that each frame is on, by its number.
    totals: Vec<u64>,
    /// Weight of the samples taken in each frame; where a thread waited, in the frame below its state.
    taken_in: HashMap<FrameId, u64, FxBuildHasher>,
    /// Kinds of work.
    pub(super) costs: CostSums<'v>,
    /// Weight of samples taken in the kernel.
    pub(super) in_kernel: u64,
    /// Weight of samples taken in generated code.
    pub(super) in_generated_code: u64,
    /// Weight of samples whose stack ends early, by the reason.
    pub(super) truncated: HashMap<TruncationReason, u64, FxBuildHasher>,
}

/// The kind of code that a stack was sampled in, and why it is truncated.
#[derive(Default)]
struct Traits {
    in_kernel: bool,
    in_generated_code: bool,
    truncated: Option<TruncationReason>,
}

impl<'v> Stacks<'v> {
    /// Reads the stacks of a view; `is_users` tells whether a module is the user's own code.
    pub(super) fn new(view: &'v View<'_>, is_users: &dyn Fn(&str) -> bool) -> Self {
        let frames = view.frames().frames();
        let functions = Functions::new(view);
        let own = OwnCode::new(frames, is_users);
        let (mut growing, mut resting) = (Growing::new(), Growing::new());
        let mut folding = Folding { places: vec![0; frames.len()], folded: Vec::new() };
        let mut seen_in = vec![usize::MAX; frames.len()];
        let mut stacks = Self {
            frames,
            tree: Growing::new().finish(),
            rest: Growing::new().finish(),
            totals: vec![0; frames.len()],
            taken_in: HashMap::default(),
            costs: CostSums::new(frames),
            in_kernel: 0,
            in_generated_code: 0,
            truncated: HashMap::default(),
        };
        let (mut number, mut stack) = (0, Vec::new());
        view.tree(0.0).rows(|row, weight, _| {
            number += 1;
            let traits = traits(row, frames);
            stack.clear();
            // What starts a thread says nothing of it.
            let is_said = |frame: &&FrameId| {
                view.start != Some(**frame) && !matches!(frames[frame.index()].label, Label::Truncated(_))
            };
            let shown = row.iter().filter(is_said);
            stack.extend(shown.map(|&frame| functions.of(frame)));
            let Some(&innermost) = stack.last() else { return };
            folding.folded.clear();
            own.of_stack(&stack, |frame, is_called| folding.push(frame, is_called));
            if is_at_rest(&frames[innermost.index()].label) {
                return resting.push(&folding.folded, innermost, weight);
            }
            growing.push(&folding.folded, innermost, weight);
            for (is, sum) in [
                (traits.in_kernel, &mut stacks.in_kernel),
                (!traits.in_kernel && traits.in_generated_code, &mut stacks.in_generated_code),
            ] {
                *sum = sum.saturating_add(if is { weight } else { 0 });
            }
            if let Some(reason) = traits.truncated {
                let sum = stacks.truncated.entry(reason).or_default();
                *sum = sum.saturating_add(weight);
            }
            for frame in &stack {
                if std::mem::replace(&mut seen_in[frame.index()], number) != number {
                    let total = &mut stacks.totals[frame.index()];
                    *total = total.saturating_add(weight);
                }
            }
            let is_state = |frame: &&FrameId| matches!(frames[frame.index()].label, Label::State(_));
            let running = stack.iter().rev().find(|frame| !is_state(frame)).unwrap_or(&innermost);
            let taken_in = stacks.taken_in.entry(*running).or_default();
            *taken_in = taken_in.saturating_add(weight);
            if !is_state(&&innermost) {
                stacks.costs.count(&stack, weight);
            }
        });
        (stacks.tree, stacks.rest) = (growing.finish(), resting.finish());
        stacks
    }

    /// Returns the weight of all stacks.
    pub(super) fn total(&self) -> u64 {
        self.tree.node(ROOT).total
    }

    /// Returns the weight of the stacks that a frame is on.
    pub(super) fn total_of(&self, frame: FrameId) -> u64 {
        self.totals[frame.index()]
    }

    /// Returns what a frame is called.
    pub(super) fn label(&self, frame: FrameId) -> &'v Label {
        &self.frames[frame.index()].label
    }

    /// Weighs the first frames of stacks: threads by name.
    pub(super) fn threads(&self) -> Vec<Part<FrameId>> {
        let callees = self.tree.node(ROOT).callees.iter().map(|&node| self.tree.node(node));
        callees.map(|node| Part { what: node.frame, weight: node.total }).collect()
    }

    /// Weighs the modules that samples were taken in.
    pub(super) fn modules(&self) -> Vec<Part<Option<Name>>> {
        let mut modules: HashMap<Option<Name>, u64> = HashMap::new();
        for (&frame, weight) in &self.taken_in {
            let module = match self.label(frame) {
                Label::Function(_, module) => module.clone(),
                Label::Module(module, _) => Some(module.clone()),
                _ => None,
            };
            let sum = modules.entry(module).or_default();
            *sum = sum.saturating_add(*weight);
        }
        sorted(modules)
    }
}

/// Functions by their frames: inlined or not, a function is one.
pub(crate) struct Functions(Vec<FrameId>);

impl Functions {
    /// Finds the functions of a view.
    pub(crate) fn new(view: &View<'_>) -> Self {
        let mut by_label: HashMap<&Label, FrameId> = HashMap::new();
        let frames = view.frames().frames().iter().enumerate();
        let first =
            frames.map(|(index, frame)| *by_label.entry(&frame.label).or_insert(FrameId::from_index(index)));
        Self(first.collect())
    }

    /// Returns the first frame with the label of this one.
    pub(crate) fn of(&self, frame: FrameId) -> FrameId {
        self.0[frame.index()]
    }

    /// Returns the function that a sample with this stack was taken in; `None` if filters leave it out, or an event loop was idle.
    pub(super) fn innermost(&self, view: &View<'_>, thread: ThreadId, stack: StackId) -> Option<FrameId> {
        let (frame, _) = view.innermost(thread, stack)?;
        match &view.frames().frames()[frame.index()].label {
            Label::Truncated(_) => Some(view.roots(thread).1),
            label if is_at_rest(label) => None,
            _ => Some(self.of(frame)),
        }
    }
}

/// Returns true for the state of an event loop that has nothing to do.
fn is_at_rest(label: &Label) -> bool {
    matches!(label, Label::State(ThreadState::Blocked(Blocked::Events(_))))
}

/// Tells what kind of code a stack was sampled in.
fn traits(stack: &[FrameId], frames: &[ViewFrame]) -> Traits {
    let mut traits = Traits::default();
    for frame in stack {
        let ViewFrame { label, kind, .. } = &frames[frame.index()];
        match kind {
            FrameKind::Kernel => (traits.in_kernel, traits.in_generated_code) = (true, false),
            FrameKind::Jit => traits.in_generated_code = true,
            FrameKind::User => traits.in_generated_code = false,
            FrameKind::Inlined => {}
        }
        if let Label::Truncated(reason) = label {
            traits.truncated = Some(*reason);
        }
    }
    traits
}

/// Folds one stack after the other: a function that is on it twice stands where it was first, and what lay between is gone.
struct Folding {
    /// The position in the stack at which each frame was put last.
    places: Vec<usize>,
    folded: Vec<Frame>,
}

impl Folding {
    fn push(&mut self, frame: FrameId, is_called: bool) {
        let place = &mut self.places[frame.index()];
        if self.folded.get(*place) == Some(&(frame, is_called)) {
            self.folded.truncate(*place + 1);
        } else {
            *place = self.folded.len();
            self.folded.push((frame, is_called));
        }
    }
}
