//! Stores many small pieces of bytes in one allocation.

use rustc_hash::FxHashMap;

/// A piece of text in the arena, by its position.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Span {
    start: usize,
    length: usize,
}

/// The memory that holds all pieces. A piece that equals the last one of its length is stored once, as unwinding information of like
/// functions is.
#[derive(Default, Debug)]
pub(super) struct Arena {
    bytes: Vec<u8>,
    /// The last piece of each length.
    last: FxHashMap<usize, usize>,
}

impl Arena {
    /// Adds a piece.
    pub(super) fn push(&mut self, piece: &[u8]) -> Span {
        let length = piece.len();
        if let Some(&start) = self.last.get(&length)
            && self.bytes.get(start..start + length) == Some(piece)
        {
            return Span { start, length };
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(piece);
        self.last.insert(length, start);
        Span { start, length }
    }

    /// A piece's bytes.
    pub(super) fn get(&self, span: Span) -> &[u8] {
        self.bytes.get(span.start..span.start + span.length).unwrap_or_default()
    }

    /// Bytes of all pieces.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}
