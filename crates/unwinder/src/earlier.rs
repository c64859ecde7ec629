//! What an earlier stack of a thread says of the next one: from sample to sample, stacks change at their inner end.
//!
//! A step by the tables is a function of the frame's registers, the words that it reads, and the mappings. Where all of them
//! are what they were, so is the rest of the stack. To compare words is far cheaper than to walk: none of them has to wait for
//! what the one before has led to.

use alloc::vec::Vec;

use crate::memory::{StackCopy, Word};
use crate::registers::{KeptRegisters, Registers};
use crate::stack::Frame;

/// How a complete stack was found.
#[derive(Default, Debug)]
pub(crate) struct Trace {
    /// [`crate::AddressSpace::identity`].
    space: u64,
    frames: Vec<Frame>,
    /// Of each frame.
    states: Vec<State>,
    /// In the order in which they were read.
    words: Vec<Word>,
    /// The first frame from which all steps were by the tables alone.
    usable_from: usize,
}

/// What the steps from a frame on depend on.
#[derive(Clone, Debug)]
struct State {
    /// `None` where more is known than what calls keep, as in a frame that a signal interrupted.
    registers: Option<KeptRegisters>,
    /// How many words had been read when the frame was found.
    words_before: usize,
}

/// Longer stacks are not kept.
const MOST_FRAMES: usize = 1024;

impl Trace {
    /// Begins anew.
    pub(crate) fn begin(&mut self) {
        self.states.clear();
        self.words.clear();
        self.usable_from = 0;
    }

    /// A frame was found, whose registers these are.
    pub(crate) fn push(&mut self, registers: &Registers) {
        self.states.push(State { registers: registers.kept(), words_before: self.words.len() });
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

    /// The stack is complete. Whether it is of any use for later ones.
    pub(crate) fn finish(&mut self, space: u64, frames: &[Frame]) -> bool {
        self.space = space;
        self.frames.clear();
        self.frames.extend_from_slice(frames);
        frames.len() <= MOST_FRAMES && self.usable_from < frames.len()
    }
}

/// An earlier stack, beside the walk of a new one.
pub(crate) struct Earlier<'t> {
    trace: &'t Trace,
    /// Frames before this one are below the newest frame of the walk.
    next: usize,
    /// The first word from which on all are unchanged; found when it is needed.
    unchanged_from: Option<usize>,
}

impl<'t> Earlier<'t> {
    /// Nothing is taken over from a trace in other mappings.
    pub(crate) fn new(trace: &'t Trace, space: u64) -> Self {
        let next = if trace.space == space { trace.usable_from } else { trace.frames.len() };
        Self { trace, next, unchanged_from: None }
    }

    /// The frames above the newest one of a walk, if they are what they were, and no more than `most`. `newer` is told what
    /// they depend on.
    pub(crate) fn rest(
        &mut self,
        frame: &Frame,
        most: usize,
        copy: &StackCopy<'_>,
        newer: &mut Trace,
    ) -> Option<&'t [Frame]> {
        let trace = self.trace;
        let rest = trace.frames.get(self.next..)?;
        self.next += rest.iter().take_while(|known| known.stack_pointer < frame.stack_pointer).count();
        let state = (trace.frames.get(self.next)? == frame).then(|| trace.states.get(self.next))??;
        let newest = newer.states.last()?;
        if state.registers.is_none() || state.registers != newest.registers {
            return None;
        }
        let unchanged_from = *self.unchanged_from.get_or_insert_with(|| {
            let changed = trace.words.iter().rposition(|word| copy.word(word.address) != Some(word.value));
            changed.map_or(0, |changed| changed + 1)
        });
        let words = trace.words.get(state.words_before..).filter(|_| state.words_before >= unchanged_from)?;
        let states = trace.states.get(self.next + 1..).filter(|states| states.len() <= most)?;
        let before = newest.words_before;
        newer.words.extend_from_slice(words);
        newer.states.extend(states.iter().map(|above| State {
            words_before: above.words_before - state.words_before + before,
            ..above.clone()
        }));
        trace.frames.get(self.next + 1..)
    }
}
