//! How long a command would have taken without a function: its recorded time is run again, without the time of that function.
//!
//! Every thread does what it did, in its order. A wait lasts until the thread that ended it comes to where it did so; other waits, such as
//! sleeps, last as long as they did. Threads share the CPUs evenly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::lanes::{Doing, Ender, Lanes, PlaceNumber, Segment};

/// A step of a thread. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Op {
    Run(u64),
    /// Time off the CPU that nobody ends earlier.
    Sleep(u64),
    /// Waits for this signal.
    Await(u32),
    /// Ends the waits for this signal.
    Signal(u32),
}

/// Returns the time until the thread `last` ends, from its first segment, without the time at places that `is_removed` says; `None` where
/// the recorded waits contradict each other, so that it never ends.
pub(super) fn wall(
    lanes: &Lanes,
    last: u32,
    cpus: u64,
    is_removed: impl Fn(PlaceNumber) -> bool,
) -> Option<u64> {
    let (ops, signals) = ops(lanes, cpus, is_removed);
    Replay {
        ops,
        signalled: vec![false; signals],
        awaiting: vec![Vec::new(); signals],
        cpus: cpus.max(1) as f64,
        ..Replay::default()
    }
    .run(last as usize)
}

/// Makes the steps of all threads, and returns how many signals they have.
fn ops(lanes: &Lanes, cpus: u64, is_removed: impl Fn(PlaceNumber) -> bool) -> (Vec<Vec<Op>>, usize) {
    let running = running(lanes);
    // Threads of others had a CPU that none of ours did.
    let is_for_others = |segment: &Segment| {
        let at = running.partition_point(|&(time, _)| time <= segment.start + segment.length() / 2);
        at.checked_sub(1).and_then(|at| running.get(at)).is_none_or(|&(_, count)| count < cpus)
    };
    // The times at which threads end waits of others, with the number of the signal.
    let mut signals: Vec<Vec<(u64, u32)>> = vec![Vec::new(); lanes.lanes.len()];
    let mut count = 0;
    let begin = lanes.lanes.iter().filter_map(|lane| lane.segments.first()).map(|first| first.start).min();
    let mut ops: Vec<Vec<Op>> =
        lanes.lanes.iter().map(|lane| Vec::with_capacity(lane.segments.len())).collect();
    for (lane, ops) in lanes.lanes.iter().zip(&mut ops) {
        let mut signal = |by: u32, time| {
            signals.get_mut(by as usize)?.push((time, count));
            count += 1;
            Some(Op::Await(count - 1))
        };
        for (number, segment) in lane.segments.iter().enumerate() {
            let removed = is_removed(segment.place);
            let awaits = match segment.doing {
                Doing::Blocked(Ender::Lane(by)) if !removed => signal(by, segment.end),
                Doing::Starting(Ender::Lane(by)) => signal(by, segment.start),
                _ => None,
            };
            let since = begin.map_or(0, |begin| segment.start.saturating_sub(begin));
            if number == 0 && awaits.is_none() && since > 0 {
                ops.push(Op::Sleep(since));
            }
            ops.extend(awaits.or(match segment.doing {
                _ if removed => Some(Op::Run(0)),
                Doing::Running => Some(Op::Run(segment.length())),
                Doing::Blocked(_) | Doing::Unknown => Some(Op::Sleep(segment.length())),
                Doing::Runnable if is_for_others(segment) => Some(Op::Sleep(segment.length())),
                // Until a CPU is free, which is for the replay to find.
                Doing::Runnable | Doing::Starting(_) => Some(Op::Run(0)),
            }));
        }
    }
    for ((lane, ops), signals) in lanes.lanes.iter().zip(&mut ops).zip(&mut signals) {
        signals.sort_unstable();
        with_signals(&lane.segments, ops, signals);
    }
    (ops, count as usize)
}

/// Returns how many threads ran from each time on.
fn running(lanes: &Lanes) -> Vec<(u64, u64)> {
    let ran =
        lanes.lanes.iter().flat_map(|lane| &lane.segments).filter(|segment| segment.doing == Doing::Running);
    let mut changes: Vec<(u64, bool)> =
        ran.flat_map(|segment| [(segment.start, true), (segment.end, false)]).collect();
    changes.sort_unstable();
    let mut count = 0_u64;
    let counted = changes.into_iter().map(|(time, begins)| {
        count = if begins { count + 1 } else { count.saturating_sub(1) };
        (time, count)
    });
    counted.collect()
}

/// Puts signals where the thread gave them, cutting the stretch that it ran.
fn with_signals(segments: &[Segment], ops: &mut Vec<Op>, signals: &[(u64, u32)]) {
    let starts = ops.len() - segments.len();
    let mut whole = std::mem::take(ops).into_iter();
    ops.extend(whole.by_ref().take(starts));
    let mut next = signals.iter().peekable();
    for (segment, op) in segments.iter().zip(whole) {
        let (length, mut done) = if let Op::Run(length) = op { (length, 0) } else { (0, 0) };
        while let Some(&&(time, signal)) = next.peek().filter(|(time, _)| *time <= segment.end) {
            next.next();
            // A stretch that is removed has no parts.
            let share = u128::from(time.saturating_sub(segment.start)) * u128::from(length);
            let until = (share / u128::from(segment.length().max(1))) as u64;
            ops.extend([Op::Run(until - done), Op::Signal(signal)]);
            done = until;
        }
        ops.push(if length > 0 { Op::Run(length - done) } else { op });
    }
    ops.extend(next.map(|&(_, signal)| Op::Signal(signal)));
}

#[derive(Default)]
struct Replay {
    ops: Vec<Vec<Op>>,
    at: Vec<usize>,
    signalled: Vec<bool>,
    awaiting: Vec<Vec<usize>>,
    cpus: f64,
    /// Threads on a CPU, by the progress at which they have done their step, as bits of a positive number, which sort as it does.
    running: BinaryHeap<Reverse<(u64, usize)>>,
    sleeping: BinaryHeap<Reverse<(u64, usize)>>,
    now: f64,
    /// The time on a CPU that each running thread has had since the beginning.
    progress: f64,
}

impl Replay {
    fn run(mut self, last: usize) -> Option<u64> {
        self.at = vec![0; self.ops.len()];
        let mut ready: Vec<usize> = (0..self.ops.len()).collect();
        loop {
            while let Some(thread) = ready.pop() {
                if self.go_on(thread, &mut ready) && thread == last {
                    return Some(self.now as u64);
                }
            }
            let slowness = (self.running.len() as f64 / self.cpus).max(1.0);
            let done = self.running.peek().map(|Reverse((progress, _))| f64::from_bits(*progress));
            let done = done.map(|done| self.now + (done - self.progress).max(0.0) * slowness);
            let woken = self.sleeping.peek().map(|Reverse((time, _))| f64::from_bits(*time));
            let (next, heap) = match (done, woken) {
                (Some(done), Some(woken)) if woken < done => (woken, &mut self.sleeping),
                (Some(done), _) => (done, &mut self.running),
                (None, Some(woken)) => (woken, &mut self.sleeping),
                (None, None) => return None,
            };
            self.progress += (next - self.now).max(0.0) / slowness;
            self.now = next.max(self.now);
            ready.extend(heap.pop().map(|Reverse((_, thread))| thread));
        }
    }

    /// Lets a thread do its steps until one takes time; returns true if it has done them all.
    fn go_on(&mut self, thread: usize, ready: &mut Vec<usize>) -> bool {
        while let Some(&op) = self.ops[thread].get(self.at[thread]) {
            match op {
                Op::Await(signal) if !self.signalled[signal as usize] => {
                    self.awaiting[signal as usize].push(thread);
                    return false;
                }
                Op::Signal(signal) => {
                    self.signalled[signal as usize] = true;
                    ready.append(&mut self.awaiting[signal as usize]);
                }
                _ => {}
            }
            self.at[thread] += 1;
            match op {
                Op::Run(length) if length > 0 => {
                    self.running.push(Reverse(((self.progress + length as f64).to_bits(), thread)));
                    return false;
                }
                Op::Sleep(length) if length > 0 => {
                    self.sleeping.push(Reverse(((self.now + length as f64).to_bits(), thread)));
                    return false;
                }
                _ => {}
            }
        }
        true
    }
}
