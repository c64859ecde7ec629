use alloc::sync::Arc;
use core::ops::Range;

use model::FileOffset;

use crate::{ElfError, Object, ReadAt, Unpacked};

/// Reads the bytes of a section, or of another part of an object's file, when they are needed. A compressed section is unpacked when it
/// is opened.
#[derive(Debug)]
pub struct SectionReader<D>(Bytes<D>);

#[derive(Debug)]
enum Bytes<D> {
    InFile(Arc<Object<D>>, Range<u64>),
    Unpacked(Unpacked),
}

impl<D: ReadAt> SectionReader<D> {
    /// Opens the section with this name. `None` where there is none, or it has no bytes in this file. `.debug_x` also finds
    /// `.zdebug_x`.
    ///
    /// # Errors
    /// As [`Object::section_contents`].
    pub fn from_section(object: &Arc<Object<D>>, name: &str) -> Result<Option<Self>, ElfError> {
        let Some(section) = object.contents_section(name) else { return Ok(None) };
        Ok(match object.unpacked(section)? {
            Some(unpacked) => Some(Self(Bytes::Unpacked(unpacked))),
            None => Self::from_range(object, section.file_offset, section.size),
        })
    }

    /// Opens a range of the file. `None` where its end is beyond all offsets.
    pub fn from_range(object: &Arc<Object<D>>, start: FileOffset, size: u64) -> Option<Self> {
        let range = start.0..start.0.checked_add(size)?;
        Some(Self(Bytes::InFile(Arc::clone(object), range)))
    }

    /// Opens the whole file.
    pub fn from_file(object: &Arc<Object<D>>) -> Self {
        Self(Bytes::InFile(Arc::clone(object), 0..object.source().size()))
    }
}

impl<D: ReadAt> ReadAt for SectionReader<D> {
    fn size(&self) -> u64 {
        match &self.0 {
            Bytes::InFile(_, range) => range.end.saturating_sub(range.start),
            Bytes::Unpacked(bytes) => bytes.len() as u64,
        }
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        match &self.0 {
            Bytes::InFile(object, range) => {
                let left = self.size().saturating_sub(offset);
                let length = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
                let into = into.get_mut(..length).unwrap_or_default();
                object.source().read_at(range.start.saturating_add(offset), into)
            }
            Bytes::Unpacked(bytes) => (&**bytes).read_at(offset, into),
        }
    }
}
