//! What threads ran when they were looked at. What they ran at two looks one after the other they also ran between them: functions that last are
//! known of each sample, even where those that they have called have returned.

use std::sync::Arc;

use model::{Tid, Timestamp};
use rustc_hash::FxHashMap;

use crate::run::PythonFrame;

/// Frames of a thread that are further apart lie in two pieces of its stack, which CPython allocates as the stack grows. A piece has 16
/// KiB, or what its first frame needs.
pub(crate) const MAX_FRAME_DISTANCE: u64 = 16 << 10;

/// The maximum number of threads whose last look is kept; with more, all are forgotten.
const MAX_LOOKED_THREADS: usize = 256;
/// The maximum number of frames of a look that is kept, of 32 bytes each.
const MAX_LOOKED_FRAMES: usize = 512;
/// The maximum time in nanoseconds between two looks of which one tells that a frame lasts: a server is often where it was a second ago, with
/// something else between.
const MAX_BETWEEN: u64 = 200_000_000;

/// A frame that a thread ran when it was looked at.
#[derive(Clone, Debug)]
pub(crate) struct LookedFrame {
    pub(crate) frame: u64,
    pub(crate) bytecode: u64,
    pub(crate) shown: PythonFrame,
}

/// The frames of one call of `_PyEval_EvalFrameDefault` in a look at its thread.
#[derive(Clone, Debug)]
pub(crate) struct LookedRun {
    /// The frames, innermost first.
    pub(crate) frames: Vec<LookedFrame>,
    /// The address of the frame without Python code that is outside of it, on the native stack.
    pub(crate) entry: Option<u64>,
}

impl LookedRun {
    /// Returns its frames that may be outside of `frame`: all where that is not known. Frames lie outwards at lower addresses, so that one
    /// which is not lower came later.
    pub(crate) fn outside_of(&self, frame: Option<u64>) -> impl Iterator<Item = PythonFrame> {
        let is_outside = move |of: &&LookedFrame| {
            frame.is_none_or(|frame| of.frame < frame || of.frame - frame > MAX_FRAME_DISTANCE)
        };
        self.frames.iter().filter(is_outside).map(|of| of.shown.clone())
    }
}

/// The runs of one thread, the outermost first.
type Runs = Arc<[LookedRun]>;

/// The last look at each thread, and what it has in common with the one before.
#[derive(Default, Debug)]
pub(crate) struct Looks(FxHashMap<Tid, Look>);

#[derive(Debug)]
struct Look {
    time: Timestamp,
    runs: Runs,
    lasting: Runs,
}

impl Looks {
    /// Adds a look at a thread, with its runs, innermost first.
    pub(crate) fn add(&mut self, tid: Tid, time: Timestamp, mut runs: Vec<LookedRun>) {
        runs.reverse();
        let before = self.0.remove(&tid);
        let before = before.filter(|before| time.0.saturating_sub(before.time.0) <= MAX_BETWEEN);
        let lasting = before.map(|before| in_both(&before.runs, &runs)).unwrap_or_default();
        if runs.iter().map(|run| run.frames.len()).sum::<usize>() > MAX_LOOKED_FRAMES {
            return;
        }
        if self.0.len() >= MAX_LOOKED_THREADS {
            self.0.clear();
        }
        self.0.insert(tid, Look { time, runs: runs.into(), lasting: lasting.into() });
    }

    /// Forgets the look at a thread.
    pub(crate) fn remove(&mut self, tid: Tid) {
        self.0.remove(&tid);
    }

    /// Returns the runs, the outermost first, as far as they were the same in the last look at a thread and the one before.
    pub(crate) fn lasting(&self, tid: Tid) -> Runs {
        self.0.get(&tid).map_or_else(Runs::default, |look| Arc::clone(&look.lasting))
    }
}

/// Returns the outermost frames that are the same in both.
fn in_both(before: &[LookedRun], now: &[LookedRun]) -> Vec<LookedRun> {
    let mut both = Vec::new();
    for (before, now) in before.iter().zip(now) {
        let entry = now.entry;
        let (before, now) = (&before.frames, &now.frames);
        let is_same = |(before, now): &(&LookedFrame, &LookedFrame)| {
            (before.frame, before.bytecode) == (now.frame, now.bytecode)
        };
        let same = before.iter().rev().zip(now.iter().rev()).take_while(is_same).count();
        both.push(LookedRun { frames: now[now.len() - same..].to_vec(), entry });
        if same < before.len() || same < now.len() {
            break;
        }
    }
    both
}
