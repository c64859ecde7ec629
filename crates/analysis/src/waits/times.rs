//! The time of threads, and the states that name it.

use std::collections::HashMap;

use model::{
    AddressKind, Blocked, FileOffset, Resolution, Runnable, Space, SpaceId, SpaceTable, StackEntry,
    ThreadState, Timestamp,
};
use profile::{Count, Profile, Sample, StackId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

use super::causes::{both, cause};
use super::placed::{Content, Piece};
use super::spans::Wakers;
use super::state::{Causes, State, Wait};

/// The time of threads, before what they waited for is known.
pub(crate) struct Times {
    /// Running time, and the stacks of all.
    pub(crate) profile: Profile,
    pub(super) states: HashMap<State, Count, FxBuildHasher>,
    /// All time in pieces, where the profile keeps single samples; states and profile have none then.
    pub(super) pieces: Option<Vec<Piece>>,
    pub(super) causes: Causes,
    pub(super) wakers: Wakers,
}

impl Times {
    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        let has_pieces = self.pieces.as_ref().is_some_and(|pieces| !pieces.is_empty());
        self.states.is_empty() && self.profile.total().samples == 0 && !has_pieces
    }

    /// Names the variables that threads waited for ([`Causes::name_variables`]).
    pub(crate) fn name_variables(
        &mut self,
        names: impl Fn(SpaceId, &[(FileOffset, u64)]) -> Vec<Option<String>>,
    ) {
        self.causes.name_variables(names);
    }

    /// Puts the state of each stretch of time on top of its stack, now that functions have names.
    pub(crate) fn with_states<'r>(
        self,
        spaces: &mut SpaceTable,
        resolve: impl Fn(&StackEntry) -> Option<&'r Resolution>,
    ) -> Profile {
        let Self { mut profile, states, pieces, causes, wakers } = self;
        let mut states: Vec<_> = states.into_iter().collect();
        states.sort_unstable_by_key(|(key, _)| *key);
        let mut pieces = pieces.unwrap_or_default();
        // A wait that nobody read has a stack alone: with one that was read it is one row.
        let waits = states.iter().map(|(state, _)| (state.thread, state.wait));
        let objects = causes.only_objects(waits.chain(pieces.iter().filter_map(Piece::wait)));
        for (state, _) in &mut states {
            state.wait = causes.with_only_object(&objects, state.thread, state.wait);
        }
        for piece in &mut pieces {
            if let Content::In(_, wait) = &mut piece.content {
                *wait = causes.with_only_object(&objects, piece.thread, *wait);
            }
        }
        let mut leaves: HashMap<(Wait, Activity), StackId, FxBuildHasher> = HashMap::default();
        let mut leaf_of = |profile: &mut Profile, activity: Activity, wait: Wait| {
            *leaves.entry((wait, activity)).or_insert_with(|| {
                let Wait { stack, cause, waker } = wait;
                let state = state_of(activity, stack, profile, &resolve);
                let state = with_request(state, cause.and_then(|cause| causes.of(cause)));
                let is_blocked = matches!(state, ThreadState::Blocked(_));
                let waker = waker.filter(|_| is_blocked).and_then(|waker| wakers.of(waker));
                let states = [Some(state), waker.cloned().map(ThreadState::WokenBy)];
                let push = |stack, state| {
                    let space = spaces.intern(Space::State(state));
                    let kind = AddressKind::InstructionPointer;
                    profile.stacks.push(stack, StackEntry { offset: 0, space, kind, in_kernel: false })
                };
                states.into_iter().flatten().fold(stack, push)
            })
        };
        for (State { thread, activity, wait }, count) in states {
            let stack = leaf_of(&mut profile, activity, wait);
            // A state that got its time by sharing has no sample of its own, but a profile has no weight without a sample.
            let count = Count { samples: count.samples.max(1), ..count };
            profile.add_counts(thread, stack, count);
        }
        let longest = longest_sample(&pieces);
        let mut samples: Vec<Sample> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let stack = match piece.content {
                Content::Ran(stack) => stack,
                Content::In(activity, wait) => leaf_of(&mut profile, activity, wait),
            };
            samples.extend(piece.split(longest).enumerate().map(|(part, (time, period))| Sample {
                thread: piece.thread,
                stack,
                period,
                time: Some(Timestamp(time)),
                cpu: piece.cpu,
                is_continued: part > 0,
            }));
        }
        // A profile has the samples in the order of time.
        samples.sort_by_key(|sample| sample.time);
        samples.into_iter().for_each(|sample| profile.count(sample));
        profile.stacks.release_indexes();
        profile
    }
}

/// Samples that the time of all threads is split into at most, beside one for each interval.
const MAX_SPLIT_SAMPLES: u64 = 200_000;
/// The shortest time that is split, in nanoseconds: what a sample at the usual 997 Hz stands for.
const MIN_SPLIT: u64 = 1_000_000;

/// Returns the time that a sample stands for at most, in nanoseconds: a wait of an hour is many of them, so that it can be seen
/// and selected in part.
fn longest_sample(pieces: &[Piece]) -> u64 {
    let lengths = pieces.iter().map(|piece| piece.end.saturating_sub(piece.start));
    (lengths.fold(0, u64::saturating_add) / MAX_SPLIT_SAMPLES).max(MIN_SPLIT)
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
