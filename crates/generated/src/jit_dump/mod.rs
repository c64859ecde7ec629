//! jitdump: `jit-PID.dump`, in which a runtime writes each piece of code that it generates, as it generates it
//! (tools/perf/Documentation/jitdump-specification.txt).
//!
//! # Offsets
//! A dump holds the bytes of the code. The offset of these bytes identifies a function, while its address may change and be used again. A
//! [`Placement`] maps addresses to offsets in the dump, from a time on, as a mapping does with a file.

mod arena;
mod lines;
mod record;

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use model::{Avma, Name, Timestamp};
use rustc_hash::FxHashMap;

use arena::{Arena, Span};
pub use lines::Line;
use lines::{LineTable, Lines};
use record::{Endian, Header, Kind, Load, Move, Prefix, Unwinding};

/// The maximum number of records that are read. Each function takes some 100 bytes.
const MAX_RECORDS: usize = 4 << 20;
/// The maximum size of names, lines and unwinding information together.
const MAX_KEPT_BYTES: usize = 256 << 20;
/// The maximum size of the fields and the name of a record; the code follows them.
const MAX_HEAD_BYTES: usize = record::LOAD_BYTES + Name::MAX_BYTES + 1;
/// The maximum size of the debug information, and of the unwinding information, of one function; larger one is left out.
const MAX_INFORMATION_BYTES: u32 = 16 << 20;
/// The text that perf's tools put before the code in an object, and some runtimes (V8) add to the addresses of lines.
const OBJECT_HEADER_BYTES: u64 = 0x40;

/// The reason why a file is not read as a jitdump.
#[derive(Debug, thiserror::Error)]
pub enum JitDumpError {
    /// The file does not begin as one.
    #[error("no jitdump: it begins with {0:#010x}, not with 0x4a695444")]
    Magic(u32),
    /// A header that is shorter than the fields that it must have, or longer than the file.
    #[error("jitdump header: total_size (offset 8) is {0}, at least 40 are needed")]
    HeaderSize(u32),
    /// A version with other records.
    #[error("jitdump header: version (offset 4) is {0}, 1 is known")]
    Version(u32),
    /// A record whose size cannot be: what lies behind it cannot be found.
    #[error("jitdump record at offset {offset:#x}: total_size is {size}, at least 16 are needed")]
    RecordSize {
        /// The offset of the record.
        offset: u64,
        /// The size that it states.
        size: u32,
    },
    /// Reading failed.
    #[error("jitdump at offset {offset:#x}: {error}")]
    Io {
        /// The offset that was read at.
        offset: u64,
        /// The error of the operating system.
        error: io::Error,
    },
}

/// Code at addresses, from a time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// By the clock of the dump.
    pub time: Timestamp,
    /// The first address.
    pub start: Avma,
    /// The number of bytes; never 0, and the last address exists.
    pub size: u64,
    /// The offset of the first byte of the code in the dump.
    pub offset: u64,
}

/// One function that a dump lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function<'a> {
    /// Its name as the runtime writes it.
    pub name: &'a str,
    /// The offset of its first byte in the dump.
    pub offset: u64,
    /// The number of bytes.
    pub size: u64,
}

/// The unwinding information of one function, as perf's tools put it into an object: behind the code, 8-aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnwindingInfo<'a> {
    /// `.eh_frame`. Its addresses count from the function's first byte, at 0.
    pub eh_frame: &'a [u8],
    /// The address that `.eh_frame` would have, counted from the function's first byte.
    pub eh_frame_address: u64,
}

/// The contents of a dump, as far as it has been read; by default nothing.
#[derive(Default, Debug)]
pub struct JitDump {
    limits: Limits,
    header: Option<Header>,
    /// The offset behind the last record that was read.
    position: u64,
    /// In the order of the file, so by offset.
    functions: Vec<KnownFunction>,
    placements: Vec<Placement>,
    /// The functions by the runtime's own number: the latest one.
    numbers: FxHashMap<u64, usize>,
    /// Lines whose function has not been loaded yet, by its address.
    lines_ahead: FxHashMap<u64, Lines>,
    /// The `.eh_frame` of the function that is loaded next.
    unwinding_ahead: Option<Span>,
    arena: Arena,
    lines: LineTable,
    records: usize,
    bad_records: usize,
    /// True if there is unwinding information.
    unwinding: bool,
    full: bool,
}

/// The limits on what is read and kept of a dump.
#[derive(Clone, Copy, Debug)]
struct Limits {
    records: usize,
    placements: usize,
    kept_bytes: usize,
    /// True if names and lines are kept.
    names: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { records: MAX_RECORDS, placements: MAX_RECORDS, kept_bytes: MAX_KEPT_BYTES, names: true }
    }
}

#[derive(Debug)]
struct KnownFunction {
    offset: u64,
    size: u64,
    name: Span,
    lines: Lines,
    /// Its `.eh_frame`.
    unwinding: Option<Span>,
}

impl JitDump {
    /// Creates a dump that keeps no names and no lines, for unwinding. Reads up to `placements` loads and moves, and `kept_bytes` of
    /// unwinding information (and at most one record more).
    pub fn for_unwinding(placements: usize, kept_bytes: usize) -> Self {
        let limits = Limits { placements, kept_bytes, names: false, ..Limits::default() };
        Self { limits, ..Self::default() }
    }

    /// Reads the records that a file has gained since the last call. The runtime may still be writing the last record, which is left for the
    /// next call then. The code itself is skipped. Memory grows with the functions, up to a bound ([`JitDump::is_cut`]).
    ///
    /// # Errors
    /// A file that is no jitdump; a record behind which no other can be found; those of the file. What was read before stays.
    pub fn read(&mut self, file: &mut (impl Read + Seek)) -> Result<(), JitDumpError> {
        let at = |offset| move |error| JitDumpError::Io { offset, error };
        let length = file.seek(SeekFrom::End(0)).map_err(at(0))?;
        if length <= self.position || self.full {
            return Ok(());
        }
        file.seek(SeekFrom::Start(self.position)).map_err(at(self.position))?;
        let mut file = Cursor { file: BufReader::with_capacity(64 << 10, file), position: self.position };
        let header = match self.header {
            Some(header) => header,
            None => {
                let Some(header) = Header::read(&mut file, length)? else { return Ok(()) };
                file.skip_to(u64::from(header.total_size))?;
                self.position = file.position;
                *self.header.insert(header)
            }
        };
        while length - self.position >= record::PREFIX_BYTES as u64 {
            if self.records >= self.limits.records
                || self.placements.len() >= self.limits.placements
                || self.kept_bytes() > self.limits.kept_bytes
            {
                self.full = true;
                break;
            }
            let start = self.position;
            let prefix = Prefix::parse(&file.bytes::<{ record::PREFIX_BYTES }>()?, header.endian);
            if (prefix.total_size as usize) < record::PREFIX_BYTES {
                self.full = true;
                return Err(JitDumpError::RecordSize { offset: start, size: prefix.total_size });
            }
            let end = start + u64::from(prefix.total_size);
            if end > length {
                // Being written.
                break;
            }
            self.records += 1;
            if !self.read_record(&prefix, &mut file, header.endian, end)? {
                self.bad_records += 1;
            }
            file.skip_to(end)?;
            self.position = end;
        }
        Ok(())
    }

    /// Reads a record. Returns false where it is malformed.
    fn read_record<R: Read + Seek>(
        &mut self,
        prefix: &Prefix,
        file: &mut Cursor<R>,
        endian: Endian,
        end: u64,
    ) -> Result<bool, JitDumpError> {
        let body = u64::from(prefix.total_size) - record::PREFIX_BYTES as u64;
        let start = file.position - record::PREFIX_BYTES as u64;
        match prefix.kind {
            Kind::Load => {
                let head = file.at_most(MAX_HEAD_BYTES.min(body as usize))?;
                let Some(load) = Load::parse(&head, endian) else { return Ok(false) };
                // The head may have only a part of a very long name. The code is found without it, because it ends the record.
                let Some(offset) = end.checked_sub(load.size) else { return Ok(false) };
                let least = start + (record::PREFIX_BYTES + record::LOAD_BYTES + load.name.len()) as u64;
                Ok(offset >= least && self.add_load(prefix.time, &load, offset))
            }
            Kind::Move => {
                let head = file.at_most(record::MOVE_BYTES.min(body as usize))?;
                let Some(moved) = Move::parse(&head, endian) else { return Ok(false) };
                Ok(self.add_move(prefix.time, &moved))
            }
            Kind::DebugInfo if !self.limits.names => Ok(true),
            Kind::DebugInfo if body > u64::from(MAX_INFORMATION_BYTES) => Ok(false),
            Kind::DebugInfo => {
                let bytes = file.at_most(body as usize)?;
                let Some((address, lines)) = self.lines.parse(&bytes, endian) else { return Ok(false) };
                // Lines of functions that never follow are bounded as all lines are.
                self.lines_ahead.insert(address, lines);
                Ok(true)
            }
            Kind::Unwinding if body > u64::from(MAX_INFORMATION_BYTES) => Ok(false),
            Kind::Unwinding => {
                let bytes = file.at_most(body as usize)?;
                let Some(unwinding) = Unwinding::parse(&bytes, endian) else { return Ok(false) };
                // V8 writes an `.eh_frame_hdr` alone for code without tables: nearly all of it.
                let is_there = !unwinding.eh_frame.is_empty();
                self.unwinding |= is_there;
                self.unwinding_ahead = is_there.then(|| self.arena.push(unwinding.eh_frame));
                Ok(true)
            }
            Kind::Other => Ok(true),
        }
    }

    fn add_load(&mut self, time: Timestamp, load: &Load<'_>, offset: u64) -> bool {
        let unwinding = self.unwinding_ahead.take();
        let lines = self.lines_ahead.remove(&load.address).unwrap_or_default();
        if load.name.is_empty() || !is_range(load.address, load.size) {
            return false;
        }
        let name = String::from_utf8_lossy(load.name);
        let name =
            if self.limits.names { self.arena.push(Name::cut(&name).as_bytes()) } else { Span::default() };
        let lines = self.lines.relative(lines, load.address, load.size);
        self.numbers.insert(load.number, self.functions.len());
        self.functions.push(KnownFunction { offset, size: load.size, name, lines, unwinding });
        self.placements.push(Placement { time, start: Avma(load.address), size: load.size, offset });
        true
    }

    fn add_move(&mut self, time: Timestamp, moved: &Move) -> bool {
        let Some(function) = self.numbers.get(&moved.number).and_then(|&index| self.functions.get(index))
        else {
            return false;
        };
        let size = moved.size.min(function.size);
        if !is_range(moved.new_address, size) {
            return false;
        }
        let offset = function.offset;
        self.placements.push(Placement { time, start: Avma(moved.new_address), size, offset });
        true
    }

    /// Returns the places where code was put, in the order of the file: a runtime's threads write one after the
    /// other, so times may go back a little.
    pub fn placements(&self) -> &[Placement] {
        &self.placements
    }

    /// The function that has the byte at this offset of the dump.
    pub fn function(&self, offset: u64) -> Option<Function<'_>> {
        let known = self.function_at(offset)?;
        let name = str::from_utf8(self.arena.get(known.name)).ok()?;
        Some(Function { name, offset: known.offset, size: known.size })
    }

    /// Returns the source line of the instruction that covers this offset of the dump.
    pub fn line(&self, offset: u64) -> Option<Line<'_>> {
        let known = self.function_at(offset)?;
        self.lines.find(known.lines, offset - known.offset)
    }

    /// The unwinding information of the function that has the byte at this offset of the dump.
    pub fn unwinding_info(&self, offset: u64) -> Option<UnwindingInfo<'_>> {
        let known = self.function_at(offset)?;
        let eh_frame = self.arena.get(known.unwinding?);
        Some(UnwindingInfo { eh_frame, eh_frame_address: known.size.checked_next_multiple_of(8)? })
    }

    /// Returns true if there is unwinding information for any function.
    pub fn has_unwinding_info(&self) -> bool {
        self.unwinding
    }

    /// Returns true if times are of the processor's own counter, which is no clock of a recording.
    pub fn has_processor_times(&self) -> bool {
        self.header.is_some_and(|header| header.processor_times)
    }

    /// Records that were passed over because they make no sense.
    pub fn bad_records(&self) -> usize {
        self.bad_records
    }

    /// Returns true if reading ended before the end of the file, because it says too much, or cannot be followed any further.
    pub fn is_cut(&self) -> bool {
        self.full
    }

    fn function_at(&self, offset: u64) -> Option<&KnownFunction> {
        let after = self.functions.partition_point(|known| known.offset <= offset);
        let known = self.functions.get(after.checked_sub(1)?)?;
        (offset - known.offset < known.size).then_some(known)
    }

    fn kept_bytes(&self) -> usize {
        self.arena.len() + self.lines.bytes()
    }
}

/// Returns true if there is a byte, and the last one has an address.
fn is_range(start: u64, size: u64) -> bool {
    size.checked_sub(1).and_then(|last| start.checked_add(last)).is_some()
}

/// A file with the current offset in it.
struct Cursor<R> {
    file: BufReader<R>,
    position: u64,
}

impl<R: Read + Seek> Cursor<R> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], JitDumpError> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(|error| self.error(error))?;
        self.position += N as u64;
        Ok(bytes)
    }

    /// Reads up to `count` bytes.
    fn at_most(&mut self, count: usize) -> Result<Vec<u8>, JitDumpError> {
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(count as u64).read_to_end(&mut bytes);
        self.position += read.map_err(|error| self.error(error))? as u64;
        Ok(bytes)
    }

    fn skip_to(&mut self, position: u64) -> Result<(), JitDumpError> {
        let skipped = position.wrapping_sub(self.position).cast_signed();
        self.file.seek_relative(skipped).map_err(|error| self.error(error))?;
        self.position = position;
        Ok(())
    }

    fn error(&self, error: io::Error) -> JitDumpError {
        JitDumpError::Io { offset: self.position, error }
    }
}

/// Returns true if a mapped file is a jitdump, by its name: `jit-PID.dump`, or `jit-TID-PID.dump` and `jit-TID-PID-XXXX` with or without that
/// ending, as JavaScriptCore names them.
pub fn is_dump(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let Some(rest) = name.strip_prefix(b"jit-").filter(|_| path.starts_with(b"/")) else { return false };
    let stem = rest.strip_suffix(b".dump");
    let parts: Vec<&[u8]> = stem.unwrap_or(rest).split(|&byte| byte == b'-').collect();
    let is_number = |part: &&[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    match parts.as_slice() {
        [_] | [_, _] => stem.is_some() && parts.iter().all(is_number),
        [ids @ .., random] if ids.len() == 2 => {
            ids.iter().all(is_number) && !random.is_empty() && random.iter().all(u8::is_ascii_alphanumeric)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
