//! COMPRESSED and COMPRESSED2 records: pieces of one zstd frame that is flushed after each and never ended.

use decoder::{Endian, HEADER_SIZE, RawRecord};

use super::blocks::{BLOCK, Blocks};
use crate::error::Error;
use crate::zstd::Decoder;

/// The bound of what all pieces may unpack to: this many times what was packed, and `MOST_FREE` more. perf's own recordings stay
/// below thirty times.
const MOST_RATIO: u64 = 128;
const MOST_FREE: u64 = 16 << 20;

/// The decoder of one stream of pieces, and where in the unpacked bytes it stands.
pub(super) struct Inflate {
    decoder: Decoder,
    /// The piece, and how far it is unpacked.
    piece: Vec<u8>,
    at: usize,
    /// zstd may hold more output than had room.
    flushing: bool,
    block: Option<u64>,
    parsed: usize,
    packed: u64,
    unpacked: u64,
    /// The offset of the piece's record.
    offset: Option<u64>,
    /// zstd or the limit stopped it: nothing more comes.
    failed: bool,
}

impl Inflate {
    pub(super) fn new() -> Result<Self, Error> {
        let decoder = Decoder::new().map_err(|error| Error::Compressed { what: error.to_string() })?;
        Ok(Self {
            decoder,
            piece: Vec::new(),
            at: 0,
            flushing: false,
            block: None,
            parsed: 0,
            packed: 0,
            unpacked: 0,
            offset: None,
            failed: false,
        })
    }

    /// Takes the next piece. The one before must be used up.
    /// `offset`: where the record with it begins in its file.
    pub(super) fn feed(&mut self, piece: &[u8], offset: Option<u64>) {
        self.offset = offset;
        self.piece.clear();
        self.piece.extend_from_slice(piece);
        self.at = 0;
        self.packed += piece.len() as u64;
    }

    /// The place and size of the next whole record, if the pieces so far have one.
    pub(super) fn next(
        &mut self,
        blocks: &mut Blocks,
        endian: Endian,
    ) -> Result<Option<(u64, usize)>, Error> {
        if self.failed {
            return Ok(None);
        }
        loop {
            if let Some(block) = self.block {
                let rest = blocks.bytes(block).get(self.parsed..).unwrap_or(&[]);
                match RawRecord::parse(rest, endian) {
                    Ok((_, size)) => {
                        let place = blocks.hold(block, self.parsed);
                        self.parsed += size;
                        return Ok(Some((place, size)));
                    }
                    Err(decoder::DecodeError::RecordSize { size }) => {
                        self.failed = true;
                        return Err(Error::Compressed {
                            what: format!("an unpacked record has size {size}, less than {HEADER_SIZE}"),
                        });
                    }
                    Err(_) => {}
                }
            }
            if self.at >= self.piece.len() && !self.flushing {
                return Ok(None);
            }
            if let Err(error) = self.unpack(blocks) {
                self.failed = true;
                return Err(error);
            }
        }
    }

    /// Returns the offset in its file of the record with the latest piece.
    pub(super) fn piece_offset(&self) -> Option<u64> {
        self.offset
    }

    /// Bytes of a record that no piece has ended.
    pub(super) fn left_over(&self, blocks: &Blocks) -> u64 {
        self.block.map_or(0, |block| blocks.bytes(block).len().saturating_sub(self.parsed) as u64)
    }

    fn unpack(&mut self, blocks: &mut Blocks) -> Result<(), Error> {
        let block = self.room(blocks);
        let Some(bytes) = blocks.bytes_mut(block) else { return Ok(()) };
        let filled = bytes.len();
        bytes.resize(BLOCK, 0);
        let input = self.piece.get(self.at..).unwrap_or(&[]);
        let (consumed, end, result) = self.decoder.run(input, bytes, filled);
        bytes.truncate(end);
        self.at += consumed;
        self.unpacked += (end - filled) as u64;
        // A full block means that zstd may have more to give without more input.
        self.flushing = end == BLOCK;
        result.map_err(|error| Error::Compressed {
            what: format!(
                "zstd stopped after {} bytes unpacked from {}: {error}",
                self.unpacked, self.packed
            ),
        })?;
        if consumed == 0 && end == filled && self.at < self.piece.len() {
            return Err(Error::Compressed { what: "zstd makes no progress".to_owned() });
        }
        if self.unpacked > MOST_FREE + MOST_RATIO * self.packed {
            return Err(Error::Compressed {
                what: format!("{} bytes unpack to more than {}: not a recording", self.packed, self.unpacked),
            });
        }
        Ok(())
    }

    /// A block with room for more output; what is not parsed yet moves to its start.
    fn room(&mut self, blocks: &mut Blocks) -> u64 {
        if let Some(block) = self.block {
            let bytes = blocks.bytes(block);
            if bytes.len() < BLOCK {
                return block;
            }
            let rest = bytes.get(self.parsed..).unwrap_or(&[]).to_vec();
            blocks.close(block);
            let next = blocks.open(&rest);
            (self.block, self.parsed) = (Some(next), 0);
            return next;
        }
        let block = blocks.open(&[]);
        self.block = Some(block);
        block
    }

    /// The pieces have ended.
    pub(super) fn close(&mut self, blocks: &mut Blocks) {
        if let Some(block) = self.block.take() {
            blocks.close(block);
        }
    }
}
