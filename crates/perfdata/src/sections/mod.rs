//! Sections of our own: what `prof` says of a recording that perf.data has no field for.
//!
//! They have no bit in the header's map of features: perf uses the number of a set bit as an index (`perf inject` of
//! Linux 6.1 ends with a segmentation fault on any bit that it does not know). Instead
//!
//! - a file has a `Block` between the header and the attrs, where readers that follow the header's offsets do not
//!   look. It says where the sections lie: behind those of perf;
//! - sections that are added to a finished file, of any recorder, lie behind its last byte, with a `Block` behind them
//!   as the new last bytes: an [`appendix`];
//! - a pipe carries them in `HEADER_EVENT_TYPE` records ([`Piece`]), which perf passes over since Linux 3.5.
//!
//! `perf inject` and other tools that write a new file leave them out.

use decoder::Endian;

use crate::bytes::Bytes;
use crate::error::Error;

pub mod containers;
pub mod mapped_files;
pub mod missing_samples;
pub mod processes;
pub mod resources;
mod switches;

pub use switches::{
    BLOCKED_STACKS, FAULT_STACKS, SWITCH_RECORDS, Schedstat, SwitchSampling, TASKS, WatchedTime,
};

/// Numbers of sections.
pub mod id {
    /// Counts of the recorded stacks by how they end: present where the recorder unwound them.
    pub const STACK_TOTALS: u32 = 1;
    /// The times at which processes with generated code began, and their owners.
    pub const PROCESSES: u32 = 2;
    /// The names of the addresses that were sampled, packed with zlib: an archive has them (`prof archive`).
    pub const NAMES: u32 = 3;
    /// The spans in which switches between threads were watched, and the watched threads: present where they were.
    pub const WATCHED_TIME: u32 = 4;
    /// The containers that processes ran in, and since when.
    pub const CONTAINERS: u32 = 5;
    /// The code of functions that were sampled, packed with zlib: an archive has it.
    pub const CODE: u32 = 6;
    /// The spans in which switches were not watched, because there were too many, and the times that threads ran and
    /// waited for a CPU by the kernel's count.
    pub const SWITCH_SAMPLING: u32 = 7;
    /// The addresses and times of the sampled functions of jitdumps, packed with zlib: present where there were such dumps.
    pub const GENERATED_CODE: u32 = 8;
    /// The build ids, sizes and times of mapped files, by what MMAP2 records say of a file. A recording may have more than one
    /// such section: each adds to those before it.
    pub const MAPPED_FILES: u32 = 9;
    /// The programs and cgroups of processes, and how they name their service.
    pub const RESOURCES: u32 = 10;
    /// The number of counts of lost samples the recorder could not read, a u64: present where that is not 0.
    pub const UNREAD_LOST_COUNTS: u32 = 16;
    /// The samples of each event that are missing for want of whole periods, and why: present where that is a large share.
    pub const MISSING_SAMPLES: u32 = 17;
}

/// Maximum number of entries of a section of processes: all that live at a time, with the kernel's default `pid_max` of 32,768, and as many
/// that have ended.
pub const MAX_ENTRIES: usize = 1 << 16;

/// Bytes of memory that a section may take once it is unpacked and decoded: this many times its bytes in the file, and those of
/// [`FREE_BYTES`]. So all sections together take at most 64 MiB and 32 times their bytes.
const MAX_RATIO: u64 = 32;

/// The sections that are read, and the bytes of memory that each may take whatever its size: packed sections may unpack to a thousand
/// times their bytes, and a table of small ones is larger than it was. The others have entries of a fixed size.
const FREE_BYTES: [(u32, u64); 12] = [
    (id::STACK_TOTALS, 0),
    (id::PROCESSES, 0),
    (id::NAMES, 40 << 20),
    (id::WATCHED_TIME, 0),
    (id::CONTAINERS, 0),
    (id::CODE, 16 << 20),
    (id::SWITCH_SAMPLING, 0),
    (id::GENERATED_CODE, 8 << 20),
    (id::MAPPED_FILES, 0),
    (id::RESOURCES, 0),
    (id::UNREAD_LOST_COUNTS, 0),
    (id::MISSING_SAMPLES, 0),
];

/// Returns the number of looks at threads of Python, by the section [`id::STACK_TOTALS`]; `None` in one of before version 3.
pub fn looks(stack_totals: &[u8], endian: Endian) -> Option<u64> {
    let word = |index: usize| Some(endian.u64(*stack_totals.get(index * 8..)?.first_chunk()?));
    word(5).filter(|_| word(0).is_some_and(|version| version >= 3))
}

/// Returns the bytes of memory that a section of `size` bytes may take, unpacked and decoded; `None` for one that is not read.
pub fn most_held(id: u32, size: usize) -> Option<u64> {
    let (_, free) = FREE_BYTES.iter().find(|(section, _)| *section == id)?;
    Some((size as u64).saturating_mul(MAX_RATIO).saturating_add(*free))
}

/// The header's bit for [`id::STACK_TOTALS`] in files from before sections had a place of their own.
pub(crate) const STACK_TOTALS_BIT: u32 = 240;

/// First bytes of a [`Block`], and the event id in the records of a pipe: a number in the byte order of the file.
const MAGIC: u64 = u64::from_le_bytes(*b"PROFSECT");
/// Layout of block, sections and pieces, and of the sections that begin with a version.
const VERSION: u64 = 1;
/// Maximum size of all sections of a recording together, in bytes. They hold counts, and names of generated code.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// The maximum number of bytes of the sections of an appendix: names of all sampled addresses, packed.
pub(crate) const MOST_APPENDED_BYTES: u64 = 256 << 20;
/// Bytes before those of a section in a file: id, zero (u32 each), size (u64).
const SECTION_HEADER: usize = 16;
/// Bytes before those of a piece: [`MAGIC`], id, zero, size of the whole section, offset of the piece in it.
const PIECE_HEADER: usize = 32;
/// Bytes of a section in one record: with both headers, and padded to eight bytes, they stay below 65,536.
const PIECE_BYTES: usize = 65_000;
/// Bytes of `struct perf_record_header_event_type` behind its header, which perf may expect.
const EVENT_TYPE_BYTES: usize = 72;

/// Returns the bytes of a section behind its version; none of another version than the first.
fn of_version_1<'a>(section: &'a [u8], name: &'static str, endian: Endian) -> Bytes<'a> {
    let mut bytes = Bytes::new(section, name, endian);
    match bytes.u64("version") {
        Ok(VERSION) => bytes,
        _ => Bytes::new(&[], name, endian),
    }
}

/// Decodes the entries of a section up to the first that is cut off, and at most `most`.
fn entries<T>(
    mut bytes: Bytes<'_>,
    most: usize,
    mut entry: impl FnMut(&mut Bytes<'_>) -> Result<T, Error>,
) -> Vec<T> {
    std::iter::from_fn(|| entry(&mut bytes).ok()).take(most).collect()
}

/// The range of the sections of a file. It stands directly behind the file's header: magic, version, offset and size,
/// u64 each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    /// Of the first section in the file; 0 until the recording is finished.
    pub(crate) offset: u64,
    /// Bytes of all sections, with their headers.
    pub(crate) size: u64,
}

impl Block {
    /// Bytes of a block.
    pub(crate) const SIZE: u64 = 32;

    pub(crate) fn to_bytes(self, endian: Endian) -> Vec<u8> {
        [MAGIC, VERSION, self.offset, self.size].iter().flat_map(|&word| endian.u64_bytes(word)).collect()
    }

    /// The block in the bytes behind a file's header; `None` where there is none, as in the files of others.
    ///
    /// # Errors
    /// Of a version that is not known, or cut.
    pub(crate) fn parse(bytes: &[u8], endian: Endian) -> Result<Option<Self>, Error> {
        let mut bytes = Bytes::new(bytes, "sections", endian);
        if bytes.remaining() < 8 || bytes.u64("magic")? != MAGIC {
            return Ok(None);
        }
        let version = bytes.u64("version")?;
        if version != VERSION {
            return Err(bytes.wrong("version", 8, version, "only 1 is known: a newer prof wrote the file"));
        }
        Ok(Some(Self { offset: bytes.u64("offset")?, size: bytes.u64("size")? }))
    }
}

/// Returns what to append to a file of `position` bytes to add sections to it. The recording itself, and what perf reads of it,
/// stays as it is.
pub fn appendix(position: u64, sections: &[(u32, Vec<u8>)], endian: Endian) -> Vec<u8> {
    let mut bytes = encode(sections, endian);
    let size = bytes.len() as u64;
    bytes.extend(Block { offset: position, size }.to_bytes(endian));
    bytes
}

/// The sections as a file has them: each with a header, padded to eight bytes.
pub(crate) fn encode(sections: &[(u32, Vec<u8>)], endian: Endian) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, bytes) in sections {
        out.extend_from_slice(&endian.u32_bytes(*id));
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&endian.u64_bytes(bytes.len() as u64));
        out.extend_from_slice(bytes);
        out.resize(out.len().next_multiple_of(8), 0);
    }
    out
}

/// The sections of a file, up to the first that is damaged.
pub(crate) fn parse(bytes: &[u8], endian: Endian) -> (Vec<(u32, Vec<u8>)>, Option<Error>) {
    let mut sections = Vec::new();
    let mut bytes = Bytes::new(bytes, "sections", endian);
    while bytes.remaining() >= SECTION_HEADER {
        let mut section = || {
            let id = bytes.u32("id")?;
            bytes.u32("reserved")?;
            let size = bytes.u64("size")?;
            let body = bytes.bytes("section", size)?;
            let padding = body.len().next_multiple_of(8) - body.len();
            bytes.bytes("padding", padding.min(bytes.remaining()) as u64)?;
            Ok((id, body.to_vec()))
        };
        match section() {
            Ok(section) => sections.push(section),
            Err(error) => return (sections, Some(error)),
        }
    }
    (sections, None)
}

/// A part of a section, as a record of a pipe carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece<'a> {
    /// The section's number ([`id`]).
    pub id: u32,
    /// Bytes of the whole section.
    pub size: u64,
    /// The offset of the piece in the section.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The bodies of the `HEADER_EVENT_TYPE` records that carry a section.
pub(crate) fn pieces(id: u32, section: &[u8], endian: Endian) -> Vec<Vec<u8>> {
    let piece = |(number, bytes): (usize, &[u8])| {
        let offset = (number * PIECE_BYTES) as u64;
        let mut body = Vec::with_capacity(PIECE_HEADER + bytes.len() + 8);
        body.extend_from_slice(&endian.u64_bytes(MAGIC));
        body.extend_from_slice(&endian.u32_bytes(id));
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&endian.u64_bytes(section.len() as u64));
        body.extend_from_slice(&endian.u64_bytes(offset));
        body.extend_from_slice(bytes);
        body.resize(body.len().max(EVENT_TYPE_BYTES), 0);
        body
    };
    // An empty section has a meaning, too, so it is written as one empty piece.
    let empty: [&[u8]; 1] = [&[]];
    match section.is_empty() {
        true => empty.into_iter().enumerate().map(piece).collect(),
        false => section.chunks(PIECE_BYTES).enumerate().map(piece).collect(),
    }
}

impl<'a> Piece<'a> {
    /// The piece in the body of a `HEADER_EVENT_TYPE` record; `None` where it names an event type, as perf meant it.
    pub(crate) fn parse(body: &'a [u8], endian: Endian) -> Option<Self> {
        let mut bytes = Bytes::new(body, "sections", endian);
        if bytes.u64("magic").ok()? != MAGIC {
            return None;
        }
        let id = bytes.u32("id").ok()?;
        bytes.u32("reserved").ok()?;
        let (size, offset) = (bytes.u64("size").ok()?, bytes.u64("offset").ok()?);
        let left = size.checked_sub(offset)?;
        let rest = bytes.rest();
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len()).min(PIECE_BYTES);
        Some(Self { id, size, offset, bytes: rest.get(..len)? })
    }
}

/// Sections of a pipe, put together from their pieces.
#[derive(Default)]
pub(crate) struct Pieces {
    section: Option<(u32, u64, Vec<u8>)>,
    /// Bytes of all sections so far.
    total: u64,
}

impl Pieces {
    /// Takes the next piece. Returns the section that it completes. Pieces that do not follow each other are left out,
    /// as is what is more than [`MOST_BYTES`].
    pub(crate) fn push(&mut self, piece: Piece<'_>) -> Option<(u32, Vec<u8>)> {
        if piece.offset == 0 {
            self.section = (piece.size <= MOST_BYTES - self.total.min(MOST_BYTES))
                .then(|| (piece.id, piece.size, Vec::new()));
        }
        let (id, size, mut bytes) = self.section.take()?;
        if (id, size, bytes.len() as u64) != (piece.id, piece.size, piece.offset) {
            return None;
        }
        bytes.extend_from_slice(piece.bytes);
        if bytes.len() as u64 == size {
            self.total += size;
            return Some((id, bytes));
        }
        self.section = (!piece.bytes.is_empty()).then_some((id, size, bytes));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sections_together_are_bounded() {
        assert_eq!(FREE_BYTES.iter().map(|(_, free)| free).sum::<u64>(), 64 << 20);
        assert_eq!(most_held(id::NAMES, 100), Some((40 << 20) + 3200));
        assert_eq!(most_held(u32::MAX, 100), None);
    }

    /// Returns the worst section of about 48 KiB that is not packed, and the memory that is held of it, with room for as many entries
    /// again.
    fn worst(id: u32) -> Option<(Vec<u8>, usize)> {
        const BYTES: usize = 48 << 10;
        let with_head = |head: u64| [&head.to_ne_bytes()[..], &vec![0; BYTES]].concat();
        let (section, held) = match id {
            // Numbers alone.
            id::STACK_TOTALS | id::WATCHED_TIME | id::UNREAD_LOST_COUNTS => (with_head(0), BYTES),
            id::PROCESSES => {
                let section = with_head(1);
                let read = processes::from_section(&section, Endian::NATIVE);
                assert_eq!(read.len(), BYTES / 24);
                (section, size_of_val(&read[..]))
            }
            id::CONTAINERS => {
                let section = with_head(1);
                let read = containers::from_section(&section, Endian::NATIVE);
                assert_eq!(read.len(), BYTES / 16);
                (section, size_of_val(&read[..]))
            }
            id::MAPPED_FILES => {
                let section = with_head(1);
                let read = mapped_files::from_section(&section, Endian::NATIVE);
                assert_eq!(read.len(), BYTES / 72);
                (section, size_of_val(&read[..]))
            }
            id::RESOURCES => {
                let section = with_head(1);
                let read = resources::from_section(&section, Endian::NATIVE);
                assert_eq!(read.len(), (BYTES - 4) / 32);
                (section, size_of_val(&read[..]))
            }
            id::MISSING_SAMPLES => {
                let section = vec![0; BYTES];
                let read = missing_samples::from_section(&section, Endian::NATIVE);
                assert_eq!(read.len(), BYTES / 40);
                (section, size_of_val(&read[..]))
            }
            id::SWITCH_SAMPLING => {
                let section = with_head(0);
                let read = SwitchSampling::from_section(&section, Endian::NATIVE).unwrap();
                assert_eq!(read.threads.len(), BYTES / 16);
                (section, size_of_val(&read.threads[..]))
            }
            // These are packed: who decodes them counts what they take.
            id::NAMES | id::CODE | id::GENERATED_CODE => return None,
            _ => panic!("how much memory does section {id} take?"),
        };
        Some((section, 2 * held))
    }

    #[test]
    fn sections_that_are_not_packed_stay_within_their_ratio() {
        for (id, free) in FREE_BYTES {
            let Some((section, held)) = worst(id) else { continue };
            assert_eq!(free, 0, "section {id}");
            assert!(held as u64 <= most_held(id, section.len()).unwrap(), "section {id}: {held} bytes");
        }
    }

    fn sections() -> Vec<(u32, Vec<u8>)> {
        let large = (0..200_000_u32).map(|number| number as u8).collect();
        vec![(1, b"one".to_vec()), (2, Vec::new()), (3, large)]
    }

    #[test]
    fn sections_come_back_from_a_file_and_from_a_pipe() {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = encode(&sections(), endian);
            let (parsed, error) = parse(&bytes, endian);
            assert!(error.is_none(), "{error:?}");
            assert_eq!(parsed, sections());

            let mut pieces_of = Pieces::default();
            let records: Vec<_> =
                sections().iter().flat_map(|(id, bytes)| pieces(*id, bytes, endian)).collect();
            assert!(records.iter().all(|body| body.len() >= EVENT_TYPE_BYTES && body.len() + 8 < 65_536));
            let found: Vec<_> = records
                .iter()
                .filter_map(|body| pieces_of.push(Piece::parse(body, endian).unwrap()))
                .collect();
            assert_eq!(found, sections());
        }
    }

    #[test]
    fn a_section_that_is_cut_leaves_those_before_it() {
        let bytes = encode(&sections(), Endian::Little);
        let (parsed, error) = parse(&bytes[..60], Endian::Little);
        assert_eq!(parsed.len(), 2);
        assert!(matches!(error, Some(Error::Cut { field: "section", .. })), "{error:?}");
        for len in 0..bytes.len().min(100) {
            assert!(parse(&bytes[..len], Endian::Little).0.len() <= 2);
        }
    }

    #[test]
    fn pieces_out_of_order_give_no_section() {
        let records = pieces(3, &[7; 150_000], Endian::Little);
        let [first, second, third] = records.as_slice() else { panic!("{}", records.len()) };
        let piece = |body| Piece::parse(body, Endian::Little).unwrap();
        let mut pieces = Pieces::default();
        for body in [first, third, second, third] {
            assert_eq!(pieces.push(piece(body)), None);
        }
        for body in [first, second] {
            assert_eq!(pieces.push(piece(body)), None);
        }
        assert_eq!(pieces.push(piece(third)), Some((3, vec![7; 150_000])));
    }

    #[test]
    fn a_size_that_lies_reserves_nothing() {
        let piece = Piece { id: 1, size: u64::MAX, offset: 0, bytes: b"x" };
        assert_eq!(Pieces::default().push(piece), None);
        // An event type of perf's is none of ours.
        assert_eq!(Piece::parse(&[1; 72], Endian::Little), None);
    }
}
