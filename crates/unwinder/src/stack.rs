//! Unwound stacks.

use alloc::vec::Vec;

use model::{Avma, FrameAddress, TruncationReason};

use crate::registers::Registers;

/// One frame of an unwound stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The address at which the frame executes, or will resume.
    pub address: FrameAddress<Avma>,
    /// The stack pointer in this frame (for a caller: the canonical frame address of the frame below).
    pub stack_pointer: u64,
}

/// The way in which a stack ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackEnd {
    /// At the thread's first frame: the tables say so, or a zero frame pointer (and return address) where there are none.
    Complete,
    /// Before the thread's first frame, for this reason.
    Truncated(TruncationReason),
}

/// A frame whose code is watched ([`crate::Objects::watched`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatchedFrame {
    /// Its index in [`UnwoundStack::frames`].
    pub index: usize,
    /// The registers at its address: of a caller, those that its callees have preserved.
    pub registers: Registers,
}

/// An unwound stack. Reuse it from sample to sample to save allocations.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnwoundStack {
    /// Innermost first. The first is the sampled instruction.
    pub frames: Vec<Frame>,
    /// The way in which it ends.
    pub end: StackEnd,
    /// The number of the first frames that were found in the copy alone; the others needed memory read later.
    pub frames_from_copy: usize,
    /// The sampled instruction, or a return address that a row gave, that lies in no known executable mapping.
    pub unmapped: Option<Avma>,
    /// The frame pointer (Avma) of the outermost frame, if its code always keeps frame pointers and this one points outside the copy.
    /// Another walk over frame pointers that passed this one can continue the stack.
    pub frame_pointer_beyond_copy: Option<u64>,
    /// The frames in watched code, innermost first; not more than the 64 innermost ones.
    pub watched: Vec<WatchedFrame>,
}

impl Default for UnwoundStack {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            end: StackEnd::Truncated(TruncationReason::RuleFailed),
            frames_from_copy: 0,
            unmapped: None,
            frame_pointer_beyond_copy: None,
            watched: Vec::new(),
        }
    }
}

impl UnwoundStack {
    /// The addresses, innermost first.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = FrameAddress<Avma>> + '_ {
        self.frames.iter().map(|frame| frame.address)
    }
}
