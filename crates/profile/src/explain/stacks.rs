//! The stacks of a view with recursion folded, as a call tree.

use hashbrown::HashMap;
use model::Name;
use rustc_hash::FxBuildHasher;

use super::{Part, sorted};
use crate::{FrameId, FrameKind, Label, StackId, StackNodes, ThreadId, View, ViewFrame};

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

/// Where a stack, or its outer part, ends.
#[derive(Clone, Copy)]
struct End {
    /// The node of its innermost function.
    node: u32,
    in_kernel: bool,
    in_generated_code: bool,
    is_truncated: bool,
}

impl End {
    /// Before the first frame.
    const NOWHERE: Self =
        Self { node: ROOT as u32, in_kernel: false, in_generated_code: false, is_truncated: false };
}

impl<'v> FoldedStacks<'v> {
    pub(super) fn new(view: &'v View<'_>) -> Self {
        let mut growing = Growing::new(view.frames().frames());
        let mut innermost = HashMap::default();
        let [mut in_kernel, mut in_generated_code, mut truncated] = [0_u64; 3];
        let mut counts: Vec<_> = view.profile().counts().collect();
        counts.retain(|(.., count)| count.weight(view.weight()) > 0);
        counts.sort_unstable_by_key(|&(thread, stack, _)| (thread, stack));
        let mut ends = Vec::new();
        let mut memory = StackNodes::default();
        for of_thread in counts.chunk_by(|(one, ..), (other, ..)| one == other) {
            let Some(&(thread, ..)) = of_thread.first() else { continue };
            growing.ends_of(
                view,
                thread,
                of_thread.iter().map(|&(_, stack, _)| stack),
                &mut memory,
                &mut ends,
            );
            for ((_, stack, count), end) in of_thread.iter().zip(ends.drain(..)) {
                // Filters may leave it out.
                let Some(end) = end else { continue };
                let weight = count.weight(view.weight());
                let node = end.node as usize;
                let own = &mut growing.nodes[node].own;
                *own = own.saturating_add(weight);
                for (is, sum) in [
                    (end.in_kernel, &mut in_kernel),
                    (!end.in_kernel && end.in_generated_code, &mut in_generated_code),
                    (end.is_truncated, &mut truncated),
                ] {
                    *sum = sum.saturating_add(if is { weight } else { 0 });
                }
                if node != ROOT {
                    innermost.insert((thread, *stack), growing.nodes[node].frame);
                }
            }
        }
        let Growing { frames, nodes, .. } = growing;
        let mut stacks = Self { frames, nodes, innermost, in_kernel, in_generated_code, truncated };
        stacks.add_up();
        stacks.sort();
        stacks
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

    /// Sorts callees by weight; without those that recursion has folded away.
    fn sort(&mut self) {
        for index in 0..self.nodes.len() {
            let mut callees = std::mem::take(&mut self.nodes[index].callees);
            let nodes = &self.nodes;
            callees.retain(|&callee| nodes[callee].total > 0);
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

/// The tree while it grows.
struct Growing<'v> {
    frames: &'v [ViewFrame],
    /// Of each frame, the first with its label: inlined or not, a function is one.
    functions: Vec<FrameId>,
    nodes: Vec<Node>,
    /// The nodes by caller and function.
    known: HashMap<(u32, FrameId), u32, FxBuildHasher>,
}

impl<'v> Growing<'v> {
    fn new(frames: &'v [ViewFrame]) -> Self {
        let mut by_label: HashMap<&Label, FrameId> = HashMap::new();
        let mut functions = Vec::with_capacity(frames.len());
        for (index, frame) in frames.iter().enumerate() {
            functions.push(*by_label.entry(&frame.label).or_insert(FrameId::from_index(index)));
        }
        let root = Node { frame: FrameId::default(), caller: ROOT, own: 0, total: 0, callees: Vec::new() };
        Self { frames, functions, nodes: vec![root], known: HashMap::default() }
    }

    /// Appends where each stack of a thread ends; `None` for those that filters leave out.
    fn ends_of(
        &mut self,
        view: &View<'_>,
        thread: ThreadId,
        stacks: impl Iterator<Item = StackId>,
        memory: &mut StackNodes<End>,
        ends: &mut Vec<Option<End>>,
    ) {
        if view.changes_stacks() {
            let mut frames = Vec::new();
            for stack in stacks {
                frames.clear();
                view.stack(thread, stack, &mut frames);
                let end = frames.iter().fold(End::NOWHERE, |end, &frame| self.call(end, frame));
                ends.push((!frames.is_empty()).then_some(end));
            }
        } else {
            let (process, root) = view.roots(thread);
            let threads = process.into_iter().chain([root]);
            let start = threads.fold(End::NOWHERE, |end, frame| self.call(end, frame));
            let call = |end, frame| self.call(end, frame);
            view.grow(start, stacks, memory, call, |_, end, _| ends.push(Some(end)));
        }
    }

    /// Goes from a function to one that it calls: one that is on the stack already stands where it was first, and what lay between is
    /// gone.
    fn call(&mut self, mut end: End, frame: FrameId) -> End {
        let ViewFrame { label, kind, .. } = &self.frames[frame.index()];
        match kind {
            FrameKind::Kernel => (end.in_kernel, end.in_generated_code) = (true, false),
            FrameKind::Jit => end.in_generated_code = true,
            FrameKind::User => end.in_generated_code = false,
            FrameKind::Inlined => {}
        }
        if let Label::Truncated(_) = label {
            end.is_truncated = true;
            return end;
        }
        let (nodes, frame) = (&mut self.nodes, self.functions[frame.index()]);
        if let Some(&node) = self.known.get(&(end.node, frame)) {
            return End { node, ..end };
        }
        let caller = end.node as usize;
        let mut at = caller;
        while at != ROOT {
            if nodes[at].frame == frame {
                return End { node: at as u32, ..end };
            }
            at = nodes[at].caller;
        }
        let node = nodes.len();
        nodes.push(Node { frame, caller, own: 0, total: 0, callees: Vec::new() });
        nodes[caller].callees.push(node);
        self.known.insert((end.node, frame), node as u32);
        End { node: node as u32, ..end }
    }
}
