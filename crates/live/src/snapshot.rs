//! What the screen shows, at one moment: plain data, made by the engine and read by views, texts and JSON.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use model::{Loss, Space, StackEntry};
use profile::FrameKind;
use recorder::Recording;

use super::shared_list::SharedList;

/// A moment of the live profile. Cheap to make and to pass on: it shares stacks and names with the one before, and names
/// lie apart from stacks, so that a name which comes later changes no stack.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Functions by number ([`Frame::function`]). Their texts are harmless already.
    pub functions: SharedList<Function>,
    /// Places by number ([`Call::place`]).
    pub places: SharedList<Place>,
    /// All stacks as one tree, by number ([`CountedStack::stack`]): callers before what they call. The first one is the
    /// empty stack.
    pub calls: SharedList<Call>,
    /// The same by frames, each way of them once: callers before what they call. The first one is empty.
    pub branches: SharedList<Branch>,
    /// The branch of each stack, by the stack's number; a position in [`Snapshot::branches`].
    pub tips: SharedList<u32>,
    /// The numbering of functions and places: another one begins when some are forgotten.
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

/// A function, or a module or place of which no function is known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Function {
    /// Its name; `[module]`, `[unknown]` or `[truncated: reason]` where there is none.
    pub name: Arc<str>,
    /// The module's short name; empty where it is not known.
    pub module: Arc<str>,
}

/// A place that was on a stack.
#[derive(Clone, Debug)]
pub struct Place {
    /// The place in its space.
    pub entry: StackEntry,
    /// The space.
    pub space: Arc<Space>,
    /// The positions of its frames in the symbol table, outermost first.
    pub frames: Range<u32>,
    /// True if its name was looked for already.
    pub looked_for: bool,
}

/// A stack: a place on top of another stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The stack without the place; by position in [`Snapshot::calls`].
    pub caller: u32,
    /// The place; by position in [`Snapshot::places`].
    pub place: u32,
}

/// A stack by its frames: one on top of another stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Branch {
    /// The stack without the frame; by position in [`Snapshot::branches`].
    pub caller: u32,
    /// The frame.
    pub frame: Frame,
}

impl Branch {
    /// The empty stack.
    pub const ROOT: Self = Self {
        caller: 0,
        frame: Frame { function: 0, kind: FrameKind::User, in_kernel: false, state: None },
    };
}

impl Snapshot {
    /// The frames of a branch, by its number; innermost first.
    pub fn frames_of(&self, branch: u32) -> impl Iterator<Item = Frame> + use<'_> {
        let mut rest = branch;
        std::iter::from_fn(move || {
            // A caller's number is smaller: this ends.
            let branch = self.branches.get(rest as usize).filter(|_| rest != 0)?;
            rest = branch.caller;
            Some(branch.frame)
        })
    }

    /// Returns what a thread does with a stack, by its branch's number; `None` where it runs the innermost function.
    pub fn doing(&self, branch: u32) -> Option<Doing> {
        self.branches.get(branch as usize).filter(|_| branch != 0)?.frame.state
    }

    /// The places of a stack, by its number; innermost first.
    pub fn places_of(&self, stack: u32) -> impl Iterator<Item = u32> + use<'_> {
        let mut rest = stack;
        std::iter::from_fn(move || {
            // A caller's number is smaller: this ends.
            let call = self.calls.get(rest as usize).filter(|_| rest != 0)?;
            rest = call.caller;
            Some(call.place)
        })
    }

    /// The number of places that its stacks speak of at most: those that came later have higher numbers.
    fn shown_places(&self) -> usize {
        let numbers = self.calls.iter().skip(1).map(|call| call.place);
        numbers.max().map_or(0, |highest| highest as usize + 1)
    }

    /// Takes the names that a newer snapshot has; the samples stay. Says whether there may be any: not where places have
    /// got other numbers meanwhile.
    pub fn take_names(&mut self, newer: &Self) -> bool {
        let alike = self.numbering == newer.numbering && self.places.len() <= newer.places.len();
        let is_same = self.places.is_same(&newer.places) && self.branches.is_same(&newer.branches);
        if !alike || is_same {
            return false;
        }
        let shown = self.shown_places();
        self.functions = newer.functions.clone();
        self.places = newer.places.clone();
        self.branches = newer.branches.clone();
        self.tips = newer.tips.clone();
        let ours = newer.places.iter().take(shown);
        self.status.unnamed = ours.filter(|place| !place.looked_for).count() as u64;
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
    /// The thread's name, harmless.
    pub comm: Arc<str>,
    /// The container that it ran in, shortened and harmless (`docker:0123456789ab`); `None` on the host.
    pub container: Option<Arc<str>>,
}

impl Task {
    /// Returns true if it stands for a CPU that has nothing to do: the kernel gives all its idle tasks the number 0.
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
    /// True if it ran in the kernel (an inlined frame can be of either side).
    pub in_kernel: bool,
    /// The activity of the thread, where this is not code but the name of that.
    pub state: Option<Doing>,
}

/// The activity of a thread, in a view of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Doing {
    /// It runs; nobody saw what.
    Running,
    /// It could run, and has no CPU.
    Runnable,
    /// It is blocked.
    Blocked,
    /// It is an event loop at rest, or has slept since before the recording and nobody knows where.
    AtRest,
    /// Nobody knows: switches were lost.
    Unknown,
}

impl Frame {
    /// A number that only equal frames have.
    pub(crate) fn key(self) -> u64 {
        // What a thread did is known by its name, and is of no kind of code: no frame of the kernel is of this one.
        let kind = match self.state {
            Some(_) => (FrameKind::User as u64) << 1 | 1,
            None => (self.kind as u64) << 1 | u64::from(self.in_kernel),
        };
        u64::from(self.function) << 3 | kind
    }
}

/// A stack of a thread, and how often it was seen.
#[derive(Clone, Copy, Debug)]
pub struct CountedStack {
    /// The position in [`Status::events`].
    pub event: u32,
    /// The position in [`Snapshot::tasks`].
    pub task: u32,
    /// The position in [`Snapshot::calls`].
    pub stack: u32,
    /// Samples.
    pub samples: u64,
    /// The weight of the samples: their number, or the sum of their periods, as fits the event.
    pub weight: u64,
}

/// The span of samples that a snapshot is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Span {
    /// Those of the last seconds.
    #[default]
    Window,
    /// All since the start or the last reset, as far as memory allows.
    Start,
}

/// The status that holds for all of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The recorded target: `whole system`, `processes of user 1000`, `pid 17`.
    pub target: String,
    /// The events, by their names.
    pub events: Vec<EventStatus>,
    /// The number of CPUs that are sampled.
    pub cpus: u32,
    /// The span that the samples are from.
    pub span: Span,
    /// The length of time that the samples are from.
    pub covered: Duration,
    /// The window's length.
    pub window: Duration,
    /// Samples in the time covered.
    pub samples: u64,
    /// Samples whose stack is complete, where that is known.
    pub complete: Option<u64>,
    /// The loss in the interval, or since the start (or the last reset).
    pub loss: Loss,
    /// Samples that were counted and had to be forgotten, because there were too many different stacks.
    pub aged_out: u64,
    /// Places whose names are still being looked for.
    pub unnamed: u64,
    /// True if names were found that its stacks do not have yet.
    pub names_behind: bool,
    /// Our own use of CPU time in the last interval, in per cent of one CPU.
    pub own_cpu: f64,
    /// Our own resident memory, in bytes.
    pub own_memory: u64,
    /// Files that were found for names and stacks and are not used, or in part only, since the start: a sentence each, the
    /// first few. Their texts are harmless.
    pub remarks: Vec<String>,
    /// The number of remarks that were left out.
    pub remarks_omitted: u64,
    /// True if nothing more will come: the target ended.
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
    /// Samples per second, as they come in.
    pub fn rate(&self) -> f64 {
        let seconds = self.covered.as_secs_f64();
        if seconds > 0.0 { self.samples as f64 / seconds } else { 0.0 }
    }

    /// The share of samples whose stack is complete, in per cent, where it is known.
    pub fn complete_share(&self) -> Option<f64> {
        self.complete.filter(|_| self.samples > 0).map(|complete| share(complete, self.samples))
    }
}

/// `part` of `whole` in per cent; 0 of nothing.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
