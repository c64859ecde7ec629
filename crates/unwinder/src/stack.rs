//! What unwinding yields.

use alloc::vec::Vec;

use model::{Avma, FrameAddress, TruncationReason};

/// One frame of an unwound stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The address at which it executes, or will go on.
    pub address: FrameAddress<Avma>,
    /// The stack pointer in this frame (for a caller: the canonical frame address of the frame below).
    pub stack_pointer: u64,
}

/// The way in which a stack ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackEnd {
    /// At the thread's first frame: the tables say so, or a zero frame pointer (and return address) where there are none.
    Complete,
    /// Before it, because…
    Truncated(TruncationReason),
    /// At the caller's limit of frames.
    FrameLimit,
}

/// An unwound stack. Kept and filled again from sample to sample.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnwoundStack {
    /// Innermost first. The first is the sampled instruction.
    pub frames: Vec<Frame>,
    /// The way in which it ends.
    pub end: StackEnd,
    /// The number of the first frames that were found in the copy alone; the others needed memory read later.
    pub frames_from_copy: usize,
    /// The sampled instruction or a return address that a row gave, where no executable mapping is known.
    pub unmapped: Option<Avma>,
    /// The frame pointer (Avma) of an outermost frame whose code keeps frame pointers without fail, where it leads to memory that
    /// is not at hand. A walk over frame pointers that came by it has gone the right way on.
    pub frame_pointer_beyond_copy: Option<u64>,
}

impl Default for UnwoundStack {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            end: StackEnd::Truncated(TruncationReason::RuleFailed),
            frames_from_copy: 0,
            unmapped: None,
            frame_pointer_beyond_copy: None,
        }
    }
}

impl UnwoundStack {
    /// The addresses, innermost first.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = FrameAddress<Avma>> + '_ {
        self.frames.iter().map(|frame| frame.address)
    }
}
