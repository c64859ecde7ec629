//! Sums the time of threads by what they did.

use std::collections::HashMap;

use export::summary::Activity;
use rustc_hash::FxBuildHasher;

use super::{Scope, TaskChoice};
use crate::snapshot::{Snapshot, StateKind, ids_of};

/// A part of the time of threads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TimePart {
    /// All time.
    #[default]
    All,
    /// Time on the CPU.
    OnCpu,
    /// Time off the CPU: runnable, or blocked.
    OffCpu,
}

impl TimePart {
    /// Returns the next part, in a cycle.
    pub fn next(self) -> Self {
        match self {
            Self::All => Self::OnCpu,
            Self::OnCpu => Self::OffCpu,
            Self::OffCpu => Self::All,
        }
    }

    /// Returns true if a thread's state belongs to this part.
    pub(crate) fn has(self, doing: Option<StateKind>) -> bool {
        let is_on = matches!(doing, None | Some(StateKind::Running));
        match self {
            Self::All => true,
            Self::OnCpu => is_on,
            Self::OffCpu => !is_on,
        }
    }
}

/// The time of the threads of a scope by what they did, at rest or not.
#[derive(Clone, Default, Debug)]
pub struct TimeSpent {
    all: Activity,
    /// By process, and by thread.
    tasks: HashMap<TaskChoice, Activity, FxBuildHasher>,
}

impl TimeSpent {
    /// Sums the time of a scope.
    pub fn of(snapshot: &Snapshot, scope: &Scope) -> Self {
        let scope = Scope { at_rest: true, part: TimePart::All, ..scope.clone() };
        let mut spent = Self::default();
        for stack in scope.stacks(snapshot) {
            let (pid, tid) = ids_of(stack.thread);
            for tid in [None, Some(tid)] {
                add(spent.tasks.entry(TaskChoice { pid, tid }).or_default(), stack.state, stack.weight);
            }
            add(&mut spent.all, stack.state, stack.weight);
        }
        spent
    }

    /// The time of all threads.
    pub fn all(&self) -> Activity {
        self.all
    }

    /// The time of all threads as far as the scope shows it.
    pub fn shown(&self, scope: &Scope) -> Activity {
        let (on, off) = (scope.part.has(None), scope.part.has(Some(StateKind::Blocked)));
        let of = |is: bool, time: u64| if is { time } else { 0 };
        let Activity { running, runnable, blocked, waiting, unknown } = self.all;
        Activity {
            running: of(on, running),
            runnable: of(off, runnable),
            blocked: of(off, blocked),
            waiting: of(off && scope.at_rest, waiting),
            unknown: of(off, unknown),
        }
    }

    /// The time of a process, or of one of its threads.
    pub fn of_task(&self, choice: TaskChoice) -> Activity {
        self.tasks.get(&choice).copied().unwrap_or_default()
    }
}

fn add(spent: &mut Activity, doing: Option<StateKind>, time: u64) {
    let sum = match doing {
        None | Some(StateKind::Running) => &mut spent.running,
        Some(StateKind::Runnable) => &mut spent.runnable,
        Some(StateKind::Blocked) => &mut spent.blocked,
        Some(StateKind::AtRest) => &mut spent.waiting,
        Some(StateKind::Unknown) => &mut spent.unknown,
    };
    *sum = sum.saturating_add(time);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SnapshotBuilder;

    #[test]
    fn time_is_summed_by_thread_also_at_rest() {
        let mut build = SnapshotBuilder::default();
        build
            .stack(1, 1, "a", "main;work", 5)
            .stack(1, 1, "a", "main;_k_read;[blocked: pipe read]", 7)
            .stack(1, 2, "b", "main;[waiting: epoll]", 11)
            .stack(1, 2, "b", "main;[runnable: woken]", 2);
        let snapshot = build.snapshot();
        let (scope, spent) = (Scope::default(), TimeSpent::of(&snapshot, &Scope::default()));
        let expected = Activity { running: 5, runnable: 2, blocked: 7, waiting: 11, unknown: 0 };
        assert_eq!(spent.all(), expected);
        assert_eq!(spent.of_task(TaskChoice { pid: 1, tid: Some(2) }).total(), 13);
        assert_eq!(scope.total(&snapshot), 14, "what is at rest does not count");
        assert_eq!(Scope { at_rest: true, ..scope.clone() }.total(&snapshot), 25);
        let part = |part| Scope { part, ..scope.clone() };
        for part in [TimePart::All, TimePart::OnCpu, TimePart::OffCpu].map(part) {
            assert_eq!(spent.shown(&part).total(), part.total(&snapshot), "{part:?}");
        }
        assert_eq!(part(TimePart::OnCpu).total(&snapshot), 5);
        assert_eq!(part(TimePart::OffCpu).total(&snapshot), 9);
        assert_eq!(TimeSpent::of(&snapshot, &part(TimePart::OnCpu)).all(), expected, "whatever is shown");
        let no_kernel = Scope { kernel: false, ..Scope::default() };
        assert_eq!(TimeSpent::of(&snapshot, &no_kernel).all(), expected, "states are no code");
    }
}
