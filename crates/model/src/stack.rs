//! Stack entries: places on a stack, not yet resolved to frames.

use crate::SpaceId;

/// The meaning of an address on a stack, without the address: see [`crate::FrameAddress`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum AddressKind {
    /// The instruction at the address was executing.
    InstructionPointer,
    /// A call will return to the address: the caller is looked up at the byte before.
    ReturnAddress,
    /// Data were accessed at the address. Not of a stack, but looked up like one of its entries.
    Data,
}

/// One entry of a mapped call chain: a place in a [`crate::Space`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StackEntry {
    /// The offset as it was found, in the unit that the space defines (a return address is *not* decremented).
    pub offset: u64,
    /// The space in which the offset counts.
    pub space: SpaceId,
    /// Instruction pointer or return address.
    pub kind: AddressKind,
    /// True if the processor was in the kernel there (frames get the suffix `_[k]`).
    pub in_kernel: bool,
}

impl StackEntry {
    /// The offset to look symbols and lines up at: the call instruction, for a return address.
    pub fn lookup_offset(&self) -> u64 {
        match self.kind {
            AddressKind::InstructionPointer | AddressKind::Data => self.offset,
            AddressKind::ReturnAddress => self.offset.saturating_sub(1),
        }
    }
}

const _: () = assert!(size_of::<StackEntry>() == 16, "hashed and stored by the million");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_addresses_are_looked_up_one_byte_before() {
        let mut entry =
            StackEntry { offset: 8, space: SpaceId(0), kind: AddressKind::ReturnAddress, in_kernel: false };
        assert_eq!(entry.lookup_offset(), 7);
        entry.kind = AddressKind::InstructionPointer;
        assert_eq!(entry.lookup_offset(), 8);
    }
}
