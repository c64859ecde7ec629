//! The context markers of a call chain (`enum perf_callchain_context` in `include/uapi/linux/perf_event.h`).

use decoder::CpuMode;
use decoder::context::Context;
use model::AddressKind;

/// The address space of the addresses that follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressSpace {
    /// The kernel's.
    Kernel,
    /// The process's.
    User,
    /// A hypervisor's, a guest's, or those after a marker that this version does not know.
    Foreign,
}

impl AddressSpace {
    /// The context that a sample's own mode stands for; `None` where the record does not state a mode.
    pub fn of_mode(mode: CpuMode) -> Option<Self> {
        match mode {
            CpuMode::Kernel => Some(Self::Kernel),
            CpuMode::User => Some(Self::User),
            CpuMode::Hypervisor | CpuMode::GuestKernel | CpuMode::GuestUser => Some(Self::Foreign),
            _ => None,
        }
    }
}

/// An item of a call chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChainItem {
    /// An address on the stack.
    Address {
        /// As recorded.
        address: u64,
        /// The first after a marker is an instruction pointer, the others are return addresses.
        kind: AddressKind,
        /// The space that it is in; `None` where neither a marker nor the sample says.
        context: Option<AddressSpace>,
    },
    /// The user part comes later, in a `PERF_RECORD_CALLCHAIN_DEFERRED` with this cookie.
    Deferred(u64),
}

/// Walks over the raw values of a call chain, innermost first. `mode` is the mode of the sample: it holds for
/// addresses before the first marker.
pub fn chain_items(values: impl Iterator<Item = u64>, mode: CpuMode) -> impl Iterator<Item = ChainItem> {
    let mut values = values;
    let mut context = AddressSpace::of_mode(mode);
    let mut kind = AddressKind::InstructionPointer;
    core::iter::from_fn(move || {
        loop {
            let value = values.next()?;
            let Some(mark) = Context::from_value(value) else {
                let item = ChainItem::Address { address: value, kind, context };
                kind = AddressKind::ReturnAddress;
                return Some(item);
            };
            kind = AddressKind::InstructionPointer;
            context = Some(match mark {
                Context::Kernel => AddressSpace::Kernel,
                Context::User => AddressSpace::User,
                Context::UserDeferred => {
                    context = Some(AddressSpace::User);
                    return values.next().map(ChainItem::Deferred);
                }
                // A hypervisor's, a guest's, or one that is not known.
                _ => AddressSpace::Foreign,
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use AddressKind::{InstructionPointer, ReturnAddress};
    use alloc::vec::Vec;
    use decoder::context::{KERNEL, USER, USER_DEFERRED};

    fn items(values: &[u64], mode: CpuMode) -> Vec<ChainItem> {
        chain_items(values.iter().copied(), mode).collect()
    }

    fn address(address: u64, kind: AddressKind, context: AddressSpace) -> ChainItem {
        ChainItem::Address { address, kind, context: Some(context) }
    }

    #[test]
    fn each_marker_begins_with_an_instruction_pointer() {
        assert_eq!(
            items(&[KERNEL, 1, 2, USER, 3, 4], CpuMode::Kernel),
            [
                address(1, InstructionPointer, AddressSpace::Kernel),
                address(2, ReturnAddress, AddressSpace::Kernel),
                address(3, InstructionPointer, AddressSpace::User),
                address(4, ReturnAddress, AddressSpace::User),
            ]
        );
    }

    #[test]
    fn without_a_marker_the_samples_mode_holds() {
        assert_eq!(items(&[1], CpuMode::User), [address(1, InstructionPointer, AddressSpace::User)]);
        let unknown = ChainItem::Address { address: 1, kind: InstructionPointer, context: None };
        assert_eq!(items(&[1], CpuMode::Unknown), [unknown]);
    }

    #[test]
    fn unknown_and_guest_markers_are_not_addresses() {
        use decoder::context::{GUEST, GUEST_KERNEL, GUEST_USER, HYPERVISOR, MAX};
        for marker in [MAX, u64::MAX, GUEST, GUEST_KERNEL, GUEST_USER, HYPERVISOR] {
            assert_eq!(
                items(&[marker, 7], CpuMode::User),
                [address(7, InstructionPointer, AddressSpace::Foreign)]
            );
        }
    }

    #[test]
    fn a_deferred_user_part_names_its_cookie() {
        assert_eq!(
            items(&[KERNEL, 1, USER_DEFERRED, 77], CpuMode::Kernel),
            [address(1, InstructionPointer, AddressSpace::Kernel), ChainItem::Deferred(77)]
        );
        assert_eq!(items(&[USER_DEFERRED], CpuMode::Kernel), [], "cut before its cookie");
    }
}
