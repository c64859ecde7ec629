//! What the screen shows, at one moment: plain data, made by the engine and read by views, texts and JSON.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use model::{Space, StackEntry};
use profile::FrameKind;
use recorder::Recording;

/// A moment of the live profile. Cheap to pass on: stacks and names are reference counted, and names lie apart from
/// stacks, so that a name which comes later changes no stack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Functions by number ([`Frame::function`]). Their texts are harmless already.
    pub(crate) functions: Arc<Vec<Function>>,
    /// Places by number ([`CountedStack::places`]).
    pub(crate) places: Arc<Vec<Place>>,
    /// The frames of all places ([`Place::frames`]).
    pub(crate) frames: Arc<Vec<Frame>>,
    /// Which numbering of functions and places this is: another one begins when some are forgotten.
    pub(crate) numbering: u64,
    /// Threads by number ([`CountedStack::task`]).
    pub(crate) tasks: Vec<Task>,
    /// Stacks with their counts, each once per thread and event.
    pub(crate) stacks: Vec<CountedStack>,
    /// The events as they were opened.
    pub(crate) recording: Option<Arc<Recording>>,
    /// What holds for all of it.
    pub(crate) status: Status,
}

/// A function, or a module or place of which no function is known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Function {
    /// Its name; `[module]`, `[unknown]` or `[truncated: reason]` where there is none.
    pub(crate) name: Arc<str>,
    /// The module's short name; empty where it is not known.
    pub(crate) module: Arc<str>,
}

/// A place that was on a stack.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Where in its space.
    pub(crate) entry: StackEntry,
    /// The space.
    pub(crate) space: Arc<Space>,
    /// Where its frames lie in [`Snapshot::frames`], outermost first.
    pub(crate) frames: Range<u32>,
    /// Whether its name was looked for already.
    pub(crate) looked_for: bool,
}

impl Snapshot {
    /// The frames of a place, by its number; outermost first.
    pub(crate) fn frames_of(&self, place: u32) -> &[Frame] {
        let frames = |place: &Place| {
            let Range { start, end } = place.frames;
            self.frames.get(start as usize..end as usize)
        };
        self.places.get(place as usize).and_then(frames).unwrap_or_default()
    }

    /// How many places its stacks speak of at most: those that came later have higher numbers.
    fn shown_places(&self) -> usize {
        let numbers = self.stacks.iter().flat_map(|stack| stack.places.iter());
        numbers.max().map_or(0, |&highest| highest as usize + 1)
    }

    /// Takes the names that a newer snapshot has; the samples stay. Says whether there may be any: not where places have
    /// got other numbers meanwhile.
    pub(crate) fn take_names(&mut self, newer: &Self) -> bool {
        let alike = self.numbering == newer.numbering && self.places.len() <= newer.places.len();
        if !alike || Arc::ptr_eq(&self.places, &newer.places) {
            return false;
        }
        let shown = self.shown_places();
        self.functions = Arc::clone(&newer.functions);
        self.places = Arc::clone(&newer.places);
        self.frames = Arc::clone(&newer.frames);
        let ours = newer.places.iter().take(shown);
        self.status.unnamed = ours.filter(|place| !place.looked_for).count() as u64;
        true
    }
}

/// A thread under one name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Task {
    /// The process.
    pub(crate) pid: i32,
    /// The thread.
    pub(crate) tid: i32,
    /// The thread's name, harmless.
    pub(crate) comm: Arc<str>,
}

impl Task {
    /// Whether it stands for a CPU that has nothing to do: the kernel gives all its idle tasks the number 0.
    pub(crate) fn is_idle(&self) -> bool {
        self.pid == 0 && self.tid == 0
    }
}

/// A frame of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Frame {
    /// The position in [`Snapshot::functions`].
    pub(crate) function: u32,
    /// Where it ran.
    pub(crate) kind: FrameKind,
    /// Whether it ran in the kernel (an inlined frame can be of either side).
    pub(crate) in_kernel: bool,
}

/// A stack of a thread, and how often it was seen.
#[derive(Clone, Debug)]
pub(crate) struct CountedStack {
    /// The position in [`Status::events`].
    pub(crate) event: u32,
    /// The position in [`Snapshot::tasks`].
    pub(crate) task: u32,
    /// The places that it consists of, outermost first; by position in [`Snapshot::places`].
    pub(crate) places: Arc<[u32]>,
    /// Samples.
    pub(crate) samples: u64,
    /// What the samples weigh: their number, or the sum of their periods, as fits the event.
    pub(crate) weight: u64,
}

/// Which samples a snapshot is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Span {
    /// Those of the last seconds.
    #[default]
    Window,
    /// All since the start or the last reset, as far as memory allows.
    Start,
}

/// What holds for all of a snapshot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    /// Whose samples: `whole system`, `processes of user 1000`, `pid 17`.
    pub(crate) target: String,
    /// The events, by their names.
    pub(crate) events: Vec<EventStatus>,
    /// How many CPUs are sampled.
    pub(crate) cpus: u32,
    /// Which samples.
    pub(crate) span: Span,
    /// How long a time the samples are from.
    pub(crate) covered: Duration,
    /// The window's length.
    pub(crate) window: Duration,
    /// Samples in the time covered.
    pub(crate) samples: u64,
    /// Samples whose stack is complete, where that is known.
    pub(crate) complete: Option<u64>,
    /// Samples lost in the time since the start (or the last reset).
    pub(crate) lost: u64,
    /// Samples that were counted and had to be forgotten, because there were too many different stacks.
    pub(crate) aged_out: u64,
    /// Places whose names are still being looked for.
    pub(crate) unnamed: u64,
    /// Our own use of CPU time in the last interval, in per cent of one CPU.
    pub(crate) own_cpu: f64,
    /// Our own resident memory, in bytes.
    pub(crate) own_memory: u64,
    /// Whether nothing more will come: the target ended.
    pub(crate) ended: bool,
}

/// An event that takes samples.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct EventStatus {
    /// Its name.
    pub(crate) name: String,
    /// Samples per second and CPU as asked for; `None` for a fixed period.
    pub(crate) frequency: Option<u64>,
    /// What weights count: `samples`, or the event's own unit.
    pub(crate) unit: String,
}

impl Status {
    /// Samples per second, as they come in.
    pub(crate) fn rate(&self) -> f64 {
        let seconds = self.covered.as_secs_f64();
        if seconds > 0.0 { self.samples as f64 / seconds } else { 0.0 }
    }

    /// The share of samples whose stack is complete, in per cent, where it is known.
    pub(crate) fn complete_share(&self) -> Option<f64> {
        self.complete.filter(|_| self.samples > 0).map(|complete| share(complete, self.samples))
    }
}

/// `part` of `whole` in per cent; 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}
