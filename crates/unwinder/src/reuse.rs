//! Takes over the outer frames of a thread's earlier stack: from sample to sample, stacks change at their inner end.
//!
//! A step by the tables, or by the frame pointer behind a call, depends on the frame's registers, the words that it reads, and the code
//! at each address ([`CodeVersion`]). Where all of these are unchanged, so is the rest of the stack. Comparing words is far cheaper than
//! walking, as no word depends on the one before.
//!
//! Few registers and words matter. Functions save registers for their callers, and few callers need those to find their own frames.
//! Registers and words that no step further out depends on are not compared.

use alloc::vec::Vec;

use crate::address_space::AddressSpace;
use crate::architecture::Architecture;
use crate::memory::{ReadMemory, StackCopy};
use crate::objects::Objects;
use crate::registers::{FRAME_POINTER, KeptRegisters, RegisterSet, Registers};
use crate::stack::Frame;

/// Identifies the code at each address when a stack was walked: the mappings, and the generated code that a runtime describes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct CodeVersion {
    /// [`AddressSpace::identity`].
    space: u64,
    /// [`Objects::generated_version`].
    generated: u64,
}

impl CodeVersion {
    /// Returns the version of the code that `objects` describe now.
    pub(crate) fn of<O: Objects>(space: &AddressSpace, objects: &mut O) -> Self {
        Self { space: space.identity(), generated: objects.generated_version() }
    }
}

/// A complete stack, from its outermost frame inwards, with the registers and words that its steps depend on. Only frames from which all
/// steps outwards depend on nothing else are kept.
#[derive(Default, Debug)]
pub(crate) struct StackTrace {
    code: CodeVersion,
    frames: Vec<Frame>,
    /// The state at each frame.
    states: Vec<FrameState>,
    /// The words that matter, those of the outermost frame first.
    words: Vec<Word>,
}

/// The registers and words that the steps from a frame outwards depend on.
#[derive(Debug)]
struct FrameState {
    /// `None` where more registers are known than calls preserve, as in a frame that a signal interrupted.
    registers: Option<KeptRegisters>,
    /// The set of registers that matter.
    needed: RegisterSet,
    /// The number of words in the trace that the steps from this frame outwards have read.
    words: usize,
}

/// A word of the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    /// Avma.
    pub(crate) address: u64,
    pub(crate) value: u64,
}

const ALL: RegisterSet = RegisterSet::MAX;

/// The words that a step reads: the return address, if that is on the stack, then the caller's registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepReads {
    /// The register (DWARF number) whose value gives their address.
    pub(crate) base: u8,
    /// The registers that were restored from the stack, one word each, in their order.
    pub(crate) restored: RegisterSet,
}

/// A frame of a walk, with the step from it.
#[derive(Debug)]
struct WalkedFrame {
    registers: Option<KeptRegisters>,
    reads: Option<StepReads>,
    /// The number of words that were read before this step.
    words: usize,
}

/// The steps of a walk, from the innermost frame outwards.
#[derive(Default, Debug)]
pub(crate) struct Steps {
    frames: Vec<WalkedFrame>,
    words: Vec<Word>,
    /// The index of the first frame from which no step depends on anything that is not recorded here.
    usable_from: usize,
}

/// The maximum length of a stack that is kept, in frames.
const MAX_TRACE_FRAMES: usize = 1024;

impl Steps {
    /// Clears all steps; keeps the allocations.
    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.words.clear();
        self.usable_from = 0;
    }

    /// Adds a frame with its registers.
    pub(crate) fn push(&mut self, registers: &Registers) {
        self.frames.push(WalkedFrame { registers: registers.kept(), reads: None, words: self.words.len() });
    }

    /// Adds a word that the current step has read.
    #[inline]
    pub(crate) fn push_word(&mut self, word: Word) {
        self.words.push(word);
    }

    /// Records what the step from the newest frame has read. Without this call all registers that are known there matter.
    #[inline]
    pub(crate) fn record_reads(&mut self, reads: StepReads) {
        if let Some(newest) = self.frames.last_mut() {
            newest.reads = Some(reads);
        }
    }

    /// Excludes the newest frame and those further in: the step from it depends on more than is recorded here.
    pub(crate) fn exclude_step(&mut self) {
        self.usable_from = self.frames.len();
    }
}

/// The copy of a stack, and the memory beyond it.
pub(crate) struct StackMemory<'a, M> {
    pub(crate) copy: StackCopy<'a>,
    pub(crate) beyond: &'a mut M,
    /// The number of words that were read beyond the copy.
    pub(crate) words_beyond_copy: usize,
    /// True if the current step has read a word, or tried to, that is not in the copy.
    pub(crate) left_copy: bool,
    pub(crate) steps: Steps,
}

impl<'a, M> StackMemory<'a, M> {
    /// Creates a reader of the copy; words that are read go into `steps`.
    pub(crate) fn new(copy: StackCopy<'a>, beyond: &'a mut M, steps: Steps) -> Self {
        Self { copy, beyond, words_beyond_copy: 0, left_copy: false, steps }
    }
}

impl<M: ReadMemory> ReadMemory for StackMemory<'_, M> {
    #[inline]
    fn read_word(&mut self, address: u64) -> Option<u64> {
        if let Some(value) = self.copy.word(address) {
            self.steps.push_word(Word { address, value });
            return Some(value);
        }
        self.left_copy = true;
        let word = self.beyond.read_word(address)?;
        self.words_beyond_copy += 1;
        Some(word)
    }
}

impl StackTrace {
    /// Records a complete stack, innermost frame first, that was walked through `code`. The outermost `kept` frames are those of this
    /// trace already. The others were found by `steps`.
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
        // The walk may have ended because the frame pointer is zero.
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

    /// Adds those words of a step that matter if its caller needs the registers `needed`. Returns the registers that its own frame needs.
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
            // Equal frames have equal stack pointers.
            None if base == architecture.stack_pointer() => 0,
            None => ALL,
        };
        needed & !restored | base
    }
}

/// Compares an earlier stack with a new one while that is walked.
pub(crate) struct TraceReuse<'t> {
    trace: &'t StackTrace,
    /// The number of frames of the trace that are not below the newest frame of the walk.
    next: usize,
    /// The number of outer words that are unchanged; computed when it is needed.
    unchanged: Option<usize>,
}

impl<'t> TraceReuse<'t> {
    /// Starts a comparison. Nothing is taken over from a trace through other code.
    pub(crate) fn new(trace: &'t StackTrace, code: CodeVersion) -> Self {
        let next = if trace.code == code { trace.frames.len() } else { 0 };
        Self { trace, next, unchanged: None }
    }

    /// Returns the frames from the newest one of the walk outwards, outermost first, if they are unchanged and at most `max_frames`.
    pub(crate) fn outer_frames(
        &mut self,
        frame: &Frame,
        max_frames: usize,
        copy: &StackCopy<'_>,
        steps: &Steps,
    ) -> Option<&'t [Frame]> {
        let trace = self.trace;
        let rest = trace.frames.get(..self.next)?;
        self.next -= rest.iter().rev().take_while(|known| known.stack_pointer < frame.stack_pointer).count();
        let place = self.next.checked_sub(1)?;
        let state = (trace.frames.get(place)? == frame).then(|| trace.states.get(place))??;
        let registers = steps.frames.last()?.registers.as_ref()?;
        if self.next > max_frames || !registers.agree_with(state.registers.as_ref()?, state.needed) {
            return None;
        }
        let unchanged = *self.unchanged.get_or_insert_with(|| {
            let changed = trace.words.iter().position(|word| copy.word(word.address) != Some(word.value));
            changed.unwrap_or(trace.words.len())
        });
        if state.words <= unchanged { trace.frames.get(..self.next) } else { None }
    }
}
