//! Where a process has mapped V8, and the words that V8 keeps in its frames.
//!
//! ```text
//! frame pointer ─▶ the caller's frame pointer, and the return address above
//!             −8   context
//!            −16   function
//!            −24   number of arguments
//!            −32   bytecode          in interpreted functions, and those that Sparkplug compiled
//!            −40   bytecode offset   in interpreted functions
//! ```
//! (`src/execution/frame-constants.h`.) The frame pointer is the caller's stack pointer less the two words above it.

use std::sync::Arc;

use decoder::MAX_STACK_COPY_BYTES;
use elf::Segment;
use javascript::{CodeRole, FrameWords, V8};
use model::{Avma, FrameAddress};
use unwinder::{AddressSpace, ObjectNumber, UnwoundStack};

use crate::user_state::UserState;

/// V8 as a process has mapped it. A process maps its built-ins a second time where calls of them are shorter.
#[derive(Debug)]
pub struct MappedV8 {
    v8: Arc<V8>,
    object: ObjectNumber,
    segments: Vec<Segment>,
}

/// The part of a native frame in running JavaScript.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NativeFrame {
    /// It may be that of an interpreted function.
    Interpreted,
    /// It executes a bytecode of an interpreted function.
    BytecodeHandler,
    /// Its code lies in memory without a file.
    Generated,
}

/// The words of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexedWords {
    /// The number of the frame on its stack, innermost first.
    pub index: u64,
    /// The words.
    pub words: FrameWords,
}

/// The distance of the frame pointer from the stack pointer of the caller, in bytes.
const FRAME_POINTER_BELOW_CALLER: u64 = 16;
const CONTEXT: u64 = 8;
const FUNCTION: u64 = 16;
const BYTECODE: u64 = 32;
const BYTECODE_OFFSET: u64 = 40;
/// The maximum number of frames of a stack whose words are kept, 32 bytes each: about as much as the largest stack copy can have.
const MAX_FRAMES: usize = MAX_STACK_COPY_BYTES as usize / 32;

impl MappedV8 {
    pub(crate) fn new(v8: Arc<V8>, object: ObjectNumber, segments: Vec<Segment>) -> Self {
        Self { v8, object, segments }
    }

    /// Returns what its file says.
    pub fn v8(&self) -> &Arc<V8> {
        &self.v8
    }

    /// Returns the part of code in running JavaScript; `None` for other code. A return address is looked up one byte before.
    pub fn part(&self, space: &AddressSpace, lookup: Avma) -> Option<NativeFrame> {
        let mapping = space.find(lookup).filter(|mapping| mapping.executable)?;
        let Some(object) = mapping.object else { return Some(NativeFrame::Generated) };
        if object != self.object {
            return None;
        }
        match self.v8.role(elf::svma_of(&self.segments, mapping.file_offset_of(lookup.0)?)?) {
            CodeRole::InterpreterEntry => Some(NativeFrame::Interpreted),
            CodeRole::BytecodeHandler => Some(NativeFrame::BytecodeHandler),
            CodeRole::Other => None,
        }
    }

    /// Appends the words of each frame that V8 may have made, innermost first.
    pub(crate) fn push_words(
        &self,
        stack: &UnwoundStack,
        state: &UserState<'_>,
        space: &AddressSpace,
        words: &mut Vec<IndexedWords>,
    ) {
        let start = words.len();
        let callers = stack.frames.iter().skip(1);
        for (index, (frame, caller)) in (0..).zip(stack.frames.iter().zip(callers)) {
            let lookup = match frame.address {
                FrameAddress::InstructionPointer(address) => address,
                FrameAddress::ReturnAddress(address) => Avma(address.0.wrapping_sub(1)),
            };
            let is_of_v8 =
                matches!(self.part(space, lookup), Some(NativeFrame::Interpreted | NativeFrame::Generated));
            if !is_of_v8 || words.len() - start >= MAX_FRAMES {
                continue;
            }
            let frame_pointer = caller.stack_pointer.wrapping_sub(FRAME_POINTER_BELOW_CALLER);
            let word = |below: u64| state.stack.word(frame_pointer.wrapping_sub(below));
            // Both are references to objects, which have tag 1: a frame of another kind has the number of its kind in place of the context.
            let is_reference = |word: &u64| word & 3 == 1;
            if let (Some(_), Some(function)) =
                (word(CONTEXT).filter(is_reference), word(FUNCTION).filter(is_reference))
            {
                let other = |below| word(below).unwrap_or(0);
                let words_here =
                    FrameWords { function, bytecode: other(BYTECODE), offset: other(BYTECODE_OFFSET) };
                words.push(IndexedWords { index, words: words_here });
            }
        }
    }
}
