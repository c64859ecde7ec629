//! Sums the time of one thread, from its start or that of the recording to its end.

mod settling;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use profile::{Count, StackId, ThreadId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

use super::add;
use super::kernel_counts::{Class, Recorded, Shares, class};
use super::placed::{Intervals, Substitutes, WeighedWaits, shared_out};
use super::state::{Causes, State, Wait};

/// Time between two readings of a blocked thread from outside, in nanoseconds. A longer wait is always read. A shorter one that is read
/// stands for those that were not: it is as likely to be read as it is long.
const READING_INTERVAL_NS: u64 = 25_000_000;

/// The time of a thread, summed by what it did and with which stack.
#[derive(Default)]
pub(super) struct Life {
    /// Time off the CPU, by state.
    pub(super) states: HashMap<State, Count, FxBuildHasher>,
    /// Periods of its samples.
    pub(super) samples: HashMap<(ThreadId, StackId), Count, FxBuildHasher>,
    /// Its running time under each of its names, in nanoseconds.
    pub(super) ran: BTreeMap<ThreadId, u64>,
    /// True if the thread has any sample: it is one of the threads that the user chose.
    pub(super) sampled: bool,
    /// The intervals of the thread in each state, if they are asked for.
    pub(super) intervals: Intervals,
    /// Time in which switches were not recorded, under each of its names, in nanoseconds.
    unwatched: BTreeMap<ThreadId, u64>,
    /// What records say of the time behind each of the kernel's counts, by its time.
    recorded: BTreeMap<u64, Recorded>,
    /// For how long it has waited for a CPU, if it still does, in nanoseconds.
    waited: u64,
    /// The running and runnable time that the filter admits, since the kernel's counts were looked at last.
    admitted: u64,
    /// The kernel's shares of time in which switches were not recorded.
    shares: Shares,
    /// The time that waits which were read from outside stand for beside their own.
    readings: HashMap<Wait, u64, FxBuildHasher>,
    /// The stacks of an earlier part, for a part without (live views take a thread's time in parts).
    earlier: Earlier,
}

/// The stacks that a thread waited and ran with in the last part of its time that has any, with their weights.
#[derive(Clone, Default)]
struct Earlier {
    waits: WeighedWaits,
    ran: Vec<(StackId, u64)>,
}

impl Life {
    /// Adds an interval that the filter admits.
    pub(super) fn add(&mut self, state: State, (start, end): (u64, u64)) {
        let period = end.saturating_sub(start);
        if matches!(class(state.activity), Some(Class::Running | Class::Runnable)) {
            self.admitted = self.admitted.saturating_add(period);
        }
        match (state.activity, class(state.activity)) {
            (Activity::Unwatched, _) => add_time(&mut self.unwatched, state.thread, period),
            (_, Some(Class::Running)) => add_time(&mut self.ran, state.thread, period),
            _ => add(self.states.entry(state).or_default(), Count { samples: 1, period }),
        }
    }

    /// Adds a wait that was read from outside, of `length` nanoseconds; 0 where switches do not tell its length.
    pub(super) fn add_read(&mut self, wait: Wait, length: u64) {
        let weight = self.readings.entry(wait).or_default();
        *weight = weight.saturating_add(READING_INTERVAL_NS.saturating_sub(length));
    }

    /// Returns the time so far as a part, and starts the next part. A part without samples, or without stacks of waits, gets those
    /// of the part before.
    pub(super) fn take_part(&mut self) -> Self {
        let mut part = std::mem::take(self);
        self.sampled = part.sampled;
        // Readings of long ago weigh less and less.
        let readings = part.readings.iter().map(|(wait, weight)| (*wait, weight / 2));
        self.readings = readings.filter(|(_, weight)| *weight > 0).collect();
        self.earlier = part.earlier.clone();
        let is_told = |state: &State| is_blocked(state) && state.wait.stack != StackId::EMPTY;
        let told = part.with_stacks(is_told);
        if !told.is_empty() {
            self.earlier.waits = told;
        }
        let sampled = part.samples.iter().filter(|(_, count)| count.period > 0);
        let ran: Vec<(StackId, u64)> = sampled.map(|((_, stack), count)| (*stack, count.period)).collect();
        if !ran.is_empty() {
            self.earlier.ran = ran;
        } else if let Some((&thread, _)) = part.ran.iter().max_by_key(|(_, ran)| **ran) {
            let earlier = part.earlier.ran.iter();
            // A profile has nothing that was never seen.
            let count = |period| Count { samples: 1, period };
            part.samples.extend(earlier.map(|&(stack, period)| ((thread, stack), count(period))));
        }
        part
    }

    /// Takes back from the part that was taken last what the next one needs of the kernel's counts.
    pub(super) fn go_on_after(&mut self, part: &mut Self) {
        (self.shares, self.admitted, self.waited) = (part.shares, part.admitted, part.waited);
        self.recorded = std::mem::take(&mut part.recorded);
    }

    /// Replaces the stacks that are remembered from part to part.
    pub(super) fn rename_stacks(&mut self, mut rename: impl FnMut(StackId) -> StackId) {
        let readings = std::mem::take(&mut self.readings).into_iter();
        self.readings =
            readings.map(|(wait, weight)| (Wait { stack: rename(wait.stack), ..wait }, weight)).collect();
        let Earlier { waits, ran } = &mut self.earlier;
        let waits = waits.iter_mut().map(|(wait, _)| &mut wait.stack);
        waits.chain(ran.iter_mut().map(|(stack, _)| stack)).for_each(|stack| *stack = rename(*stack));
    }

    /// Finds the stacks that stand for waits without one: those of the waits that were read from outside stand for
    /// the ones that were not, and where none was, those that switches tell. Where switches have no stacks (`are_records_alone`), there
    /// are some for the time ready for a CPU, too: after a wait those of the waits, after preemption those of other preemptions, and where
    /// there are none those of the thread's samples. Returns them, and shares out the sums by them.
    pub(super) fn share_stacks(&mut self, causes: &Causes, are_records_alone: bool) -> Substitutes {
        let mut substitutes = Substitutes::default();
        let mut read: BTreeMap<Wait, u64> = BTreeMap::new();
        for (&wait, &weight) in self.readings.iter().filter(|(_, weight)| **weight > 0) {
            *read.entry(causes.without_object(wait)).or_default() += weight;
        }
        let mut waits: WeighedWaits = read.into_iter().collect();
        if waits.is_empty() {
            waits = self.with_stacks(is_blocked);
        }
        if waits.is_empty() {
            waits.clone_from(&self.earlier.waits);
        }
        self.share_bare(is_blocked, Activity::Blocked, &waits);
        substitutes.0.extend(
            [Activity::Blocked, Activity::Uninterruptible, Activity::BlockedSinceBefore]
                .map(|activity| (activity, waits.clone())),
        );
        if are_records_alone {
            for activity in [Activity::Preempted, Activity::Woken] {
                let stands_for = |state: &State| match activity {
                    Activity::Woken => is_blocked(state),
                    _ => state.activity == activity,
                };
                let known = self.or_sampled(self.with_stacks(stands_for));
                self.share_bare(|state| state.activity == activity, activity, &known);
                substitutes.0.insert(activity, known);
            }
        }
        substitutes
    }

    /// Returns `known`, or the stacks that the thread was sampled with if there are none.
    fn or_sampled(&self, known: WeighedWaits) -> WeighedWaits {
        if !known.is_empty() {
            return known;
        }
        let mut ran: BTreeMap<Wait, u64> = BTreeMap::new();
        for ((_, stack), count) in &self.samples {
            add_time(&mut ran, Wait { stack: *stack, ..Wait::default() }, count.period);
        }
        ran.into_iter().collect()
    }

    /// Returns the stacks of these states, and for how long the thread was in them.
    fn with_stacks(&self, is_wanted: impl Fn(&State) -> bool) -> WeighedWaits {
        let states = self.states.iter().filter(|(state, _)| is_wanted(state) && !state.is_bare());
        let mut waits: WeighedWaits = states.map(|(state, count)| (state.wait, count.period)).collect();
        waits.sort_unstable();
        waits
    }

    /// Distributes the time of these states, where they have no stack, to `waits`, by their weights. Without any, they stay.
    fn share_bare(&mut self, is_wanted: impl Fn(&State) -> bool, activity: Activity, waits: &[(Wait, u64)]) {
        if waits.iter().all(|(_, weight)| *weight == 0) {
            return;
        }
        let mut bare: BTreeMap<ThreadId, u64> = BTreeMap::new();
        self.states.retain(|state, count| {
            let is_taken = is_wanted(state) && state.is_bare();
            if is_taken {
                add_time(&mut bare, state.thread, count.period);
            }
            !is_taken
        });
        for (thread, bare) in bare {
            for (wait, period) in shared_out(bare, waits) {
                let count = Count { samples: 0, period };
                add(self.states.entry(State { thread, activity, wait }).or_default(), count);
            }
        }
    }
}

fn is_blocked(state: &State) -> bool {
    class(state.activity) == Some(Class::Blocked)
}

fn add_time<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, time: u64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(time);
}
