//! A section that unwinding reads.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use elf::{ElfError, Object, ReadAt, Unpacked};
use model::{FileOffset, Svma};

/// A section's stated address (0 for one that is never loaded) and bytes.
#[derive(Debug)]
pub(super) struct Section<D> {
    pub(super) address: Svma,
    bytes: Bytes<D>,
}

/// Where the bytes of a section are.
#[derive(Debug)]
enum Bytes<D> {
    /// In the file of an object, where they are read when they are needed.
    InFile(Arc<Object<D>>, Range<u64>),
    Unpacked(Unpacked),
}

impl<D: ReadAt> Section<D> {
    /// The section with this name; `None` where it has no bytes or they cannot be had: `refused` then says why.
    pub(super) fn named(object: &Arc<Object<D>>, name: &str, refused: &mut Vec<ElfError>) -> Option<Self> {
        let section = object.contents_section(name)?;
        let bytes = match object.unpacked(section).map_err(|error| refused.push(error)).ok()? {
            Some(unpacked) => Bytes::Unpacked(unpacked),
            None => {
                let start = section.file_offset.0;
                Bytes::InFile(Arc::clone(object), start..start.checked_add(section.size)?)
            }
        };
        Some(Self { address: section.address, bytes })
    }

    /// A part of an object's file that has no section header.
    pub(super) fn in_file(object: &Arc<Object<D>>, address: Svma, at: FileOffset, size: u64) -> Option<Self> {
        let range = at.0..at.0.checked_add(size)?;
        Some(Self { address, bytes: Bytes::InFile(Arc::clone(object), range) })
    }
}

impl<D: ReadAt> ReadAt for Section<D> {
    fn size(&self) -> u64 {
        match &self.bytes {
            Bytes::InFile(_, range) => range.end - range.start,
            Bytes::Unpacked(bytes) => bytes.len() as u64,
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        match &self.bytes {
            Bytes::InFile(object, range) => {
                let left = self.size().saturating_sub(offset);
                let length = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
                object.source().read_at(range.start.saturating_add(offset), &mut into[..length])
            }
            Bytes::Unpacked(bytes) => (&**bytes).read_at(offset, into),
        }
    }
}
