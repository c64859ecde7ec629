//! Scripts, and the lines of places in them. V8 keeps places as offsets in characters, and computes line ends when it needs them first.

use memory::Reader;
use model::Timestamp;
use rustc_hash::FxHashMap;

use crate::heap::{Heap, is_reference, small_integer};
use crate::layout::ARRAY_DATA;
use crate::text;

/// The scripts of a process whose lines were asked for.
#[derive(Debug)]
pub(crate) struct Scripts {
    known: FxHashMap<ScriptKey, Script>,
    /// The number of line ends of all.
    ends: usize,
    /// The number of bytes of source that may be read now.
    budget: u64,
    refilled: Timestamp,
}

/// The address of a script, and its number, which V8 gives once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ScriptKey {
    object: u64,
    id: u64,
}

/// A script, as far as its source was read.
#[derive(Debug)]
struct Script {
    file: String,
    first_line: u32,
    first_column: u32,
    ends: Vec<u32>,
    /// The number of characters whose line ends are known.
    scanned: u32,
    is_whole: bool,
    /// True if the last of them is a carriage return, which ends a line if no line feed follows.
    ends_in_return: bool,
}

/// A place in a script, both counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The maximum number of line ends that are kept for a process, 4 bytes each. With more, all are forgotten. The compiler of TypeScript has
/// 200,000 lines.
const MAX_ENDS: usize = 4 << 20;
/// The maximum number of scripts; with more, all are forgotten.
const MAX_SCRIPTS: usize = 4096;
/// The maximum number of bytes of source that are read in a second: some milliseconds of time.
const BYTES_PER_SECOND: u64 = 32 << 20;
/// The size of one read in bytes.
const CHUNK_BYTES: usize = 128 << 10;

impl Default for Scripts {
    fn default() -> Self {
        Self { known: FxHashMap::default(), ends: 0, budget: BYTES_PER_SECOND, refilled: Timestamp(0) }
    }
}

impl Scripts {
    /// Adds the time since the last call to what may be read.
    pub(crate) fn refill(&mut self, now: Timestamp) {
        let nanoseconds = now.0.saturating_sub(self.refilled.0);
        let bytes = u128::from(nanoseconds) * u128::from(BYTES_PER_SECOND) / 1_000_000_000;
        if bytes > 0 {
            self.refilled = now;
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            self.budget = self.budget.saturating_add(bytes).min(BYTES_PER_SECOND);
        }
    }

    /// Returns the script at an address; `None` where there is none.
    pub(crate) fn key(&mut self, heap: &mut Heap<'_, '_>, object: u64) -> Option<ScriptKey> {
        if !heap.is(object, heap.layout.types.script) {
            return None;
        }
        let layout = &heap.layout.script;
        let key = ScriptKey { object, id: heap.field(object, layout.id)? };
        if !self.known.contains_key(&key) {
            if self.known.len() >= MAX_SCRIPTS {
                self.clear();
            }
            let name = heap.field(object, layout.name)?;
            let mut number = |offset| {
                let word = heap.field(object, offset)?;
                Some(small_integer(word).and_then(|number| u32::try_from(number).ok()).unwrap_or(0))
            };
            let (first_line, first_column) = (number(layout.line_offset)?, number(layout.column_offset)?);
            let script = Script {
                // That of code which the program has made has no name, or is a number.
                file: text::read(heap, name).unwrap_or_default(),
                first_line,
                first_column,
                ends: Vec::new(),
                scanned: 0,
                is_whole: false,
                ends_in_return: false,
            };
            self.known.insert(key, script);
        }
        Some(key)
    }

    /// Returns the name of a script.
    pub(crate) fn file(&self, key: ScriptKey) -> &str {
        self.known.get(&key).map_or("", |script| &script.file)
    }

    /// Reads the source up to an offset, so that its places are known. Returns false where that may take too long now.
    pub(crate) fn read_until(&mut self, heap: &mut Heap<'_, '_>, key: ScriptKey, offset: u32) -> bool {
        let Some(script) = self.known.get_mut(&key) else { return false };
        if script.is_whole || script.scanned > offset {
            return true;
        }
        let before = script.ends.len();
        let is_read = script.read_until(heap, key.object, offset, &mut self.budget);
        self.ends += script.ends.len() - before;
        if self.ends > MAX_ENDS {
            self.clear();
            return false;
        }
        is_read
    }

    fn clear(&mut self) {
        self.known.clear();
        self.ends = 0;
    }

    /// Returns the place of an offset; `None` where the source was not read up to there.
    pub(crate) fn place(&self, key: ScriptKey, offset: u32) -> Option<Place> {
        let script = self.known.get(&key)?;
        if !script.is_whole && offset > script.scanned {
            return None;
        }
        let index = script.ends.partition_point(|end| *end < offset);
        let start = match index.checked_sub(1) {
            Some(before) => script.ends.get(before)?.saturating_add(1),
            None => 0,
        };
        let first_column = if index == 0 { script.first_column } else { 0 };
        Some(Place {
            line: u32::try_from(index).ok()?.saturating_add(script.first_line).saturating_add(1),
            column: offset.saturating_sub(start).saturating_add(first_column).saturating_add(1),
        })
    }
}

impl Script {
    fn read_until(&mut self, heap: &mut Heap<'_, '_>, object: u64, offset: u32, budget: &mut u64) -> bool {
        let layout = &heap.layout.script;
        let (ends, source) = (heap.field(object, layout.line_ends), heap.field(object, layout.source));
        if self.scanned == 0
            && let Some(ends) = ends.filter(|ends| is_reference(*ends))
            && heap.is(ends, heap.layout.types.fixed_array)
            && let Some(known) = read_ends(heap, ends, budget)
        {
            self.ends = known;
            self.is_whole = true;
            return true;
        }
        // A source that cannot be read has no lines.
        let Some(source) = source.and_then(|source| text::flat(heap, source)) else { return false };
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.scanned <= offset {
            let Some(rest) = source.length.checked_sub(self.scanned).filter(|rest| *rest > 0) else {
                self.is_whole = true;
                break;
            };
            let wanted = (u64::from(rest) * source.width).min(CHUNK_BYTES as u64);
            let Some(left) = budget.checked_sub(wanted) else { return false };
            *budget = left;
            let from = source.data.checked_add(u64::from(self.scanned) * source.width);
            let Some(bytes) = chunk.get_mut(..wanted as usize) else { return false };
            if from.is_none_or(|from| heap.reader.read_once(from, bytes) < bytes.len()) {
                return false;
            }
            match source.width {
                1 => self.scan(bytes.iter().map(|byte| u16::from(*byte))),
                _ => self.scan(bytes.as_chunks().0.iter().map(|pair| u16::from_le_bytes(*pair))),
            }
        }
        true
    }

    /// Finds the line ends among the next characters.
    fn scan(&mut self, characters: impl Iterator<Item = u16>) {
        for character in characters {
            if std::mem::take(&mut self.ends_in_return) && character != u16::from(b'\n') {
                self.ends.push(self.scanned.saturating_sub(1));
            }
            match character {
                0x0a | 0x2028 | 0x2029 => self.ends.push(self.scanned),
                0x0d => self.ends_in_return = true,
                _ => {}
            }
            self.scanned = self.scanned.saturating_add(1);
        }
    }
}

/// Reads line ends that V8 has computed.
fn read_ends(heap: &mut Heap<'_, '_>, array: u64, budget: &mut u64) -> Option<Vec<u32>> {
    let length = heap.length(array).filter(|length| *length > 0 && *length as usize <= MAX_ENDS)?;
    let size = u64::from(length) * 8;
    *budget = budget.checked_sub(size)?;
    let start = heap.address_of(array, ARRAY_DATA)?;
    let mut bytes = vec![0; size as usize];
    read_all(heap.reader, start, &mut bytes).then_some(())?;
    let word = |word: &[u8; 8]| u32::try_from(small_integer(u64::from_le_bytes(*word))?).ok();
    let ends: Vec<u32> = bytes.as_chunks().0.iter().map(word).collect::<Option<_>>()?;
    ends.is_sorted().then_some(ends)
}

/// Reads a large piece of memory in pieces.
fn read_all(reader: &Reader<'_>, start: u64, into: &mut [u8]) -> bool {
    let mut address = Some(start);
    for piece in into.chunks_mut(CHUNK_BYTES) {
        let Some(from) = address.filter(|from| reader.read_once(*from, piece) == piece.len()) else {
            return false;
        };
        address = from.checked_add(piece.len() as u64);
    }
    true
}
