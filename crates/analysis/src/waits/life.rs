//! Sums the time of one thread, from its start or that of the recording to its end.

mod gaps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use perfdata::sections::Schedstat;
use profile::{Count, StackId, ThreadId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

use super::add;
use super::kernel_counts::{Class, class, pieces};
use super::parts::Parts;
use super::placed::Intervals;
use super::readings::{Readings, heaviest};
use super::state::{Causes, State, Wait};

/// The time of a thread, summed by what it did and with which stack.
#[derive(Default)]
pub(super) struct Life {
    /// Time off the CPU, by state.
    pub(super) states: HashMap<State, Count, FxBuildHasher>,
    /// The waits that were read from outside.
    pub(super) readings: Readings,
    /// Periods of its samples.
    pub(super) samples: HashMap<(ThreadId, StackId), Count, FxBuildHasher>,
    /// Its running time under each of its names, in nanoseconds.
    pub(super) ran: BTreeMap<ThreadId, u64>,
    /// True if the thread has any sample: it is one of the threads that the user chose.
    pub(super) sampled: bool,
    /// The intervals of the thread in each state, if they are asked for.
    pub(super) intervals: Intervals,
    /// The stretch before each of the kernel's counts, by the count's number.
    stretches: BTreeMap<usize, Stretch>,
    /// The stacks of an earlier part, for a part without samples (live views take a thread's time in parts).
    earlier: Earlier,
}

/// The stacks of a thread in an earlier part of its time.
#[derive(Default)]
struct Earlier {
    /// The waits that were read from outside.
    readings: Readings,
    /// The stacks that stand for waits where nothing else is known: how often they were read in gaps, or how long switches tell of them.
    waits: Vec<(Wait, u64)>,
    /// The stacks that it was sampled with, and their periods.
    ran: Vec<(StackId, u64)>,
}

/// The time between two counts of the kernel, and the parts of it that are known.
#[derive(Default)]
struct Stretch {
    recorded: Recorded,
    /// The part of the unwatched time that the filter admits, by the name that the thread had, in nanoseconds.
    wanted: BTreeMap<ThreadId, u64>,
}

/// The time of a thread that records tell between two counts of the kernel, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct Recorded {
    /// On the CPU.
    pub(super) ran: u64,
    /// Ready for a CPU: waits that ended in the stretch.
    pub(super) runnable: u64,
    /// Nothing was recorded, for switches were held back.
    pub(super) unwatched: u64,
}

impl Life {
    /// Adds an interval, whether a filter admits it or not: the kernel's counts are of all time. It counts a wait for a CPU when that ends.
    pub(super) fn measure(&mut self, activity: Activity, span: (u64, u64), counted: &[Schedstat]) {
        let class = class(activity);
        if class == Some(Class::Runnable) {
            let number = counted.partition_point(|count| count.time < span.1);
            let sum = &mut self.stretches.entry(number).or_default().recorded.runnable;
            *sum = sum.saturating_add(span.1.saturating_sub(span.0));
            return;
        }
        for (number, length) in pieces(span, counted) {
            let recorded = &mut self.stretches.entry(number).or_default().recorded;
            let sum = match (activity, class) {
                (Activity::Unwatched, _) => &mut recorded.unwatched,
                (_, Some(Class::Running)) => &mut recorded.ran,
                _ => return,
            };
            *sum = sum.saturating_add(length);
        }
    }

    /// Adds an interval that the filter admits.
    pub(super) fn add(&mut self, state: State, (start, end): (u64, u64), counted: &[Schedstat]) {
        let period = end.saturating_sub(start);
        if class(state.activity) == Some(Class::Blocked) && state.is_bare() {
            self.readings.add_unread(period);
        }
        match (state.activity, class(state.activity)) {
            (Activity::Unwatched, _) => {
                for (number, length) in pieces((start, end), counted) {
                    let wanted = &mut self.stretches.entry(number).or_default().wanted;
                    let sum = wanted.entry(state.thread).or_default();
                    *sum = sum.saturating_add(length);
                }
            }
            (_, Some(Class::Running)) => self.add_running(state.thread, period),
            _ => add(self.states.entry(state).or_default(), Count { samples: 1, period }),
        }
    }

    /// Returns what is recorded before the kernel's count of this number, and behind the one before it.
    pub(super) fn recorded(&self, number: usize) -> Recorded {
        self.stretches.get(&number).map_or_else(Recorded::default, |stretch| stretch.recorded)
    }

    /// Returns the time so far as a part, and starts the next part. A part without samples, or without stacks of waits, gets those
    /// of the part before.
    pub(super) fn take_part(&mut self) -> Self {
        let mut part = Self {
            states: std::mem::take(&mut self.states),
            readings: std::mem::take(&mut self.readings),
            samples: std::mem::take(&mut self.samples),
            ran: std::mem::take(&mut self.ran),
            sampled: self.sampled,
            intervals: std::mem::take(&mut self.intervals),
            stretches: std::mem::take(&mut self.stretches),
            earlier: Earlier::default(),
        };
        let is_told = |state: &State| {
            class(state.activity) == Some(Class::Blocked) && state.wait.stack != StackId::EMPTY
        };
        let told = part.states.iter().filter(|(state, _)| is_told(state));
        let told = heaviest(told.map(|(state, count)| (state.wait, count.period)));
        self.earlier.readings.carry_over(&mut part.readings);
        let in_gaps = heaviest(part.readings.in_gaps());
        if let Some(waits) = [in_gaps, told].into_iter().find(|waits| !waits.is_empty()) {
            self.earlier.waits = waits;
        } else {
            part.earlier.waits.clone_from(&self.earlier.waits);
        }
        if !part.samples.is_empty() {
            let sampled = part.samples.iter().filter(|(_, count)| count.period > 0);
            self.earlier.ran = heaviest(sampled.map(|((_, stack), count)| (*stack, count.period)));
        } else if let Some((&thread, _)) = part.ran.iter().max_by_key(|(_, ran)| **ran) {
            let earlier = self.earlier.ran.iter();
            // A profile has nothing that was never seen.
            let count = |period| Count { samples: 1, period };
            part.samples.extend(earlier.map(|&(stack, period)| ((thread, stack), count(period))));
        }
        part
    }

    /// Replaces the stacks that are remembered from part to part.
    pub(super) fn rename_stacks(&mut self, mut rename: impl FnMut(StackId) -> StackId) {
        let Earlier { readings, waits, ran } = &mut self.earlier;
        readings.rename_stacks(&mut rename);
        let waits = waits.iter_mut().map(|(wait, _)| &mut wait.stack);
        waits.chain(ran.iter_mut().map(|(stack, _)| stack)).for_each(|stack| *stack = rename(*stack));
    }

    /// Returns for how long the thread ran, and for how long it was runnable, in nanoseconds.
    pub(super) fn on_cpu_and_ready(&self) -> (u64, u64) {
        let ran = self.ran.values().copied().fold(0, u64::saturating_add);
        (ran, self.known(Class::Runnable, None))
    }

    fn add_running(&mut self, thread: ThreadId, period: u64) {
        let ran = self.ran.entry(thread).or_default();
        *ran = ran.saturating_add(period);
    }

    /// Distributes waits without a stack to the stacks of other waits of the thread ([`Readings::shares`]). Where switches have
    /// no stacks (`are_records_alone`), the time ready for a CPU is distributed, too: after a wait by the stacks of the waits, after
    /// preemption by those of other preemptions, and where there are none by the thread's samples.
    pub(super) fn share_stacks(&mut self, causes: &Causes, are_records_alone: bool) {
        let is_blocked = |state: &State| class(state.activity) == Some(Class::Blocked);
        let mut told = self.with_stacks(is_blocked);
        if told.is_empty() {
            told.clone_from(&self.earlier.waits);
        }
        let bare = self.states.iter().filter(|(state, _)| is_blocked(state) && state.is_bare());
        let time = bare.map(|(_, count)| count.period).fold(0, u64::saturating_add);
        let waits = self.readings.shares(time, &told);
        let waits = causes.without_doubtful_objects(waits, |wait| self.readings.times_read(wait) > 1);
        self.share_bare(is_blocked, Activity::Blocked, &waits);
        if !are_records_alone {
            return;
        }
        let is_preempted = |state: &State| state.activity == Activity::Preempted;
        let preempted = self.or_sampled(self.with_stacks(is_preempted));
        self.share_bare(is_preempted, Activity::Preempted, &preempted);
        let waits = self.or_sampled(self.with_stacks(is_blocked));
        self.share_bare(|state| state.activity == Activity::Woken, Activity::Woken, &waits);
    }

    /// Returns `known`, or the stacks that the thread was sampled with if there are none.
    fn or_sampled(&self, known: Vec<(Wait, u64)>) -> Vec<(Wait, u64)> {
        if !known.is_empty() {
            return known;
        }
        let mut ran: BTreeMap<Wait, u64> = BTreeMap::new();
        for ((_, stack), count) in &self.samples {
            let sum = ran.entry(Wait { stack: *stack, ..Wait::default() }).or_default();
            *sum = sum.saturating_add(count.period);
        }
        ran.into_iter().collect()
    }

    /// Returns the stacks of these states, and for how long the thread was in them.
    fn with_stacks(&self, is_wanted: impl Fn(&State) -> bool) -> Vec<(Wait, u64)> {
        let states = self.states.iter().filter(|(state, _)| is_wanted(state) && !state.is_bare());
        let mut waits: Vec<(Wait, u64)> = states.map(|(state, count)| (state.wait, count.period)).collect();
        waits.sort_unstable();
        waits
    }

    /// Distributes the time of these states, where they have no stack, to `waits`, by their weights. Without any, they stay.
    fn share_bare(&mut self, is_wanted: impl Fn(&State) -> bool, activity: Activity, waits: &[(Wait, u64)]) {
        let all: u128 = waits.iter().map(|(_, weight)| u128::from(*weight)).sum();
        if all == 0 {
            return;
        }
        let mut bare: BTreeMap<ThreadId, u64> = BTreeMap::new();
        self.states.retain(|state, count| {
            let is_taken = is_wanted(state) && state.is_bare();
            if is_taken {
                let sum = bare.entry(state.thread).or_default();
                *sum = sum.saturating_add(count.period);
            }
            !is_taken
        });
        for (thread, bare) in bare {
            let mut parts = Parts::new(bare, all);
            for &(wait, weight) in waits {
                let state = State { thread, activity, wait };
                let count = Count { samples: 0, period: parts.next(weight) };
                add(self.states.entry(state).or_default(), count);
            }
        }
    }

    /// Returns the time that the thread spent in this class, under one of its names or under all.
    fn known(&self, wanted: Class, thread: Option<ThreadId>) -> u64 {
        let is_wanted = |state: &State| {
            class(state.activity) == Some(wanted) && thread.is_none_or(|thread| thread == state.thread)
        };
        let states = self.states.iter().filter(|(state, _)| is_wanted(state));
        states.map(|(_, count)| count.period).fold(0, u64::saturating_add)
    }
}
