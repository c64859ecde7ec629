//! Files through windows of bounded size: a 10 GB recording needs no 10 GB of memory.

use super::source::{ReadAt, read_full};
use crate::error::Error;

/// Bytes from one window's start to the next one's.
const STEP: u64 = 512 << 10;
/// A record lies in the window in which it begins: the largest has 65535 bytes.
const OVERLAP: u64 = 64 << 10;
/// All windows together stay below 64 MiB.
const MOST: usize = 110;
/// So many are enough to read a file once from its beginning to its end. More are made when a window is read again that had to
/// go, as where rounds are sorted.
const FEW: usize = 2;
/// Places to look for a window at first.
const GUESSES: usize = 256;

struct Window {
    file: u16,
    number: u64,
    bytes: Vec<u8>,
    used: u64,
}

/// The windows over all files of a recording.
pub(super) struct Windows {
    files: Vec<Box<dyn ReadAt>>,
    windows: Vec<Window>,
    /// The probable slot of a window, by its number.
    guesses: Vec<u8>,
    most: usize,
    /// The highest window read so far, of each file.
    reached: Vec<Option<u64>>,
    clock: u64,
}

impl Windows {
    pub(super) fn new(files: Vec<Box<dyn ReadAt>>) -> Self {
        let reached = vec![None; files.len()];
        Self { files, windows: Vec::new(), guesses: vec![0; GUESSES], most: FEW, reached, clock: 0 }
    }

    pub(super) fn file(&self, file: u16) -> Option<&dyn ReadAt> {
        self.files.get(usize::from(file)).map(|file| &**file)
    }

    /// The bytes of `file` from `offset` on: at least those of one record, if there are as many.
    #[inline]
    pub(super) fn at(&mut self, file: u16, offset: u64) -> Result<&[u8], Error> {
        let number = offset / STEP;
        let guess = Self::guess(file, number);
        let mut slot = usize::from(self.guesses.get(guess).copied().unwrap_or(0));
        if self.windows.get(slot).is_none_or(|window| window.number != number || window.file != file) {
            slot = self.find(file, number)?;
            if let Some(known) = self.guesses.get_mut(guess) {
                *known = slot as u8;
            }
        }
        let within = (offset % STEP) as usize;
        Ok(self.windows.get(slot).and_then(|window| window.bytes.get(within..)).unwrap_or(&[]))
    }

    /// Neighbours in a file, and the same window of neighbouring files, do not share a guess.
    #[inline]
    fn guess(file: u16, number: u64) -> usize {
        (number as usize).wrapping_add(usize::from(file).wrapping_mul(37)) % GUESSES
    }

    #[cold]
    fn find(&mut self, file: u16, number: u64) -> Result<usize, Error> {
        self.clock += 1;
        let clock = self.clock;
        let known = |window: &Window| window.file == file && window.number == number;
        if let Some(slot) = self.windows.iter().position(known) {
            if let Some(window) = self.windows.get_mut(slot) {
                window.used = clock;
            }
            return Ok(slot);
        }
        let Some(source) = self.files.get(usize::from(file)) else { return Ok(usize::MAX) };
        if let Some(reached) = self.reached.get_mut(usize::from(file)) {
            if reached.is_some_and(|reached| reached >= number) {
                self.most = (self.most + 8).min(MOST);
            }
            *reached = (*reached).max(Some(number));
        }
        let slot = if self.windows.len() < self.most {
            self.windows.push(Window { file, number, bytes: Vec::new(), used: 0 });
            self.windows.len() - 1
        } else {
            let oldest = self.windows.iter().enumerate().min_by_key(|(_, window)| window.used);
            oldest.map_or(0, |(slot, _)| slot)
        };
        let Some(window) = self.windows.get_mut(slot) else { return Ok(slot) };
        (window.file, window.number, window.used) = (file, number, clock);
        let offset = number.saturating_mul(STEP);
        let filled = Self::fill(window, &**source, offset);
        if let Err(source) = filled {
            // A window without bytes would be taken for the end of the file.
            self.windows.swap_remove(slot);
            return Err(Error::Io { offset, len: STEP + OVERLAP, source });
        }
        Ok(slot)
    }

    fn fill(window: &mut Window, source: &dyn ReadAt, offset: u64) -> std::io::Result<()> {
        // A small file gets a small window.
        let left = source.len()?.saturating_sub(offset);
        window.bytes.resize(left.min(STEP + OVERLAP) as usize, 0);
        let len = read_full(source, &mut window.bytes, offset)?;
        window.bytes.truncate(len);
        Ok(())
    }
}

const _: () = assert!(MOST <= u8::MAX as usize);
