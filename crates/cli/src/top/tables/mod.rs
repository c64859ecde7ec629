//! Snapshots turned into what the views list: pure functions of a snapshot and of what was asked for.

mod flame;
mod functions;
mod neighbours;
mod tasks;
mod tree;

pub(crate) use flame::{FlameTree, Step, Tile};
pub(crate) use functions::{FunctionRow, functions};
pub(crate) use neighbours::{NeighbourRow, Neighbours, Opened, PathKey, Side};
pub(crate) use tasks::{TaskOrder, TaskRow, tasks};

use super::filter::Filter;
use super::snapshot::{Frame, Place, Snapshot, Task};

/// Which samples and frames count, in all views.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Scope {
    /// The event, by its position.
    pub(crate) event: u32,
    /// Whether kernel frames count.
    pub(crate) kernel: bool,
    /// Whether user frames count.
    pub(crate) user: bool,
    /// Whether idle CPUs count.
    pub(crate) idle: bool,
    /// The typed filter.
    pub(crate) filter: Filter,
    /// The process, or thread, that was zoomed into.
    pub(crate) task: Option<TaskChoice>,
}

impl Default for Scope {
    fn default() -> Self {
        Self { event: 0, kernel: true, user: true, idle: false, filter: Filter::default(), task: None }
    }
}

/// A process, or one of its threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TaskChoice {
    /// The process.
    pub(crate) pid: i32,
    /// The thread; all of them for `None`.
    pub(crate) tid: Option<i32>,
}

impl TaskChoice {
    fn admits(&self, task: &Task) -> bool {
        task.pid == self.pid && self.tid.is_none_or(|tid| tid == task.tid)
    }
}

/// A stack within the scope.
#[derive(Clone, Copy)]
pub(crate) struct ScopedStack<'a> {
    /// Whose.
    pub(crate) task: &'a Task,
    /// Where its places are described.
    snapshot: &'a Snapshot,
    /// Its places, those hidden included; by position in [`Snapshot::places`].
    all: &'a [u32],
    kernel: bool,
    user: bool,
    /// How many samples it stands for.
    pub(crate) samples: u64,
    /// What it weighs.
    pub(crate) weight: u64,
}

impl<'a> ScopedStack<'a> {
    /// The frames that are not hidden, outermost first.
    pub(crate) fn frames(&self) -> impl DoubleEndedIterator<Item = Frame> + use<'a> {
        let (kernel, user, snapshot) = (self.kernel, self.user, self.snapshot);
        let frames = self.all.iter().flat_map(|&place| snapshot.frames_of(place)).copied();
        frames.filter(move |frame| if frame.in_kernel { kernel } else { user })
    }

    /// The places that are not hidden, outermost first.
    pub(crate) fn places(&self) -> impl DoubleEndedIterator<Item = &'a Place> + use<'a> {
        let (kernel, user, snapshot) = (self.kernel, self.user, self.snapshot);
        let places = self.all.iter().filter_map(|&number| snapshot.places.get(number as usize));
        places.filter(move |place| if place.entry.in_kernel { kernel } else { user })
    }
}

impl Scope {
    /// The stacks that count, and only those with a frame left.
    pub(crate) fn stacks<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = ScopedStack<'a>> {
        let admitted: Vec<bool> = snapshot.tasks.iter().map(|task| self.admits(task)).collect();
        snapshot.stacks.iter().filter_map(move |stack| {
            let index = stack.task as usize;
            if stack.event != self.event || !admitted.get(index).is_some_and(|&admitted| admitted) {
                return None;
            }
            let task = snapshot.tasks.get(index)?;
            let (kernel, user) = (self.kernel, self.user);
            let (samples, weight) = (stack.samples, stack.weight);
            let all = &stack.places;
            let scoped = ScopedStack { task, snapshot, all, kernel, user, samples, weight };
            scoped.frames().next().is_some().then_some(scoped)
        })
    }

    /// The weight of all stacks that count.
    pub(crate) fn total(&self, snapshot: &Snapshot) -> u64 {
        self.stacks(snapshot).map(|stack| stack.weight).sum()
    }

    /// The share of the event's samples that idle CPUs are, in per cent.
    pub(crate) fn idle_share(&self, snapshot: &Snapshot) -> f64 {
        let mut idle = 0;
        let mut all = 0;
        for stack in snapshot.stacks.iter().filter(|stack| stack.event == self.event) {
            all += stack.weight;
            if snapshot.tasks.get(stack.task as usize).is_some_and(Task::is_idle) {
                idle += stack.weight;
            }
        }
        super::snapshot::share(idle, all)
    }

    fn admits(&self, task: &Task) -> bool {
        (self.idle || !task.is_idle())
            && self.task.is_none_or(|choice| choice.admits(task))
            && self.filter.admits(task)
    }
}
