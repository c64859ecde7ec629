//! Sums the time of one thread, from its start or that of the recording to its end.

mod late_records;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use perfdata::sections::Schedstat;
use profile::{Count, StackId, ThreadId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

use super::add;
use super::kernel_counts::{Class, Difference, Uncounted, class, missing, part, pieces, signed};
use super::placed::{Intervals, Parts};
use super::readings::{Readings, heaviest};
use super::state::{Causes, State, Wait};
use super::unwoken::UnwokenWaits;

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
    /// Waits that ended without a recorded waking.
    unwoken: UnwokenWaits,
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

/// The time between two counts of the kernel, and the parts of it that are known, in nanoseconds.
#[derive(Default)]
struct Stretch {
    ran: u64,
    runnable: u64,
    unwatched: u64,
    /// Time that the thread had been running, or waiting for a CPU, at the count that ends the stretch. The kernel may not have counted
    /// it yet.
    uncounted: Uncounted,
    /// The part of the unwatched time that the filter admits, by the name that the thread had.
    wanted: BTreeMap<ThreadId, u64>,
}

/// Time that a thread ran, could have run, and was blocked, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Shares {
    running: u64,
    runnable: u64,
    blocked: u64,
}

impl Shares {
    fn all(self) -> u64 {
        self.running.saturating_add(self.runnable).saturating_add(self.blocked)
    }

    /// Splits `time` as these are split.
    fn split(self, time: u64) -> Self {
        let running = part(time, self.running, self.all());
        let runnable = part(time, self.runnable, self.all()).min(time - running);
        Self { running, runnable, blocked: time - running - runnable }
    }

    fn add(&mut self, other: Self) {
        self.running = self.running.saturating_add(other.running);
        self.runnable = self.runnable.saturating_add(other.runnable);
        self.blocked = self.blocked.saturating_add(other.blocked);
    }
}

impl Life {
    /// Adds an interval, whether a filter admits it or not: the kernel's counts are of all time.
    pub(super) fn measure(&mut self, activity: Activity, span: (u64, u64), counted: &[Schedstat]) {
        self.unwoken.measure(class(activity), span.1.saturating_sub(span.0));
        for (number, length) in pieces(span, counted) {
            let stretch = self.stretches.entry(number).or_default();
            let count = counted.get(number).filter(|count| count.time < span.1);
            if let (Some(class), Some(count)) = (class(activity), count) {
                stretch.uncounted = Uncounted::new(class, count.time.saturating_sub(span.0));
            }
            let sum = match (activity, class(activity)) {
                (Activity::Unwatched, _) => &mut stretch.unwatched,
                (_, Some(Class::Running)) => &mut stretch.ran,
                (_, Some(Class::Runnable)) => &mut stretch.runnable,
                _ => return,
            };
            *sum = sum.saturating_add(length);
        }
    }

    /// Adds an interval that the filter admits.
    pub(super) fn add(&mut self, state: State, (start, end): (u64, u64), counted: &[Schedstat]) {
        let period = end.saturating_sub(start);
        self.unwoken.admit(state, period);
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
            unwoken: self.unwoken.take_part(),
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

    /// Distributes the time of gaps to the states of the thread, under the name that it had. Between two counts, the kernel says
    /// how long it ran and was runnable. Before the first and after the last, the shares between them apply, and without any
    /// count the shares of the recorded time. Then corrects the sums of recorded time by the same counts.
    pub(super) fn share_unwatched(&mut self, counted: &[Schedstat]) {
        let (mut names, mut left) = (BTreeMap::<ThreadId, Shares>::new(), BTreeMap::<ThreadId, u64>::new());
        let mut known = Shares::default();
        // The kernel counts what a thread runs when its tick comes: what is ahead in one stretch is missing in the next.
        let (mut running, mut runnable) = (0_i64, 0_i64);
        let stretches = std::mem::take(&mut self.stretches);
        // The numbers of the first and the last count between which time is known.
        let mut bounds: Option<(usize, usize)> = None;
        // The time on the CPU or ready for it between them.
        let mut measured = 0_u64;
        for (&number, stretch) in &stretches {
            let between = number.checked_sub(1).and_then(|first| counted.get(first)).zip(counted.get(number));
            let counts = between.and_then(|(first, last)| {
                let runnable = last.runnable.checked_sub(first.runnable)?;
                Some((last.running.checked_sub(first.running)?, runnable))
            });
            let Some((ran, could_run)) = counts else {
                for (name, time) in &stretch.wanted {
                    *left.entry(*name).or_default() += time;
                }
                continue;
            };
            measured = measured.saturating_add(stretch.ran).saturating_add(stretch.runnable);
            bounds = Some((bounds.map_or(number.saturating_sub(1), |(first, _)| first), number));
            running = running.saturating_add(signed(ran)).saturating_sub(signed(stretch.ran));
            runnable = runnable.saturating_add(signed(could_run)).saturating_sub(signed(stretch.runnable));
            let ran = running.clamp(0, signed(stretch.unwatched)).unsigned_abs();
            let rest = stretch.unwatched - ran;
            let could_run = runnable.clamp(0, signed(rest)).unsigned_abs();
            let shares = Shares { running: ran, runnable: could_run, blocked: rest - could_run };
            running -= signed(shares.running);
            runnable -= signed(shares.runnable);
            known.add(shares);
            for (name, time) in &stretch.wanted {
                names.entry(*name).or_default().add(shares.split(*time));
            }
        }
        if known.all() == 0 {
            known = Shares {
                running: self.ran.values().copied().fold(0, u64::saturating_add),
                runnable: self.known(Class::Runnable, None),
                blocked: self.known(Class::Blocked, None),
            };
        }
        for (thread, time) in left {
            if known.all() == 0 {
                let key = State { thread, activity: Activity::Unknown, wait: Wait::default() };
                add(self.states.entry(key).or_default(), Count { samples: 0, period: time });
            } else {
                names.entry(thread).or_default().add(known.split(time));
            }
        }
        // The kernel counts a wait for a CPU when it ends. Until then, its time was taken for blocked.
        let blocked = names.values().map(|shares| shares.blocked).fold(0, u64::saturating_add);
        let late = |time: i64| missing(time).min(blocked);
        let (late_running, late_runnable) = (late(running), late(runnable));
        let rest = Difference {
            running: running.saturating_sub(signed(late_running)),
            runnable: runnable.saturating_sub(signed(late_runnable)),
        };
        let uncounted = |number| stretches.get(&number).map(|stretch| stretch.uncounted).unwrap_or_default();
        if let Some((first, last)) = bounds {
            // What a filter admits has its part of it, and what comes before the first count and after the last as much as the rest.
            let (ran, ready) = self.on_cpu_and_ready();
            let admitted = ran.saturating_add(ready);
            self.correct(rest.beyond(uncounted(first), uncounted(last)).scale(admitted, measured));
        }
        for (thread, mut shares) in names {
            let more = part(late_running, shares.blocked, blocked).min(shares.blocked);
            let ready = part(late_runnable, shares.blocked, blocked).min(shares.blocked - more);
            shares.running = shares.running.saturating_add(more);
            shares.runnable = shares.runnable.saturating_add(ready);
            shares.blocked -= more + ready;
            self.add_running(thread, shares.running);
            self.spread(Class::Runnable, shares.runnable, thread);
            self.spread(Class::Blocked, shares.blocked, thread);
        }
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

    /// Adds `time` to the states of a class under a name of the thread, by their shares.
    fn spread(&mut self, wanted: Class, time: u64, thread: ThreadId) {
        let known = self.known(wanted, Some(thread));
        if known == 0 {
            if time > 0 {
                let activity = if wanted == Class::Runnable { Activity::Woken } else { Activity::Blocked };
                let key = State { thread, activity, wait: Wait::default() };
                add(self.states.entry(key).or_default(), Count { samples: 0, period: time });
            }
            return;
        }
        let mut parts = Parts::new(time, known.into());
        for (state, count) in &mut self.states {
            if class(state.activity) == Some(wanted) && state.thread == thread {
                count.period = count.period.saturating_add(parts.next(count.period));
            }
        }
    }
}
