//! A stream, read in small bites.

use std::io::{Cursor, Read};

use perfdata::{Reader, Source};

use super::file::read;
use crate::seeds;

/// Gives less than was asked for, as pipes do.
struct Bites(Cursor<Vec<u8>>);

impl Read for Bites {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = buffer.len().min(1000);
        self.0.read(buffer.get_mut(..len).unwrap_or_default())
    }
}

pub(super) fn run(bytes: &[u8]) {
    if let Ok(reader) = Reader::open(Source::Stream(Box::new(Bites(Cursor::new(bytes.to_vec()))))) {
        read(reader, bytes.len());
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![seeds::pipe()]
}
