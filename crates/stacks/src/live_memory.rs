//! The memory of a live process, for stacks deeper than their copy.

use host::sys::process_memory;
use model::{Avma, Pid};
use unwinder::{Frame, ReadMemory, StackCopy};

use crate::process_maps::{MappedObjects, ProcessMaps};

/// Read at once: deep stacks are read from one end to the other.
const BLOCK: usize = 16 << 10;

/// A deeper stack than this is not read, bytes.
const MOST: usize = 4 << 20;

/// The stack of a live process above a copy of it. The process has run on since: nothing is read unless the word that the
/// walk has come to, a return address, is still in its place, or another one of the same function. Then the same caller
/// is still (or again) at the same depth.
#[derive(Debug)]
pub(crate) struct LiveMemory<'a> {
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
    pub(crate) fn new(pid: Pid, witness: Witness, maps: &'a ProcessMaps, bytes: &'a mut Vec<u8>) -> Self {
        bytes.clear();
        Self { pid, witness, maps, start: 0, bytes, usable: None, read: 0 }
    }

    fn is_unchanged(&self) -> bool {
        let Witness { place, word, is_return_address } = self.witness;
        let mut now = [0; 8];
        if process_memory::read(self.pid, place, &mut now).ok() != Some(now.len()) {
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
        let read = process_memory::read(self.pid, address, self.bytes).unwrap_or(0);
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
