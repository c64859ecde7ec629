//! Reads the memory of a process for one sample: in blocks, each once.

use model::{Avma, Pid, ProcessMemory};

/// The size of a block in bytes, and its alignment. A larger one holds more frames, and costs no more to read than a small one.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// The maximum number of blocks of one sample: frames of 300 functions, or 30 functions that are new, lie in so many.
const MAX_BLOCKS: usize = 96;

/// The blocks that were read of a process.
#[derive(Default, Debug)]
pub(crate) struct Blocks {
    /// The first `used` hold blocks.
    blocks: Vec<Block>,
    used: usize,
}

#[derive(Debug)]
struct Block {
    start: u64,
    /// The bytes that could be read.
    bytes: Vec<u8>,
}

/// Reads words and bytes of a process, until there are too many blocks.
pub(crate) struct Reader<'r> {
    memory: &'r dyn ProcessMemory,
    pid: Pid,
    blocks: &'r mut Blocks,
}

impl<'r> Reader<'r> {
    /// Starts anew: what `blocks` hold is of an earlier time.
    pub(crate) fn new(memory: &'r dyn ProcessMemory, pid: Pid, blocks: &'r mut Blocks) -> Self {
        blocks.used = 0;
        Self { memory, pid, blocks }
    }

    /// Returns the word at `address`.
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// Returns the bytes at `address`.
    pub(crate) fn array<const LENGTH: usize>(&mut self, address: u64) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        self.read(address, &mut bytes).then_some(bytes)
    }

    /// Copies bytes from `address` on. Returns false where some cannot be read.
    pub(crate) fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(from) = address.checked_add(done as u64) else { return false };
            let Some(found) = self.from(from) else { return false };
            let length = found.len().min(rest.len());
            if let (Some(rest), Some(found)) = (rest.get_mut(..length), found.get(..length)) {
                rest.copy_from_slice(found);
            }
            done += length;
        }
        true
    }

    /// Returns the bytes from `address` to the end of its block; `None` where there are none.
    fn from(&mut self, address: u64) -> Option<&[u8]> {
        let start = address & !(BLOCK_BYTES - 1);
        let known = self.blocks.blocks.iter().take(self.blocks.used).position(|block| block.start == start);
        let index = match known {
            Some(index) => index,
            None => self.read_block(start)?,
        };
        let bytes = self.blocks.blocks.get(index)?.bytes.get((address - start) as usize..)?;
        (!bytes.is_empty()).then_some(bytes)
    }

    fn read_block(&mut self, start: u64) -> Option<usize> {
        let index = self.blocks.used;
        if index >= MAX_BLOCKS {
            return None;
        }
        if index == self.blocks.blocks.len() {
            self.blocks.blocks.push(Block { start, bytes: Vec::new() });
        }
        let block = self.blocks.blocks.get_mut(index)?;
        block.start = start;
        block.bytes.resize(BLOCK_BYTES as usize, 0);
        let read = self.memory.read(self.pid, Avma(start), &mut block.bytes);
        block.bytes.truncate(read);
        self.blocks.used += 1;
        Some(index)
    }
}
