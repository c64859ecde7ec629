//! Views: pure functions that turn a snapshot and a [`Scope`] into rows, or into the frames of a flame graph.

mod callers_callees;
mod flame;
mod functions;
mod paths;
mod tasks;
mod time;

pub use callers_callees::{CallRow, CallersAndCallees, ExpandedRows, Side};
pub use flame::{Direction, FlameTree, Tile};
pub use functions::{FunctionRow, functions};
pub use paths::PathKey;
pub use tasks::{TaskOrder, TaskRow, tasks};
pub use time::{TimePart, TimeSpent};

use model::{Space, StackEntry};
use profile::{Count, Detail, Profile, Show, StackId, Thread, ThreadId, View, Weight};

use super::filter::Filter;
use crate::snapshot::{Snapshot, StateKind, ids_of, is_idle};

/// The samples and frames that all views take into account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scope {
    /// The event; a position in [`crate::snapshot::Status::events`].
    pub event: u32,
    /// True if kernel frames count.
    pub kernel: bool,
    /// True if user frames count.
    pub user: bool,
    /// True if all nameless functions of a module are one.
    pub modules_only: bool,
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
            modules_only: false,
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
    fn admits(&self, thread: &Thread) -> bool {
        let (pid, tid) = ids_of(thread);
        pid == self.pid && self.tid.is_none_or(|chosen| chosen == tid)
    }
}

/// Samples of a thread with one stack, within the scope.
#[derive(Clone, Copy)]
pub struct ScopedStack<'a> {
    /// The thread that they were taken in.
    pub thread: &'a Thread,
    /// Its number in the profile of the event.
    pub thread_id: ThreadId,
    /// Their stack in the profile of the event.
    pub stack: StackId,
    /// The state of the thread; `None` if it ran what is innermost on the stack.
    pub state: Option<StateKind>,
    /// Their number, and the sum of their periods.
    pub count: Count,
    /// Their weight.
    pub weight: u64,
}

impl Scope {
    /// Returns the profile of the event that counts, and how its samples are weighed; `None` if the snapshot does not have it.
    fn event<'a>(&self, snapshot: &'a Snapshot) -> Option<(&'a Profile, Weight)> {
        let event = self.event as usize;
        Some((snapshot.profiles.get(event)?, snapshot.status.events.get(event)?.weight()))
    }

    /// Iterates over the stacks that count and have at least one frame that is not hidden.
    pub fn stacks<'a>(&'a self, snapshot: &'a Snapshot) -> impl Iterator<Item = ScopedStack<'a>> {
        self.event(snapshot).into_iter().flat_map(move |(profile, weight)| {
            let admitted: Vec<bool> = profile.threads().iter().map(|thread| self.admits(thread)).collect();
            profile.counts().filter_map(move |(thread_id, stack, count)| {
                let is_admitted = admitted.get(thread_id.index()) == Some(&true);
                if !is_admitted || !self.shows_any(snapshot, profile, stack) {
                    return None;
                }
                let state = snapshot.state_of(profile, stack);
                if state == Some(StateKind::AtRest) && !self.at_rest || !self.part.has(state) {
                    return None;
                }
                let (thread, weight) = (&profile.threads()[thread_id.index()], count.weight(weight));
                Some(ScopedStack { thread, thread_id, stack, state, count, weight })
            })
        })
    }

    /// Returns true if some frame of a stack is not hidden.
    fn shows_any(&self, snapshot: &Snapshot, profile: &Profile, stack: StackId) -> bool {
        let is_shown = |entry: &StackEntry| match entry.in_kernel {
            true if self.kernel => true,
            false if self.user => true,
            _ => matches!(snapshot.spaces.get(entry.space), Space::State(_)),
        };
        let mut places = profile.stacks.entries(stack);
        places.any(|place| profile.stacks.places().get(place.index()).is_some_and(is_shown))
    }

    /// Returns the samples that count as a profile of their own, with what `detail` keeps apart of threads.
    pub fn profile(&self, snapshot: &Snapshot, detail: Detail) -> Profile {
        let mut scoped = Profile::new(detail);
        let Some((whole, _)) = self.event(snapshot) else { return scoped };
        (scoped.stacks, scoped.loss) = (whole.stacks.clone(), whole.loss);
        let mut threads: Vec<Option<ThreadId>> = vec![None; whole.threads().len()];
        for ScopedStack { thread, thread_id, stack, count, .. } in self.stacks(snapshot) {
            let Some((pid, tid)) = thread.ids else { continue };
            let thread = *threads[thread_id.index()]
                .get_or_insert_with(|| scoped.thread(&thread.comm, pid, tid, || thread.comm.clone()));
            scoped.add_counts(thread, stack, count);
        }
        scoped
    }

    /// Returns the frames that are shown, with their modules.
    pub fn show(&self) -> Show {
        let Self { kernel, user, modules_only, .. } = *self;
        Show { kernel, user, modules: true, modules_only, one_liners: false, ..Show::default() }
    }

    /// Returns the view of samples of the event, which [`Scope::profile`] has chosen.
    pub fn view<'a>(&self, snapshot: &Snapshot, profile: &'a Profile, show: Show) -> View<'a> {
        let weight = self.event(snapshot).map_or(Weight::Samples, |(_, weight)| weight);
        View::new(profile, &snapshot.spaces, |_, entry| snapshot.names.resolution(entry), show, weight)
    }

    /// Returns the weight of all stacks that count.
    pub fn total(&self, snapshot: &Snapshot) -> u64 {
        self.stacks(snapshot).map(|stack| stack.weight).sum()
    }

    /// Returns the share of idle CPUs in the weight of the event, in per cent.
    pub fn idle_share(&self, snapshot: &Snapshot) -> f64 {
        let Some((profile, weight)) = self.event(snapshot) else { return 0.0 };
        let is_idle = |thread: ThreadId| profile.threads().get(thread.index()).is_some_and(is_idle);
        let idle = profile.counts().filter(|&(thread, ..)| is_idle(thread));
        let idle = idle.map(|(.., count)| count.weight(weight)).sum();
        crate::snapshot::share(idle, profile.total().weight(weight))
    }

    fn admits(&self, thread: &Thread) -> bool {
        (self.idle || !is_idle(thread))
            && self.task.is_none_or(|choice| choice.admits(thread))
            && self.filter.admits(thread)
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
            let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            let mut total = 0;
            let profile = &snapshot.profiles[0];
            let view = scope.view(&snapshot, profile, scope.show());
            let frames_of = |stack: ScopedStack<'_>| {
                let mut frames = Vec::new();
                view.stack(stack.thread_id, stack.stack, &mut frames);
                let frames = frames.iter().rev().map(|frame| &view.frames().frames()[frame.index()]);
                frames.filter(|frame| !frame.label.is_thread()).map(export::report::function).collect()
            };
            let stacks: Vec<(Vec<String>, u64)> =
                scope.stacks(&snapshot).map(|stack| (frames_of(stack), stack.weight)).collect();
            for (frames, weight) in &stacks {
                total += weight;
                expected.entry(frames[0].clone()).or_default().0 += weight;
                let each: std::collections::BTreeSet<&String> = frames.iter().collect();
                each.iter().for_each(|&function| expected.entry(function.clone()).or_default().1 += weight);
            }
            let rows = functions(&snapshot, &scope);
            let name = |row: &FunctionRow| export::report::function(&row.frame);
            let found: BTreeMap<String, (u64, u64)> =
                rows.iter().map(|row| (name(row), (row.self_weight, row.total))).collect();
            assert_eq!(found, expected);
            assert_eq!((scope.total(&snapshot), FlameTree::new(&snapshot, &scope).total()), (total, total));
            for row in &rows {
                let function = name(row);
                let neighbours = CallersAndCallees::new(&snapshot, &scope, &row.frame.label).unwrap();
                // Only stacks without recursion: a recursive function is its own callee.
                let own = stacks.iter().filter(|(frames, _)| {
                    frames[0] == function && frames.iter().filter(|other| **other == function).count() == 1
                });
                assert_eq!(
                    (neighbours.total(), neighbours.self_weight()),
                    (expected[&function].1, own.map(|(_, w)| w).sum())
                );
            }
        }
    }
}
