//! The tables that an unwinder asks for.

use alloc::sync::Arc;
use core::ops::Range;

use elf::ReadAt;
use model::{Avma, FileOffset};

use crate::address_space::ObjectNumber;
use crate::tables::UnwindTables;

/// Gives the unwinder the tables of objects. The unwinder asks only for code whose rule it has not cached, and where it must read the
/// code itself.
pub trait Objects {
    /// The holder of a section's bytes.
    type Bytes: ReadAt;

    /// Returns the tables of an object; `None` where its file cannot be read.
    fn tables(&mut self, object: ObjectNumber) -> Option<Arc<UnwindTables<Self::Bytes>>>;

    /// Returns the object that describes the generated code at an address outside all objects, and the offset in it. The unwinder asks
    /// for each such frame, as code may be replaced at any time. Returns `None` where no runtime describes the code.
    fn generated(&mut self, address: Avma) -> Option<(ObjectNumber, FileOffset)> {
        let _ = address;
        None
    }

    /// Returns the code whose frames are wanted with their registers ([`crate::UnwoundStack::watched`]), by address.
    fn watched(&self) -> Arc<[Range<Avma>]> {
        Arc::default()
    }
}
