//! Reads the memory of a process for one sample: in blocks, each once. What is read is of the process, which may have written anything.

use std::sync::Arc;

use model::{Avma, BLOCK_BYTES, Pid, ProcessMemory};

/// The maximum length of a name, in characters. Longer ones are cut.
pub const MAX_CHARACTERS: u64 = 1024;
/// A function with more lines than these is cut, so that its mapping in a recording has a bound.
pub const MAX_LINES: u32 = 1 << 20;

/// The blocks that were read of a process.
#[derive(Debug)]
pub struct Blocks {
    blocks: Vec<Block>,
    /// The maximum number of blocks of one sample.
    most: usize,
}

#[derive(Debug)]
struct Block {
    start: u64,
    /// The bytes that could be read.
    bytes: Arc<Vec<u8>>,
}

impl Blocks {
    /// Holds at most so many blocks at a time.
    pub fn new(most: usize) -> Self {
        Self { blocks: Vec::new(), most }
    }
}

/// Reads words and bytes of a process, until there are too many blocks.
pub struct Reader<'r> {
    memory: &'r dyn ProcessMemory,
    pid: Pid,
    blocks: &'r mut Blocks,
}

impl<'r> Reader<'r> {
    /// Starts anew: what `blocks` hold is of an earlier time.
    pub fn new(memory: &'r dyn ProcessMemory, pid: Pid, blocks: &'r mut Blocks) -> Self {
        blocks.blocks.clear();
        Self { memory, pid, blocks }
    }

    /// Returns the word at `address`.
    pub fn word(&mut self, address: u64) -> Option<u64> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// Returns the bytes at `address`.
    pub fn array<const LENGTH: usize>(&mut self, address: u64) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        self.read(address, &mut bytes).then_some(bytes)
    }

    /// Copies bytes from `address` on. Returns false where some cannot be read.
    pub fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
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

    /// Copies bytes from `address` on, without keeping them as blocks: for large things that are read once. Returns the number of bytes
    /// that could be read.
    pub fn read_once(&self, address: u64, into: &mut [u8]) -> usize {
        self.memory.read(self.pid, Avma(address), into)
    }

    /// Returns the bytes from `address` to the end of its block; `None` where there are none.
    fn from(&mut self, address: u64) -> Option<&[u8]> {
        let start = address & !(BLOCK_BYTES - 1);
        let known = self.blocks.blocks.iter().position(|block| block.start == start);
        let index = match known {
            Some(index) => index,
            None => self.read_block(start)?,
        };
        let bytes = self.blocks.blocks.get(index)?.bytes.get((address - start) as usize..)?;
        (!bytes.is_empty()).then_some(bytes)
    }

    fn read_block(&mut self, start: u64) -> Option<usize> {
        let index = self.blocks.blocks.len();
        if index >= self.blocks.most {
            return None;
        }
        let bytes = self.memory.block(self.pid, Avma(start));
        self.blocks.blocks.push(Block { start, bytes });
        Some(index)
    }
}
