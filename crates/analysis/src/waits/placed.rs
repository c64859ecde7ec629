//! The time of threads in pieces that lie where it was spent: what views need that show when, and not only how much.
//!
//! The sums of a thread's states are known at its end only: the kernel's counts and the stacks that were seen move time from one
//! state to another. So intervals are collected, and the final sums are put onto them. The pieces of a state add up to its sum
//! to the nanosecond.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::CpuId;
use profile::{Count, StackId, ThreadId};
use rustc_hash::FxBuildHasher;
use tracker::waits::Activity;

use super::latency::RunningSample;
use super::parts::Parts;
use super::readings::Readings;
use super::state::{State, Wait};

/// Pieces of a state that are chosen among for each interval, times intervals: more intervals are thinned out. At 2 ns for each
/// that is 20 ms for a thread.
const MAX_CHOICES: usize = 10_000_000;

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
    /// True if an earlier piece of the thread in this state counts as the sample.
    pub(super) is_continued: bool,
}

/// The activity of a thread in a piece of its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// It ran what is innermost on the stack.
    Ran(StackId),
    /// It was in this state.
    In(Activity, Wait),
}

/// The intervals of a thread in each state, and its samples.
#[derive(Clone, Default, Debug)]
pub(super) struct Intervals {
    /// States off the CPU, and time in which switches were not recorded, with start and end.
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

    /// Puts the time that the thread ran under one of its names onto its samples, by their periods. Without any it lies in an
    /// interval of the thread, or else in `whole`, the time of the recording.
    pub(super) fn place_running(
        &self,
        thread: ThreadId,
        ran: u64,
        whole: (u64, u64),
        pieces: &mut Vec<Piece>,
    ) {
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
            is_continued: false,
        }));
        if all == 0 {
            // The kernel counts time in which switches were not recorded, too.
            let own = self.first_run.get(&thread).or_else(|| self.first_run.values().next()).copied();
            let off = || self.off.first().map(|&(_, start, end)| (start, end));
            let (start, end) = own.or_else(off).unwrap_or(whole);
            let content = Content::In(Activity::Running, Wait::default());
            pieces.push(Piece { thread, content, start, end, weight: ran, cpu: None, is_continued: false });
        }
    }

    /// Puts the final sums of states onto the intervals in which the thread was in them. What a sum has beyond these lies in the
    /// intervals of which no state is left: those in which switches were not recorded, or no stack was seen. Of the latter, each has the
    /// stacks that stand for its length, as far as their sums go. Where there is no such interval, a state's own have all of its sum:
    /// another state's would have two stacks at one time. Without any interval it lies in `whole`, the time of the recording.
    pub(super) fn place_states(
        &self,
        sums: &[(State, Count)],
        readings: &Readings,
        whole: (u64, u64),
        pieces: &mut Vec<Piece>,
    ) {
        let mut lengths: HashMap<State, u64, FxBuildHasher> = HashMap::default();
        for &(state, start, end) in &self.off {
            let length = lengths.entry(state).or_default();
            *length = length.saturating_add(end.saturating_sub(start));
        }
        let mut parts: HashMap<State, Parts, FxBuildHasher> = HashMap::default();
        let mut rest: Vec<(State, u64)> = Vec::new();
        let is_summed: HashSet<State, FxBuildHasher> = sums.iter().map(|(state, _)| *state).collect();
        let is_all_known = lengths.keys().all(|state| is_summed.contains(state));
        for &(state, count) in sums {
            let length = lengths.get(&state).copied().unwrap_or_default();
            let own = if is_all_known && length > 0 { count.period } else { count.period.min(length) };
            parts.insert(state, Parts::new(own, length.into()));
            rest.push((state, count.period - own));
        }
        rest.retain(|(_, time)| *time > 0);
        let mut free: Vec<(u64, u64)> = Vec::new();
        for &(state, start, end) in &self.off {
            match parts.get_mut(&state) {
                Some(parts) => {
                    let weight = parts.next(end.saturating_sub(start));
                    pieces.push(Piece::of(state, (start, end), weight));
                }
                None => free.push((start, end)),
            }
        }
        if free.is_empty() {
            free.extend(self.off.iter().map(|&(_, start, end)| (start, end)));
        }
        if free.is_empty() {
            free.extend(self.first_run.values().take(1));
        }
        if free.is_empty() {
            free.push(whole);
        }
        spread(&rest, &free, readings, pieces);
    }
}

impl Piece {
    fn of(state: State, (start, end): (u64, u64), weight: u64) -> Self {
        let State { thread, activity, wait } = state;
        Self {
            thread,
            content: Content::In(activity, wait),
            start,
            end,
            weight,
            cpu: None,
            is_continued: false,
        }
    }

    /// Marks pieces of states so that as many count as samples as the sums of the states say, the first in time. A sum may be placed in more
    /// pieces than it has waits, as it is put onto all intervals in which nothing else is known.
    pub(super) fn mark_continued(pieces: &mut [Self], sums: &[(State, Count)]) {
        let mut left: HashMap<State, u64, FxBuildHasher> =
            sums.iter().map(|&(state, count)| (state, count.samples.max(1))).collect();
        pieces.sort_by_key(|piece| piece.start);
        for piece in pieces {
            let Content::In(activity, wait) = piece.content else { continue };
            let left = left.entry(State { thread: piece.thread, activity, wait }).or_default();
            piece.is_continued = *left == 0;
            *left = left.saturating_sub(1);
        }
    }

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

/// Puts the time of states into `free` intervals: each has its share of the time, by its length, of the state that is most behind
/// its own share. States that stand for waits of the interval's length come first.
fn spread(states: &[(State, u64)], free: &[(u64, u64)], readings: &Readings, pieces: &mut Vec<Piece>) {
    let all = states.iter().map(|(_, time)| u128::from(*time)).sum::<u128>();
    let (Some(&(.., last)), Ok(total)) = (free.last(), u64::try_from(all)) else { return };
    if total == 0 {
        return;
    }
    if free.len() < 4 * states.len() {
        return one_after_the_other(states, free, pieces);
    }
    let step = (free.len() * states.len()).div_ceil(MAX_CHOICES).max(1);
    let free = || free.iter().step_by(step).copied();
    let lengths: u128 = free().map(|(start, end)| u128::from(end.saturating_sub(start))).sum();
    let mut parts = Parts::new(total, lengths);
    let mut given: Vec<u64> = vec![0; states.len()];
    let mut done = 0_u64;
    let mut place = |span: (u64, u64), mut weight: u64| {
        done = done.saturating_add(weight);
        while weight > 0 {
            let behind = |(at, &(state, time)): (usize, &(State, u64))| {
                let due = u128::from(time).saturating_mul(done.into()) / u128::from(total);
                let due = i128::try_from(due).unwrap_or(i128::MAX);
                let likeness = readings.likeness(span.1.saturating_sub(span.0), &state.wait);
                (likeness, due - i128::from(given.get(at).copied().unwrap_or(time)), at)
            };
            let open = states
                .iter()
                .enumerate()
                .filter(|(at, (_, time))| given.get(*at).is_some_and(|given| given < time));
            let Some((.., at)) = open.map(behind).max() else { break };
            let (Some(&(state, time)), Some(given)) = (states.get(at), given.get_mut(at)) else { break };
            let part = weight.min(time - *given);
            *given += part;
            weight -= part;
            pieces.push(Piece::of(state, span, part));
        }
    };
    for (start, end) in free() {
        place((start, end), parts.next(end.saturating_sub(start)));
    }
    place((last, last), parts.left());
}

/// Puts the time of states into `free` intervals, one state after the other, so that no time has two.
fn one_after_the_other(states: &[(State, u64)], free: &[(u64, u64)], pieces: &mut Vec<Piece>) {
    let all = states.iter().map(|(_, time)| u128::from(*time)).sum::<u128>();
    let lengths = free.iter().map(|&(start, end)| end.saturating_sub(start)).fold(0, u64::saturating_add);
    let mut lengths = Parts::new(lengths, all);
    let mut left = free.iter().copied();
    let Some(mut span) = left.next() else { return };
    for &(state, time) in states {
        let length = lengths.next(time);
        let (mut parts, mut missing) = (Parts::new(time, length.into()), length);
        while missing > 0 {
            let (start, end) = span;
            let taken = missing.min(end.saturating_sub(start));
            if taken > 0 {
                pieces.push(Piece::of(state, (start, start + taken), parts.next(taken)));
                span.0 += taken;
                missing -= taken;
                continue;
            }
            let Some(next) = left.next() else { break };
            span = next;
        }
        // A share too short for the clock has a moment.
        if parts.left() > 0 {
            pieces.push(Piece::of(state, (span.0, span.0), parts.left()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::state::CauseId;

    /// The time of the recording.
    const WHOLE: (u64, u64) = (1000, 2000);

    fn state(activity: Activity, cause: Option<u32>) -> State {
        let wait = Wait { cause: cause.map(CauseId), ..Wait::default() };
        State { thread: ThreadId::default(), activity, wait }
    }

    fn time(period: u64) -> Count {
        Count { samples: 1, period }
    }

    fn placed(off: &[(State, u64, u64)], sums: &[(State, Count)]) -> Vec<Piece> {
        placed_by(&Readings::default(), off, sums)
    }

    fn placed_by(readings: &Readings, off: &[(State, u64, u64)], sums: &[(State, Count)]) -> Vec<Piece> {
        let mut intervals = Intervals::default();
        off.iter().for_each(|&(state, start, end)| intervals.push(state, (start, end)));
        let mut pieces = Vec::new();
        intervals.place_states(sums, readings, WHOLE, &mut pieces);
        for (state, count) in sums {
            let is_its = |piece: &&Piece| piece.content == Content::In(state.activity, state.wait);
            let sum: u64 = pieces.iter().filter(is_its).map(|piece| piece.weight).sum();
            assert_eq!(sum, count.period, "{state:?}");
        }
        pieces
    }

    #[test]
    fn sums_lie_where_the_thread_was_in_their_state() {
        let (blocked, ready) = (state(Activity::Blocked, None), state(Activity::Woken, None));
        let pieces = placed(
            &[(blocked, 10, 40), (ready, 40, 50), (blocked, 60, 70)],
            &[(blocked, time(40)), (ready, time(10))],
        );
        let spans: Vec<_> = pieces.iter().map(|piece| (piece.start, piece.end, piece.weight)).collect();
        assert_eq!(spans, [(10, 40, 30), (40, 50, 10), (60, 70, 10)]);
        // A part of the wait that the kernel counted as waiting for a CPU is placed within the same intervals.
        let pieces =
            placed(&[(blocked, 0, 30), (blocked, 50, 60)], &[(blocked, time(20)), (ready, time(20))]);
        assert!(pieces.iter().all(|piece| piece.end <= 30 || piece.start >= 50), "{pieces:?}");
    }

    #[test]
    fn a_sum_beyond_its_intervals_puts_no_second_stack_into_those_of_others() {
        let (one, other) = (state(Activity::Blocked, Some(1)), state(Activity::Blocked, Some(2)));
        let pieces = placed(&[(one, 10, 40), (other, 50, 60)], &[(one, time(33)), (other, time(10))]);
        let spans: Vec<_> = pieces.iter().map(|piece| (piece.start, piece.end, piece.weight)).collect();
        assert_eq!(spans, [(10, 40, 33), (50, 60, 10)]);
    }

    #[test]
    fn waits_whose_stack_nobody_saw_have_the_stacks_of_others_in_turn() {
        let bare = state(Activity::Blocked, None);
        let (one, other) = (state(Activity::Blocked, Some(1)), state(Activity::Blocked, Some(2)));
        let off: Vec<_> = (0..100).map(|number| (bare, number * 10, number * 10 + 5)).collect();
        let pieces = placed(&off, &[(one, time(400)), (other, time(100))]);
        let early = pieces.iter().filter(|piece| piece.start < 500);
        let of_one = |piece: &&Piece| piece.content == Content::In(one.activity, one.wait);
        let sum: u64 = early.filter(of_one).map(|piece| piece.weight).sum();
        assert!((195..=205).contains(&sum), "{sum} of 250");
    }

    #[test]
    fn few_waits_whose_stack_nobody_saw_have_one_stack_at_a_time() {
        let bare = state(Activity::Blocked, None);
        let sums =
            [30, 0, 60, 20].map(|period| (state(Activity::Blocked, Some(period as u32)), time(period)));
        let pieces = placed(&[(bare, 100, 140), (bare, 200, 260)], &sums);
        let spans: Vec<_> = pieces.iter().map(|piece| (piece.start, piece.end, piece.weight)).collect();
        assert_eq!(spans, [(100, 127, 30), (127, 140, 14), (200, 241, 46), (241, 260, 20)]);
    }

    #[test]
    fn waits_whose_stack_nobody_saw_have_those_of_about_their_length() {
        let bare = state(Activity::Blocked, None);
        let (short, long) = (state(Activity::Blocked, Some(1)), state(Activity::Blocked, Some(2)));
        let mut readings = Readings::default();
        readings.add_read(short.wait, 5);
        readings.add_read(long.wait, 900);
        let off: Vec<_> = (0..50)
            .flat_map(|n| [(bare, n * 1000, n * 1000 + 5), (bare, n * 1000 + 9, n * 1000 + 900)])
            .collect();
        let pieces = placed_by(&readings, &off, &[(short, time(250)), (long, time(50 * 891))]);
        for piece in pieces {
            let wait = if piece.end - piece.start < 10 { short.wait } else { long.wait };
            assert_eq!(piece.content, Content::In(Activity::Blocked, wait), "{piece:?}");
        }
    }

    #[test]
    fn running_time_lies_at_samples() {
        let mut intervals = Intervals::default();
        let thread = ThreadId::default();
        intervals.push(state(Activity::Running, None), (5, 9));
        let mut pieces = Vec::new();
        intervals.place_running(thread, 4, WHOLE, &mut pieces);
        assert_eq!((pieces[0].start, pieces[0].end, pieces[0].weight), (5, 9, 4));
        for (time, period) in [(10, 1), (20, 2)] {
            let tid = model::Tid(1);
            let stack = StackId::EMPTY;
            intervals.push_sample(RunningSample { tid, thread, stack, time, period, cpu: None });
        }
        pieces.clear();
        intervals.place_running(thread, 10, WHOLE, &mut pieces);
        let found: Vec<_> = pieces.iter().map(|piece| (piece.start, piece.weight)).collect();
        assert_eq!(found, [(10, 3), (20, 7)]);
    }

    #[test]
    fn time_without_an_interval_lies_within_the_recording() {
        let mut pieces = Vec::new();
        let (thread, blocked) = (ThreadId::default(), state(Activity::Blocked, None));
        Intervals::default().place_running(thread, 4, WHOLE, &mut pieces);
        Intervals::default().place_states(&[(blocked, time(7))], &Readings::default(), WHOLE, &mut pieces);
        let mut slept = Intervals::default();
        slept.push(blocked, (1200, 1300));
        slept.place_running(thread, 5, WHOLE, &mut pieces);
        let placed: Vec<_> = pieces.iter().map(|piece| (piece.start, piece.end, piece.weight)).collect();
        assert_eq!(placed, [(1000, 2000, 4), (1000, 2000, 7), (1200, 1300, 5)]);
    }

    #[test]
    fn long_pieces_are_split_and_stay_whole() {
        let piece = Piece::of(state(Activity::Blocked, None), (100, 200), 99);
        let parts: Vec<_> = piece.split(30).collect();
        assert_eq!(parts.iter().map(|(time, _)| *time).collect::<Vec<_>>(), [112, 137, 162, 187]);
        assert_eq!(parts.iter().map(|(_, weight)| weight).sum::<u64>(), 99);
        assert_eq!(Piece { end: 100, ..piece }.split(30).collect::<Vec<_>>(), [(100, 99)]);
    }
}
