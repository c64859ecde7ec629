//! A record stream that cannot be read twice.

use std::io::{self, Read};

use super::blocks::{BLOCK, Blocks};
use crate::error::Error;

/// Bytes that are asked of the pipe at once.
const CHUNK: usize = 64 << 10;

/// The stream, and the block that it is read into.
pub(super) struct Stream {
    reader: Box<dyn Read + Send>,
    chunk: Box<[u8]>,
    block: Option<u64>,
    parsed: usize,
    /// Bytes consumed since the start of the stream.
    pub(super) offset: u64,
}

impl Stream {
    pub(super) fn new(reader: Box<dyn Read + Send>) -> Self {
        Self { reader, chunk: vec![0; CHUNK].into(), block: None, parsed: 0, offset: 0 }
    }

    /// The bytes that are there, at least `wanted` of them unless the stream ends before. `wanted` is at most a
    /// record's size.
    pub(super) fn peek<'b>(&mut self, blocks: &'b mut Blocks, wanted: usize) -> Result<&'b [u8], Error> {
        loop {
            let block = match self.block {
                Some(block) => block,
                None => *self.block.insert(blocks.open(&[])),
            };
            let there = blocks.bytes(block).len().saturating_sub(self.parsed);
            if there >= wanted {
                break;
            }
            if self.parsed + wanted > BLOCK {
                let rest = blocks.bytes(block).get(self.parsed..).unwrap_or(&[]).to_vec();
                blocks.close(block);
                self.block = Some(blocks.open(&rest));
                self.parsed = 0;
                continue;
            }
            if self.fill(blocks, block)? == 0 {
                break;
            }
        }
        let block = self.block.unwrap_or_default();
        Ok(blocks.bytes(block).get(self.parsed..).unwrap_or(&[]))
    }

    fn fill(&mut self, blocks: &mut Blocks, block: u64) -> Result<usize, Error> {
        let room = CHUNK.min(BLOCK.saturating_sub(blocks.bytes(block).len()));
        let chunk = self.chunk.get_mut(..room).unwrap_or_default();
        let count = loop {
            match self.reader.read(chunk) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Io { offset: self.offset, len: room as u64, source }),
            }
        };
        if let Some(bytes) = blocks.bytes_mut(block) {
            bytes.extend_from_slice(chunk.get(..count).unwrap_or(&[]));
        }
        Ok(count)
    }

    /// Hands out the `size` bytes that [`Self::peek`] showed: their place.
    pub(super) fn take(&mut self, blocks: &mut Blocks, size: usize) -> u64 {
        let place = blocks.hold(self.block.unwrap_or_default(), self.parsed);
        self.advance(size);
        place
    }

    fn advance(&mut self, size: usize) {
        self.parsed += size;
        self.offset += size as u64;
    }

    /// Takes up to `len` bytes out of the stream and gives them to `sink`, piece by piece. How many were there.
    pub(super) fn drain(
        &mut self,
        blocks: &mut Blocks,
        len: u64,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<u64, Error> {
        let mut left = len;
        while left > 0 {
            let bytes = self.peek(blocks, 1)?;
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            if count == 0 {
                break;
            }
            sink(bytes.get(..count).unwrap_or(&[]));
            self.advance(count);
            left -= count as u64;
        }
        Ok(len - left)
    }

    /// The stream has ended.
    pub(super) fn close(&mut self, blocks: &mut Blocks) {
        if let Some(block) = self.block.take() {
            blocks.close(block);
        }
    }
}
