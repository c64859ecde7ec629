//! Short ways to make values, for the tests of this crate.

use model::{AddressKind, SpaceId, StackEntry};

pub(crate) fn entry(offset: u64) -> StackEntry {
    StackEntry { offset, space: SpaceId(0), kind: AddressKind::ReturnAddress, in_kernel: false }
}
