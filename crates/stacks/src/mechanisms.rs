//! The sources of frames and the optimizations that can be switched off, to measure what each one brings.

use bitflags::bitflags;

bitflags! {
    /// Sources of stack frames beside the copy of the stack, and optimizations. A recording uses all of them; `cargo xtask ablation`
    /// leaves out one after the other.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Mechanisms: u16 {
        /// Takes callers beyond the copy from the kernel's walk over frame pointers.
        const KERNEL_WALK = 1 << 0;
        /// Reads the stack beyond the copy from the memory of the running process.
        const LIVE_MEMORY = 1 << 2;
        /// Unwinds code without unwind tables: by the frame pointer, or by its instructions.
        const WITHOUT_TABLES = 1 << 3;
        /// Reads the mappings of a process again where code runs outside all known ones.
        const FRESH_MAPS = 1 << 4;
        /// Unwinds samples while they are in the ring, so that stack copies are not moved.
        const IN_RING = 1 << 6;
        /// Adapts the interval between rounds to the fill of the rings.
        const PACE = 1 << 8;
        /// Names Python functions by the memory of the running process.
        const PYTHON = 1 << 9;
        /// Names JavaScript functions by the memory of the running process.
        const JAVASCRIPT = 1 << 10;
    }
}

impl Default for Mechanisms {
    fn default() -> Self {
        Self::all()
    }
}

impl Mechanisms {
    /// Returns the mechanism with this name on the command line, such as `kernel-walk`.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::from_name(&name.to_ascii_uppercase().replace('-', "_"))
    }
}
