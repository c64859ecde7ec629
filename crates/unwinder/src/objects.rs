//! The tables that an unwinder asks for.

use alloc::sync::Arc;

use elf::ReadAt;
use model::{Avma, FileOffset};

use crate::address_space::ObjectNumber;
use crate::tables::UnwindTables;

/// A source of the tables of objects for the unwinder. Asked only for addresses whose rule is not known yet, and
/// where the code itself must be looked at.
pub trait Objects {
    /// The holder of a section's bytes.
    type Bytes: ReadAt;

    /// The tables of an object; `None` where its file cannot be had.
    fn tables(&mut self, object: ObjectNumber) -> Option<Arc<UnwindTables<Self::Bytes>>>;

    /// The object that describes the generated code at an address outside of all objects, and the offset in it. Asked for each
    /// frame there, as code may be replaced at any time. `None` where nobody describes it.
    fn generated(&mut self, address: Avma) -> Option<(ObjectNumber, FileOffset)> {
        let _ = address;
        None
    }

    /// A number that differs whenever an answer of [`Objects::generated`] may differ, between two stacks in the same
    /// [`crate::AddressSpace`]. Whoever answers there must answer here, too: steps found by its answers are remembered with it.
    fn generated_version(&mut self) -> u64 {
        0
    }
}
