//! What an earlier stack of a thread says of the next one: from sample to sample, stacks change at their inner end.
//!
//! A step by the tables, or by the frame pointer behind a call, is a function of the frame's registers, the words that it reads,
//! and the mappings. Where all of them are what they were, so is the rest of the stack. To compare words is far cheaper than to walk: none of them has to wait for
//! what the one before has led to.

use alloc::vec::Vec;

use crate::memory::{StackCopy, Word};
use crate::registers::{KeptRegisters, Registers};
use crate::stack::Frame;

/// How a complete stack was found, from its outermost frame inwards: a later one changes the end.
#[derive(Default, Debug)]
pub(crate) struct Trace {
    /// [`crate::AddressSpace::identity`].
    space: u64,
    frames: Vec<Frame>,
    /// Of each frame.
    states: Vec<State>,
    /// The one read last is the first.
    words: Vec<Word>,
    /// From so many frames all steps outwards depend on nothing else.
    usable: usize,
}

/// What the steps from a frame outwards depend on.
#[derive(Debug)]
struct State {
    /// `None` where more is known than what calls keep, as in a frame that a signal interrupted.
    registers: Option<KeptRegisters>,
    /// How many words were read in a walk: in its steps, up to this frame; in a trace, from this frame on.
    words: usize,
}

/// The steps of a walk, from the innermost frame outwards.
#[derive(Default, Debug)]
pub(crate) struct Steps {
    states: Vec<State>,
    words: Vec<Word>,
    /// The first frame from which no step depends on anything else.
    usable_from: usize,
}

/// Longer stacks are not kept.
const MOST_FRAMES: usize = 1024;

impl Steps {
    /// Begins anew.
    pub(crate) fn begin(&mut self) {
        self.states.clear();
        self.words.clear();
        self.usable_from = 0;
    }

    /// A frame was found, whose registers these are.
    pub(crate) fn push(&mut self, registers: &Registers) {
        self.states.push(State { registers: registers.kept(), words: self.words.len() });
    }

    /// A word was read.
    #[inline]
    pub(crate) fn read(&mut self, word: Word) {
        self.words.push(word);
    }

    /// The step from the newest frame depends on more than is kept here.
    pub(crate) fn leave_out_step(&mut self) {
        self.usable_from = self.states.len();
    }
}

impl Trace {
    /// A walk in the mappings `space` has led to a complete stack of these frames, innermost first: the outermost `kept` of them
    /// are those of this trace, the others were found by `steps`.
    pub(crate) fn renew(&mut self, space: u64, kept: usize, frames: &[Frame], steps: &mut Steps) {
        let found = frames.len().saturating_sub(kept).min(steps.states.len());
        let usable_from = steps.usable_from.min(found);
        if frames.len() > MOST_FRAMES || (kept == 0 && usable_from == found) {
            return;
        }
        // The newest frame of the walk is in the trace, too: its step, and those above, were not made again.
        let words_kept = if kept == 0 { 0 } else { self.states.get(kept).map_or(0, |newest| newest.words) };
        self.space = space;
        self.usable = kept + found - usable_from;
        self.frames.truncate(kept);
        self.frames.extend(frames.iter().take(found).rev());
        self.states.truncate(kept);
        self.words.truncate(words_kept);
        let words_found = steps.words.len();
        self.words.extend(steps.words.drain(..).rev());
        let in_trace = |state: State| State { words: words_kept + words_found - state.words, ..state };
        self.states.extend(steps.states.drain(..found).rev().map(in_trace));
    }
}

/// An earlier stack, beside the walk of a new one.
pub(crate) struct Earlier<'t> {
    trace: &'t Trace,
    /// Frames from this one inwards are below the newest frame of the walk.
    next: usize,
    /// So many words are unchanged; found when it is needed.
    unchanged: Option<usize>,
}

impl<'t> Earlier<'t> {
    /// Nothing is taken over from a trace in other mappings.
    pub(crate) fn new(trace: &'t Trace, space: u64) -> Self {
        let next = if trace.space == space { trace.usable } else { 0 };
        Self { trace, next, unchanged: None }
    }

    /// The frames above the newest one of a walk, outermost first, if they are what they were, and no more than `most`.
    pub(crate) fn rest(
        &mut self,
        frame: &Frame,
        most: usize,
        copy: &StackCopy<'_>,
        steps: &Steps,
    ) -> Option<&'t [Frame]> {
        let trace = self.trace;
        let rest = trace.frames.get(..self.next)?;
        self.next -= rest.iter().rev().take_while(|known| known.stack_pointer < frame.stack_pointer).count();
        let place = self.next.checked_sub(1)?;
        let state = (trace.frames.get(place)? == frame).then(|| trace.states.get(place))??;
        if state.registers.is_none() || state.registers != steps.states.last()?.registers || place > most {
            return None;
        }
        let unchanged = *self.unchanged.get_or_insert_with(|| {
            let changed = trace.words.iter().position(|word| copy.word(word.address) != Some(word.value));
            changed.unwrap_or(trace.words.len())
        });
        if state.words <= unchanged { trace.frames.get(..place) } else { None }
    }
}
