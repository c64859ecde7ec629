//! The window's stacks as two trees, one of addresses and one of frames, whose memory snapshots share.
//!
//! A stack node is an address on top of another stack. A frame node is a frame (a function or an inlined call) on top of another
//! frame node. The first tree only grows. The second one is built again when functions of old addresses have become known.

use std::time::{Duration, Instant};

use model::{Space, SpaceTable};
use profile::{Children, StackId, StackTable};

use super::shared_list::SharedList;
use super::symbol_table::SymbolTable;
use crate::snapshot::{Frame, FrameNode, StackNode};

/// The tree of frames is built again when this many times the duration of the last build has passed: names that trickle in cost at
/// most 3 % of a CPU.
const MIN_PAUSE_IN_BUILDS: u32 = 32;

/// The trees of the window's stacks.
pub(crate) struct SharedCallTree {
    /// The symbol table's number of each address, by the address's position in the window's stack table.
    addresses: Vec<u32>,
    stack_nodes: SharedList<StackNode>,
    /// By stack number: true if the stack is complete, see [`SharedCallTree::is_complete`].
    complete: Vec<bool>,
    /// The numbers of stacks that are nothing but the state of a thread, ascending.
    states: Vec<u32>,
    frame_nodes: SharedList<FrameNode>,
    children: Children,
    leaf_nodes: SharedList<u32>,
    /// [`SymbolTable::name_changes`] when the tree of frames was built.
    name_changes: u64,
    /// When the tree of frames was built last, and how long that took.
    built: Option<(Instant, Duration)>,
}

impl SharedCallTree {
    /// Makes trees that hold the empty stack alone.
    pub(crate) fn new() -> Self {
        let mut tree = Self {
            addresses: Vec::new(),
            stack_nodes: SharedList::default(),
            complete: vec![false],
            states: Vec::new(),
            frame_nodes: SharedList::default(),
            children: Children::default(),
            leaf_nodes: SharedList::default(),
            name_changes: 0,
            built: None,
        };
        tree.stack_nodes.push(StackNode { caller: 0, address: 0 });
        tree.clear_frame_nodes();
        tree
    }

    /// Returns a clone of the list for [`Snapshot::stack_nodes`](crate::snapshot::Snapshot::stack_nodes).
    pub(crate) fn stack_nodes(&self) -> SharedList<StackNode> {
        self.stack_nodes.clone()
    }

    /// Returns a clone of the list for [`Snapshot::frame_nodes`](crate::snapshot::Snapshot::frame_nodes).
    pub(crate) fn frame_nodes(&self) -> SharedList<FrameNode> {
        self.frame_nodes.clone()
    }

    /// Returns a clone of the list for [`Snapshot::leaf_nodes`](crate::snapshot::Snapshot::leaf_nodes).
    pub(crate) fn leaf_nodes(&self) -> SharedList<u32> {
        self.leaf_nodes.clone()
    }

    /// Returns true if a stack, given by its number, begins where a thread can begin: its outermost entry is no mark of a
    /// truncation, and lies in mapped code.
    pub(crate) fn is_complete(&self, stack: u32) -> bool {
        self.complete.get(stack as usize) == Some(&true)
    }

    /// Returns true if a stack, given by its number, is nothing but the state of a thread.
    pub(crate) fn is_state(&self, stack: u32) -> bool {
        self.states.binary_search(&stack).is_ok()
    }

    /// Returns true if functions have become known that the tree of frames does not have yet.
    pub(crate) fn is_behind(&self, symbols: &SymbolTable) -> bool {
        self.name_changes != symbols.name_changes()
    }

    /// Adds the stacks that are new since the last call. Builds the tree of frames again if functions have become known: with
    /// `at_once` in any case, else only after a pause that bounds the cost.
    pub(crate) fn update(
        &mut self,
        stacks: &StackTable,
        spaces: &SpaceTable,
        symbols: &mut SymbolTable,
        at_once: bool,
    ) {
        self.add_stacks(stacks, spaces, symbols);
        let begin = Instant::now();
        let has_paused =
            self.built.is_none_or(|(when, took)| begin.duration_since(when) > took * MIN_PAUSE_IN_BUILDS);
        let rebuilds = self.is_behind(symbols) && (at_once || has_paused);
        if rebuilds {
            self.name_changes = symbols.name_changes();
            self.clear_frame_nodes();
        }
        for stack in self.leaf_nodes.len()..self.stack_nodes.len() {
            let StackNode { caller, address } = self.stack_nodes[stack];
            let mut node = self.leaf_nodes.get(caller as usize).copied().unwrap_or(0);
            for frame in symbols.frames_of(address) {
                node = self.child(node, frame);
            }
            self.leaf_nodes.push(node);
        }
        if rebuilds {
            self.built = Some((begin, begin.elapsed()));
        }
    }

    /// Adds the stacks that are new since the last call to the tree of addresses alone. New addresses become wanted in `symbols`.
    pub(crate) fn add_stacks(&mut self, stacks: &StackTable, spaces: &SpaceTable, symbols: &mut SymbolTable) {
        let table = stacks.places();
        while let Some(&entry) = table.get(self.addresses.len()) {
            self.addresses.push(symbols.intern(entry, spaces));
        }
        for (stack, position, caller) in stacks.iter_from(self.stack_nodes.len()) {
            let address = self.addresses.get(position.index()).copied().unwrap_or(0);
            let (stack, caller_number) = (stack.index() as u32, caller.index() as u32);
            self.stack_nodes.push(StackNode { caller: caller_number, address });
            let is_outermost = caller == StackId::EMPTY;
            let space = table.get(position.index()).map(|entry| spaces.get(entry.space));
            self.complete.push(match is_outermost {
                true => space.is_some_and(can_begin_stack),
                false => self.is_complete(caller_number),
            });
            if is_outermost && matches!(space, Some(Space::State(_))) {
                self.states.push(stack);
            }
        }
    }

    fn clear_frame_nodes(&mut self) {
        self.frame_nodes = SharedList::default();
        self.frame_nodes.push(FrameNode::ROOT);
        self.children = Children::default();
        self.leaf_nodes = SharedList::default();
        self.leaf_nodes.push(0);
    }

    /// Returns the frame node of `frame` on top of `caller`; adds it where there is none yet.
    fn child(&mut self, caller: u32, frame: Frame) -> u32 {
        let frame_nodes = &self.frame_nodes;
        let is_same = |child: u32| {
            let node = &frame_nodes[child as usize];
            (node.caller, node.frame) == (caller, frame)
        };
        let number = self.children.find_or_add(caller, frame.key(), is_same);
        if number as usize == frame_nodes.len() {
            self.frame_nodes.push(FrameNode { caller, frame });
        }
        number
    }
}

/// Returns true if the outermost entry of a complete stack can lie in this space.
fn can_begin_stack(space: &Space) -> bool {
    !matches!(space, Space::Truncated(_) | Space::Unmapped { .. } | Space::State(_) | Space::Foreign(_))
}
