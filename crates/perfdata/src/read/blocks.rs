//! Records that cannot be read again, from a pipe or out of compressed pieces: kept until they are released.

use std::collections::VecDeque;

/// Bytes of a block. More than the largest record, so that what is cut by a block's end fits into the next.
pub(super) const BLOCK: usize = 256 << 10;
/// Bits of an offset in a block, in a place.
const OFFSET_BITS: u32 = 20;

#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    /// Records handed out and not released.
    held: u32,
    /// More may be appended.
    open: bool,
}

/// Blocks by number.
#[derive(Default)]
pub(super) struct Blocks {
    first: u64,
    blocks: VecDeque<Block>,
}

impl Blocks {
    fn block(&self, number: u64) -> Option<&Block> {
        self.blocks.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn block_mut(&mut self, number: u64) -> Option<&mut Block> {
        self.blocks.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// A new block that begins with `bytes`. Its number.
    pub(super) fn open(&mut self, bytes: &[u8]) -> u64 {
        let mut block = Block { bytes: Vec::with_capacity(BLOCK), held: 0, open: true };
        block.bytes.extend_from_slice(bytes);
        self.blocks.push_back(block);
        self.first + self.blocks.len() as u64 - 1
    }

    /// The bytes of an open block, to append to.
    pub(super) fn bytes_mut(&mut self, number: u64) -> Option<&mut Vec<u8>> {
        self.block_mut(number).map(|block| &mut block.bytes)
    }

    pub(super) fn bytes(&self, number: u64) -> &[u8] {
        self.block(number).map_or(&[], |block| &block.bytes)
    }

    /// Nothing more will be appended.
    pub(super) fn close(&mut self, number: u64) {
        if let Some(block) = self.block_mut(number) {
            block.open = false;
        }
        self.drop_unused(number);
    }

    /// Hands out the record at `offset` of a block: its place.
    pub(super) fn hold(&mut self, number: u64, offset: usize) -> u64 {
        if let Some(block) = self.block_mut(number) {
            block.held += 1;
        }
        number << OFFSET_BITS | offset as u64
    }

    /// The bytes from a place on.
    pub(super) fn at(&self, place: u64) -> &[u8] {
        let offset = (place & ((1 << OFFSET_BITS) - 1)) as usize;
        self.bytes(place >> OFFSET_BITS).get(offset..).unwrap_or(&[])
    }

    pub(super) fn release(&mut self, place: u64) {
        let number = place >> OFFSET_BITS;
        if let Some(block) = self.block_mut(number) {
            block.held = block.held.saturating_sub(1);
        }
        self.drop_unused(number);
    }

    fn drop_unused(&mut self, number: u64) {
        if let Some(block) = self.block_mut(number)
            && block.held == 0
            && !block.open
        {
            block.bytes = Vec::new();
        }
        while self.blocks.front().is_some_and(|block| block.held == 0 && !block.open) {
            self.blocks.pop_front();
            self.first += 1;
        }
    }

    /// Returns the number of kept bytes.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes.capacity()).sum()
    }
}

const _: () = assert!(BLOCK <= 1 << OFFSET_BITS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_when_the_last_record_is_released() {
        let mut blocks = Blocks::default();
        let first = blocks.open(b"one");
        let place = blocks.hold(first, 1);
        blocks.close(first);
        let second = blocks.open(b"two");
        blocks.close(second);
        assert_eq!(blocks.at(place), b"ne");
        blocks.release(place);
        assert_eq!(blocks.kept(), 0);
        assert_eq!(blocks.at(place), b"");
        assert_eq!(blocks.open(b"three"), 2);
    }
}
