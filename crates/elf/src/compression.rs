//! Compressed sections: `SHF_COMPRESSED` with `ELFCOMPRESS_ZLIB` or `ELFCOMPRESS_ZSTD` (ELF specification, "Section
//! Compression"), and GNU's older `.zdebug_…` form.
//!
//! The stated size is a claim. Memory grows with what really comes out, and never beyond the claim.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use object::{Endian as _, Endianness};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use zlib_rs::{Inflate, InflateFlush, Status};

use crate::{ElfError, Section};

const ELFCOMPRESS_ZLIB: u32 = 1;
const ELFCOMPRESS_ZSTD: u32 = 2;

/// No section of a real program is larger; a claim beyond it is not believed.
const MAX_SIZE: u64 = 16 << 30;

/// Unpacked in steps of this many bytes.
const STEP: usize = 1 << 20;

pub(crate) fn unpack<'a>(
    section: &Section,
    bytes: &'a [u8],
    is_64: bool,
    endian: Endianness,
) -> Result<Cow<'a, [u8]>, ElfError> {
    let unpacked = if section.is_compressed() {
        unpack_compressed(bytes, is_64, endian)
    } else if section.name.starts_with(b".zdebug_") {
        unpack_zdebug(bytes)
    } else {
        return Ok(Cow::Borrowed(bytes));
    };
    unpacked.map(Cow::Owned).map_err(|what| ElfError::Compression {
        name: String::from_utf8_lossy(&section.name).into_owned(),
        offset: section.file_offset.0,
        what,
    })
}

/// `Elf32_Chdr` (type, size, alignment) or `Elf64_Chdr` (type, reserved, size, alignment), then the stream.
fn unpack_compressed(bytes: &[u8], is_64: bool, endian: Endianness) -> Result<Vec<u8>, &'static str> {
    const CUT: &str = "its compression header is cut off";
    let kind = endian.read_u32(*bytes.first_chunk().ok_or(CUT)?);
    let (size, stream) = if is_64 {
        let size = bytes.get(8..).and_then(|rest| rest.first_chunk()).ok_or(CUT)?;
        (endian.read_u64(*size), bytes.get(24..).ok_or(CUT)?)
    } else {
        let size = bytes.get(4..).and_then(|rest| rest.first_chunk()).ok_or(CUT)?;
        (endian.read_u32(*size).into(), bytes.get(12..).ok_or(CUT)?)
    };
    match kind {
        ELFCOMPRESS_ZLIB => inflate(stream, size),
        ELFCOMPRESS_ZSTD => unzstd(stream, size),
        _ => Err("its compression type is neither zlib nor zstd"),
    }
}

/// `ZLIB`, the size as a big-endian number whatever the file's byte order, then the stream.
fn unpack_zdebug(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    let rest = bytes.strip_prefix(b"ZLIB").ok_or("it does not start with ZLIB")?;
    let (size, stream) = rest.split_first_chunk().ok_or("its size is cut off")?;
    inflate(stream, u64::from_be_bytes(*size))
}

/// Room for what comes next: the whole claim at once where it is plausible, else twice what has come so far.
fn reserve(output: &mut Vec<u8>, claimed: usize, stream: &[u8]) -> Result<(), &'static str> {
    let left = claimed.saturating_sub(output.len());
    let plausible = claimed <= stream.len().saturating_mul(32).max(STEP);
    let wanted = if plausible { left } else { left.min(output.len().max(STEP)) };
    output.try_reserve(wanted).map_err(|_| "there is not enough memory to unpack it")
}

fn claimed_size(claimed: u64) -> Result<usize, &'static str> {
    usize::try_from(claimed).ok().filter(|_| claimed <= MAX_SIZE).ok_or("its unpacked size is absurd")
}

fn inflate(mut stream: &[u8], claimed: u64) -> Result<Vec<u8>, &'static str> {
    let claimed = claimed_size(claimed)?;
    let mut output = Vec::new();
    let mut inflate = Inflate::new(true, 15);
    while output.len() < claimed {
        let filled = output.len();
        let step = STEP.min(claimed - filled);
        if output.capacity() - filled < step {
            reserve(&mut output, claimed, stream)?;
        }
        output.resize(filled + step, 0);
        let (read_before, written_before) = (inflate.total_in(), inflate.total_out());
        let status = inflate
            .decompress(stream, &mut output[filled..], InflateFlush::NoFlush)
            .map_err(|_| "its zlib stream is damaged")?;
        let read = usize::try_from(inflate.total_in() - read_before).unwrap_or(usize::MAX);
        let written = usize::try_from(inflate.total_out() - written_before).unwrap_or(usize::MAX);
        stream = stream.get(read..).unwrap_or_default();
        output.truncate(filled.saturating_add(written));
        match status {
            // gold and GNU as may write several streams one after the other.
            Status::StreamEnd if output.len() < claimed && !stream.is_empty() => inflate.reset(true),
            Status::StreamEnd => break,
            _ if read == 0 && written == 0 => break,
            _ => {}
        }
    }
    if output.len() == claimed { Ok(output) } else { Err("its zlib stream is shorter than stated") }
}

fn unzstd(stream: &[u8], claimed: u64) -> Result<Vec<u8>, &'static str> {
    const DAMAGED: &str = "its zstd stream is damaged";
    let claimed = claimed_size(claimed)?;
    let mut output = Vec::new();
    let mut source = stream;
    let mut decoder = FrameDecoder::new();
    while !source.is_empty() && output.len() < claimed {
        match decoder.reset(&mut source) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                source =
                    usize::try_from(length).ok().and_then(|length| source.get(length..)).ok_or(DAMAGED)?;
                continue;
            }
            Err(_) => return Err(DAMAGED),
        }
        while !decoder.is_finished() || decoder.can_collect() > 0 {
            decoder
                .decode_blocks(&mut source, BlockDecodingStrategy::UptoBytes(STEP))
                .map_err(|_| DAMAGED)?;
            let ready = decoder.can_collect();
            if ready > claimed - output.len() {
                return Err("its zstd stream is longer than stated");
            }
            if output.capacity() - output.len() < ready {
                reserve(&mut output, claimed, stream)?;
            }
            let filled = output.len();
            output.resize(filled + ready, 0);
            let mut target = &mut output[filled..];
            decoder.collect_to_writer(&mut target).map_err(|_| DAMAGED)?;
        }
    }
    if output.len() == claimed { Ok(output) } else { Err("its zstd stream is shorter than stated") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `abc` seven times, as zlib and as zstd.
    const ZLIB: &[u8] = &[0x78, 0x9c, 0x4b, 0x4c, 0x4a, 0x4e, 0xc4, 0x40, 0x00, 0x58, 0x75, 0x08, 0x0b];

    fn chdr64(kind: u32, size: u64, stream: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(stream);
        bytes
    }

    #[test]
    fn a_wrong_size_is_found_out() {
        let unpack = |size| unpack_compressed(&chdr64(1, size, ZLIB), true, Endianness::Little);
        assert_eq!(unpack(21).unwrap(), b"abc".repeat(7));
        assert!(unpack(22).is_err());
        assert!(unpack(u64::MAX).is_err());
        assert!(unpack(MAX_SIZE).is_err());
    }

    #[test]
    fn damage_is_an_error_everywhere() {
        for cut in 0..ZLIB.len() {
            let _ = inflate(&ZLIB[..cut], 21);
            let mut damaged = ZLIB.to_vec();
            damaged[cut] ^= 0x41;
            let _ = inflate(&damaged, 21);
            let _ = unzstd(&damaged, 21);
        }
        assert!(unpack_compressed(&chdr64(7, 1, ZLIB), true, Endianness::Little).is_err());
        for cut in 0..24 {
            assert!(unpack_compressed(&chdr64(1, 21, ZLIB)[..cut], true, Endianness::Little).is_err());
        }
    }
}
