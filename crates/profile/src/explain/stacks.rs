//! The stacks of a view with recursion folded, as a call tree.

use hashbrown::HashMap;
use model::Name;
use rustc_hash::FxBuildHasher;

use super::{Part, sorted};
use crate::{FrameId, FrameKind, Label, StackId, ThreadId, View, ViewFrame};

/// A function called by those on the way to it.
pub(super) struct Node {
    /// The function; of no meaning in the root.
    pub(super) frame: FrameId,
    /// The node of its caller.
    caller: usize,
    /// Weight of the samples taken in it.
    pub(super) own: u64,
    /// The weight with its callees.
    pub(super) total: u64,
    /// Its callees, heaviest first.
    pub(super) callees: Vec<usize>,
}

/// All stacks of a view: first the thread's frame, then functions, outermost first, each once.
pub(super) struct FoldedStacks<'v> {
    frames: &'v [ViewFrame],
    nodes: Vec<Node>,
    /// The innermost function of each thread's stack.
    innermost: HashMap<(ThreadId, StackId), FrameId, FxBuildHasher>,
    /// Weight of samples taken in the kernel.
    pub(super) in_kernel: u64,
    /// Weight of samples taken in generated code.
    pub(super) in_generated_code: u64,
    /// Weight of samples whose stack ends early.
    pub(super) truncated: u64,
}

/// The node of the whole.
pub(super) const ROOT: usize = 0;

/// The kind of code that a stack was sampled in, and whether it is truncated.
#[derive(Default)]
struct Traits {
    in_kernel: bool,
    in_generated_code: bool,
    is_truncated: bool,
}

impl<'v> FoldedStacks<'v> {
    pub(super) fn new(view: &'v View<'_>) -> Self {
        let frames = view.frames().frames();
        // Inlined or not, a function is one.
        let mut by_label: HashMap<&Label, FrameId> = HashMap::new();
        let mut ids = Vec::with_capacity(frames.len());
        for (index, frame) in frames.iter().enumerate() {
            ids.push(*by_label.entry(&frame.label).or_insert(FrameId::from_index(index)));
        }
        let root = Node { frame: FrameId::default(), caller: ROOT, own: 0, total: 0, callees: Vec::new() };
        let mut stacks = Self {
            frames,
            nodes: vec![root],
            innermost: HashMap::default(),
            in_kernel: 0,
            in_generated_code: 0,
            truncated: 0,
        };
        let mut folding = Folding { places: vec![0; frames.len()], folded: Vec::new() };
        let mut growing = Growing::default();
        let mut stack_frames = Vec::new();
        let mut counts: Vec<_> = view.profile().counts().collect();
        counts.sort_unstable_by_key(|&(thread, stack, _)| (thread, stack));
        for (thread, stack, count) in counts {
            let weight = count.weight(view.weight());
            if weight == 0 {
                continue;
            }
            stack_frames.clear();
            view.stack(thread, stack, &mut stack_frames);
            if stack_frames.is_empty() {
                // Filters leave it out.
                continue;
            }
            let traits = folding.fold(&stack_frames, frames, &ids);
            for (is, sum) in [
                (traits.in_kernel, &mut stacks.in_kernel),
                (!traits.in_kernel && traits.in_generated_code, &mut stacks.in_generated_code),
                (traits.is_truncated, &mut stacks.truncated),
            ] {
                *sum = sum.saturating_add(if is { weight } else { 0 });
            }
            if let Some(&innermost) = folding.folded.last() {
                stacks.innermost.insert((thread, stack), innermost);
            }
            stacks.push(&folding.folded, weight, &mut growing);
        }
        stacks.add_up();
        stacks.sort();
        stacks
    }

    fn push(&mut self, folded: &[FrameId], weight: u64, growing: &mut Growing) {
        let Growing { known, path } = growing;
        let shared = path.iter().zip(folded).take_while(|((frame, _), other)| frame == *other).count();
        path.truncate(shared);
        let nodes = &mut self.nodes;
        for &frame in &folded[shared..] {
            let at = path.last().map_or(ROOT, |&(_, node)| node);
            let next = *known.entry((at, frame)).or_insert(nodes.len());
            if next == nodes.len() {
                nodes.push(Node { frame, caller: at, own: 0, total: 0, callees: Vec::new() });
                nodes[at].callees.push(next);
            }
            path.push((frame, next));
        }
        let own = &mut nodes[path.last().map_or(ROOT, |&(_, node)| node)].own;
        *own = own.saturating_add(weight);
    }

    /// Sums up weights from the callees to their callers, which come before them.
    fn add_up(&mut self) {
        for index in (0..self.nodes.len()).rev() {
            let Node { own, total, caller, .. } = &mut self.nodes[index];
            *total = total.saturating_add(*own);
            let (total, caller) = (*total, *caller);
            if index != ROOT {
                let callers = &mut self.nodes[caller].total;
                *callers = callers.saturating_add(total);
            }
        }
    }

    fn sort(&mut self) {
        for index in 0..self.nodes.len() {
            let mut callees = std::mem::take(&mut self.nodes[index].callees);
            let nodes = &self.nodes;
            callees.sort_unstable_by_key(|&callee| {
                (std::cmp::Reverse(nodes[callee].total), nodes[callee].frame)
            });
            self.nodes[index].callees = callees;
        }
    }

    /// Calls `stack` for each stack that samples have: its frames, outermost first, and their weight.
    pub(super) fn each(&self, mut stack: impl FnMut(&[FrameId], u64)) {
        let mut frames = Vec::new();
        for (index, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.own > 0) {
            frames.clear();
            let mut at = index;
            while at != ROOT {
                frames.push(self.nodes[at].frame);
                at = self.nodes[at].caller;
            }
            frames.reverse();
            stack(&frames, node.own);
        }
    }

    /// Returns a node of the call tree; its callees are nodes, too.
    pub(super) fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// Returns the weight of all stacks.
    pub(super) fn total(&self) -> u64 {
        self.nodes[ROOT].total
    }

    /// Returns true if a function runs in the kernel.
    pub(super) fn is_in_kernel(&self, frame: FrameId) -> bool {
        self.frames[frame.index()].kind == FrameKind::Kernel
    }

    /// Returns what a frame is called.
    pub(super) fn label(&self, frame: FrameId) -> &'v Label {
        &self.frames[frame.index()].label
    }

    /// Returns the innermost function of a thread's stack.
    pub(super) fn innermost(&self, thread: ThreadId, stack: StackId) -> Option<FrameId> {
        self.innermost.get(&(thread, stack)).copied()
    }

    /// Weighs the first frames of stacks: threads by name.
    pub(super) fn threads(&self) -> Vec<Part<FrameId>> {
        let callees = self.nodes[ROOT].callees.iter();
        callees.map(|&node| Part { what: self.nodes[node].frame, weight: self.nodes[node].total }).collect()
    }

    /// Weighs the modules that samples were taken in.
    pub(super) fn modules(&self) -> Vec<Part<Option<Name>>> {
        let mut modules: HashMap<Option<Name>, u64> = HashMap::new();
        for node in self.nodes.iter().skip(1).filter(|node| node.own > 0) {
            // Where a thread waits, its function did not run, but is where it is.
            let frame = match self.label(node.frame) {
                Label::State(_) => self.nodes.get(node.caller).map_or(node.frame, |caller| caller.frame),
                _ => node.frame,
            };
            let module = match self.label(frame) {
                Label::Function(_, module) => module.clone(),
                Label::Module(module, _) => Some(module.clone()),
                _ => None,
            };
            let sum = modules.entry(module).or_default();
            *sum = sum.saturating_add(node.own);
        }
        sorted(modules)
    }
}

/// The tree's nodes by caller and function, while it grows.
#[derive(Default)]
struct Growing {
    known: HashMap<(usize, FrameId), usize, FxBuildHasher>,
    /// The functions of the last stack, outermost first, with their nodes: the next one shares most of them.
    path: Vec<(FrameId, usize)>,
}

/// Folds one stack after the other.
struct Folding {
    /// The position in the stack at which each frame was put last.
    places: Vec<usize>,
    folded: Vec<FrameId>,
}

impl Folding {
    /// Leaves the stack in `folded`: a function that is on it twice stands where it was first, and what lay between is gone.
    fn fold(&mut self, stack: &[FrameId], frames: &[ViewFrame], ids: &[FrameId]) -> Traits {
        self.folded.clear();
        let mut traits = Traits::default();
        for frame in stack {
            let ViewFrame { label, kind, .. } = &frames[frame.index()];
            match kind {
                FrameKind::Kernel => (traits.in_kernel, traits.in_generated_code) = (true, false),
                FrameKind::Jit => traits.in_generated_code = true,
                FrameKind::User => traits.in_generated_code = false,
                FrameKind::Inlined => {}
            }
            if let Label::Truncated(_) = label {
                traits.is_truncated = true;
                continue;
            }
            let frame = ids[frame.index()];
            let place = self.places[frame.index()];
            if self.folded.get(place) == Some(&frame) {
                self.folded.truncate(place + 1);
            } else {
                self.places[frame.index()] = self.folded.len();
                self.folded.push(frame);
            }
        }
        traits
    }
}
