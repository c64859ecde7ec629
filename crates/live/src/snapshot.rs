//! The snapshot: plain data that the engine makes, and that views, text and JSON read.
//!
//! Stacks are numbers into two trees. Names lie apart from both, so that a name which becomes known changes no stack.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use export::printable;
use model::{Loss, Space, StackEntry};
use profile::FrameKind;
use recorder::Recording;
use recorder::unwind::RefusedTables;

use super::shared_list::SharedList;

/// The counted samples of a span of time, with names. Cheap to make and to clone: snapshots share the memory of stacks and names.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Functions by number ([`Frame::function`]). Their texts have no control characters.
    pub functions: SharedList<Function>,
    /// Addresses by number ([`StackNode::address`]).
    pub addresses: SharedList<LookupAddress>,
    /// All stacks as one tree of addresses, by stack number ([`CountedStack::stack`]). Callers come before their callees; the first
    /// node is the empty stack.
    pub stack_nodes: SharedList<StackNode>,
    /// All stacks as one tree of frames. Callers come before their callees; the first node is the empty stack.
    pub frame_nodes: SharedList<FrameNode>,
    /// By stack number: the frame node of the stack's innermost frame, a position in [`Snapshot::frame_nodes`].
    pub leaf_nodes: SharedList<u32>,
    /// Differs between two snapshots if functions and addresses have other numbers, because some were forgotten in between.
    pub numbering: u64,
    /// Threads by number ([`CountedStack::task`]).
    pub tasks: Vec<Task>,
    /// Stacks with their counts, each once per thread and event.
    pub stacks: Vec<CountedStack>,
    /// The events as they were opened.
    pub recording: Option<Arc<Recording>>,
    /// The status of the recording as a whole.
    pub status: Status,
}

/// A function, or what stands for it where no function is known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Function {
    /// Its name; `[module]`, `[unknown]` or `[truncated: reason]` where there is none.
    pub name: Arc<str>,
    /// The file name of the module; empty where the module is not known.
    pub module: Arc<str>,
}

/// An address on a stack, with the frames that it was symbolized to.
#[derive(Clone, Debug)]
pub struct LookupAddress {
    /// The space and the offset in it.
    pub entry: StackEntry,
    /// The space.
    pub space: Arc<Space>,
    /// The positions of its frames in the engine's symbol table, outermost first.
    pub frames: Range<u32>,
    /// True if it was symbolized, whether functions were found or not.
    pub is_resolved: bool,
}

/// A stack: an address on top of another stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackNode {
    /// The stack of the caller; a position in [`Snapshot::stack_nodes`].
    pub caller: u32,
    /// The innermost address; a position in [`Snapshot::addresses`].
    pub address: u32,
}

/// A stack of frames: a frame on top of another such stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameNode {
    /// The stack of the caller; a position in [`Snapshot::frame_nodes`].
    pub caller: u32,
    /// The innermost frame.
    pub frame: Frame,
}

impl FrameNode {
    /// The empty stack.
    pub const ROOT: Self = Self {
        caller: 0,
        frame: Frame { function: 0, kind: FrameKind::User, in_kernel: false, state: None },
    };
}

impl Snapshot {
    /// Iterates over the frames of a frame node, given by its position, and of its callers; innermost first.
    pub fn frames_of(&self, frame_node: u32) -> impl Iterator<Item = Frame> + use<'_> {
        let mut rest = frame_node;
        std::iter::from_fn(move || {
            // The position of a caller is smaller, so that this ends.
            let node = self.frame_nodes.get(rest as usize).filter(|_| rest != 0)?;
            rest = node.caller;
            Some(node.frame)
        })
    }

    /// Returns the state of a thread whose stack ends in a frame node, given by its position; `None` where the innermost frame is
    /// code.
    pub fn state_kind(&self, frame_node: u32) -> Option<StateKind> {
        self.frame_nodes.get(frame_node as usize).filter(|_| frame_node != 0)?.frame.state
    }

    /// Iterates over the positions in [`Snapshot::addresses`] of the addresses of a stack, given by its number; innermost first.
    pub fn addresses_of(&self, stack: u32) -> impl Iterator<Item = u32> + use<'_> {
        let mut rest = stack;
        std::iter::from_fn(move || {
            // The number of a caller is smaller, so that this ends.
            let node = self.stack_nodes.get(rest as usize).filter(|_| rest != 0)?;
            rest = node.caller;
            Some(node.address)
        })
    }

    /// Returns how many of the first addresses the stacks refer to. Later snapshots append others.
    fn shown_addresses(&self) -> usize {
        let numbers = self.stack_nodes.iter().skip(1).map(|node| node.address);
        numbers.max().map_or(0, |highest| highest as usize + 1)
    }

    /// Takes over the names of a newer snapshot and keeps the samples. Returns true if names may have changed. Changes nothing, and
    /// returns false, where addresses have other numbers in the newer one.
    pub fn update_names(&mut self, newer: &Self) -> bool {
        let is_same_numbering =
            self.numbering == newer.numbering && self.addresses.len() <= newer.addresses.len();
        let is_unchanged =
            self.addresses.is_same(&newer.addresses) && self.frame_nodes.is_same(&newer.frame_nodes);
        if !is_same_numbering || is_unchanged {
            return false;
        }
        let shown = self.shown_addresses();
        self.functions = newer.functions.clone();
        self.addresses = newer.addresses.clone();
        self.frame_nodes = newer.frame_nodes.clone();
        self.leaf_nodes = newer.leaf_nodes.clone();
        let shown = newer.addresses.iter().take(shown);
        self.status.unnamed = shown.filter(|address| !address.is_resolved).count() as u64;
        self.status.names_behind = newer.status.names_behind;
        true
    }
}

/// A thread under one name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Task {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The thread's name, without control characters.
    pub comm: Arc<str>,
    /// The container, shortened and without control characters (`docker:0123456789ab`); `None` on the host.
    pub container: Option<Arc<str>>,
}

impl Task {
    /// Returns true if this is the idle task of a CPU: the kernel gives all of them the ids 0.
    pub fn is_idle(&self) -> bool {
        self.pid == 0 && self.tid == 0
    }
}

/// A frame of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Frame {
    /// The position in [`Snapshot::functions`].
    pub function: u32,
    /// The kind of code.
    pub kind: FrameKind,
    /// True if it is kernel code. An inlined frame can be of either side.
    pub in_kernel: bool,
    /// Set where this frame is no code but names the state of its thread.
    pub state: Option<StateKind>,
}

/// The kind of a thread's state, in a view of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateKind {
    /// Runs, and no sample says what.
    Running,
    /// Ready to run, and waits for a CPU.
    Runnable,
    /// Blocked.
    Blocked,
    /// An event loop that waits for events, or a thread that has slept since before the recording and cannot be read.
    AtRest,
    /// Not known, because records of switches were lost.
    Unknown,
}

impl Frame {
    /// Returns a number that is unique to the frame.
    pub(crate) fn key(self) -> u64 {
        // The name of a state says all of it. The combination of user code and kernel side is free for states.
        let kind = match self.state {
            Some(_) => (FrameKind::User as u64) << 1 | 1,
            None => (self.kind as u64) << 1 | u64::from(self.in_kernel),
        };
        u64::from(self.function) << 3 | kind
    }
}

/// A stack of a thread with its samples.
#[derive(Clone, Copy, Debug)]
pub struct CountedStack {
    /// The event; a position in [`Status::events`].
    pub event: u32,
    /// The thread; a position in [`Snapshot::tasks`].
    pub task: u32,
    /// The stack; a position in [`Snapshot::stack_nodes`].
    pub stack: u32,
    /// Number of samples.
    pub samples: u64,
    /// The weight of the samples: their number, or the sum of their periods, depending on the event.
    pub weight: u64,
}

/// The span of samples that a snapshot is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Span {
    /// The sliding window.
    #[default]
    Window,
    /// Since the start or the last reset, without the counts that were dropped to bound memory.
    Start,
}

/// Facts about a snapshot as a whole.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The recorded target: `whole system`, `processes of user 1000`, `pid 17`.
    pub target: String,
    /// The quantities that were counted: the sampling events, or time.
    pub events: Vec<EventStatus>,
    /// Number of sampled CPUs.
    pub cpus: u32,
    /// The span of the samples.
    pub span: Span,
    /// The length of time in which the samples were taken.
    pub covered: Duration,
    /// The window's length.
    pub window: Duration,
    /// Number of samples, of all events.
    pub samples: u64,
    /// Number of samples with a complete stack; `None` where that is not known.
    pub complete: Option<u64>,
    /// The loss in the interval, or since the start (or the last reset).
    pub loss: Loss,
    /// Number of samples that were counted and then dropped, because there were too many different stacks.
    pub aged_out: u64,
    /// Number of addresses that have not been symbolized yet.
    pub unnamed: u64,
    /// True if functions have become known that the stacks do not show yet.
    pub names_behind: bool,
    /// Our own use of CPU time since the last snapshot, in per cent of one CPU.
    pub own_cpu: f64,
    /// Our own resident memory, in bytes.
    pub own_memory: u64,
    /// A sentence for each file that was found for names or stacks and not used, or in part only; the first few. Without control
    /// characters.
    pub remarks: Vec<String>,
    /// Number of remarks that were left out.
    pub remarks_omitted: u64,
    /// True if the target has ended: no other snapshot follows.
    pub ended: bool,
}

/// An event that takes samples.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventStatus {
    /// Its name.
    pub name: String,
    /// Samples per second and CPU as asked for; `None` for a fixed period.
    pub frequency: Option<u64>,
    /// The unit of weights: `samples`, or the event's own.
    pub unit: String,
    /// True if weights are the time of threads, in nanoseconds, and not samples.
    pub is_time: bool,
}

impl Status {
    /// Returns the samples per second in the time covered.
    pub fn rate(&self) -> f64 {
        let seconds = self.covered.as_secs_f64();
        if seconds > 0.0 { self.samples as f64 / seconds } else { 0.0 }
    }

    /// Returns the share of samples with a complete stack in per cent; `None` where it is not known.
    pub fn complete_share(&self) -> Option<f64> {
        self.complete.filter(|_| self.samples > 0).map(|complete| share(complete, self.samples))
    }
}

/// Returns `part` of `whole` in per cent; 0 if `whole` is 0.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Maximum number of remarks in a snapshot.
const MAX_REMARKS: usize = 16;

/// Merges the remarks on symbol files, on unwind tables and on approximate numbers. Returns the first [`MAX_REMARKS`] of them in
/// alphabetical order, without control characters, and the number of those left out.
pub(crate) fn first_remarks(
    on_symbols: Vec<String>,
    on_tables: &RefusedTables,
    approximate: Option<&str>,
) -> (Vec<String>, u64) {
    let mut all = on_symbols;
    all.extend(on_tables.sentences());
    all.extend(approximate.map(str::to_owned));
    all.sort();
    // A file that was refused both for symbols and for unwinding has the same remark twice.
    all.dedup();
    let omitted = all.len().saturating_sub(MAX_REMARKS) as u64;
    all.truncate(MAX_REMARKS);
    (all.iter().map(|remark| printable(remark).into_owned()).collect(), omitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_remarks_come_without_control_characters() {
        let said =
            (0..40).map(|number| format!("/tmp/\x1b[2J{number:02} is not used")).chain(["a".to_owned()]);
        let said: Vec<String> = said.collect();
        let (remarks, omitted) =
            first_remarks([said.clone(), said].concat(), &RefusedTables::default(), None);
        assert_eq!((remarks.len(), omitted), (MAX_REMARKS, 25));
        assert_eq!(remarks[0], "/tmp/\u{fffd}[2J00 is not used");
    }
}
