//! Reads the stacks of running processes beyond their copies.

use model::{Avma, Pid, ProcessMemory};
use unwinder::{Frame, ReadMemory, StackCopy};

use crate::process_maps::{MappedObjects, ProcessMaps};

/// The number of bytes read at once. Deep stacks are read from one end to the other.
const READ_BYTES: usize = 16 << 10;

/// The maximum number of bytes read of one stack.
const MAX_READ_BYTES: usize = 4 << 20;

/// The stack of a running process beyond the copy of a sample. The process has run on since the sample, so the first read checks that
/// the outermost frame in the copy still exists: its return address, or another one into the same function, is still in its stack
/// slot. The frames further out are then the same, too.
pub(crate) struct LiveMemory<'a> {
    memory: &'a dyn ProcessMemory,
    pid: Pid,
    check: FrameCheck,
    maps: &'a ProcessMaps,
    /// The address of the first of `bytes` (Avma).
    start: u64,
    bytes: &'a mut Vec<u8>,
    usable: Option<bool>,
    read: usize,
}

/// A word of a copy that tells whether the outermost frame found in the copy still exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameCheck {
    address: u64,
    word: u64,
    is_return_address: bool,
}

impl FrameCheck {
    /// Creates the check for a return address that was at `address` when the sample was taken.
    pub(crate) fn return_address(address: u64, word: u64) -> Self {
        Self { address, word, is_return_address: true }
    }

    /// Creates the check for `last`, the outermost frame found in `copy`: its return address or, where that was in a register, the last
    /// word copied.
    pub(crate) fn for_outermost(last: &Frame, copy: &StackCopy<'_>) -> Option<Self> {
        let address = last.stack_pointer.wrapping_sub(8);
        match copy.word(address) {
            Some(word) if word == last.address.address().0 => {
                Some(Self { address, word, is_return_address: true })
            }
            _ => {
                let address = copy.start.checked_add((copy.bytes.len() as u64 & !7).checked_sub(8)?)?;
                Some(Self { address, word: copy.word(address)?, is_return_address: false })
            }
        }
    }
}

impl<'a> LiveMemory<'a> {
    /// Creates a reader that uses `bytes` as its buffer; their contents are dropped.
    pub(crate) fn new(
        memory: &'a dyn ProcessMemory,
        pid: Pid,
        check: FrameCheck,
        maps: &'a ProcessMaps,
        bytes: &'a mut Vec<u8>,
    ) -> Self {
        bytes.clear();
        Self { memory, pid, check, maps, start: 0, bytes, usable: None, read: 0 }
    }

    fn is_unchanged(&self) -> bool {
        let FrameCheck { address, word, is_return_address } = self.check;
        let mut now = [0; 8];
        if self.memory.read(self.pid, Avma(address), &mut now) != now.len() {
            return false;
        }
        let now = u64::from_ne_bytes(now);
        now == word
            || (is_return_address && MappedObjects::all(self.maps).share_function(Avma(now), Avma(word)))
    }

    fn read_block(&mut self, address: u64) -> Option<()> {
        if self.read >= MAX_READ_BYTES {
            return None;
        }
        self.bytes.resize(READ_BYTES, 0);
        let read = self.memory.read(self.pid, Avma(address), self.bytes);
        self.bytes.truncate(read);
        self.start = address;
        self.read += READ_BYTES;
        (read > 0).then_some(())
    }
}

impl ReadMemory for LiveMemory<'_> {
    fn read_word(&mut self, address: u64) -> Option<u64> {
        let held = StackCopy { start: self.start, bytes: self.bytes };
        if let Some(word) = held.word(address) {
            return Some(word);
        }
        let usable = match self.usable {
            Some(usable) => usable,
            None => self.is_unchanged(),
        };
        self.usable = Some(usable);
        if !usable {
            return None;
        }
        self.read_block(address)?;
        StackCopy { start: self.start, bytes: self.bytes }.word(address)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::process_maps::ProcessMapsCache;
    use crate::test_sources::{MemoryObjects, OneProcess};

    /// Words from 0x1000 on, each of which is its own address.
    fn process() -> OneProcess {
        let bytes = (0x1000..0x9000_u64).step_by(8).flat_map(u64::to_le_bytes).collect();
        OneProcess { pid: Pid(7), start: 0x1000, bytes, reads: AtomicU64::new(0) }
    }

    fn maps() -> Arc<ProcessMaps> {
        let mut tracker = tracker::Tracker::new();
        ProcessMapsCache::new(Arc::new(MemoryObjects::default())).get(&mut tracker, Pid(7))
    }

    #[test]
    fn words_are_read_in_blocks_where_the_witness_is_unchanged() {
        let (process, maps, mut bytes) = (process(), maps(), vec![1, 2, 3]);
        let check = FrameCheck::return_address(0x2000, 0x2000);
        let mut memory = LiveMemory::new(&process, Pid(7), check, &maps, &mut bytes);
        let words = [0x2008, 0x2010, 0x5ff8, 0x8ff8, 0x8ffc].map(|address| memory.read_word(address));
        assert_eq!(words, [Some(0x2008), Some(0x2010), Some(0x5ff8), Some(0x8ff8), None]);
        let reads = process.reads.load(Ordering::Relaxed);
        assert_eq!(reads, 4, "the check, two blocks, and the word that is cut");
    }

    #[test]
    fn nothing_is_read_of_a_process_that_has_gone_on_or_ended() {
        let (process, maps, mut bytes) = (process(), maps(), Vec::new());
        for (pid, address, word) in [(7, 0x2000, 0x2008), (8, 0x2000, 0x2000), (7, 0x10_0000, 0)] {
            let check = FrameCheck::return_address(address, word);
            let mut memory = LiveMemory::new(&process, Pid(pid), check, &maps, &mut bytes);
            assert_eq!((memory.read_word(0x3000), memory.read_word(0x3008)), (None, None));
        }
        assert_eq!(process.reads.load(Ordering::Relaxed), 3, "each check once");
    }

    #[test]
    fn deeper_stacks_than_a_bound_are_not_read() {
        let bytes = vec![0; MAX_READ_BYTES + 2 * READ_BYTES];
        let process = OneProcess { pid: Pid(7), start: 0, bytes, reads: AtomicU64::new(0) };
        let (maps, mut bytes) = (maps(), Vec::new());
        let mut memory =
            LiveMemory::new(&process, Pid(7), FrameCheck::return_address(0, 0), &maps, &mut bytes);
        let mut words = (8..(MAX_READ_BYTES + READ_BYTES) as u64).step_by(8);
        let end = words.find(|&address| memory.read_word(address).is_none());
        assert_eq!(end, Some(8 + MAX_READ_BYTES as u64));
    }
}
