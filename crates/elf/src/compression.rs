//! Compressed sections: `SHF_COMPRESSED` with `ELFCOMPRESS_ZLIB` or `ELFCOMPRESS_ZSTD` (ELF specification, "Section
//! Compression"), and GNU's older `.zdebug_…` form.
//!
//! The stated size is a claim, which is believed within a ratio to the size in the file, and within a budget.

use alloc::string::String;
use alloc::vec::Vec;

use object::Endianness;
use object::elf::{
    CompressionHeader32, CompressionHeader64, CompressionType, ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD,
};
use object::pod::from_bytes;
use object::read::elf::CompressionHeader;
#[cfg(feature = "zstd")]
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
#[cfg(feature = "zstd")]
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
#[cfg(feature = "zlib")]
use zlib_rs::{Inflate, InflateFlush, Status};

use crate::unpacked::{Contents, ObjectBudget, UnpackLimit, Unpacked};
use crate::{ElfError, Section};

/// The maximum ratio of the unpacked size of a section to its size in the file. Debug sections of large programs have a ratio of 8, small
/// ones of 14 (zlib and zstd, of gcc and rustc).
pub const MAX_RATIO: u64 = 32;

/// The unpacked size up to which a section is unpacked whatever the ratio.
pub const ALWAYS_UNPACKED_BYTES: u64 = 1 << 20;

/// Unpacked in steps of this many bytes.
#[cfg(any(feature = "zlib", feature = "zstd"))]
const STEP_BYTES: usize = 1 << 20;

/// The packed form of a section.
struct Packed<'a> {
    kind: CompressionType,
    /// The size that is stated.
    size: u64,
    stream: &'a [u8],
}

/// Returns true if the bytes of a section in the file are not its contents.
pub(crate) fn is_packed(section: &Section) -> bool {
    section.is_compressed() || section.name.starts_with(b".zdebug_")
}

/// Returns the error of a section that is not unpacked because of its size.
pub(crate) fn too_large(section: &Section, unpacked: u64, limit: UnpackLimit) -> ElfError {
    let name = String::from_utf8_lossy(&section.name).into_owned();
    ElfError::UnpackedSize { name, offset: section.file_offset.0, unpacked, limit }
}

pub(crate) fn unpack<'a>(
    section: &Section,
    bytes: &'a [u8],
    is_64: bool,
    endian: Endianness,
    budget: &ObjectBudget,
) -> Result<Contents<'a>, ElfError> {
    let (name, offset) = (|| String::from_utf8_lossy(&section.name).into_owned(), section.file_offset.0);
    let damaged = |what| ElfError::Compression { name: name(), offset, what };
    let packed = if section.is_compressed() {
        if section.is_loaded() {
            return Err(damaged("sections that are loaded cannot be compressed"));
        }
        Packed::of_compressed(bytes, is_64, endian)
    } else if is_packed(section) {
        Packed::of_zdebug(bytes)
    } else {
        return Ok(Contents::InFile(bytes));
    };
    let packed = packed.map_err(damaged)?;
    let unpacked = packed.size;
    let most = ALWAYS_UNPACKED_BYTES.max((packed.stream.len() as u64).saturating_mul(MAX_RATIO));
    let share = if unpacked > most { Err(UnpackLimit::Ratio(MAX_RATIO)) } else { budget.reserve(unpacked) };
    let share = share.map_err(|limit| too_large(section, unpacked, limit))?;
    let bytes = packed.unpack().map_err(damaged)?;
    Ok(Contents::Unpacked(Unpacked::new(bytes, share)))
}

impl<'a> Packed<'a> {
    /// `Elf32_Chdr` or `Elf64_Chdr`, then the stream.
    fn of_compressed(bytes: &'a [u8], is_64: bool, endian: Endianness) -> Result<Self, &'static str> {
        if is_64 {
            Self::behind::<CompressionHeader64<Endianness>>(bytes, endian)
        } else {
            Self::behind::<CompressionHeader32<Endianness>>(bytes, endian)
        }
    }

    fn behind<H: CompressionHeader<Endian = Endianness>>(
        bytes: &'a [u8],
        endian: Endianness,
    ) -> Result<Self, &'static str> {
        let (header, stream) = from_bytes::<H>(bytes).map_err(|()| "its compression header is cut off")?;
        Ok(Self { kind: header.ch_type(endian), size: header.ch_size(endian).into(), stream })
    }

    /// `ZLIB`, the size as a big-endian number whatever the file's byte order, then the stream.
    fn of_zdebug(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let rest = bytes.strip_prefix(b"ZLIB").ok_or("it does not start with ZLIB")?;
        let (size, stream) = rest.split_first_chunk().ok_or("its size is cut off")?;
        Ok(Self { kind: ELFCOMPRESS_ZLIB, size: u64::from_be_bytes(*size), stream })
    }

    fn unpack(&self) -> Result<Vec<u8>, &'static str> {
        let size = usize::try_from(self.size).map_err(|_| "its unpacked size is absurd")?;
        match self.kind {
            ELFCOMPRESS_ZLIB => inflate(self.stream, size),
            ELFCOMPRESS_ZSTD => unzstd(self.stream, size),
            _ => Err("its compression type is neither zlib nor zstd"),
        }
    }
}

/// Room for what is stated: all at once, as it is no more than the ratio allows.
#[cfg(any(feature = "zlib", feature = "zstd"))]
fn room_for(claimed: usize) -> Result<Vec<u8>, &'static str> {
    let mut output = Vec::new();
    output.try_reserve_exact(claimed).map_err(|_| "there is not enough memory to unpack it")?;
    Ok(output)
}

#[cfg(not(feature = "zlib"))]
fn inflate(_: &[u8], _: usize) -> Result<Vec<u8>, &'static str> {
    Err("it is compressed with zlib, which this program is built without")
}

#[cfg(feature = "zlib")]
fn inflate(mut stream: &[u8], claimed: usize) -> Result<Vec<u8>, &'static str> {
    let mut output = room_for(claimed)?;
    let mut inflate = Inflate::new(true, 15);
    while output.len() < claimed {
        let filled = output.len();
        let step = STEP_BYTES.min(claimed - filled);
        output.resize(filled + step, 0);
        let (read_before, written_before) = (inflate.total_in(), inflate.total_out());
        let status = inflate
            .decompress(stream, output.get_mut(filled..).unwrap_or_default(), InflateFlush::NoFlush)
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

#[cfg(not(feature = "zstd"))]
fn unzstd(_: &[u8], _: usize) -> Result<Vec<u8>, &'static str> {
    Err("it is compressed with zstd, which this program is built without")
}

#[cfg(feature = "zstd")]
fn unzstd(stream: &[u8], claimed: usize) -> Result<Vec<u8>, &'static str> {
    const DAMAGED: &str = "its zstd stream is damaged";
    // Window of zstd's level 19, the highest level that tools use for sections.
    const MAX_WINDOW_BYTES: usize = 8 << 20;
    let mut output = room_for(claimed)?;
    let mut source = stream;
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(claimed.saturating_mul(2).max(MAX_WINDOW_BYTES) as u64);
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
                .decode_blocks(&mut source, BlockDecodingStrategy::UptoBytes(STEP_BYTES))
                .map_err(|_| DAMAGED)?;
            let ready = decoder.can_collect();
            if ready > claimed - output.len() {
                return Err("its zstd stream is longer than stated");
            }
            let filled = output.len();
            output.resize(filled + ready, 0);
            let mut target = output.get_mut(filled..).unwrap_or_default();
            decoder.collect_to_writer(&mut target).map_err(|_| DAMAGED)?;
        }
    }
    if output.len() == claimed { Ok(output) } else { Err("its zstd stream is shorter than stated") }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use super::*;
    use crate::UnpackBudget;

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

    fn section(name: &str, flags: u64) -> Section {
        Section {
            name: name.as_bytes().into(),
            address: model::Svma(0),
            file_offset: model::FileOffset(0x40),
            size: 0,
            kind: 1,
            flags,
            link: 0,
            info: 0,
            entry_size: 0,
        }
    }

    const COMPRESSED: u64 = 0x800;

    fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, ElfError> {
        let budget = UnpackBudget::default().for_object();
        let section = section(".debug_info", COMPRESSED);
        unpack(&section, bytes, true, Endianness::Little, &budget).map(|contents| contents.to_vec())
    }

    #[test]
    fn a_wrong_size_is_found_out() {
        let unpack = |size| unpacked(&chdr64(1, size, ZLIB));
        assert_eq!(unpack(21).unwrap(), b"abc".repeat(7));
        assert!(unpack(22).is_err());
        assert!(unpack(u64::MAX).is_err());
    }

    #[test]
    fn what_unpacks_to_too_many_times_its_size_is_refused_by_its_header() {
        let message = |size: u64| unpacked(&chdr64(2, size, &[0; 100])).unwrap_err().to_string();
        assert_eq!(
            message(8 << 30),
            "compressed section .debug_info at 0x40 is not unpacked: it says that it has 8589934592 bytes, more than \
             32 times its size in the file"
        );
        assert!(message(ALWAYS_UNPACKED_BYTES).contains("damaged"));
        assert!(message(ALWAYS_UNPACKED_BYTES + 1).contains("32 times"));
        let stream = vec![0; 1 << 20];
        let at_the_limit = unpacked(&chdr64(2, 32 << 20, &stream)).unwrap_err().to_string();
        assert!(at_the_limit.contains("damaged"), "{at_the_limit}");
    }

    #[test]
    fn sections_that_are_loaded_are_not_unpacked() {
        const ALLOC: u64 = 2;
        let budget = UnpackBudget::default().for_object();
        let bytes = chdr64(1, 21, ZLIB);
        let loaded = section(".eh_frame", COMPRESSED | ALLOC);
        let error = unpack(&loaded, &bytes, true, Endianness::Little, &budget).unwrap_err();
        assert!(matches!(error, ElfError::Compression { .. }), "{error}");
    }

    #[test]
    fn what_is_unpacked_at_the_same_time_is_bounded_for_an_object_and_for_all() {
        let all = UnpackBudget::new(50, 70);
        let (one, other) = (all.for_object(), all.for_object());
        let section = section(".debug_info", COMPRESSED);
        let bytes = chdr64(1, 21, ZLIB);
        let unpack = |budget| unpack(&section, &bytes, true, Endianness::Little, budget);
        let first = unpack(&one).unwrap();
        let second = unpack(&one).unwrap();
        let limit = |result: Result<Contents<'_>, ElfError>| match result {
            Err(ElfError::UnpackedSize { limit, .. }) => limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(limit(unpack(&one)), UnpackLimit::Object(50 - 42));
        let third = unpack(&other).unwrap();
        assert_eq!(limit(unpack(&other)), UnpackLimit::Together(70 - 63));
        drop(first);
        let fourth = unpack(&other).unwrap();
        assert_eq!(limit(unpack(&other)), UnpackLimit::Object(50 - 42));
        drop((second, third, fourth));
        assert!(unpack(&one).is_ok());
    }

    #[test]
    fn a_window_that_is_larger_than_what_comes_out_is_refused() {
        // A frame with a window of 64 MiB, and blocks of zeros without end, that says it has 1 MiB.
        let mut stream = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, (26 - 10) << 3];
        for _ in 0..(64 << 3) {
            stream.extend([0x02, 0x00, 0x10, 0]);
        }
        assert!(unzstd(&stream, 1 << 20).is_err());
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
        assert!(unpacked(&chdr64(7, 1, ZLIB)).is_err());
        for cut in 0..24 {
            assert!(unpacked(&chdr64(1, 21, ZLIB)[..cut]).is_err());
        }
    }
}
