//! A sequence of records: of a file's data section, of a part of a folder, of a pipe.

use decoder::{DecodeError, Endian, HEADER_SIZE, RawRecord};

use super::blocks::Blocks;
use super::entry::BLOCKS;
use super::inflate::Inflate;
use super::stream::Stream;
use super::windows::Windows;
use crate::error::Error;

/// The input that the records come from.
pub(super) enum Input {
    /// From `at` to `end` of a file.
    File { file: u16, at: u64, end: u64 },
    /// Out of a pipe.
    Stream(Stream),
}

/// The records, and the compressed ones among them.
pub(super) struct Part {
    pub(super) input: Input,
    pub(super) inflate: Option<Inflate>,
}

/// A record that was found, or why there is none.
pub(super) enum Found {
    /// Its store, place, and whole size.
    Record { store: u16, place: u64 },
    /// All records have been read.
    End,
    /// The rest cannot be read as records: its size in bytes, and the reason.
    Rest { bytes: u64, why: DecodeError },
}

impl Part {
    pub(super) fn new(input: Input) -> Self {
        Self { input, inflate: None }
    }

    /// Returns the offset up to which the input has been read.
    pub(super) fn offset(&self) -> u64 {
        match &self.input {
            Input::File { at, .. } => *at,
            Input::Stream(stream) => stream.offset,
        }
    }

    /// The next record that is not inside a compressed piece.
    #[inline]
    pub(super) fn next(
        &mut self,
        windows: &mut Windows,
        blocks: &mut Blocks,
        endian: Endian,
    ) -> Result<Found, Error> {
        match &mut self.input {
            Input::File { file, at, end } => {
                let left = end.saturating_sub(*at);
                if left == 0 {
                    return Ok(Found::End);
                }
                let bytes = windows.at(*file, *at)?;
                let bytes = bytes.get(..usize::try_from(left).unwrap_or(usize::MAX)).unwrap_or(bytes);
                match RawRecord::parse(bytes, endian) {
                    Ok((_, size)) => {
                        let place = *at;
                        *at += size as u64;
                        Ok(Found::Record { store: *file, place })
                    }
                    Err(why) => Ok(Found::Rest { bytes: left, why }),
                }
            }
            Input::Stream(stream) => {
                let header = stream.peek(blocks, HEADER_SIZE)?;
                if header.is_empty() {
                    return Ok(Found::End);
                }
                let wanted = match RawRecord::parse(header, endian) {
                    Err(DecodeError::RecordCut { size, .. }) => size,
                    _ => HEADER_SIZE,
                };
                let bytes = stream.peek(blocks, wanted)?;
                match RawRecord::parse(bytes, endian) {
                    Ok((_, size)) => Ok(Found::Record { store: BLOCKS, place: stream.take(blocks, size) }),
                    Err(why) => {
                        // The rest cannot be split into records. It is read to its end, to count it and so that the writing program does not block.
                        let rest = stream.drain(blocks, u64::MAX, |_| {})?;
                        Ok(Found::Rest { bytes: rest, why })
                    }
                }
            }
        }
    }

    /// Leaves out `len` bytes behind the record that was just read, up to `keep` of which are returned.
    pub(super) fn skip(
        &mut self,
        windows: &mut Windows,
        blocks: &mut Blocks,
        len: u64,
        keep: usize,
    ) -> Result<(u64, Vec<u8>), Error> {
        let mut kept = Vec::new();
        match &mut self.input {
            Input::File { file, at, end } => {
                let skipped = len.min(end.saturating_sub(*at));
                let wanted = skipped.min(keep as u64);
                let mut offset = *at;
                while (kept.len() as u64) < wanted {
                    let bytes = windows.at(*file, offset)?;
                    let count = bytes.len().min((wanted as usize).saturating_sub(kept.len()));
                    if count == 0 {
                        break;
                    }
                    kept.extend_from_slice(bytes.get(..count).unwrap_or(&[]));
                    offset += count as u64;
                }
                *at += skipped;
                Ok((skipped, kept))
            }
            Input::Stream(stream) => {
                let skipped = stream.drain(blocks, len, |bytes| {
                    let room = keep.saturating_sub(kept.len()).min(bytes.len());
                    kept.extend_from_slice(bytes.get(..room).unwrap_or(&[]));
                })?;
                Ok((skipped, kept))
            }
        }
    }

    pub(super) fn close(&mut self, blocks: &mut Blocks) {
        if let Some(inflate) = &mut self.inflate {
            inflate.close(blocks);
        }
        if let Input::Stream(stream) = &mut self.input {
            stream.close(blocks);
        }
    }
}
