//! Corrects times by the kernel's counts, because records of switches and wakings are not written at the moments from which the kernel
//! counts.

use profile::Count;
use tracker::waits::Activity;

use super::Life;
use crate::waits::add;
use crate::waits::kernel_counts::{Class, Difference, class, missing, part, signed, surplus};
use crate::waits::placed::Parts;
use crate::waits::state::State;

/// Greatest distance, in nanoseconds, between the record of a switch and the moment up to which the kernel counts the time of the thread
/// that leaves, or from which it counts the time of the next one. A Go program with 10,000 switches a second had 1.6 µs on average, its
/// thread that is woken by timers 3.7 µs.
const MAX_SWITCH_DELAY_NS: u64 = 10_000;
/// Greatest delay, in nanoseconds, between the record of a waking and the moment from which the kernel counts the thread as waiting for
/// a CPU. Backends of PostgreSQL with 7,000 wakings a second had 9 µs on average.
const MAX_WAKING_DELAY_NS: u64 = 20_000;

impl Life {
    /// Moves time between the states of the thread until it has what the kernel counted, as far as the delay of records can explain.
    pub(super) fn correct(&mut self, Difference { mut running, mut runnable }: Difference) {
        let moved = signed(self.start_runs_earlier(missing(running).min(surplus(runnable))));
        (running, runnable) = (running.saturating_sub(moved), runnable.saturating_add(moved));
        self.start_unwoken_runs_earlier(missing(running));
        self.end_runs_earlier(surplus(running));
        self.end_waits_later(surplus(runnable));
        self.end_unwoken_waits(missing(runnable));
    }

    /// Moves `time` nanoseconds from runnable to running: at most [`MAX_SWITCH_DELAY_NS`] for each time that the thread was runnable. The
    /// kernel counts a thread's time from the moment at which it chose the thread; the records of the switch are written later.
    /// Returns the time that was moved.
    fn start_runs_earlier(&mut self, time: u64) -> u64 {
        let runnable = self.known(Class::Runnable, None);
        let is_runnable = |state: &State| class(state.activity) == Some(Class::Runnable);
        let switches = self.number_of(is_runnable);
        let time = time.min(runnable).min(switches.saturating_mul(MAX_SWITCH_DELAY_NS));
        let mut moved = Vec::new();
        for (state, count) in &mut self.states {
            if is_runnable(state) {
                let part = part(count.period, time, runnable);
                count.period -= part;
                moved.push((state.thread, part));
            }
        }
        let sum = moved.iter().map(|(_, time)| time).sum();
        moved
            .into_iter()
            .filter(|(_, time)| *time > 0)
            .for_each(|(thread, time)| self.add_running(thread, time));
        sum
    }

    /// Moves `time` nanoseconds from blocked to running, in waits without a recorded waking: at most [`MAX_SWITCH_DELAY_NS`] for each.
    fn start_unwoken_runs_earlier(&mut self, time: u64) {
        let time = time.min(self.unwoken.admitted_number().saturating_mul(MAX_SWITCH_DELAY_NS));
        for (state, time) in self.unwoken.distribute(time) {
            let time = self.take(state, time);
            self.add_running(state.thread, time);
        }
    }

    /// Moves `time` nanoseconds from running to the states that follow it: at most [`MAX_SWITCH_DELAY_NS`] for each switch. The kernel
    /// counts a thread's time up to the moment at which it takes the thread off the CPU's queue; the switch is recorded later.
    fn end_runs_earlier(&mut self, time: u64) {
        let follows = |state: &State| {
            class(state.activity) == Some(Class::Blocked) || state.activity == Activity::Preempted
        };
        let switches = self.number_of(follows);
        let time = time.min(switches.saturating_mul(MAX_SWITCH_DELAY_NS));
        let mut parts = Parts::new(time, switches.into());
        for (state, count) in self.states.iter_mut().filter(|(state, _)| follows(state)) {
            let ran = self.ran.entry(state.thread).or_default();
            let moved = parts.next(count.samples).min(*ran);
            *ran -= moved;
            count.period = count.period.saturating_add(moved);
        }
    }

    /// Moves `time` nanoseconds from woken to blocked: at most [`MAX_WAKING_DELAY_NS`] for each waking. The kernel counts a thread as
    /// waiting for a CPU when it is in the CPU's queue; its waking was recorded before, on the waker's CPU.
    fn end_waits_later(&mut self, time: u64) {
        let is_woken = |state: &State| state.activity == Activity::Woken;
        let wakings = self.number_of(is_woken);
        let woken = self.states.iter().filter(|(state, _)| is_woken(state));
        let mut woken: Vec<(State, Count)> = woken.map(|(state, count)| (*state, *count)).collect();
        woken.sort_unstable_by_key(|(state, _)| *state);
        let waited = woken.iter().map(|(_, count)| count.period).fold(0, u64::saturating_add);
        let time = time.min(waited).min(wakings.saturating_mul(MAX_WAKING_DELAY_NS));
        for (state, count) in woken {
            let part = part(count.period, time, waited);
            if part == 0 {
                continue;
            }
            let deep = State { activity: Activity::Uninterruptible, ..state };
            let blocked = if self.states.contains_key(&deep) {
                deep
            } else {
                State { activity: Activity::Blocked, ..state }
            };
            self.take(state, part);
            add(self.states.entry(blocked).or_default(), Count { samples: 0, period: part });
        }
    }

    /// Moves `time` nanoseconds from blocked to woken, in waits without a recorded waking. The same for each wait is an approximation.
    fn end_unwoken_waits(&mut self, time: u64) {
        for (state, time) in self.unwoken.distribute(time) {
            let time = self.take(state, time);
            if time > 0 {
                let woken = State { activity: Activity::Woken, ..state };
                add(self.states.entry(woken).or_default(), Count { samples: 0, period: time });
            }
        }
    }

    /// Returns how often the thread was in these states.
    fn number_of(&self, is_wanted: impl Fn(&State) -> bool) -> u64 {
        let wanted = self.states.iter().filter(|(state, _)| is_wanted(state));
        wanted.map(|(_, count)| count.samples).fold(0, u64::saturating_add)
    }

    /// Takes at most `time` nanoseconds from a state; returns how many.
    fn take(&mut self, state: State, time: u64) -> u64 {
        let Some(count) = self.states.get_mut(&state) else { return 0 };
        let time = time.min(count.period);
        count.period -= time;
        time
    }
}
