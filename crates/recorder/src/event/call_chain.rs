//! The kinds of call chains that samples can have.

/// Size of a stack copy, in bytes, if the size is fixed and not given: most stacks of most programs are shallower.
pub const DEFAULT_STACK_COPY: u32 = 16 << 10;

/// The kind of call chain to take with each sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallChain {
    /// No call chain, only the sampled address.
    None,
    /// The kernel's walk over frame pointers, in the kernel (by its own unwinder) and in user space.
    FramePointers,
    /// The kernel's walk, and the user's registers with a copy of the stack: for [`crate::unwind::UnwindingStage`].
    Stacks {
        /// Size of each copy in bytes, a multiple of 8 below 65,536; `None` to adapt it while recording.
        size: Option<u32>,
        /// True to keep the copies in the recording.
        keep: bool,
    },
    /// The kernel's walk in the kernel, and in user space the calls that the processor remembers (Intel's LBR in its
    /// call stack mode): up to 32, without tables or frame pointers.
    LastBranches,
}

impl Default for CallChain {
    /// Complete stacks, from copies whose sizes adapt while recording.
    fn default() -> Self {
        Self::Stacks { size: None, keep: false }
    }
}
