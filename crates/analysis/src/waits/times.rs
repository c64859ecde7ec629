//! The time of threads, and the states that name it.

use std::collections::HashMap;

use model::{AddressKind, Blocked, Resolution, Runnable, Space, SpaceTable, StackEntry, ThreadState};
use profile::{Count, Profile, StackId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

use super::causes::{both, cause};
use super::state::{Causes, State, Wait, Wakers};

/// The time of threads, before what they waited for is known.
pub(crate) struct Times {
    /// Running time, and the stacks of all.
    pub(crate) profile: Profile,
    pub(super) states: HashMap<State, Count, FxBuildHasher>,
    pub(super) causes: Causes,
    pub(super) wakers: Wakers,
}

impl Times {
    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.states.is_empty() && self.profile.total().samples == 0
    }

    /// Puts the state of each stretch of time on top of its stack, now that functions have names. What event loops were at
    /// rest may be left out; returns how long that was, in nanoseconds.
    pub(crate) fn with_states<'r>(
        self,
        spaces: &mut SpaceTable,
        leaves_rest_out: bool,
        resolve: impl Fn(&StackEntry) -> Option<&'r Resolution>,
    ) -> (Profile, u64) {
        let mut left_out = 0_u64;
        let Self { mut profile, states, causes, wakers } = self;
        let mut states: Vec<_> = states.into_iter().collect();
        states.sort_unstable_by_key(|(key, _)| *key);
        let mut leaves: HashMap<(Wait, Activity), Option<StackId>, FxBuildHasher> = HashMap::default();
        for (State { thread, activity, wait }, count) in states {
            let leaf = *leaves.entry((wait, activity)).or_insert_with(|| {
                let Wait { stack, cause, waker } = wait;
                let state = state_of(activity, stack, &profile, &resolve);
                let state = with_request(state, cause.and_then(|cause| causes.of(cause)));
                if leaves_rest_out && matches!(state, ThreadState::Blocked(Blocked::Events(_))) {
                    return None;
                }
                let is_blocked = matches!(state, ThreadState::Blocked(_));
                let waker = waker.filter(|_| is_blocked).and_then(|waker| wakers.of(waker));
                let states = [Some(state), waker.cloned().map(ThreadState::WokenBy)];
                let push = |stack, state| {
                    let space = spaces.intern(Space::State(state));
                    let kind = AddressKind::InstructionPointer;
                    profile.stacks.push(stack, StackEntry { offset: 0, space, kind, in_kernel: false })
                };
                Some(states.into_iter().flatten().fold(stack, push))
            });
            match leaf {
                Some(stack) => {
                    // What was shared out has been seen at least once, and a profile has nothing that was not.
                    let count = Count { samples: count.samples.max(1), ..count };
                    profile.add_counts(thread, stack, count);
                }
                None => left_out = left_out.saturating_add(count.period),
            }
        }
        profile.stacks.release_indexes();
        (profile, left_out)
    }
}

/// Sums a profile of time by what threads did.
pub(crate) fn activity(profile: &Profile, spaces: &SpaceTable) -> export::summary::Activity {
    let mut activity = export::summary::Activity::default();
    for (_, stack, count) in profile.counts() {
        let entries = profile.stacks.entries(stack);
        let mut spaces = entries
            .filter_map(|place| profile.stacks.places().get(place.index()))
            .map(|entry| spaces.get(entry.space))
            .skip_while(|space| matches!(space, Space::State(ThreadState::WokenBy(_))));
        let sum = match spaces.next() {
            Some(Space::State(ThreadState::Runnable(_))) => &mut activity.runnable,
            Some(Space::State(ThreadState::Blocked(Blocked::Events(_)))) => &mut activity.waiting,
            Some(Space::State(ThreadState::Blocked(_))) => &mut activity.blocked,
            Some(Space::State(ThreadState::Unknown)) => &mut activity.unknown,
            _ => &mut activity.running,
        };
        *sum = sum.saturating_add(count.period);
    }
    activity
}

fn state_of<'r>(
    activity: Activity,
    stack: StackId,
    profile: &Profile,
    resolve: &impl Fn(&StackEntry) -> Option<&'r Resolution>,
) -> ThreadState {
    let entries = profile.stacks.entries(stack);
    let entries = entries.filter_map(|place| profile.stacks.places().get(place.index()));
    let kernel = entries.take_while(|entry| entry.in_kernel);
    let functions = || {
        let resolved = kernel.filter_map(|entry| match resolve(entry)? {
            Resolution::Resolved(symbolized) => Some(symbolized.frames.iter().map(|frame| &*frame.function)),
            _ => None,
        });
        resolved.flatten().collect()
    };
    thread_state(activity, functions)
}

/// Returns the state of a thread by what it did, and by the functions of the kernel on its stack, innermost first, which are
/// asked for where it was blocked.
pub fn thread_state<'f>(activity: Activity, functions: impl FnOnce() -> Vec<&'f str>) -> ThreadState {
    let blocked =
        |is_uninterruptible| ThreadState::Blocked(cause(functions().into_iter(), is_uninterruptible));
    match activity {
        Activity::Running => ThreadState::Running,
        Activity::Preempted => ThreadState::Runnable(Runnable::Preempted),
        Activity::Woken => ThreadState::Runnable(Runnable::Woken),
        Activity::Started => ThreadState::Runnable(Runnable::Started),
        Activity::Blocked => blocked(false),
        Activity::Uninterruptible => blocked(true),
        Activity::BlockedSinceBefore => ThreadState::Blocked(Blocked::SinceBefore),
        Activity::Unknown | Activity::Unwatched => ThreadState::Unknown,
    }
}

/// Adds to the state of a blocked thread what it has asked the kernel for, where somebody read that from outside.
pub fn with_request(state: ThreadState, request: Option<Blocked>) -> ThreadState {
    match (state, request) {
        (ThreadState::Blocked(known), Some(request)) => ThreadState::Blocked(both(known, request)),
        (state, _) => state,
    }
}
