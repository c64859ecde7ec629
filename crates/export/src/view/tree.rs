//! The stacks of all events as one tree of frames, with tables of their names.

use std::collections::HashMap;

use model::Name;
use profile::comparison::Comparison;
use profile::{FrameId, FrameKind, Label, StackId, StackNodes, View, ViewFrame};
use rustc_hash::FxBuildHasher;

use super::blocks::Column;
use crate::frame_name;
use crate::interner::Interner;
use crate::names::FunctionName;
use crate::palette::colour_of;
use crate::waiting::{State, state_of};

/// Kinds of frames, as `page/format.js` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Kind {
    User = 0,
    Kernel = 1,
    Inlined = 2,
    Generated = 3,
    Nameless = 4,
    Truncated = 5,
    Root = 6,
    NotSampled = 7,
    Runnable = 8,
    Blocked = 9,
    Waiting = 10,
    UnknownState = 11,
}

impl Kind {
    /// Returns true for code of user space, with or without a name.
    pub(crate) fn is_code(self) -> bool {
        matches!(self, Self::User | Self::Inlined | Self::Generated | Self::Nameless)
    }

    /// Returns true for the state of a thread off the CPU, or in time whose switches were not recorded.
    pub(crate) fn is_off_cpu(self) -> bool {
        matches!(self, Self::Runnable | Self::Blocked | Self::Waiting | Self::UnknownState)
    }
}

/// The end of a stack in the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackEnd {
    /// The number of its node.
    pub(crate) node: u32,
    /// Its innermost frame.
    pub(crate) frame: Option<FrameId>,
}

/// A frame of the page.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Frame {
    name: String,
    module: String,
    kind: Kind,
    colour: u32,
}

/// A node of the tree: a frame with its caller.
#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    frame: u32,
}

/// The tree while stacks are added.
#[derive(Debug)]
pub(crate) struct StackTree {
    frames: Vec<Frame>,
    /// Hashed with a random key, because the profiled program chooses the names.
    frame_numbers: HashMap<Frame, u32>,
    nodes: Vec<Node>,
    /// The first child of each node, or 0: most have one alone.
    first_children: Vec<u32>,
    other_children: HashMap<(u32, u32), u32, FxBuildHasher>,
    memory: StackNodes<u32>,
}

/// The tree in its final order.
#[derive(Debug)]
pub(crate) struct SortedTree {
    /// The parent and the frame of each node, in preorder.
    nodes: Vec<(u32, u32)>,
    /// In the order of names.
    frames: Vec<Frame>,
}

/// The tree of the page, with the tables of its frames.
#[derive(Debug)]
pub(crate) struct PageTree {
    /// The parent and the frame of each node, in preorder.
    pub(crate) nodes: Vec<(u32, u32)>,
    pub(crate) names: Vec<String>,
    pub(crate) modules: Vec<String>,
    /// The name, the module (-1: none), and the encoded parts of the name, of each function.
    pub(crate) functions: Vec<(u32, i32, Option<String>)>,
    /// The function, kind and colour of each frame.
    pub(crate) frames: Vec<(u32, Kind, u32)>,
}

impl Default for StackTree {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            frame_numbers: HashMap::default(),
            nodes: vec![Node { parent: 0, frame: 0 }],
            first_children: vec![0],
            other_children: HashMap::default(),
            memory: StackNodes::default(),
        }
    }
}

impl StackTree {
    /// Numbers the frames of a view; in a comparison, those that stand for them.
    pub(crate) fn frames_of(&mut self, view: &View<'_>, comparison: Option<&Comparison>) -> Vec<u32> {
        let number = |frame: &ViewFrame| match comparison {
            Some(comparison) => self.frame(page_frame(&comparison.joined_frame(frame))),
            None => self.frame(page_frame(frame)),
        };
        view.frames().frames().iter().map(number).collect()
    }

    /// Numbers the root frame of all threads of a name.
    pub(crate) fn root(&mut self, name: &Name) -> u32 {
        let name = name.to_string();
        let colour = colour(&name);
        self.frame(Frame { name, module: String::new(), kind: Kind::Root, colour })
    }

    fn frame(&mut self, frame: Frame) -> u32 {
        let next = self.frames.len() as u32;
        *self.frame_numbers.entry(frame).or_insert_with_key(|frame| {
            self.frames.push(frame.clone());
            next
        })
    }

    /// Adds stacks of a thread on a root, or without one. Calls `end` with each stack, the node of its innermost frame, and that frame. Skips
    /// stacks that the view omits. `numbers` are the numbers of the view's frames.
    pub(crate) fn add(
        &mut self,
        view: &View<'_>,
        numbers: &[u32],
        root: Option<u32>,
        thread: profile::ThreadId,
        stacks: &[StackId],
        mut end: impl FnMut(StackId, u32, Option<FrameId>),
    ) {
        let number = |frame: FrameId| numbers.get(frame.index()).copied();
        let below = root.map_or(0, |root| self.child(0, root));
        if !view.changes_stacks() {
            let mut memory = std::mem::take(&mut self.memory);
            let child = |node, frame| number(frame).map_or(node, |frame| self.child(node, frame));
            view.grow(below, stacks.iter().copied(), &mut memory, child, end);
            self.memory = memory;
            return;
        }
        let (process, _) = view.roots(thread);
        let roots = 1 + usize::from(process.is_some());
        let mut path = Vec::new();
        for &stack in stacks {
            path.clear();
            view.stack(thread, stack, &mut path);
            if let Some(&innermost) = path.last() {
                let frames = path.iter().skip(roots).filter_map(|&frame| number(frame));
                let node = frames.fold(below, |node, frame| self.child(node, frame));
                end(stack, node, Some(innermost));
            }
        }
    }

    fn child(&mut self, parent: u32, frame: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let child = match &mut self.first_children[parent as usize] {
            first @ 0 => {
                *first = next;
                next
            }
            first if self.nodes[*first as usize].frame == frame => *first,
            _ => *self.other_children.entry((parent, frame)).or_insert(next),
        };
        if child == next {
            self.nodes.push(Node { parent, frame });
            self.first_children.push(0);
        }
        child
    }

    /// Sorts the nodes in preorder, with siblings and frames in the order of names. Returns also the new number of each node.
    pub(crate) fn sorted(self) -> (SortedTree, Vec<u32>) {
        let Self { frames, nodes, .. } = self;
        let mut order: Vec<u32> = (0..frames.len() as u32).collect();
        order.sort_unstable_by(|&one, &other| frames[one as usize].cmp(&frames[other as usize]));
        let mut ranks = vec![0_u32; frames.len()];
        for (rank, &number) in order.iter().enumerate() {
            ranks[number as usize] = rank as u32;
        }
        let (order_of_nodes, moved) = preorder(&nodes, &ranks);
        let nodes = order_of_nodes
            .iter()
            .map(|&node| {
                let Node { parent, frame } = nodes[node as usize];
                let rank = if node == 0 { 0 } else { ranks[frame as usize] };
                (moved[parent as usize], rank)
            })
            .collect();
        let mut sorted: Vec<Frame> = Vec::with_capacity(frames.len());
        sorted.extend(order.iter().map(|&number| frames[number as usize].clone()));
        (SortedTree { nodes, frames: sorted }, moved)
    }
}

impl SortedTree {
    /// The number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the tree with the nodes at which stacks end, their callers and their frames alone, and the new number of each node.
    pub(crate) fn page(self, mut is_used: Vec<bool>) -> (PageTree, Vec<u32>) {
        let Self { nodes, frames } = self;
        is_used[0] = true;
        let mut is_shown = vec![false; frames.len()];
        // Callees come behind their callers.
        for (node, &(parent, frame)) in nodes.iter().enumerate().skip(1).rev() {
            if is_used[node] {
                is_used[parent as usize] = true;
                is_shown[frame as usize] = true;
            }
        }
        let moved = ranks(&is_used);
        let frame_numbers = ranks(&is_shown);
        let nodes = nodes
            .iter()
            .zip(&is_used)
            .filter(|(_, is_used)| **is_used)
            .map(|(&(parent, frame), _)| {
                (moved[parent as usize], frame_numbers.get(frame as usize).copied().unwrap_or(0))
            })
            .collect();
        let frames = frames.iter().zip(&is_shown).filter(|(_, is_shown)| **is_shown).map(|(frame, _)| frame);
        (PageTree::new(nodes, frames), moved)
    }
}

/// Returns for each element the number of `true` ones before it.
fn ranks(elements: &[bool]) -> Vec<u32> {
    let mut count = 0;
    let mut number = |&element: &bool| {
        count += u32::from(element);
        count - u32::from(element)
    };
    elements.iter().map(&mut number).collect()
}

impl PageTree {
    fn new<'f>(nodes: Vec<(u32, u32)>, frames: impl Iterator<Item = &'f Frame>) -> Self {
        let mut names = Interner::<&str>::default();
        let mut modules = Interner::<&str>::default();
        let mut functions: Vec<(u32, i32, Option<String>)> = Vec::new();
        let mut function_numbers: HashMap<(u32, i32, bool), u32, FxBuildHasher> = HashMap::default();
        let frames = frames
            .map(|Frame { name, module, kind, colour }| {
                let module = if module.is_empty() { -1 } else { modules.intern(module) as i32 };
                let key = (names.intern(name), module, *kind == Kind::Root);
                let next = functions.len() as u32;
                let function = *function_numbers.entry(key).or_insert_with(|| {
                    functions.push((key.0, module, FunctionName::parse(name).cuts(name)));
                    next
                });
                (function, *kind, *colour)
            })
            .collect();
        let texts = |texts: Interner<&str>| texts.values.into_iter().map(str::to_owned).collect();
        Self { nodes, names: texts(names), modules: texts(modules), functions, frames }
    }

    /// Returns the numbers of functions by name and module, which is empty for those without one.
    pub(crate) fn functions_by_name(&self) -> HashMap<(&str, &str), u32> {
        let named = |(&(name, module, _), number): (&(u32, i32, Option<String>), u32)| {
            let module = usize::try_from(module).ok().and_then(|module| self.modules.get(module));
            Some(((self.names.get(name as usize)?.as_str(), module.map_or("", String::as_str)), number))
        };
        self.functions.iter().zip(0..).filter_map(named).collect()
    }

    /// Returns the block `nodes`.
    pub(crate) fn column(&self) -> Column {
        let mut column = Column::default();
        column.push(self.nodes.len() as u64);
        let mut depths = vec![0_u32; self.nodes.len()];
        for (before, &(parent, _)) in self.nodes.iter().skip(1).enumerate() {
            let depth = depths[parent as usize] + 1;
            column.push((depths[before] + 1).saturating_sub(depth).into());
            depths[before + 1] = depth;
        }
        for &(_, frame) in self.nodes.iter().skip(1) {
            column.push(frame.into());
        }
        column
    }
}

/// Returns the nodes in preorder, and the new number of each. In `nodes` callers come before their callees.
fn preorder(nodes: &[Node], ranks: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let rank = |node: u32| ranks[nodes[node as usize].frame as usize];
    let mut by_rank: Vec<u32> = (1..nodes.len() as u32).collect();
    by_rank.sort_unstable_by_key(|&node| std::cmp::Reverse(rank(node)));
    // Children are prepended from the highest rank to the lowest, so that each list is in ascending order.
    let mut first = vec![0_u32; nodes.len()];
    let mut next = vec![0_u32; nodes.len()];
    for node in by_rank {
        let first = &mut first[nodes[node as usize].parent as usize];
        next[node as usize] = std::mem::replace(first, node);
    }
    let mut order = Vec::with_capacity(nodes.len());
    let mut moved = vec![0_u32; nodes.len()];
    let mut node = 0_u32;
    loop {
        moved[node as usize] = order.len() as u32;
        order.push(node);
        if first[node as usize] != 0 {
            node = first[node as usize];
            continue;
        }
        while node != 0 && next[node as usize] == 0 {
            node = nodes[node as usize].parent;
        }
        if node == 0 {
            return (order, moved);
        }
        node = next[node as usize];
    }
}

/// Returns the name and the module by which the page knows a function.
pub(super) fn function_of(frame: &ViewFrame) -> (String, String) {
    let Frame { name, module, .. } = page_frame(frame);
    (name, module)
}

fn page_frame(frame: &ViewFrame) -> Frame {
    let kind = match frame.kind {
        FrameKind::User => Kind::User,
        FrameKind::Kernel => Kind::Kernel,
        FrameKind::Inlined => Kind::Inlined,
        FrameKind::Jit => Kind::Generated,
    };
    let text = |label: &Label, kind| frame_name(&ViewFrame { label: label.clone(), kind, line: None });
    let (name, module, kind) = match &frame.label {
        Label::Function(function, module) => {
            let name = Name::from(&**function).to_string();
            (name, module.as_ref().map_or_else(String::new, Name::to_string), kind)
        }
        label @ Label::Module(module, _) => {
            (text(label, FrameKind::User), module.to_string(), Kind::Nameless)
        }
        label @ Label::Unknown(_) => (text(label, FrameKind::User), String::new(), Kind::Nameless),
        label @ Label::Truncated(_) => (text(label, FrameKind::User), String::new(), Kind::Truncated),
        label @ Label::NotSampled => (text(label, FrameKind::User), String::new(), Kind::NotSampled),
        label @ Label::State(_) => {
            let text = text(label, FrameKind::User);
            let kind = match state_of(&text) {
                Some(State::Runnable) => Kind::Runnable,
                Some(State::Blocked) => Kind::Blocked,
                Some(State::Waiting) => Kind::Waiting,
                Some(State::Unknown) => Kind::UnknownState,
                None => Kind::NotSampled,
            };
            (text, String::new(), kind)
        }
        label @ (Label::Comm(_)
        | Label::Thread(..)
        | Label::Process(..)
        | Label::Cpu(_)
        | Label::Container(_)
        | Label::Cgroup(_)) => (text(label, FrameKind::User), String::new(), Kind::Root),
    };
    // The same colour as in `prof flame`, whose labels have no module.
    let colour = colour(&text(&frame.without_module().label, frame.kind));
    Frame { name, module, kind, colour }
}

fn colour(label: &str) -> u32 {
    let colour = colour_of(label);
    u32::from_be_bytes([0, colour.r, colour.g, colour.b])
}
