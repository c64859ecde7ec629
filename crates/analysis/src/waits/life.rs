//! Sums the time of one thread, from its start or that of the recording to its end.

mod late_records;

use std::collections::{BTreeMap, HashMap};

use perfdata::sections::Schedstat;
use profile::{Count, StackId, ThreadId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

use super::add;
use super::kernel_counts::{Class, Difference, Uncounted, class, missing, part, pieces, signed};
use super::placed::{Intervals, Parts};
use super::state::{State, Wait};
use super::unwoken::UnwokenWaits;

/// The time of a thread, summed by what it did and with which stack.
#[derive(Default)]
pub(super) struct Life {
    /// Time off the CPU, by state.
    pub(super) states: HashMap<State, Count, FxBuildHasher>,
    /// The number of times that it was seen blocked with each stack, from outside.
    pub(super) seen: HashMap<Wait, u64, FxBuildHasher>,
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
    /// The stacks that it was seen blocked with, and how often.
    waits: Vec<(Wait, u64)>,
    /// The stacks that it was sampled with, and their periods.
    ran: Vec<(StackId, u64)>,
}

/// Maximum number of stacks that are remembered from part to part.
const MAX_EARLIER_STACKS: usize = 16;

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
            seen: std::mem::take(&mut self.seen),
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
        if !part.seen.is_empty() {
            self.earlier.waits = heaviest(part.seen.iter().map(|(wait, times)| (*wait, *times)));
        } else if !told.is_empty() {
            self.earlier.waits = told;
        } else {
            part.seen.extend(self.earlier.waits.iter().copied());
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
        let Earlier { waits, ran } = &mut self.earlier;
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

    /// Distributes waits without a stack to the stacks that were read from outside, by how often each was: each reading is a
    /// sample in time.
    pub(super) fn share_stacks(&mut self) {
        let is_bare =
            |state: &State| state.wait == Wait::default() && class(state.activity) == Some(Class::Blocked);
        let mut known: Vec<(Wait, u64)> = self.seen.drain().collect();
        if known.is_empty() {
            // Where switches were recorded for moments: by how long waits with a stack were.
            let states =
                self.states.iter().filter(|(state, _)| class(state.activity) == Some(Class::Blocked));
            known = states
                .filter(|(state, _)| !is_bare(state))
                .map(|(state, count)| (state.wait, count.period))
                .collect();
        }
        known.sort_unstable();
        let all: u128 = known.iter().map(|(_, weight)| u128::from(*weight)).sum();
        if all == 0 {
            return;
        }
        let mut bare: BTreeMap<ThreadId, u64> = BTreeMap::new();
        self.states.retain(|state, count| {
            let taken = is_bare(state);
            if taken {
                let sum = bare.entry(state.thread).or_default();
                *sum = sum.saturating_add(count.period);
            }
            !taken
        });
        for (thread, bare) in bare {
            let mut parts = Parts::new(bare, all);
            for &(wait, weight) in &known {
                let state = State { thread, activity: Activity::Blocked, wait };
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

/// The heaviest of these.
fn heaviest<K: Ord + Copy>(all: impl Iterator<Item = (K, u64)>) -> Vec<(K, u64)> {
    let mut all: Vec<(K, u64)> = all.collect();
    all.sort_unstable_by_key(|&(key, weight)| (std::cmp::Reverse(weight), key));
    all.truncate(MAX_EARLIER_STACKS);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::state::CauseId;

    fn state(activity: Activity) -> State {
        State { thread: ThreadId::default(), activity, wait: Wait::default() }
    }

    /// The number of a second name.
    fn other_name() -> ThreadId {
        let mut profile = profile::Profile::default();
        let mut thread =
            |name: &str| profile.thread(&name.into(), model::Pid(1), model::Tid(1), || name.into());
        assert_eq!(thread("first"), ThreadId::default());
        thread("second")
    }

    fn told(life: &mut Life, state: State, span: (u64, u64), counted: &[Schedstat]) {
        life.measure(state.activity, span, counted);
        life.add(state, span, counted);
    }

    /// A tenth was watched: it ran for a quarter of that, and was blocked for the rest.
    fn life(counted: &[Schedstat]) -> Life {
        let mut life = Life::default();
        told(&mut life, state(Activity::Running), (0, 25), counted);
        told(&mut life, state(Activity::Blocked), (25, 100), counted);
        life
    }

    fn read(time: u64, running: u64, runnable: u64) -> Schedstat {
        Schedstat { time, running, runnable }
    }

    fn sums_of(life: &Life, thread: ThreadId) -> (u64, u64, u64) {
        let known = |class| life.known(class, Some(thread));
        (life.ran.get(&thread).copied().unwrap_or(0), known(Class::Runnable), known(Class::Blocked))
    }

    fn sums(life: &Life) -> (u64, u64, u64) {
        sums_of(life, ThreadId::default())
    }

    #[test]
    fn time_that_nobody_watched_goes_by_what_was_seen() {
        let mut life = life(&[]);
        told(&mut life, state(Activity::Unwatched), (100, 1000), &[]);
        life.share_unwatched(&[]);
        assert_eq!(sums(&life), (250, 0, 750));
    }

    #[test]
    fn how_much_of_it_a_thread_ran_the_kernel_says() {
        let counted = [read(100, 5_000, 600), read(900, 5_400, 680)];
        let mut life = life(&counted);
        told(&mut life, state(Activity::Unwatched), (100, 1000), &counted);
        life.share_unwatched(&counted);
        // Half of the time, and a tenth waiting for a CPU; after the last count as before it.
        assert_eq!(sums(&life), (25 + 450, 90, 75 + 360));
    }

    #[test]
    fn each_stretch_has_its_own_counts_and_each_name_its_own_stretches() {
        // Until 500 it computes under one name, then it waits under another.
        let counted = [read(0, 0, 0), read(500, 480, 20), read(1000, 490, 20)];
        let other = |activity| State { thread: other_name(), ..state(activity) };
        let mut life = Life::default();
        told(&mut life, state(Activity::Running), (0, 100), &counted);
        told(&mut life, state(Activity::Unwatched), (100, 500), &counted);
        told(&mut life, other(Activity::Unwatched), (500, 900), &counted);
        told(&mut life, other(Activity::Blocked), (900, 1000), &counted);
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (480, 20, 0));
        assert_eq!(sums_of(&life, other_name()), (10, 0, 490));
    }

    #[test]
    fn a_name_within_a_stretch_has_its_share_of_it() {
        let counted = [read(0, 0, 0), read(400, 100, 0)];
        let other = |activity| State { thread: other_name(), ..state(activity) };
        let mut life = Life::default();
        told(&mut life, state(Activity::Unwatched), (0, 100), &counted);
        told(&mut life, other(Activity::Unwatched), (100, 400), &counted);
        life.share_unwatched(&counted);
        assert_eq!((sums(&life), sums_of(&life, other_name())), ((25, 0, 75), (75, 0, 225)));
    }

    #[test]
    fn what_the_kernel_counts_late_is_not_lost() {
        // It runs all the time; the counts are up to 40 behind and ahead.
        let counted = [read(0, 60, 0), read(100, 200, 0), read(200, 260, 0), read(300, 360, 0)];
        let mut life = Life::default();
        for (start, end) in [(0, 90), (100, 190), (200, 290)] {
            told(&mut life, state(Activity::Unwatched), (start, end), &counted);
            told(&mut life, state(Activity::Running), (end, end + 10), &counted);
        }
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (300, 0, 0));
    }

    #[test]
    fn a_thread_runs_from_when_the_kernel_chose_it() {
        let counted = [read(0, 0, 0), read(1000, 520, 80)];
        let mut life = Life::default();
        told(&mut life, state(Activity::Running), (0, 500), &counted);
        told(&mut life, state(Activity::Preempted), (500, 600), &counted);
        told(&mut life, state(Activity::Blocked), (600, 1000), &counted);
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (520, 80, 400));
        // Ten microseconds for each switch, and no more.
        let counted = [read(0, 0, 0), read(1_000_000, 600_000, 0)];
        let mut late = Life::default();
        told(&mut late, state(Activity::Running), (0, 500_000), &counted);
        told(&mut late, state(Activity::Preempted), (500_000, 600_000), &counted);
        late.share_unwatched(&counted);
        assert_eq!(sums(&late), (510_000, 90_000, 0));
        // Without a wait that is too long, the count is of another time.
        let counted = [read(0, 0, 0), read(1000, 520, 80)];
        let mut runs = Life::default();
        told(&mut runs, state(Activity::Running), (0, 400), &counted);
        told(&mut runs, state(Activity::Preempted), (400, 480), &counted);
        runs.share_unwatched(&counted);
        assert_eq!(sums(&runs), (400, 80, 0));
    }

    #[test]
    fn a_thread_waits_for_a_cpu_from_when_it_is_queued() {
        let counted = [read(0, 0, 0), read(1000, 500, 80)];
        let mut life = Life::default();
        told(&mut life, state(Activity::Running), (0, 500), &counted);
        told(&mut life, state(Activity::Blocked), (500, 900), &counted);
        told(&mut life, state(Activity::Woken), (900, 1000), &counted);
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (500, 80, 420));
        // Who was preempted stays in the queue.
        let mut preempted = Life::default();
        told(&mut preempted, state(Activity::Running), (0, 500), &counted);
        told(&mut preempted, state(Activity::Preempted), (500, 600), &counted);
        preempted.share_unwatched(&counted);
        assert_eq!(sums(&preempted), (500, 100, 0));
    }

    #[test]
    fn a_thread_runs_until_the_kernel_takes_it_from_the_queue() {
        let counted = [read(0, 0, 0), read(1000, 480, 0)];
        let mut life = Life::default();
        told(&mut life, state(Activity::Running), (0, 500), &counted);
        told(&mut life, state(Activity::Blocked), (500, 1000), &counted);
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (480, 0, 520));
    }

    #[test]
    fn a_thread_that_is_woken_unseen_runs_from_when_the_kernel_chose_it() {
        let counted = [read(0, 0, 0), read(1000, 620, 80)];
        let mut life = Life::default();
        told(&mut life, state(Activity::Blocked), (0, 400), &counted);
        told(&mut life, state(Activity::Running), (400, 1000), &counted);
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (620, 80, 300));
    }

    #[test]
    fn what_the_kernel_has_not_counted_yet_corrects_nothing() {
        // It ran when the counts were read, and had no tick.
        let counted = [read(100, 0, 0), read(1000, 380, 0)];
        let mut life = Life::default();
        told(&mut life, state(Activity::Blocked), (0, 500), &counted);
        told(&mut life, state(Activity::Running), (500, 600), &counted);
        told(&mut life, state(Activity::Blocked), (600, 700), &counted);
        told(&mut life, state(Activity::Running), (700, 1200), &counted);
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (600, 0, 600));
    }

    #[test]
    fn waits_for_a_cpu_are_counted_when_they_end() {
        // It waits for a CPU from 50 to 190, and the kernel says so in the second stretch, which was watched but for 10.
        let counted = [read(0, 0, 0), read(100, 50, 0), read(200, 60, 140)];
        let mut life = Life::default();
        told(&mut life, state(Activity::Running), (0, 50), &counted);
        told(&mut life, state(Activity::Unwatched), (50, 110), &counted);
        told(&mut life, state(Activity::Preempted), (110, 190), &counted);
        told(&mut life, state(Activity::Running), (190, 200), &counted);
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (60, 140, 0));
    }

    #[test]
    fn what_is_not_wanted_counts_for_the_kernels_counts_alone() {
        let counted = [read(0, 0, 0), read(1000, 500, 0)];
        let mut life = Life::default();
        life.measure(Activity::Running, (0, 100), &counted);
        life.measure(Activity::Unwatched, (100, 900), &counted);
        life.measure(Activity::Blocked, (900, 1000), &counted);
        life.add(state(Activity::Unwatched), (500, 700), &counted);
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (100, 0, 100));
    }

    #[test]
    fn counts_of_another_thread_with_the_same_number_say_nothing() {
        let counted = [read(10, 900, 50), read(100, 0, 0), read(200, 30, 10)];
        let mut life = Life::default();
        told(&mut life, state(Activity::Unwatched), (100, 300), &counted);
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (60, 20, 120));
    }

    #[test]
    fn of_a_thread_that_was_never_seen_nothing_is_known() {
        let mut life = Life::default();
        told(&mut life, state(Activity::Unwatched), (0, 70), &[]);
        life.share_unwatched(&[]);
        assert_eq!(life.states.get(&state(Activity::Unknown)).map(|count| count.period), Some(70));
    }

    #[test]
    fn waits_that_nobody_saw_are_shared_by_those_that_were_seen() {
        let mut life = life(&[]);
        let wait = |number| Wait { cause: Some(CauseId(number)), ..Wait::default() };
        life.seen.extend([(wait(1), 2), (wait(2), 1)]);
        life.share_stacks();
        let of = |number| life.states.get(&State { wait: wait(number), ..state(Activity::Blocked) });
        assert_eq!((of(1).unwrap().period, of(2).unwrap().period), (50, 25));
        assert_eq!(sums(&life), (25, 0, 75));
    }

    #[test]
    fn where_nobody_says_when_threads_are_woken_the_kernel_says_for_how_long() {
        let counted = [read(0, 0, 0), read(100, 25, 15)];
        let mut life = life(&counted);
        told(&mut life, state(Activity::Running), (100, 100), &counted);
        life.share_unwatched(&counted);
        assert_eq!(sums(&life), (25, 15, 60));
    }
}
