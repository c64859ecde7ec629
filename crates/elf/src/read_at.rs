//! Files that are read piece by piece.

use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Range;

use object::ReadRef;

/// Bytes that are copied when they are needed. A file that may change or shrink must be read so: a slice of it would promise that its
/// bytes stay.
pub trait ReadAt {
    /// The length in bytes.
    fn size(&self) -> u64;

    /// Copies bytes from `offset` on into `into`. Returns the number of bytes copied: fewer than there is room for at the end, or where they
    /// cannot be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize;

    /// Returns the bytes at `offset`; `None` where there are fewer.
    fn array<const LENGTH: usize>(&self, offset: u64) -> Option<[u8; LENGTH]>
    where
        Self: Sized,
    {
        let mut bytes = [0; LENGTH];
        (self.read_at(offset, &mut bytes) == LENGTH).then_some(bytes)
    }

    /// Returns the bytes of a range as far as they exist; none where memory has no room for them.
    fn copy(&self, range: Range<u64>) -> Vec<u8> {
        let end = range.end.min(self.size());
        let length = usize::try_from(end.saturating_sub(range.start)).unwrap_or(0);
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(length).is_err() {
            return bytes;
        }
        bytes.resize(length, 0);
        let read = self.read_at(range.start, &mut bytes);
        bytes.truncate(read);
        bytes
    }
}

impl<D: AsRef<[u8]>> ReadAt for D {
    fn size(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
        let from = usize::try_from(offset).ok().and_then(|offset| self.as_ref().get(offset..));
        let from = from.unwrap_or_default();
        let length = from.len().min(into.len());
        if let (Some(into), Some(from)) = (into.get_mut(..length), from.get(..length)) {
            into.copy_from_slice(from);
        }
        length
    }
}

/// The pieces of a file that hold its headers. The headers are parsed again and again; each time the first piece that was missing is
/// read.
pub(crate) struct Pieces {
    size: u64,
    /// The range of each piece, and its bytes as far as they exist.
    pieces: Vec<(Range<u64>, Vec<u8>)>,
    missing: Cell<Option<Range<u64>>>,
}

/// The headers of 65,536 sections.
const MAX_PIECE_BYTES: u64 = 4 << 20;
/// The headers of the file, of its segments and sections, their names, and notes.
const MAX_PIECES: usize = 32;

impl Pieces {
    /// Reads the start of a file, where linkers put the headers of segments and the build id.
    pub(crate) fn from_start(file: &impl ReadAt) -> Self {
        let mut pieces = Self { size: file.size(), pieces: Vec::new(), missing: Cell::default() };
        pieces.add(file, 0..4096);
        pieces
    }

    /// Reads the piece that was missing. Returns false where none was, or it cannot be read.
    pub(crate) fn complete(&mut self, file: &impl ReadAt) -> bool {
        let missing = self.missing.take();
        let Some(range) = missing.filter(|range| range.end - range.start <= MAX_PIECE_BYTES) else {
            return false;
        };
        let has_room = self.pieces.len() < MAX_PIECES;
        if has_room {
            self.add(file, range);
        }
        has_room
    }

    fn add(&mut self, file: &impl ReadAt, range: Range<u64>) {
        self.pieces.push((range.clone(), file.copy(range)));
    }
}

impl<'a> ReadRef<'a> for &'a Pieces {
    fn len(self) -> Result<u64, ()> {
        Ok(self.size)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        let end = offset.checked_add(size).ok_or(())?;
        let holds = |range: &Range<u64>| range.start <= offset && end <= range.end;
        let Some((range, bytes)) = self.pieces.iter().find(|(range, _)| holds(range)) else {
            self.missing.set(Some(offset..end));
            return Err(());
        };
        let start = usize::try_from(offset - range.start).map_err(drop)?;
        bytes.get(start..start + usize::try_from(size).map_err(drop)?).ok_or(())
    }

    fn read_bytes_at_until(self, _: Range<u64>, _: u8) -> Result<&'a [u8], ()> {
        // Names are looked for in the bytes of their section.
        Err(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;

    extern crate std;

    /// A file of which it is known how much was read.
    struct Counted {
        bytes: Vec<u8>,
        read: Cell<usize>,
    }

    impl ReadAt for Counted {
        fn size(&self) -> u64 {
            self.bytes.size()
        }

        fn read_at(&self, offset: u64, into: &mut [u8]) -> usize {
            let read = self.bytes.read_at(offset, into);
            self.read.set(self.read.get() + read);
            read
        }
    }

    #[test]
    fn the_headers_are_the_same_in_pieces_and_little_is_read() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let copy = bytes.clone();
        let whole = Object::parse(copy.as_slice()).unwrap();
        let object = Object::read(Counted { bytes: bytes.clone(), read: Cell::new(0) }).unwrap();
        assert_eq!(object.build_id(), whole.build_id());
        assert_eq!(object.segments(), whole.segments());
        assert_eq!(object.sections(), whole.sections());
        assert!(object.sections().len() > 10);
        assert_eq!(object.debug_link(), whole.debug_link());
        let read = object.source().read.get();
        assert!(read < 32 << 10, "{read} of {}", bytes.len());
        let file = Counted { bytes, read: Cell::new(0) };
        assert_eq!(crate::build_id_of_mapped(&file), whole.build_id());
        assert_eq!(file.read.get(), 4096);
    }

    /// A source that says it has more bytes than there can be.
    struct Endless;

    impl ReadAt for Endless {
        fn size(&self) -> u64 {
            u64::MAX
        }

        fn read_at(&self, _: u64, into: &mut [u8]) -> usize {
            into.len()
        }
    }

    #[test]
    fn a_size_that_lies_is_no_panic() {
        assert!(Endless.copy(0..u64::MAX).is_empty());
        assert_eq!(Endless.copy(u64::MAX - 3..u64::MAX).len(), 3);
        assert!(Object::read(Endless).is_err());
    }

    #[test]
    fn files_cut_anywhere_are_read_as_far_as_they_go() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        for length in [0, 3, 16, 63, 64, 100, 4095, 4097, bytes.len() / 2, bytes.len() - 1] {
            let cut = &bytes[..length];
            let (whole, pieces) =
                (Object::parse(cut), Object::read(Counted { bytes: cut.to_vec(), read: Cell::new(0) }));
            let build_id = crate::build_id_of_mapped(&cut);
            match (whole, pieces) {
                (Ok(whole), Ok(_)) if build_id != whole.build_id() => panic!("{length}: {build_id:?}"),
                (Ok(whole), Ok(pieces)) => assert_eq!(whole.sections(), pieces.sections(), "{length}"),
                (Err(_), Err(_)) => {}
                (whole, pieces) => panic!("{length}: {:?}, {:?}", whole.err(), pieces.err()),
            }
        }
    }
}
