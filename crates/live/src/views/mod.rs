//! Views: pure functions that turn a snapshot and a [`Scope`] into rows, or into the frames of a flame graph.

mod callers_callees;
mod flame;
mod functions;
mod scope_tree;
mod tasks;
mod time;

pub use callers_callees::{CallRow, CallersAndCallees, ExpandedRows, PathKey, Side};
pub use flame::{Direction, FlameTree, Tile};
pub use functions::{FunctionRow, functions};
pub use tasks::{TaskOrder, TaskRow, tasks};
pub use time::{TimePart, TimeSpent};

use super::filter::Filter;

use crate::snapshot::{Frame, LookupAddress, Snapshot, StateKind, Task};

/// The samples and frames that all views take into account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// The event; a position in [`crate::snapshot::Status::events`].
    pub event: u32,
    /// True if kernel frames count.
    pub kernel: bool,
    /// True if user frames count.
    pub user: bool,
    /// True if idle CPUs count.
    pub idle: bool,
    /// True if threads at rest count, in a view of time.
    pub at_rest: bool,
    /// The part of time that counts, in a view of time.
    pub part: TimePart,
    /// The filter that the user has typed.
    pub filter: Filter,
    /// The only process or thread that counts, if the user has chosen one.
    pub task: Option<TaskChoice>,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            event: 0,
            kernel: true,
            user: true,
            idle: false,
            at_rest: false,
            part: TimePart::All,
            filter: Filter::default(),
            task: None,
        }
    }
}

/// A process, or one of its threads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TaskChoice {
    /// The process.
    pub pid: i32,
    /// The thread; `None` for all threads of the process.
    pub tid: Option<i32>,
}

impl TaskChoice {
    fn admits(&self, task: &Task) -> bool {
        task.pid == self.pid && self.tid.is_none_or(|tid| tid == task.tid)
    }
}

/// A stack within the scope.
#[derive(Clone, Copy)]
pub struct ScopedStack<'a> {
    /// The thread that it was sampled in.
    pub task: &'a Task,
    /// The position of the thread in [`Snapshot::tasks`].
    pub task_number: u32,
    /// The frame node of its innermost frame that is not hidden; a position in [`Snapshot::frame_nodes`].
    pub frame_node: u32,
    stack: u32,
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    /// Number of samples with this stack.
    pub samples: u64,
    /// The weight of these samples.
    pub weight: u64,
}

impl<'a> ScopedStack<'a> {
    /// Iterates over the frames that are not hidden, innermost first.
    pub fn frames(&self) -> impl Iterator<Item = Frame> + use<'a> {
        let (snapshot, scope) = (self.snapshot, self.scope);
        snapshot.frames_of(self.frame_node).filter(|frame| scope.shows(*frame))
    }

    /// Iterates over the addresses that are not hidden, innermost first.
    pub fn addresses(&self) -> impl Iterator<Item = &'a LookupAddress> + use<'a> {
        let (snapshot, scope) = (self.snapshot, self.scope);
        let numbers = snapshot.addresses_of(self.stack);
        let addresses = numbers.filter_map(|number| snapshot.addresses.get(number as usize));
        addresses.filter(|place| if place.entry.in_kernel { scope.kernel } else { scope.user })
    }
}

impl Scope {
    /// Iterates over the stacks that count and have at least one frame that is not hidden.
    pub fn stacks<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = ScopedStack<'a>> {
        let admitted: Vec<bool> = snapshot.tasks.iter().map(|task| self.admits(task)).collect();
        let shown = self.shown(snapshot);
        snapshot.stacks.iter().filter_map(move |counted| {
            let index = counted.task as usize;
            if counted.event != self.event || !admitted.get(index).is_some_and(|&admitted| admitted) {
                return None;
            }
            let task = snapshot.tasks.get(index)?;
            let (stack, samples, weight) = (counted.stack, counted.samples, counted.weight);
            let leaf = snapshot.leaf_nodes.get(stack as usize).copied().unwrap_or(0);
            let frame_node = shown.as_ref().map_or(Some(leaf), |shown| shown.get(leaf as usize).copied());
            let frame_node = frame_node.filter(|&frame_node| frame_node != 0)?;
            let doing = snapshot.state_kind(frame_node);
            if doing == Some(StateKind::AtRest) && !self.at_rest || !self.part.has(doing) {
                return None;
            }
            let task_number = counted.task;
            Some(ScopedStack { task, task_number, frame_node, stack, snapshot, scope: self, samples, weight })
        })
    }

    /// By frame node: the nearest node towards the root whose frame is not hidden. `None` where no frames are hidden.
    fn shown(&self, snapshot: &Snapshot) -> Option<Vec<u32>> {
        if self.shows_all() {
            return None;
        }
        let mut shown: Vec<u32> = Vec::with_capacity(snapshot.frame_nodes.len());
        for (number, frame_node) in (0..).zip(snapshot.frame_nodes.iter()) {
            let is_shown = number != 0 && self.shows(frame_node.frame);
            let outer = shown.get(frame_node.caller as usize).copied().unwrap_or(0);
            shown.push(if is_shown { number } else { outer });
        }
        Some(shown)
    }

    /// Returns true if no frames are hidden.
    fn shows_all(&self) -> bool {
        self.kernel && self.user
    }

    /// Returns true if the frame is not hidden.
    fn shows(&self, frame: Frame) -> bool {
        frame.state.is_some() || if frame.in_kernel { self.kernel } else { self.user }
    }

    /// Returns the weight of all stacks that count.
    pub fn total(&self, snapshot: &Snapshot) -> u64 {
        self.stacks(snapshot).map(|stack| stack.weight).sum()
    }

    /// Returns the share of idle CPUs in the weight of the event, in per cent.
    pub fn idle_share(&self, snapshot: &Snapshot) -> f64 {
        let mut idle = 0;
        let mut all = 0;
        for stack in snapshot.stacks.iter().filter(|stack| stack.event == self.event) {
            all += stack.weight;
            if snapshot.tasks.get(stack.task as usize).is_some_and(Task::is_idle) {
                idle += stack.weight;
            }
        }
        crate::snapshot::share(idle, all)
    }

    fn admits(&self, task: &Task) -> bool {
        (self.idle || !task.is_idle())
            && self.task.is_none_or(|choice| choice.admits(task))
            && self.filter.admits(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SnapshotBuilder;
    use std::collections::BTreeMap;

    /// Many stacks of few functions, by a generator of numbers that are not very random (Knuth's MMIX).
    fn snapshot(mut seed: u64) -> Snapshot {
        let mut build = SnapshotBuilder::default();
        let mut next = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        for _ in 0..200 {
            let user = next(6);
            let kernel = next(4);
            let frames = (0..user).map(|_| next(5)).collect::<Vec<_>>();
            let frames = frames.iter().map(|name| ["main", "f", "g", "_i_h", "_j_x"][*name as usize]);
            let kernels = (0..kernel).map(|_| ["_k_sys", "_k_read", "_k_lock"][next(3) as usize]);
            let frames: Vec<&str> = frames.chain(kernels.collect::<Vec<_>>()).collect();
            if !frames.is_empty() {
                let pid = next(4) as i32;
                let comm = ["a", "b"][next(2) as usize];
                build.stack(pid, pid + next(2) as i32, comm, &frames.join(";"), 1 + next(9));
            }
        }
        build.snapshot()
    }

    #[test]
    fn weights_by_branches_are_those_stack_by_stack() {
        for (kernel, user) in [(true, true), (false, true), (true, false)] {
            let snapshot = snapshot(7 + u64::from(kernel));
            let scope = Scope { kernel, user, ..Scope::default() };
            let mut expected: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
            let mut total = 0;
            let stacks: Vec<(Vec<u32>, u64)> = scope
                .stacks(&snapshot)
                .map(|stack| (stack.frames().map(|frame| frame.function).collect(), stack.weight))
                .collect();
            for (frames, weight) in &stacks {
                total += weight;
                expected.entry(frames[0]).or_default().0 += weight;
                let each: std::collections::BTreeSet<u32> = frames.iter().copied().collect();
                each.iter().for_each(|function| expected.entry(*function).or_default().1 += weight);
            }
            let rows = functions(&snapshot, &scope);
            let rows: BTreeMap<u32, (u64, u64)> =
                rows.iter().map(|row| (row.function, (row.self_weight, row.total))).collect();
            assert_eq!(rows, expected);
            assert_eq!(
                (scope.total(&snapshot), FlameTree::new(&snapshot, &scope, 0).total()),
                (total, total)
            );
            for (&function, &(_, total)) in &expected {
                let known = &snapshot.functions[function as usize];
                let neighbours = CallersAndCallees::new(&snapshot, &scope, known).unwrap();
                // Only stacks without recursion: a recursive function is its own callee.
                let own = stacks.iter().filter(|(frames, _)| {
                    frames[0] == function && frames.iter().filter(|other| **other == function).count() == 1
                });
                assert_eq!(
                    (neighbours.total(), neighbours.self_weight()),
                    (total, own.map(|(_, w)| w).sum())
                );
            }
        }
    }
}
