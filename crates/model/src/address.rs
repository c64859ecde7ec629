//! Addresses, one type per address space, so that the compiler refuses to mix them.
//!
//! The arithmetic between the types happens in two places only: `tracker` turns an [`Avma`] into a
//! [`FileOffset`] with the mapping that covers it, and `elf` turns a [`FileOffset`] into an [`Svma`] with the
//! program header that covers it.

use core::fmt;

macro_rules! address_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The address `bytes` further on, or `None` where that overflows.
            pub fn checked_add(self, bytes: u64) -> Option<Self> {
                self.0.checked_add(bytes).map(Self)
            }

            /// The distance in bytes from `base` to here, or `None` where `base` lies above.
            pub fn checked_offset_from(self, base: Self) -> Option<u64> {
                self.0.checked_sub(base.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    };
}

address_type! {
    /// Actual virtual memory address: an address in a running process, or in the running kernel.
    Avma
}
address_type! {
    /// Stated virtual memory address: an address as an object file states it (`p_vaddr`, `st_value`, DWARF).
    Svma
}
address_type! {
    /// A byte offset in an object file (`p_offset`, `pgoff` of a mapping).
    FileOffset
}

/// An address found on a stack, and what the processor meant by it.
///
/// A return address names the instruction *after* the call; to ask which function and line called, one looks up
/// the byte before it. An instruction pointer (the sampled address, or the one interrupted by a signal) is looked
/// up as it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrameAddress<A> {
    /// The address of the instruction that was executing.
    InstructionPointer(A),
    /// The address of the instruction that a call will return to.
    ReturnAddress(A),
}

impl<A: Copy> FrameAddress<A> {
    /// The address as it was found.
    pub fn address(self) -> A {
        match self {
            Self::InstructionPointer(address) | Self::ReturnAddress(address) => address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_never_wraps() {
        assert_eq!(Avma(u64::MAX).checked_add(1), None);
        assert_eq!(Svma(1).checked_offset_from(Svma(2)), None);
        assert_eq!(FileOffset(7).checked_offset_from(FileOffset(2)), Some(5));
    }
}
