//! Writing recordings: as a file, or as a stream into a pipe, compressed if asked.
//!
//! Everything is written in the byte order of this machine.

mod compress;
mod file;
mod pipe;
mod tool_records;

use std::io;

use decoder::attr::SIZE_VER7;
use decoder::{Attr, Endian};

use crate::features::Features;
use crate::sections;
use crate::tool::kind;

pub use compress::Compressor;
pub use file::FileWriter;
pub use pipe::PipeWriter;

/// Magic number of both shapes (`PERF_MAGIC2`): `PERFILE2` on a little-endian machine, and backwards on others, so
/// that a reader sees the byte order.
const MAGIC: u64 = u64::from_le_bytes(*b"PERFILE2");

/// perf 6.1 reads attrs of at most 128 bytes (`PERF_ATTR_SIZE_VER7`), so more are written only where they say
/// something.
fn attr_size(attr: &Attr) -> u32 {
    const SIZE_VER8: u32 = 136;
    if attr.config3 == 0 { SIZE_VER7 } else { SIZE_VER8 }
}

/// Returns records that carry a section of ours between others, as in a stream: where the recorder may be killed before it writes the
/// sections at the end of a file.
pub fn section_records(id: u32, section: &[u8]) -> Vec<u8> {
    let pieces = sections::pieces(id, section, Endian::NATIVE);
    // A piece is smaller than the largest record.
    let records = pieces.iter().filter_map(|piece| tool_records::record(kind::HEADER_EVENT_TYPE, piece));
    records.flatten().collect()
}

/// A recording that is being written: records first, in the order of their coming; what describes them at the end.
pub trait RecordWriter {
    /// Appends whole records, as the kernel wrote them.
    ///
    /// # Errors
    /// Those of the destination (a full disk, a closed pipe). What was appended before stays readable.
    fn append(&mut self, records: &[u8]) -> io::Result<()>;

    /// Says that all that existed before the recording began has been described.
    ///
    /// # Errors
    /// Those of the destination.
    fn finished_init(&mut self) -> io::Result<()>;

    /// Promises that no record appended from now on is older than the newest one before the previous promise.
    ///
    /// # Errors
    /// Those of the destination.
    fn finished_round(&mut self) -> io::Result<()>;

    /// Makes everything appended so far readable, should the recorder die now.
    ///
    /// # Errors
    /// Those of the destination.
    fn checkpoint(&mut self) -> io::Result<()>;

    /// Ends the recording. Returns its size in bytes.
    ///
    /// # Errors
    /// Those of the destination.
    fn finish(&mut self, features: &Features) -> io::Result<u64>;
}
