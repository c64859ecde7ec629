//! Waits whose end was not recorded: their threads ran again without a recorded waking.
//!
//! A recording without the event of wakings has no other waits. With it, a waking is missed where a thread is woken while it leaves
//! its CPU, and where the kernel drops the sample (Linux 6.18 on a virtual machine did, on a CPU that was idle).

use std::collections::HashMap;

use profile::Count;
use rustc_hash::FxBuildHasher;

use super::add;
use super::kernel_counts::{Class, class, part};
use super::state::State;

/// The waits of one thread that ended without a recorded waking. Each may have been, in part, a wait for a CPU.
#[derive(Default)]
pub(super) struct UnwokenWaits {
    /// The last interval, if the thread was blocked in it.
    last: Option<BlockedInterval>,
    /// The waits that a filter admits.
    admitted: HashMap<State, Count, FxBuildHasher>,
}

struct BlockedInterval {
    length: u64,
    /// The state, if a filter admits the interval.
    state: Option<State>,
}

impl UnwokenWaits {
    /// Adds the next interval of the thread, of `length` nanoseconds, whether a filter admits it or not.
    pub(super) fn measure(&mut self, class: Option<Class>, length: u64) {
        let last = self.last.take();
        match class {
            Some(Class::Blocked) => self.last = Some(BlockedInterval { length, state: None }),
            Some(Class::Running) => {
                let Some(BlockedInterval { length, state }) = last else { return };
                if let Some(state) = state {
                    add(self.admitted.entry(state).or_default(), Count { samples: 1, period: length });
                }
            }
            Some(Class::Runnable) | None => {}
        }
    }

    /// Says that a filter admits `length` nanoseconds of the interval that was measured last.
    pub(super) fn admit(&mut self, state: State, length: u64) {
        if let (Some(last), Some(Class::Blocked)) = (&mut self.last, class(state.activity)) {
            *last = BlockedInterval { length, state: Some(state) };
        }
    }

    /// Returns the waits that have ended, and starts the next part. The current wait ends in that.
    pub(super) fn take_part(&mut self) -> Self {
        Self { last: None, admitted: std::mem::take(&mut self.admitted) }
    }

    /// Returns the number of waits that the filter admits.
    pub(super) fn admitted_number(&self) -> u64 {
        self.admitted.values().map(|count| count.samples).fold(0, u64::saturating_add)
    }

    /// Distributes `time` nanoseconds of waiting for a CPU to the waits, and returns what each state gets: the same time for each
    /// wait, but at most its length.
    pub(super) fn distribute(&self, time: u64) -> Vec<(State, u64)> {
        let mean = |count: &Count| count.period / count.samples.max(1);
        let mut waits: Vec<(State, Count)> =
            self.admitted.iter().map(|(state, count)| (*state, *count)).collect();
        waits.sort_unstable_by_key(|(state, count)| (mean(count), *state));
        let (mut time, mut number) = (time, self.admitted_number());
        let mut shares = Vec::new();
        // Shorter waits first: what they cannot take, the longer ones do.
        for (state, count) in waits {
            let share = part(time, count.samples, number).min(count.period);
            time -= share;
            number -= count.samples;
            shares.push((state, share));
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use tracker::waits::Activity;

    use super::*;
    use crate::waits::state::{CauseId, Wait};

    fn wait(number: u32) -> State {
        let wait = Wait { cause: Some(CauseId(number)), ..Wait::default() };
        State { thread: profile::ThreadId::default(), activity: Activity::Blocked, wait }
    }

    fn waits(all: &[(State, u64, Class)]) -> UnwokenWaits {
        let mut waits = UnwokenWaits::default();
        for &(state, length, then) in all {
            waits.measure(Some(Class::Blocked), length);
            waits.admit(state, length);
            waits.measure(Some(then), 1);
        }
        waits
    }

    #[test]
    fn each_wait_has_the_same_part_and_none_more_than_its_length() {
        let unwoken = waits(&[
            (wait(1), 1_000, Class::Running),
            (wait(2), 10, Class::Running),
            (wait(2), 10, Class::Running),
            (wait(3), 5_000, Class::Runnable),
        ]);
        assert_eq!(unwoken.distribute(15), [(wait(2), 10), (wait(1), 5)]);
        assert_eq!(unwoken.distribute(300), [(wait(2), 20), (wait(1), 280)]);
        assert_eq!(unwoken.distribute(9_000), [(wait(2), 20), (wait(1), 1_000)]);
    }

    #[test]
    fn a_wait_goes_on_in_the_next_part() {
        let mut unwoken = UnwokenWaits::default();
        unwoken.measure(Some(Class::Blocked), 70);
        unwoken.admit(wait(1), 70);
        assert!(unwoken.take_part().distribute(10).is_empty());
        unwoken.measure(Some(Class::Blocked), 30);
        unwoken.admit(wait(1), 30);
        unwoken.measure(Some(Class::Running), 1);
        assert_eq!(unwoken.take_part().distribute(10), [(wait(1), 10)]);
    }
}
