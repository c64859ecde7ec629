//! A section that unwinding reads.

use alloc::vec::Vec;
use core::ops::Range;

use elf::{Contents, Object, Unpacked};
use model::Svma;

/// Where the bytes of a section are.
#[derive(Debug)]
enum Place {
    /// In the object's file.
    InFile(Range<usize>),
    /// Unpacked from it, or from a separate debug file.
    Unpacked(Unpacked),
    /// Copied from a separate debug file.
    Copied(Vec<u8>),
}

/// A section's stated address (0 for one that is never loaded) and bytes. Unlike a slice it can be kept beside the
/// object that it lies in.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) address: Svma,
    place: Place,
}

impl Section {
    /// The section with this name; `None` where it has no bytes or they cannot be had.
    pub(super) fn named<D: AsRef<[u8]>>(object: &Object<D>, name: &str) -> Option<Self> {
        let address = object.section(name).map_or(Svma(0), |section| section.address);
        match object.contents(name).ok()?? {
            Contents::InFile(bytes) => Self::of_slice(object, address, bytes),
            Contents::Unpacked(bytes) => Some(Self { address, place: Place::Unpacked(bytes) }),
        }
    }

    /// The section with this name, its bytes taken along.
    pub(super) fn copied<D: AsRef<[u8]>>(object: &Object<D>, name: &str) -> Option<Self> {
        let address = object.section(name).map_or(Svma(0), |section| section.address);
        let place = match object.contents(name).ok()?? {
            Contents::InFile(bytes) => Place::Copied(bytes.to_vec()),
            Contents::Unpacked(bytes) => Place::Unpacked(bytes),
        };
        Some(Self { address, place })
    }

    /// Bytes of the object's file as a section.
    pub(super) fn of_slice<D: AsRef<[u8]>>(object: &Object<D>, address: Svma, bytes: &[u8]) -> Option<Self> {
        let file = object.data().as_ptr_range();
        let start = (bytes.as_ptr() as usize).checked_sub(file.start as usize)?;
        Some(Self { address, place: Place::InFile(start..start.checked_add(bytes.len())?) })
    }

    /// The bytes; `file` is that of the object.
    pub(super) fn bytes<'a>(&'a self, file: &'a [u8]) -> &'a [u8] {
        match &self.place {
            Place::InFile(range) => file.get(range.clone()).unwrap_or_default(),
            Place::Unpacked(bytes) => bytes,
            Place::Copied(bytes) => bytes,
        }
    }
}
