//! The memory of a process at one moment, read for many goroutines in one call.

use model::{Avma, BLOCK_BYTES, Pid, ProcessMemory};
use rustc_hash::FxHashMap;

/// Blocks that are asked for in one call: the reader looks at as many pages at a time.
pub(crate) const MAX_RUN_BYTES: u64 = 64 * BLOCK_BYTES;

/// Blocks of the memory of a process, each read once.
pub(crate) struct MemoryPages<'m> {
    memory: &'m dyn ProcessMemory,
    pid: Pid,
    /// By the address of the first byte; empty where nothing could be read.
    blocks: FxHashMap<u64, Vec<u8>>,
}

impl<'m> MemoryPages<'m> {
    pub(crate) fn new(memory: &'m dyn ProcessMemory, pid: Pid) -> Self {
        Self { memory, pid, blocks: FxHashMap::default() }
    }

    /// Reads the blocks that cover `ranges` (address and number of bytes), neighbours in one call.
    pub(crate) fn fetch(&mut self, ranges: impl Iterator<Item = (u64, u64)>) {
        let start_of = |address: u64| address & !(BLOCK_BYTES - 1);
        let mut starts: Vec<u64> = ranges
            .flat_map(|(address, size)| {
                let end = address.saturating_add(size).min(address.saturating_add(MAX_RUN_BYTES));
                (start_of(address)..end).step_by(BLOCK_BYTES as usize)
            })
            .filter(|start| !self.blocks.contains_key(start))
            .collect();
        starts.sort_unstable();
        starts.dedup();
        let mut rest = starts.as_slice();
        while let Some((&first, _)) = rest.split_first() {
            let is_in_run = |(at, start): (u64, &u64)| {
                let distance = at * BLOCK_BYTES;
                first.checked_add(distance) == Some(*start) && distance < MAX_RUN_BYTES
            };
            let length = (0..).zip(rest).take_while(|&at| is_in_run(at)).count();
            let (run, others) = rest.split_at(length.max(1));
            self.read(run);
            rest = others;
        }
    }

    /// Reads blocks that follow each other. One that is not in memory ends a read; the next begins behind it.
    fn read(&mut self, run: &[u64]) {
        let mut bytes = vec![0; run.len() * BLOCK_BYTES as usize];
        let mut run = run;
        while let Some(&first) = run.first() {
            bytes.truncate(run.len() * BLOCK_BYTES as usize);
            let read = self.memory.read(self.pid, Avma(first), &mut bytes).min(bytes.len());
            let found = bytes.get(..read).unwrap_or_default().chunks(BLOCK_BYTES as usize);
            self.blocks.extend(run.iter().copied().zip(found.map(<[u8]>::to_vec)));
            let whole = read / BLOCK_BYTES as usize;
            self.blocks.entry(*run.get(whole).unwrap_or(&first)).or_default();
            run = run.get(whole + 1..).unwrap_or_default();
        }
    }

    /// Copies bytes from `address` on; `None` where some cannot be read.
    pub(crate) fn bytes(&mut self, address: u64, size: usize) -> Option<Vec<u8>> {
        self.fetch([(address, size as u64)].into_iter());
        let mut found = Vec::with_capacity(size);
        while found.len() < size {
            let at = address.checked_add(found.len() as u64)?;
            let block = self.blocks.get(&(at & !(BLOCK_BYTES - 1)))?;
            let rest = block.get((at % BLOCK_BYTES) as usize..).filter(|rest| !rest.is_empty())?;
            found.extend(rest.iter().take(size - found.len()));
        }
        Some(found)
    }

    /// Returns two words that follow each other.
    pub(crate) fn pair(&mut self, address: u64) -> Option<(u64, u64)> {
        let start = address & !(BLOCK_BYTES - 1);
        if !self.blocks.contains_key(&start) {
            self.fetch([(start, BLOCK_BYTES)].into_iter());
        }
        let block = self.blocks.get(&start)?;
        match block.get((address - start) as usize..)?.first_chunk::<16>() {
            Some(pair) => Some((word_at(pair, 0)?, word_at(pair, 8)?)),
            // It lies across two blocks.
            None => {
                let pair = self.bytes(address, 16)?;
                Some((word_at(&pair, 0)?, word_at(&pair, 8)?))
            }
        }
    }

    /// Returns the word at `address`.
    pub(crate) fn word(&mut self, address: u64) -> Option<u64> {
        word_at(&self.bytes(address, 8)?, 0)
    }
}

/// Returns the word at an offset of bytes.
pub(crate) fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}
