//! Filters of stacks: frames that are hidden or become one, and samples that stay because of their frames.

use model::Resolution;

use crate::frame::Marks;
use crate::pattern::Pattern;
use crate::tree::{FrameTree, TreeId};
use crate::{FrameId, FrameTable, Label};

/// The changes to stacks before they are looked at. The default changes nothing.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Shape {
    /// Frames that are left out: what they call is called by their callers.
    pub hide: Vec<Pattern>,
    /// Only samples stay that have one of these frames.
    pub keep: Vec<Pattern>,
    /// Stacks begin at their outermost frame of this function; samples without one go.
    pub root_at: Option<Pattern>,
    /// Modules each of whose runs of frames is one frame.
    pub collapse_modules: Vec<Pattern>,
    /// True if a function that calls itself, directly or through others, is one frame: its outermost.
    pub collapse_recursion: bool,
}

/// A [`Shape`] for one profile.
#[derive(Debug)]
pub(crate) struct Filters<'s> {
    shape: &'s Shape,
    /// True if some function has exactly the name typed for [`Shape::root_at`]: no other is meant then.
    exact_root: bool,
}

impl<'s> Filters<'s> {
    pub(crate) fn new<'r>(shape: &'s Shape, names: impl Iterator<Item = &'r Resolution>) -> Self {
        let exact_root = shape.root_at.as_ref().is_some_and(|root| {
            let functions = names.flat_map(|resolution| match resolution {
                Resolution::Resolved(symbolized) => &symbolized.frames[..],
                Resolution::Unresolved(_) | Resolution::Delimited { .. } => &[],
            });
            functions.into_iter().any(|frame| root.is_exactly(&frame.function))
        });
        Self { shape, exact_root }
    }

    pub(crate) fn hides(&self, function: &str, module: Option<&str>) -> bool {
        self.shape.hide.iter().any(|pattern| pattern.matches(function, module))
    }

    pub(crate) fn collapses(&self, module: &str) -> bool {
        self.shape.collapse_modules.iter().any(|pattern| pattern.matches("", Some(module)))
    }

    /// Returns true if any of them looks at names.
    pub(crate) fn ask_for_names(&self) -> bool {
        let Shape { hide, keep, root_at, collapse_modules, collapse_recursion: _ } = self.shape;
        !(hide.is_empty() && keep.is_empty() && root_at.is_none() && collapse_modules.is_empty())
    }

    pub(crate) fn marks(&self, function: &str, module: Option<&str>) -> Marks {
        let keeps = self.shape.keep.iter().any(|pattern| pattern.matches(function, module));
        let roots = self.shape.root_at.as_ref().is_some_and(|root| match self.exact_root {
            true => root.is_exactly(function),
            false => root.matches(function, module),
        });
        Marks { keeps, roots, ..Marks::default() }
    }
}

/// The rules that remain when frames are chosen: what depends on the rest of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct StackRules {
    keep: bool,
    root: bool,
    recursion: bool,
}

impl From<&Shape> for StackRules {
    fn from(shape: &Shape) -> Self {
        Self {
            keep: !shape.keep.is_empty(),
            root: shape.root_at.is_some(),
            recursion: shape.collapse_recursion,
        }
    }
}

impl StackRules {
    /// Returns true if they change nothing.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns true if samples may go.
    pub(crate) fn choose_samples(self) -> bool {
        self.keep || self.root
    }

    /// Changes one stack, outermost frame first, whose first frames are `threads` frames of threads and processes. Returns
    /// false where its sample goes. `frame_of` says what the frame of an element is.
    pub(crate) fn apply<T>(
        self,
        stack: &mut Vec<T>,
        threads: usize,
        frames: &FrameTable,
        frame_of: impl Fn(&T) -> FrameId,
    ) -> bool {
        let marks = |element: &T| frames.marks(frame_of(element));
        let functions = stack.get(threads..).unwrap_or_default();
        let root = if self.root { functions.iter().position(|frame| marks(frame).roots) } else { Some(0) };
        let Some(root) = root else { return false };
        if self.keep && !functions.iter().any(|frame| marks(frame).keeps) {
            return false;
        }
        stack.drain(threads..threads + root);
        if self.recursion {
            let mut length = threads;
            for index in threads..stack.len() {
                let frame = frame_of(&stack[index]);
                let is_outer = |before: &T| frames.is_recursion(frame_of(before), frame);
                match stack[threads..length].iter().rposition(is_outer) {
                    Some(at) => length = threads + at + 1,
                    None => {
                        stack.swap(length, index);
                        length += 1;
                    }
                }
            }
            stack.truncate(length);
        }
        true
    }

    /// Changes all stacks of a tree, as [`Self::apply`] changes one.
    pub(crate) fn tree(self, whole: &FrameTree, frames: &FrameTable) -> FrameTree {
        #[derive(Clone, Copy)]
        struct State {
            rooted: bool,
            kept: bool,
            weight: u64,
            place: TreeId,
        }
        let all = State { rooted: !self.root, kept: !self.keep, weight: 0, place: TreeId::ALL };
        let mut states = vec![all];
        let is_thread = |frame| frames.is_thread(frame);
        for node in whole.nodes() {
            let mut state = states[whole.below(node).index()];
            if let Some(frame) = whole.frame(node).filter(|&frame| !is_thread(frame)) {
                let marks = frames.marks(frame);
                state.rooted |= marks.roots;
                state.kept |= marks.keeps;
            }
            state.weight = if state.rooted && state.kept { whole.own(node) } else { 0 };
            states.push(state);
        }
        for node in whole.nodes().rev() {
            let weight = states[node.index()].weight;
            let below = &mut states[whole.below(node).index()];
            below.weight = below.weight.saturating_add(weight);
        }
        let mut shaped = FrameTree::default();
        for node in whole.nodes() {
            let below = states[whole.below(node).index()].place;
            let State { rooted, kept, weight, .. } = states[node.index()];
            let Some(frame) = whole.frame(node).filter(|_| weight > 0) else { continue };
            let place = if is_thread(frame) {
                shaped.child(below, frame)
            } else if !rooted {
                below
            } else {
                let outer = if self.recursion { outer_call(&shaped, below, frame, frames) } else { None };
                outer.unwrap_or_else(|| shaped.child(below, frame))
            };
            states[node.index()].place = place;
            if rooted && kept {
                shaped.add(place, whole.own(node));
            }
        }
        shaped
    }
}

/// The innermost node at or below `node` that is an outer call of `frame`'s function.
fn outer_call(tree: &FrameTree, node: TreeId, frame: FrameId, frames: &FrameTable) -> Option<TreeId> {
    let mut at = node;
    loop {
        let before = tree.frame(at)?;
        if frames.is_recursion(before, frame) {
            return Some(at);
        }
        at = tree.below(at);
    }
}

impl FrameTable {
    /// Returns true if `frame` is a further call of the function that `before` is a call of. Of a module alone that is not known.
    fn is_recursion(&self, before: FrameId, frame: FrameId) -> bool {
        let label = &self.frames()[frame.index()].label;
        let is_function = matches!(label, Label::Function(..) | Label::Module(_, Some(_)));
        is_function && self.same_function(before, frame)
    }

    pub(crate) fn is_thread(&self, frame: FrameId) -> bool {
        self.frames()[frame.index()].label.is_thread()
    }
}
