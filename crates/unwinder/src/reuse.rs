//! What an earlier stack of a thread says of the next one: from sample to sample, stacks change at their inner end.
//!
//! A step by the tables, or by the frame pointer behind a call, is a function of the frame's registers, the words that it reads,
//! and what code lies where ([`CodeVersion`]). Where all of them are what they were, so is the rest of the stack. To compare
//! words is far cheaper than to walk: none of them has to wait for what the one before has led to.
//!
//! Few of them matter. Functions save registers for their callers, which seldom find their own frames by one: what no frame
//! further out is found by may be anything.

use alloc::vec::Vec;

use crate::address_space::AddressSpace;
use crate::architecture::Architecture;
use crate::memory::{StackCopy, Word};
use crate::objects::Objects;
use crate::registers::{KeptRegisters, Registers};
use crate::stack::Frame;

/// Identifies what lay at each address when a stack was found: the mappings, and the generated code that somebody describes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct CodeVersion {
    /// [`AddressSpace::identity`].
    space: u64,
    /// [`Objects::generated_version`].
    generated: u64,
}

impl CodeVersion {
    /// The version of what `objects` answer now.
    pub(crate) fn of<O: Objects>(space: &AddressSpace, objects: &mut O) -> Self {
        Self { space: space.identity(), generated: objects.generated_version() }
    }
}

/// The steps by which a complete stack was found, from its outermost frame inwards: a later one changes the end. Of
/// the frames, those from which all steps outwards depend on nothing else than what is here.
#[derive(Default, Debug)]
pub(crate) struct StackTrace {
    code: CodeVersion,
    frames: Vec<Frame>,
    /// Of each frame.
    states: Vec<FrameState>,
    /// Those that matter, of the outermost frame first.
    words: Vec<Word>,
}

/// The registers and words that the steps from a frame outwards depend on.
#[derive(Debug)]
struct FrameState {
    /// `None` where more is known than what calls keep, as in a frame that a signal interrupted.
    registers: Option<KeptRegisters>,
    /// The set of registers that matter.
    needed: RegisterSet,
    /// The number of words that were read from this frame on.
    words: usize,
}

/// Registers by their places in [`Architecture::callee_saved`].
pub(crate) type RegisterSet = u16;

const ALL: RegisterSet = RegisterSet::MAX;

/// The first of them.
pub(crate) const FRAME_POINTER: RegisterSet = 1;

/// The words that a step reads: the return address, if that is on the stack, then the caller's registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepReads {
    /// By which register (DWARF number) it finds them.
    pub(crate) base: u8,
    /// The registers that were on the stack, a word each, in their order.
    pub(crate) restored: RegisterSet,
}

/// A frame of a walk, with the step from it.
#[derive(Debug)]
struct WalkedFrame {
    registers: Option<KeptRegisters>,
    reads: Option<StepReads>,
    /// The number of words that were read before.
    words: usize,
}

/// The steps of a walk, from the innermost frame outwards.
#[derive(Default, Debug)]
pub(crate) struct Steps {
    frames: Vec<WalkedFrame>,
    words: Vec<Word>,
    /// The first frame from which no step depends on anything else.
    usable_from: usize,
}

/// Longer stacks are not kept.
const MAX_TRACE_FRAMES: usize = 1024;

impl Steps {
    /// Clears the steps of the last stack.
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.words.clear();
        self.usable_from = 0;
    }

    /// A frame was found, whose registers these are.
    pub(crate) fn push(&mut self, registers: &Registers) {
        self.frames.push(WalkedFrame { registers: registers.kept(), reads: None, words: self.words.len() });
    }

    /// A word was read.
    #[inline]
    pub(crate) fn push_word(&mut self, word: Word) {
        self.words.push(word);
    }

    /// The step from the newest frame has read this. Where it is not said, all that is known there matters.
    #[inline]
    pub(crate) fn record_reads(&mut self, reads: StepReads) {
        if let Some(newest) = self.frames.last_mut() {
            newest.reads = Some(reads);
        }
    }

    /// The step from the newest frame depends on more than is kept here.
    pub(crate) fn exclude_step(&mut self) {
        self.usable_from = self.frames.len();
    }
}

impl StackTrace {
    /// A walk through `code` has led to a complete stack of these frames, innermost first. The outermost `kept` of them are
    /// those of this trace: there it has met the earlier stack. The others were found by `steps`.
    pub(crate) fn record(
        &mut self,
        architecture: Architecture,
        code: CodeVersion,
        kept: usize,
        frames: &[Frame],
        steps: &mut Steps,
    ) {
        let found = frames.len().saturating_sub(kept).min(steps.frames.len());
        let usable_from = steps.usable_from.min(found);
        if frames.len() > MAX_TRACE_FRAMES || (kept == 0 && usable_from == found) {
            return;
        }
        self.code = code;
        self.frames.truncate(kept);
        self.states.truncate(kept);
        // A frame pointer of zero may have said that there is no caller.
        let outermost = self.states.last();
        let (mut needed, words_kept) =
            outermost.map_or((FRAME_POINTER, 0), |state| (state.needed, state.words));
        self.words.truncate(words_kept);
        let mut words = steps.words.as_slice();
        for (frame, stepped) in frames.iter().zip(&mut steps.frames).take(found).skip(usable_from).rev() {
            let (before, read) = words.split_at(stepped.words.min(words.len()));
            words = before;
            needed = match stepped.reads {
                Some(reads) => self.push_needed_words(architecture, reads, read, needed),
                None => {
                    self.words.extend_from_slice(read);
                    ALL
                }
            };
            self.frames.push(*frame);
            self.states.push(FrameState {
                registers: stepped.registers.take(),
                needed,
                words: self.words.len(),
            });
        }
    }

    /// Keeps those words of a step that matter, where the caller needs the registers `needed`; returns those that its frame needs.
    fn push_needed_words(
        &mut self,
        architecture: Architecture,
        StepReads { base, restored }: StepReads,
        words: &[Word],
        needed: RegisterSet,
    ) -> RegisterSet {
        let registers = architecture.callee_saved();
        let (first, others) = words.split_at(words.len().saturating_sub(restored.count_ones() as usize));
        let places = (0..registers.len()).filter(|place| restored >> place & 1 == 1);
        let matters = places.zip(others).filter(|(place, _)| needed >> place & 1 == 1);
        self.words.extend(first.iter().chain(matters.map(|(_, word)| word)));
        let base = match registers.iter().position(|register| *register == base) {
            Some(place) => 1 << place,
            // It belongs to the frame.
            None if base == architecture.stack_pointer() => 0,
            None => ALL,
        };
        needed & !restored | base
    }
}

/// An earlier stack, beside the walk of a new one.
pub(crate) struct TraceReuse<'t> {
    trace: &'t StackTrace,
    /// Frames from this one inwards are below the newest frame of the walk.
    next: usize,
    /// So many words are unchanged; found when it is needed.
    unchanged: Option<usize>,
}

impl<'t> TraceReuse<'t> {
    /// Nothing is taken over from a trace through other code.
    pub(crate) fn new(trace: &'t StackTrace, code: CodeVersion) -> Self {
        let next = if trace.code == code { trace.frames.len() } else { 0 };
        Self { trace, next, unchanged: None }
    }

    /// The frames from the newest one of a walk on, outermost first, if they are what they were, and no more than `most`.
    pub(crate) fn outer_frames(
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
        let registers = steps.frames.last()?.registers.as_ref()?;
        if self.next > most || !registers.agree_with(state.registers.as_ref()?, state.needed) {
            return None;
        }
        let unchanged = *self.unchanged.get_or_insert_with(|| {
            let changed = trace.words.iter().position(|word| copy.word(word.address) != Some(word.value));
            changed.unwrap_or(trace.words.len())
        });
        if state.words <= unchanged { trace.frames.get(..self.next) } else { None }
    }
}
