//! The totals of a thread by the kernel's counts: in gaps, in which switches were not recorded, and where the records of switches
//! and wakings differ from the kernel's counts by microseconds each.

use std::collections::BTreeMap;

use perfdata::sections::Schedstat;
use profile::{Count, ThreadId};
use tracker::waits::Activity;

use super::{Life, Stretch};
use crate::waits::add;
use crate::waits::kernel_counts::{Class, class, missing, part, signed, surplus};
use crate::waits::parts::Parts;
use crate::waits::state::{State, Wait};

/// Greatest distance, in nanoseconds, between a record and the moment from which the kernel counts running or blocked time. Of wakings
/// in backends of PostgreSQL with 7,000 a second it was 9 µs on average, of switches in a Go program with 10,000 a second 1.6 to 3.7 µs.
/// What the kernel counted beyond that has another cause, such as a waking that was lost, and must not shorten a long wait.
///
/// A wait for a CPU has no such bound: it counts from when the CPU learns of the waking, which an idle CPU of a virtual machine does when
/// its host lets it run.
const MAX_DELAY_NS: u64 = 20_000;

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
    /// Distributes the time of gaps to the states of the thread, under the name that it had. Between two counts, the kernel says
    /// how long it ran and was runnable. Before the first and after the last, the shares between them apply, and without any
    /// count the shares of the recorded time. Then corrects the sums of recorded time by the same counts. Where wakings are not
    /// recorded, the counts alone say for how long threads were ready for a CPU after their waits.
    pub(in crate::waits) fn share_unwatched(&mut self, counted: &[Schedstat], has_wakings: bool) {
        let (mut names, mut left) = (BTreeMap::<ThreadId, Shares>::new(), BTreeMap::<ThreadId, u64>::new());
        let mut known = Shares::default();
        // The kernel counts what a thread runs when its tick comes: what is ahead in one stretch is missing in the next.
        let (mut running, mut runnable) = (0_i64, 0_i64);
        let stretches = std::mem::take(&mut self.stretches);
        // The time on the CPU or ready for it between the first and the last count.
        let mut measured = 0_u64;
        for (&number, Stretch { recorded, wanted }) in &stretches {
            let between = number.checked_sub(1).and_then(|first| counted.get(first)).zip(counted.get(number));
            let counts = between.and_then(|(first, last)| {
                let runnable = last.runnable.checked_sub(first.runnable)?;
                Some((last.running.checked_sub(first.running)?, runnable))
            });
            let Some((ran, could_run)) = counts else {
                for (name, time) in wanted {
                    *left.entry(*name).or_default() += time;
                }
                continue;
            };
            running = running.saturating_add(signed(ran)).saturating_sub(signed(recorded.ran));
            runnable = runnable.saturating_add(signed(could_run)).saturating_sub(signed(recorded.runnable));
            let ran = running.clamp(0, signed(recorded.unwatched)).unsigned_abs();
            let rest = recorded.unwatched - ran;
            let could_run = runnable.clamp(0, signed(rest)).unsigned_abs();
            let shares = Shares { running: ran, runnable: could_run, blocked: rest - could_run };
            running -= signed(shares.running);
            runnable -= signed(shares.runnable);
            known.add(shares);
            measured = [recorded.ran, recorded.runnable, shares.running, shares.runnable]
                .into_iter()
                .fold(measured, u64::saturating_add);
            for (name, time) in wanted {
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
        for (thread, shares) in names {
            let from = State { thread, activity: Activity::Unwatched, wait: Wait::default() };
            self.give(Class::Running, shares.running, from);
            self.give(Class::Runnable, shares.runnable, from);
            self.give(Class::Blocked, shares.blocked, from);
        }
        // The difference is of the time between the counts. A filter that admits a part of it takes that part, and what is outside of the
        // counts differs as much.
        let (ran, ready) = self.on_cpu_and_ready();
        let [scale, measured] = [ran.saturating_add(ready), measured.max(1)].map(i128::from);
        let admitted = |by: i64| {
            let by = i128::from(by).saturating_mul(scale) / measured;
            i64::try_from(by).unwrap_or(if by < 0 { i64::MIN } else { i64::MAX })
        };
        let mut runnable = admitted(runnable);
        if !has_wakings {
            runnable -= self.end_waits_unseen(missing(runnable));
        }
        self.adjust(admitted(running), runnable);
    }

    /// Takes `time` nanoseconds from the waits that no recorded waking ends, for it was spent ready for a CPU. Returns what they give.
    fn end_waits_unseen(&mut self, time: u64) -> i64 {
        let given = self.take(Class::Blocked, time, u64::MAX);
        for &(wait, time) in given.iter().filter(|(_, time)| *time > 0) {
            let woken = self.states.entry(State { activity: Activity::Woken, ..wait }).or_default();
            add(woken, Count { samples: 0, period: time });
        }
        given.iter().map(|(_, time)| signed(*time)).sum()
    }

    /// Moves time between the classes towards what the kernel counted: from those that are too long, the same time of each interval, to
    /// those that are too short. The kernel counts from the moment at which it chooses, queues or takes a thread; records
    /// are written microseconds later or earlier.
    fn adjust(&mut self, running: i64, runnable: i64) {
        let blocked = 0_i64.saturating_sub(running).saturating_sub(runnable);
        let classes = [(Class::Running, running), (Class::Runnable, runnable), (Class::Blocked, blocked)];
        let short = classes.map(|(_, by)| missing(by));
        let wanted = short.iter().map(|by| u128::from(*by)).sum();
        for (class, by) in classes {
            let bound = if class == Class::Runnable { u64::MAX } else { MAX_DELAY_NS };
            for (state, time) in self.take(class, surplus(by), bound) {
                let mut parts = Parts::new(time, wanted);
                for ((class, _), by) in classes.into_iter().zip(short) {
                    self.give(class, parts.next(by), state);
                }
            }
        }
    }

    /// Takes up to `time` nanoseconds from the states of a class: the same time of each interval, but at most its length, and
    /// at most `bound` nanoseconds. Returns what each state gives.
    fn take(&mut self, wanted: Class, mut time: u64, bound: u64) -> Vec<(State, u64)> {
        let intervals = |count: &Count| count.samples.max(1);
        if wanted == Class::Running {
            let switches = self.states.values().map(intervals).fold(0, u64::saturating_add);
            time = time.min(switches.saturating_mul(bound));
            let mut parts = Parts::new(time, self.ran.values().map(|ran| u128::from(*ran)).sum());
            let names = self.ran.iter_mut().map(|(&thread, ran)| {
                let part = parts.next(*ran).min(*ran);
                *ran -= part;
                (State { thread, activity: Activity::Running, wait: Wait::default() }, part)
            });
            return names.collect();
        }
        let states = self.states.iter_mut().filter(|(state, _)| class(state.activity) == Some(wanted));
        let mut states: Vec<(&State, &mut Count)> = states.collect();
        // Shorter intervals first: what they cannot give, the longer ones do.
        states.sort_unstable_by_key(|(state, count)| (count.period / intervals(count), **state));
        let mut left: u64 = states.iter().map(|(_, count)| intervals(count)).fold(0, u64::saturating_add);
        let taken = states.into_iter().map(|(state, count)| {
            let most = count.period.min(intervals(count).saturating_mul(bound));
            let part = part(time, intervals(count), left).min(most);
            time -= part;
            left -= intervals(count);
            count.period -= part;
            (*state, part)
        });
        taken.collect()
    }

    /// Gives time that a state had to a class, under the same name. Where the thread was never in that class, it has the stack of the
    /// wait from which the time comes.
    fn give(&mut self, wanted: Class, time: u64, from: State) {
        match wanted {
            _ if time == 0 => {}
            Class::Running => self.add_running(from.thread, time),
            Class::Runnable | Class::Blocked => self.spread(wanted, time, from),
        }
    }

    /// Adds `time` to the states of a class under a name of the thread, by their shares; without any, to the wait of `from`.
    fn spread(&mut self, wanted: Class, time: u64, from: State) {
        let known = self.known(wanted, Some(from.thread));
        if known == 0 {
            let activity = if wanted == Class::Runnable { Activity::Woken } else { Activity::Blocked };
            add(
                self.states.entry(State { activity, ..from }).or_default(),
                Count { samples: 0, period: time },
            );
            return;
        }
        let mut parts = Parts::new(time, known.into());
        for (state, count) in &mut self.states {
            if class(state.activity) == Some(wanted) && state.thread == from.thread {
                count.period = count.period.saturating_add(parts.next(count.period));
            }
        }
    }
}
