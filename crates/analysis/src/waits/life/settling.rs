//! The kernel's counts of a thread (`/proc/PID/task/TID/schedstat`) beside the time of its records: they say how it spent the time in
//! which switches were not recorded, and correct the sums of records, which come microseconds before or after the moments from which
//! the kernel counts.

use perfdata::sections::Schedstat;
use profile::{Count, ThreadId};
use tracker::waits::Activity;

use super::{Life, add_time};
use crate::waits::add;
use crate::waits::kernel_counts::{Class, Recorded, Shares, class};
use crate::waits::parts::Parts;
use crate::waits::state::{State, Wait};

/// Greatest distance, in nanoseconds, between a record and the moment from which the kernel counts running or blocked time. Of wakings
/// in backends of PostgreSQL with 7,000 a second it was 9 µs on average, of switches in a Go program with 10,000 a second 1.6 to 3.7 µs.
/// What the kernel counted beyond that has another cause, such as a waking that was lost, and must not shorten a long wait.
///
/// A wait for a CPU has no such bound: it counts from when the CPU learns of the waking, which an idle CPU of a virtual machine does when
/// its host lets it run.
const MAX_DELAY_NS: u64 = 20_000;

impl Life {
    /// Adds an interval, whether a filter admits it or not: the kernel's counts are of all time. `counts` are at least those
    /// that it made until the end. It counts a wait for a CPU when that ends, so one that `goes_on` counts with the next interval.
    pub(in crate::waits) fn measure(
        &mut self,
        activity: Activity,
        (start, end): (u64, u64),
        counts: &[Schedstat],
        goes_on: bool,
    ) {
        let mut waited = std::mem::take(&mut self.waited);
        if class(activity) == Some(Class::Runnable) {
            waited = waited.saturating_add(end.saturating_sub(start));
            if goes_on {
                self.waited = waited;
                return;
            }
        }
        let first = counts.partition_point(|count| count.time <= start).saturating_sub(1);
        let mut times = counts.iter().skip(first).map(|count| count.time).peekable();
        while let Some(begin) = times.next_if(|time| *time < end) {
            let next = times.peek().copied().unwrap_or(u64::MAX);
            let within = end.min(next).saturating_sub(start.max(begin));
            let recorded = match (activity, class(activity)) {
                (Activity::Unwatched, _) => Recorded { unwatched: within, ..Recorded::default() },
                (_, Some(Class::Running)) => Recorded { ran: within, ..Recorded::default() },
                (_, Some(Class::Runnable)) if end <= next => {
                    Recorded { runnable: waited, ..Recorded::default() }
                }
                _ => continue,
            };
            let known = self.recorded.entry(begin).or_default();
            *known = known.plus(recorded);
        }
    }

    /// Corrects the sums by what the kernel counted, and distributes the time in which switches were not recorded to the states of the
    /// thread, in the proportions of the recorded time. The counts say how long the thread ran and was runnable then; without counts it is
    /// as in the recorded time. Where wakings are not recorded, the counts alone say for how long threads were ready for a CPU after
    /// their waits.
    pub(in crate::waits) fn settle(&mut self, counted: Option<[Schedstat; 2]>, has_wakings: bool) {
        let counted = counted.and_then(|[first, last]| {
            let runnable = last.runnable.checked_sub(first.runnable)?;
            Some((signed(last.running.checked_sub(first.running)?), signed(runnable), last.time))
        });
        if let Some((ran, could_run, until)) = counted {
            let later = self.recorded.split_off(&until);
            let stretches = std::mem::replace(&mut self.recorded, later).into_values();
            let Recorded { ran: recorded, runnable, unwatched } =
                stretches.fold(Recorded::default(), Recorded::plus);
            let admitted = std::mem::take(&mut self.admitted);
            let (ran, could_run) = (ran - signed(recorded), could_run - signed(runnable));
            let running = ran.clamp(0, signed(unwatched)).unsigned_abs();
            let ready = could_run.clamp(0, signed(unwatched - running)).unsigned_abs();
            if unwatched > 0 {
                self.shares = Shares([running, ready, unwatched - running - ready]);
            }
            // A filter that admits a part of the time takes that part of what the records lack.
            let measured = i128::from(recorded.saturating_add(runnable).max(1));
            let admitted = |by: i64| {
                let by = i128::from(by).saturating_mul(admitted.into()) / measured;
                i64::try_from(by).unwrap_or(0)
            };
            let mut by_runnable = admitted(could_run - signed(ready));
            if !has_wakings {
                by_runnable -= self.end_waits_unseen(by_runnable.max(0).unsigned_abs());
            }
            self.adjust(admitted(ran - signed(running)), by_runnable);
        }
        let recorded = [Class::Running, Class::Runnable, Class::Blocked].map(|class| self.known(class, None));
        for (thread, time) in std::mem::take(&mut self.unwatched) {
            let state = State { thread, activity: Activity::Unknown, wait: Wait::default() };
            match self.shares.split(time).or_else(|| Shares(recorded).split(time)) {
                Some([running, runnable, blocked]) => {
                    self.give(Class::Running, running, state);
                    self.give(Class::Runnable, runnable, state);
                    self.give(Class::Blocked, blocked, state);
                }
                None => add(self.states.entry(state).or_default(), Count { samples: 0, period: time }),
            }
        }
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
    /// those that are too short.
    fn adjust(&mut self, running: i64, runnable: i64) {
        let blocked = 0_i64.saturating_sub(running).saturating_sub(runnable);
        let classes = [(Class::Running, running), (Class::Runnable, runnable), (Class::Blocked, blocked)];
        let short = classes.map(|(_, by)| by.max(0).unsigned_abs());
        let wanted = short.iter().map(|by| u128::from(*by)).sum();
        for (class, by) in classes {
            let bound = if class == Class::Runnable { u64::MAX } else { MAX_DELAY_NS };
            for (state, time) in self.take(class, by.min(0).unsigned_abs(), bound) {
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
            let part = Parts::new(time, left.into()).next(intervals(count)).min(most);
            time -= part;
            left -= intervals(count);
            count.period -= part;
            (*state, part)
        });
        taken.collect()
    }

    /// Gives time that a state had to a class, under the same name, by the shares of the states of the class. Where the thread was never in
    /// that class, the time has the stack of the wait from which it comes.
    fn give(&mut self, wanted: Class, time: u64, from: State) {
        let known = self.known(wanted, Some(from.thread));
        match wanted {
            _ if time == 0 => {}
            Class::Running => add_time(&mut self.ran, from.thread, time),
            Class::Runnable | Class::Blocked if known == 0 => {
                let activity = if wanted == Class::Runnable { Activity::Woken } else { Activity::Blocked };
                let state = self.states.entry(State { activity, ..from }).or_default();
                add(state, Count { samples: 0, period: time });
            }
            Class::Runnable | Class::Blocked => {
                let mut parts = Parts::new(time, known.into());
                let states = self.states.iter_mut().filter(|(state, _)| {
                    class(state.activity) == Some(wanted) && state.thread == from.thread
                });
                for (_, count) in states {
                    count.period = count.period.saturating_add(parts.next(count.period));
                }
            }
        }
    }

    /// Returns the time that the thread spent in this class, under one of its names or under all.
    pub(super) fn known(&self, wanted: Class, thread: Option<ThreadId>) -> u64 {
        let is_named = |name: ThreadId| thread.is_none_or(|thread| thread == name);
        if wanted == Class::Running {
            let ran = self.ran.iter().filter(|(name, _)| is_named(**name));
            return ran.map(|(_, ran)| *ran).fold(0, u64::saturating_add);
        }
        let states = self.states.iter();
        let states =
            states.filter(|(state, _)| class(state.activity) == Some(wanted) && is_named(state.thread));
        states.map(|(_, count)| count.period).fold(0, u64::saturating_add)
    }
}

fn signed(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}
