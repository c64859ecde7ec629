//! The sources of frames and the savings that can be left out, so that what each one brings can be measured.

use bitflags::bitflags;

bitflags! {
    /// Sources of stack frames beside the copy of the stack, and what makes finding them cheap. A recording has all of them;
    /// `cargo xtask bench ablation` leaves out one after the other.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Mechanisms: u16 {
        /// Callers that the kernel found by frame pointers, beyond the copy.
        const KERNEL_WALK = 1 << 0;
        /// Callers that an earlier stack of the process had, beyond the copy.
        const CALLER_CACHE = 1 << 1;
        /// The memory of the process while it lives, beyond the copy.
        const LIVE_MEMORY = 1 << 2;
        /// Steps through code without unwind tables: by the frame pointer, or by what the code itself says.
        const WITHOUT_TABLES = 1 << 3;
        /// Mappings of the live process, read again where code ran in none.
        const FRESH_MAPS = 1 << 4;
        /// The outer part of a stack, taken over from the thread's earlier one.
        const EARLIER_STACKS = 1 << 5;
        /// Stacks that are walked in the ring, so that their copies are not moved.
        const IN_RING = 1 << 6;
        /// Sizes of stack copies that follow the stacks.
        const COPY_SIZES = 1 << 7;
        /// Times between rounds that follow the rings.
        const PACE = 1 << 8;
    }
}

impl Default for Mechanisms {
    fn default() -> Self {
        Self::all()
    }
}

impl Mechanisms {
    /// One by its name as the command line has it: `kernel-walk`.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::from_name(&name.to_ascii_uppercase().replace('-', "_"))
    }
}
