//! The time of threads in pieces that lie where it was spent: what views need that show when, and not only how much.
//!
//! The sums of a thread's states are known at its end only, for the kernel's counts correct them. So intervals are collected, and
//! each has its share of the sum of its state. Time in which switches were not recorded has no place.

use std::collections::{BTreeMap, HashMap};

use model::CpuId;
use profile::{Count, StackId, ThreadId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

use super::kernel_counts::{Class, class};
use super::latency::RunningSample;
use super::parts::Parts;
use super::state::{State, Wait};

/// The step by which [`Turns`] go through the range of a `u64`: the golden ratio's part of it, of which the multiples are spread evenly.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A piece of a thread's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) thread: ThreadId,
    pub(super) content: Content,
    /// The beginning, in nanoseconds of the recording's clock.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The time that the piece stands for, in nanoseconds; not always its length.
    pub(super) weight: u64,
    /// The CPU that the thread ran on, where it did.
    pub(super) cpu: Option<CpuId>,
}

/// The activity of a thread in a piece of its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// It ran what is innermost on the stack.
    Ran(StackId),
    /// It was in this state.
    In(Activity, Wait),
}

/// Waits, and the weights by which time without a stack is shared out to them.
pub(super) type WeighedWaits = Vec<(Wait, u64)>;

/// The stacks that stand for time without one, by what the thread did.
#[derive(Default)]
pub(super) struct Substitutes(pub(super) BTreeMap<Activity, WeighedWaits>);

/// The intervals of a thread in each state, and its samples.
#[derive(Clone, Default, Debug)]
pub(super) struct Intervals {
    /// States off the CPU, with start and end.
    off: Vec<(State, u64, u64)>,
    samples: Vec<RunningSample>,
    /// The first interval in which the thread ran under each of its names.
    first_run: BTreeMap<ThreadId, (u64, u64)>,
}

impl Intervals {
    /// Adds an interval.
    pub(super) fn push(&mut self, state: State, (start, end): (u64, u64)) {
        if state.activity == Activity::Running {
            self.first_run.entry(state.thread).or_insert((start, end));
        } else {
            self.off.push((state, start, end));
        }
    }

    /// Adds a sample of the thread.
    pub(super) fn push_sample(&mut self, sample: RunningSample) {
        self.samples.push(sample);
    }

    /// Puts the time that the thread ran under one of its names onto its samples, by their periods. Without any it lies in its first
    /// interval.
    pub(super) fn place_running(&self, thread: ThreadId, ran: u64, pieces: &mut Vec<Piece>) {
        let samples = || self.samples.iter().filter(|sample| sample.thread == thread);
        let all: u128 = samples().map(|sample| u128::from(sample.period)).sum();
        let mut parts = Parts::new(ran, all);
        pieces.extend(samples().map(|sample| Piece {
            thread,
            content: Content::Ran(sample.stack),
            start: sample.time,
            end: sample.time,
            weight: parts.next(sample.period),
            cpu: sample.cpu,
        }));
        if let (0, Some(&(start, end))) = (all, self.first_run.get(&thread)) {
            let content = Content::In(Activity::Running, Wait::default());
            pieces.push(Piece { thread, content, start, end, weight: ran, cpu: None });
        }
    }

    /// Puts the sums of states onto their intervals. Where no waking was recorded, the time ready for a CPU lies at the ends of waits.
    /// Intervals without a stack have those that stand for them in turn.
    pub(super) fn place_states(
        &self,
        sums: &HashMap<State, Count, FxBuildHasher>,
        substitutes: &Substitutes,
        pieces: &mut Vec<Piece>,
    ) {
        let woken = |state: &State| State { activity: Activity::Woken, ..*state };
        let is_blocked = |state: &State| class(state.activity) == Some(Class::Blocked);
        let mut lengths: HashMap<State, u128, FxBuildHasher> = HashMap::default();
        let mut of_waits: HashMap<State, u128, FxBuildHasher> = HashMap::default();
        for (state, start, end) in &self.off {
            *lengths.entry(*state).or_default() += u128::from(end - start);
            if is_blocked(state) {
                *of_waits.entry(woken(state)).or_default() += u128::from(end - start);
            }
        }
        of_waits.retain(|state, _| !lengths.contains_key(state));
        let parts = |(state, length)| {
            let sum = sums.get(&state).map_or(0, |count| count.period);
            (state, Parts::new(sum, length))
        };
        let mut times: HashMap<State, Parts, FxBuildHasher> = lengths.into_iter().map(parts).collect();
        let mut ready: HashMap<State, Parts, FxBuildHasher> = of_waits.into_iter().map(parts).collect();
        let mut turns: BTreeMap<Activity, Turns> = BTreeMap::new();
        for &(state, start, end) in &self.off {
            let State { thread, activity, wait } = state;
            let time = times.get_mut(&state).map_or(0, |parts| parts.next(end - start));
            let its_ready = ready.get_mut(&woken(&state)).filter(|_| is_blocked(&state));
            let ready = its_ready.map_or(0, |parts| parts.next(end - start));
            let wait = if state.is_bare() {
                let turns = turns.entry(activity).or_insert_with(|| Turns::new(substitutes.0.get(&activity)));
                turns.next().unwrap_or(wait)
            } else {
                wait
            };
            let middle = end.saturating_sub(ready).max(start);
            let of_wait = [(activity, start, middle, time), (Activity::Woken, middle, end, ready)];
            let of_wait = of_wait.into_iter().filter(|(.., weight)| *weight > 0);
            pieces.extend(of_wait.map(|(activity, start, end, weight)| {
                let content = Content::In(activity, wait);
                Piece { thread, content, start, end, weight, cpu: None }
            }));
        }
        // Microseconds by the kernel's counts, in which records do not have the thread, lie where it was first.
        let spans = self.off.iter().map(|&(_, start, end)| (start, end));
        let Some((start, end)) = spans.chain(self.first_run.values().copied()).min() else { return };
        let is_placed = |state: &State| times.contains_key(state) || ready.contains_key(state);
        let rest = sums.iter().filter(|(state, count)| count.period > 0 && !is_placed(state));
        for (&state, count) in rest {
            let State { thread, activity, wait } = state;
            let waits = substitutes.0.get(&activity).filter(|_| state.is_bare());
            let mut shared = waits.map_or_else(Vec::new, |waits| shared_out(count.period, waits));
            if shared.is_empty() {
                shared.push((wait, count.period));
            }
            pieces.extend(shared.into_iter().filter(|(_, weight)| *weight > 0).map(|(wait, weight)| {
                let content = Content::In(activity, wait);
                Piece { thread, content, start, end, weight, cpu: None }
            }));
        }
    }
}

/// Shares out time to waits by their weights; to none if these have no weight.
pub(super) fn shared_out(time: u64, waits: &[(Wait, u64)]) -> WeighedWaits {
    let all = waits.iter().map(|(_, weight)| u128::from(*weight)).sum();
    let mut parts = Parts::new(time, all);
    waits.iter().filter(|_| all > 0).map(|&(wait, weight)| (wait, parts.next(weight))).collect()
}

/// Takes waits in turn, each as often as its weight says.
struct Turns {
    /// The waits with the sums of the weights up to theirs.
    waits: Vec<(u64, Wait)>,
    at: u64,
}

impl Turns {
    fn new(waits: Option<&WeighedWaits>) -> Self {
        let mut sum = 0_u64;
        let waits = waits.into_iter().flatten().map(|&(wait, weight)| {
            sum = sum.saturating_add(weight);
            (sum, wait)
        });
        Self { waits: waits.collect(), at: 0 }
    }

    fn next(&mut self) -> Option<Wait> {
        let (all, _) = *self.waits.last()?;
        self.at = self.at.wrapping_add(STEP);
        let at = u128::from(self.at).saturating_mul(all.into()) >> u64::BITS;
        let before = self.waits.partition_point(|&(sum, _)| u128::from(sum) <= at);
        self.waits.get(before).map(|&(_, wait)| wait)
    }
}

impl Piece {
    /// Returns the wait that it is a part of, with its thread.
    pub(super) fn wait(&self) -> Option<(ThreadId, Wait)> {
        match self.content {
            Content::In(_, wait) => Some((self.thread, wait)),
            Content::Ran(_) => None,
        }
    }

    /// Splits a piece that is longer than `most` nanoseconds. Returns times in the middle of the parts, with their weights.
    pub(super) fn split(self, most: u64) -> impl Iterator<Item = (u64, u64)> {
        let length = self.end.saturating_sub(self.start);
        let number = length.div_ceil(most.max(1)).clamp(1, self.weight.max(1));
        let mut parts = Parts::new(self.weight, number.into());
        (0..number).map(move |part| {
            let middle =
                u128::from(length).saturating_mul(2 * u128::from(part) + 1) / (2 * u128::from(number));
            (self.start + u64::try_from(middle).unwrap_or(0), parts.next(1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::state::CauseId;

    fn state(activity: Activity, cause: Option<u32>) -> State {
        let wait = Wait { cause: cause.map(CauseId), ..Wait::default() };
        State { thread: ThreadId::default(), activity, wait }
    }

    fn placed(off: &[(State, u64, u64)], sums: &[(State, u64)], blocked: &[(State, u64)]) -> Vec<Piece> {
        let mut intervals = Intervals::default();
        off.iter().for_each(|&(state, start, end)| intervals.push(state, (start, end)));
        let sums = sums.iter().map(|&(state, period)| (state, Count { samples: 1, period })).collect();
        let blocked = blocked.iter().map(|&(state, weight)| (state.wait, weight)).collect();
        let mut pieces = Vec::new();
        intervals.place_states(&sums, &Substitutes([(Activity::Blocked, blocked)].into()), &mut pieces);
        pieces
    }

    fn spans(pieces: &[Piece]) -> Vec<(u64, u64, u64)> {
        pieces.iter().map(|piece| (piece.start, piece.end, piece.weight)).collect()
    }

    #[test]
    fn sums_lie_where_the_thread_was_in_their_state() {
        let (blocked, ready) = (state(Activity::Blocked, None), state(Activity::Woken, None));
        let off = [(blocked, 10, 40), (ready, 40, 50), (blocked, 60, 70)];
        let pieces = placed(&off, &[(blocked, 44), (ready, 6)], &[]);
        assert_eq!(spans(&pieces), [(10, 40, 33), (40, 50, 6), (60, 70, 11)]);
        let pieces = placed(&[(ready, 10, 40)], &[(ready, 29), (blocked, 1)], &[]);
        assert_eq!(spans(&pieces), [(10, 40, 29), (10, 40, 1)]);
    }

    #[test]
    fn time_ready_for_a_cpu_without_a_waking_lies_at_the_ends_of_waits() {
        let (blocked, ready) = (state(Activity::Blocked, Some(1)), state(Activity::Woken, Some(1)));
        let pieces = placed(&[(blocked, 0, 30), (blocked, 50, 60)], &[(blocked, 20), (ready, 20)], &[]);
        assert_eq!(spans(&pieces), [(0, 15, 15), (15, 30, 15), (50, 55, 5), (55, 60, 5)]);
        assert_eq!(pieces[3].content, Content::In(Activity::Woken, ready.wait));
    }

    #[test]
    fn waits_whose_stack_nobody_saw_have_the_stacks_of_others_in_turn() {
        let bare = state(Activity::Blocked, None);
        let (one, other) = (state(Activity::Blocked, Some(1)), state(Activity::Blocked, Some(2)));
        let off: Vec<_> = (0..100).map(|number| (bare, number * 10, number * 10 + 5)).collect();
        let pieces = placed(&off, &[(bare, 500)], &[(one, 4), (other, 1)]);
        assert!(pieces.iter().zip(&off).all(|(piece, off)| (piece.start, piece.end) == (off.1, off.2)));
        let of_one = |pieces: &[Piece]| {
            let is_one = |piece: &&Piece| piece.content == Content::In(one.activity, one.wait);
            pieces.iter().filter(is_one).count()
        };
        for tenth in pieces.chunks(10) {
            assert!((7..=9).contains(&of_one(tenth)), "{} of 8", of_one(tenth));
        }
        assert!((79..=81).contains(&of_one(&pieces)), "{} of 80", of_one(&pieces));
    }

    #[test]
    fn time_by_the_kernels_counts_alone_is_shared_out_to_the_stacks_of_others() {
        let (bare, ready) = (state(Activity::Blocked, None), state(Activity::Woken, None));
        let (one, other) = (state(Activity::Blocked, Some(1)), state(Activity::Blocked, Some(2)));
        let pieces = placed(&[(ready, 10, 40)], &[(ready, 30), (bare, 5)], &[(one, 4), (other, 1)]);
        assert_eq!(spans(&pieces), [(10, 40, 30), (10, 40, 4), (10, 40, 1)]);
        assert_eq!(pieces[1].content, Content::In(one.activity, one.wait));
    }

    #[test]
    fn running_time_lies_at_samples() {
        let mut intervals = Intervals::default();
        let thread = ThreadId::default();
        intervals.push(state(Activity::Running, None), (5, 9));
        let mut pieces = Vec::new();
        intervals.place_running(thread, 4, &mut pieces);
        assert_eq!((pieces[0].start, pieces[0].end, pieces[0].weight), (5, 9, 4));
        for (time, period) in [(10, 1), (20, 2)] {
            let tid = model::Tid(1);
            let stack = StackId::EMPTY;
            intervals.push_sample(RunningSample { tid, thread, stack, time, period, cpu: None });
        }
        pieces.clear();
        intervals.place_running(thread, 10, &mut pieces);
        let found: Vec<_> = pieces.iter().map(|piece| (piece.start, piece.weight)).collect();
        assert_eq!(found, [(10, 3), (20, 7)]);
    }

    #[test]
    fn long_pieces_are_split_and_stay_whole() {
        let blocked = state(Activity::Blocked, None);
        let piece = placed(&[(blocked, 100, 200)], &[(blocked, 99)], &[])[0];
        let parts: Vec<_> = piece.split(30).collect();
        assert_eq!(parts.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [112, 137, 162, 187]);
        assert_eq!(parts.iter().map(|(_, weight)| weight).sum::<u64>(), 99);
        assert_eq!(Piece { end: 100, ..piece }.split(30).collect::<Vec<_>>(), [(100, 99)]);
    }
}
