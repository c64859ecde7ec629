//! The memory of a live process, for stacks deeper than their copy.

use model::{Avma, Pid, ProcessMemory};
use unwinder::{Frame, ReadMemory, StackCopy};

use crate::process_maps::{MappedObjects, ProcessMaps};

/// Read at once: deep stacks are read from one end to the other.
const BLOCK: usize = 16 << 10;

/// A deeper stack than this is not read, bytes.
const MOST: usize = 4 << 20;

/// The stack of a live process above a copy of it. The process has run on since: nothing is read unless the word that the
/// walk has come to, a return address, is still in its place, or another one of the same function. Then the same caller
/// is still (or again) at the same depth.
pub(crate) struct LiveMemory<'a> {
    memory: &'a dyn ProcessMemory,
    pid: Pid,
    witness: Witness,
    maps: &'a ProcessMaps,
    /// The address of `bytes`.
    start: u64,
    bytes: &'a mut Vec<u8>,
    usable: Option<bool>,
    read: usize,
}

/// The word of a copy by which one sees whether the outermost frame found in it is still there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Witness {
    place: u64,
    word: u64,
    is_return_address: bool,
}

impl Witness {
    /// A return address that was in this place when the sample was taken.
    pub(crate) fn return_address(place: u64, word: u64) -> Self {
        Self { place, word, is_return_address: true }
    }

    /// The return address of `last`, the outermost frame found in `copy`; where that was kept in a register, the last word
    /// copied.
    pub(crate) fn of(last: &Frame, copy: &StackCopy<'_>) -> Option<Self> {
        let place = last.stack_pointer.wrapping_sub(8);
        match copy.word(place) {
            Some(word) if word == last.address.address().0 => {
                Some(Self { place, word, is_return_address: true })
            }
            _ => {
                let place = copy.start.checked_add((copy.bytes.len() as u64 & !7).checked_sub(8)?)?;
                Some(Self { place, word: copy.word(place)?, is_return_address: false })
            }
        }
    }
}

impl<'a> LiveMemory<'a> {
    /// Reads into `bytes`, whose contents are dropped.
    pub(crate) fn new(
        memory: &'a dyn ProcessMemory,
        pid: Pid,
        witness: Witness,
        maps: &'a ProcessMaps,
        bytes: &'a mut Vec<u8>,
    ) -> Self {
        bytes.clear();
        Self { memory, pid, witness, maps, start: 0, bytes, usable: None, read: 0 }
    }

    fn is_unchanged(&self) -> bool {
        let Witness { place, word, is_return_address } = self.witness;
        let mut now = [0; 8];
        if self.memory.read(self.pid, Avma(place), &mut now) != now.len() {
            return false;
        }
        let now = u64::from_ne_bytes(now);
        now == word
            || (is_return_address && MappedObjects::all(self.maps).share_function(Avma(now), Avma(word)))
    }

    fn read_block(&mut self, address: u64) -> Option<()> {
        if self.read >= MOST {
            return None;
        }
        self.bytes.resize(BLOCK, 0);
        let read = self.memory.read(self.pid, Avma(address), self.bytes);
        self.bytes.truncate(read);
        self.start = address;
        self.read += BLOCK;
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
        ProcessMapsCache::new(Arc::new(MemoryObjects::default())).of(&mut tracker, Pid(7))
    }

    #[test]
    fn words_are_read_in_blocks_where_the_witness_is_unchanged() {
        let (process, maps, mut bytes) = (process(), maps(), vec![1, 2, 3]);
        let witness = Witness::return_address(0x2000, 0x2000);
        let mut memory = LiveMemory::new(&process, Pid(7), witness, &maps, &mut bytes);
        let words = [0x2008, 0x2010, 0x5ff8, 0x8ff8, 0x8ffc].map(|address| memory.read_word(address));
        assert_eq!(words, [Some(0x2008), Some(0x2010), Some(0x5ff8), Some(0x8ff8), None]);
        let reads = process.reads.load(Ordering::Relaxed);
        assert_eq!(reads, 4, "the witness, two blocks, and the word that is cut");
    }

    #[test]
    fn nothing_is_read_of_a_process_that_has_gone_on_or_ended() {
        let (process, maps, mut bytes) = (process(), maps(), Vec::new());
        for (pid, place, word) in [(7, 0x2000, 0x2008), (8, 0x2000, 0x2000), (7, 0x10_0000, 0)] {
            let witness = Witness::return_address(place, word);
            let mut memory = LiveMemory::new(&process, Pid(pid), witness, &maps, &mut bytes);
            assert_eq!((memory.read_word(0x3000), memory.read_word(0x3008)), (None, None));
        }
        assert_eq!(process.reads.load(Ordering::Relaxed), 3, "each witness once");
    }

    #[test]
    fn deeper_stacks_than_a_bound_are_not_read() {
        let bytes = vec![0; MOST + 2 * BLOCK];
        let process = OneProcess { pid: Pid(7), start: 0, bytes, reads: AtomicU64::new(0) };
        let (maps, mut bytes) = (maps(), Vec::new());
        let mut memory = LiveMemory::new(&process, Pid(7), Witness::return_address(0, 0), &maps, &mut bytes);
        let mut words = (8..(MOST + BLOCK) as u64).step_by(8);
        let end = words.find(|&address| memory.read_word(address).is_none());
        assert_eq!(end, Some(8 + MOST as u64));
    }
}
