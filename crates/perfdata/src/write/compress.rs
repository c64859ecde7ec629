//! zstd-compressed records: pieces of one frame, each in a `COMPRESSED` record.

use std::io;

use super::{RecordWriter, tool_records};
use crate::features::{Compression, Features};
use crate::zstd::Encoder;

/// Compresses what is appended and passes it on to another writer.
///
/// All pieces belong to one zstd frame that is flushed after each [`RecordWriter::append`] and never ended, as
/// `perf record -z` does; `FINISHED_ROUND` and the like stay between the pieces, uncompressed.
pub struct Compressor<R: RecordWriter> {
    writer: R,
    encoder: Encoder,
    level: i32,
    ring_size: u32,
    uncompressed: u64,
    compressed: u64,
}

/// Room for zstd's bytes in a record whose size stays a multiple of eight.
const PIECE: usize = decoder::MAX_RECORD_BYTES - 8;

impl<R: RecordWriter> Compressor<R> {
    /// Compresses at `level` (1 to 22). No [`RecordWriter::append`] may carry more than `ring_size` bytes: readers
    /// set that much aside for a piece, so larger ones are cut here.
    ///
    /// # Errors
    /// Where zstd refuses the level, and in a build without the feature `zstd`.
    pub fn new(writer: R, level: i32, ring_size: u32) -> io::Result<Self> {
        let encoder = Encoder::new(level)?;
        Ok(Self { writer, encoder, level, ring_size, uncompressed: 0, compressed: 0 })
    }

    /// The writer behind.
    pub fn get_ref(&self) -> &R {
        &self.writer
    }

    /// The writer behind, for what does not concern records.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.writer
    }
}

impl<R: RecordWriter> RecordWriter for Compressor<R> {
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        // A piece must not unpack to more than a reader's buffer holds.
        for part in records.chunks((self.ring_size as usize).clamp(4096, 1 << 20)) {
            let packed = self.encoder.pack(part)?;
            self.uncompressed += part.len() as u64;
            self.compressed += packed.len() as u64;
            for piece in packed.chunks(PIECE) {
                if let Some(record) = tool_records::compressed(piece) {
                    self.writer.append(&record)?;
                }
            }
        }
        Ok(())
    }

    fn finished_init(&mut self) -> io::Result<()> {
        self.writer.finished_init()
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.writer.finished_round()
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.writer.checkpoint()
    }

    fn finish(&mut self, features: &Features) -> io::Result<u64> {
        let ratio = self.uncompressed.div_ceil(self.compressed.max(1));
        let compression = Compression {
            kind: 1,
            level: self.level.unsigned_abs(),
            ratio: u32::try_from(ratio).unwrap_or(u32::MAX),
            mmap_len: self.ring_size,
        };
        self.writer.finish(&Features { compression: Some(compression), ..features.clone() })
    }
}
