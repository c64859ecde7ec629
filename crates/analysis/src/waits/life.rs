//! One thread's time, from its start, or the recording's, to its end.

use std::collections::HashMap;

use perfdata::sections::Schedstat;
use profile::{Count, StackId, ThreadId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

use super::add;
use super::state::{State, Wait};

/// What a thread did, summed by stack.
#[derive(Default)]
pub(super) struct Life {
    /// Off the CPU.
    pub(super) states: HashMap<State, Count, FxBuildHasher>,
    /// How often it was seen blocked with each stack, from outside.
    pub(super) seen: HashMap<Wait, u64, FxBuildHasher>,
    /// Periods of its samples.
    pub(super) samples: HashMap<(ThreadId, StackId), Count, FxBuildHasher>,
    /// How long it ran, in nanoseconds, and under which name lately.
    pub(super) ran: u64,
    pub(super) name: Option<ThreadId>,
    /// Whether any sample is of it, so that it is one of those that were meant.
    pub(super) sampled: bool,
    /// How long nobody watched what it did, in nanoseconds.
    unwatched: u64,
    /// Of that, and of what it is known to have run and waited for a CPU, the part between the kernel's counts.
    counted: Counted,
}

#[derive(Default)]
struct Counted {
    unwatched: u64,
    ran: u64,
    runnable: u64,
}

/// What an activity is for the kernel's counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Running,
    Runnable,
    Blocked,
}

fn class(activity: Activity) -> Option<Class> {
    match activity {
        Activity::Running => Some(Class::Running),
        Activity::Preempted | Activity::Woken | Activity::Started => Some(Class::Runnable),
        Activity::Blocked | Activity::Uninterruptible | Activity::BlockedSinceBefore => Some(Class::Blocked),
        Activity::Unknown | Activity::Unwatched => None,
    }
}

impl Life {
    /// Adds an interval.
    pub(super) fn add(&mut self, state: State, (start, end): (u64, u64), counted: Option<&[Schedstat; 2]>) {
        let length = end.saturating_sub(start);
        let within =
            counted.map_or(0, |[first, last]| end.min(last.time).saturating_sub(start.max(first.time)));
        let activity = state.activity;
        let (sum, part) = match (activity, class(activity)) {
            (Activity::Unwatched, _) => (&mut self.unwatched, &mut self.counted.unwatched),
            (_, Some(Class::Running)) => (&mut self.ran, &mut self.counted.ran),
            (_, class) => {
                add(self.states.entry(state).or_default(), Count { samples: 1, period: length });
                if class == Some(Class::Runnable) {
                    self.counted.runnable = self.counted.runnable.saturating_add(within);
                }
                return;
            }
        };
        *sum = sum.saturating_add(length);
        *part = part.saturating_add(within);
    }

    /// Gives the time that nobody watched to what the thread did else. How much it ran and could have run, the kernel has
    /// counted; what is not counted goes by the shares of the time that was watched.
    pub(super) fn share_unwatched(&mut self, counted: Option<[Schedstat; 2]>) {
        let all = std::mem::take(&mut self.unwatched);
        let Some(thread) = self.name.filter(|_| all > 0) else { return };
        let (runnable, blocked) = (self.known(Class::Runnable), self.known(Class::Blocked));
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let seen = self.ran.saturating_add(runnable).saturating_add(blocked);
        let mut shares = [share(self.ran, seen), share(runnable, seen)];
        let [first, last] = counted.unwrap_or_default();
        if self.counted.unwatched > 0 && last.time > first.time {
            let count = |of: fn(&Schedstat) -> u64, known: u64| {
                let ran = of(&last).saturating_sub(of(&first)).saturating_sub(known);
                share(ran, self.counted.unwatched).min(1.0)
            };
            let running = count(|read| read.running, self.counted.ran);
            shares = [running, count(|read| read.runnable, self.counted.runnable).min(1.0 - running)];
        } else if seen == 0 {
            let key = State { thread, activity: Activity::Unknown, wait: Wait::default() };
            return add(self.states.entry(key).or_default(), Count { samples: 0, period: all });
        }
        let part = |share: f64| ((all as f64 * share) as u64).min(all);
        let running = part(shares[0]);
        let ready = part(shares[1]).min(all - running);
        self.ran = self.ran.saturating_add(running);
        self.spread(Class::Runnable, ready, runnable, thread);
        self.spread(Class::Blocked, all - running - ready, blocked, thread);
    }

    /// Takes from the time that it was blocked what the kernel counted as waiting for a CPU: where nobody says when a thread
    /// is woken, a wait ends when it runs. From all waits alike, though it may have been some.
    pub(super) fn separate_woken(&mut self, counted: Option<[Schedstat; 2]>) {
        let [first, last] = counted.unwrap_or_default();
        let blocked = self.known(Class::Blocked);
        let woken = last.runnable.saturating_sub(first.runnable).saturating_sub(self.counted.runnable);
        // What it waited in gaps is shared with them.
        if blocked == 0 || self.unwatched > 0 {
            return;
        }
        let share = (woken as f64 / blocked as f64).min(1.0);
        let states: Vec<_> = self
            .states
            .iter_mut()
            .filter(|(state, _)| class(state.activity) == Some(Class::Blocked))
            .collect();
        let mut moved = Vec::new();
        for (state, count) in states {
            let part = ((count.period as f64 * share) as u64).min(count.period);
            count.period -= part;
            moved.push((State { activity: Activity::Woken, ..*state }, part));
        }
        for (state, period) in moved.into_iter().filter(|(_, period)| *period > 0) {
            add(self.states.entry(state).or_default(), Count { samples: 0, period });
        }
    }

    /// Gives the waits of which nobody saw the stack to the stacks that were seen, by how often: each look is a sample in time.
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
        let Some(State { thread, .. }) =
            self.states.keys().find(|state| is_bare(state)).copied().filter(|_| all > 0)
        else {
            return;
        };
        let mut bare = 0_u64;
        self.states.retain(|state, count| {
            let taken = is_bare(state);
            bare = bare.saturating_add(if taken { count.period } else { 0 });
            !taken
        });
        let (mut before, mut given) = (0_u128, 0_u64);
        for (wait, weight) in known {
            before += u128::from(weight);
            let until = u64::try_from(u128::from(bare) * before / all).unwrap_or(bare);
            let state = State { thread, activity: Activity::Blocked, wait };
            add(
                self.states.entry(state).or_default(),
                Count { samples: 0, period: until.saturating_sub(given) },
            );
            given = until;
        }
    }

    /// How long it did what is of this class.
    fn known(&self, wanted: Class) -> u64 {
        let states = self.states.iter().filter(|(state, _)| class(state.activity) == Some(wanted));
        states.map(|(_, count)| count.period).fold(0, u64::saturating_add)
    }

    /// Adds `time` to the states of a class, by their shares of `known`.
    fn spread(&mut self, wanted: Class, time: u64, known: u64, thread: ThreadId) {
        if known == 0 {
            if time > 0 {
                let activity = if wanted == Class::Runnable { Activity::Woken } else { Activity::Blocked };
                let key = State { thread, activity, wait: Wait::default() };
                add(self.states.entry(key).or_default(), Count { samples: 0, period: time });
            }
            return;
        }
        // What rounding leaves goes to the next, so that the parts are the whole.
        let (mut before, mut given) = (0_u128, 0_u64);
        for (state, count) in &mut self.states {
            if class(state.activity) == Some(wanted) {
                before += u128::from(count.period);
                let until = u64::try_from(u128::from(time) * before / u128::from(known)).unwrap_or(time);
                count.period = count.period.saturating_add(until.saturating_sub(given));
                given = until;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::state::CauseId;

    fn state(activity: Activity) -> State {
        State { thread: ThreadId::default(), activity, wait: Wait::default() }
    }

    fn life() -> Life {
        let mut life = Life { name: Some(ThreadId::default()), ..Life::default() };
        // A tenth was watched: it ran for a quarter of that, and was blocked for the rest.
        life.add(state(Activity::Running), (0, 25), None);
        life.add(state(Activity::Blocked), (25, 100), None);
        life
    }

    fn sums(life: &Life) -> (u64, u64, u64) {
        (life.ran, life.known(Class::Runnable), life.known(Class::Blocked))
    }

    #[test]
    fn time_that_nobody_watched_goes_by_what_was_seen() {
        let mut life = life();
        life.add(state(Activity::Unwatched), (100, 1000), None);
        life.share_unwatched(None);
        assert_eq!(sums(&life), (250, 0, 750));
    }

    #[test]
    fn how_much_of_it_a_thread_ran_the_kernel_says() {
        let mut life = life();
        let first = Schedstat { time: 100, running: 5_000, runnable: 600 };
        let last = Schedstat { time: 900, running: 5_400, runnable: 680 };
        let counted = [first, last];
        life.add(state(Activity::Unwatched), (100, 1000), Some(&counted));
        life.share_unwatched(Some(counted));
        // Half of the time, and a tenth waiting for a CPU; the rest of all.
        assert_eq!(sums(&life), (25 + 450, 90, 75 + 360));
    }

    #[test]
    fn of_a_thread_that_was_never_seen_nothing_is_known() {
        let mut life = Life { name: Some(ThreadId::default()), ..Life::default() };
        life.add(state(Activity::Unwatched), (0, 70), None);
        life.share_unwatched(None);
        assert_eq!(life.states.get(&state(Activity::Unknown)).map(|count| count.period), Some(70));
    }

    #[test]
    fn waits_that_nobody_saw_are_shared_by_those_that_were_seen() {
        let mut life = life();
        let wait = |number| Wait { cause: Some(CauseId(number)), stack: StackId::EMPTY };
        life.seen.extend([(wait(1), 2), (wait(2), 1)]);
        life.share_stacks();
        let of = |number| life.states.get(&State { wait: wait(number), ..state(Activity::Blocked) });
        assert_eq!((of(1).unwrap().period, of(2).unwrap().period), (50, 25));
        assert_eq!(sums(&life), (25, 0, 75));
    }

    #[test]
    fn where_nobody_says_when_threads_are_woken_the_kernel_says_for_how_long() {
        let mut life = life();
        let counted = [Schedstat::default(), Schedstat { time: 100, running: 25, runnable: 15 }];
        life.separate_woken(Some(counted));
        assert_eq!(sums(&life), (25, 15, 60));
    }
}
