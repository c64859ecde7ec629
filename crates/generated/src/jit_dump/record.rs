//! The header and the records of a jitdump, as structures of tools/perf/util/jitdump.h.

use std::io::{Read, Seek};

use model::Timestamp;

use super::{Cursor, JitDumpError};

/// `JITHEADER_MAGIC`: "JiTD".
const MAGIC: u32 = 0x4a69_5444;
/// `JITDUMP_FLAGS_ARCH_TIMESTAMP`.
const ARCH_TIMESTAMP: u64 = 1;
/// `struct jitheader`.
const HEADER_BYTES: usize = 40;
/// `struct jr_prefix`.
pub(super) const PREFIX_BYTES: usize = 16;
/// `struct jr_code_load` behind the prefix, without name and code.
pub(super) const LOAD_BYTES: usize = 40;
/// `struct jr_code_move` behind the prefix.
pub(super) const MOVE_BYTES: usize = 48;

/// The order of bytes in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Endian {
    Little,
    Big,
}

/// Reads fields from the front of bytes.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { bytes, endian }
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(match self.endian {
            Endian::Little => u32::from_le_bytes(*bytes),
            Endian::Big => u32::from_be_bytes(*bytes),
        })
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(match self.endian {
            Endian::Little => u64::from_le_bytes(*bytes),
            Endian::Big => u64::from_be_bytes(*bytes),
        })
    }

    /// Bytes up to a zero, which has to be there.
    pub(super) fn text(&mut self) -> Option<&'a [u8]> {
        let end = self.bytes.iter().position(|&byte| byte == 0)?;
        let (text, rest) = self.bytes.split_at_checked(end)?;
        self.bytes = rest.get(1..)?;
        Some(text)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

/// The front of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) endian: Endian,
    pub(super) total_size: u32,
    pub(super) processor_times: bool,
}

impl Header {
    /// Reads the header. Returns `None` where the file does not have all of it yet.
    pub(super) fn read<R: Read + Seek>(
        file: &mut Cursor<R>,
        length: u64,
    ) -> Result<Option<Self>, JitDumpError> {
        if length < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let bytes = file.bytes::<HEADER_BYTES>()?;
        let header = Self::parse(&bytes)?;
        Ok((u64::from(header.total_size) <= length).then_some(header))
    }

    fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, JitDumpError> {
        let magic = Fields::new(bytes, Endian::Little).u32().unwrap_or_default();
        let endian = match magic {
            MAGIC => Endian::Little,
            _ if magic.swap_bytes() == MAGIC => Endian::Big,
            _ => return Err(JitDumpError::Magic(magic)),
        };
        let mut fields = Fields::new(bytes, endian);
        let mut next = || fields.u32().unwrap_or_default();
        let [_, version, total_size, _machine, _, _pid] = std::array::from_fn(|_| next());
        let _start = fields.u64();
        let flags = fields.u64().unwrap_or_default();
        if version != 1 {
            return Err(JitDumpError::Version(version));
        }
        if (total_size as usize) < HEADER_BYTES {
            return Err(JitDumpError::HeaderSize(total_size));
        }
        Ok(Self { endian, total_size, processor_times: flags & ARCH_TIMESTAMP != 0 })
    }
}

/// The kind of a record: its meaning for the reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Load,
    Move,
    DebugInfo,
    Unwinding,
    /// The end of the dump, or one of a later version.
    Other,
}

/// The header that each record begins with.
#[derive(Debug)]
pub(super) struct Prefix {
    pub(super) kind: Kind,
    pub(super) total_size: u32,
    pub(super) time: Timestamp,
}

impl Prefix {
    pub(super) fn parse(bytes: &[u8; PREFIX_BYTES], endian: Endian) -> Self {
        let mut fields = Fields::new(bytes, endian);
        let kind = match fields.u32() {
            Some(0) => Kind::Load,
            Some(1) => Kind::Move,
            Some(2) => Kind::DebugInfo,
            Some(4) => Kind::Unwinding,
            _ => Kind::Other,
        };
        let total_size = fields.u32().unwrap_or_default();
        Self { kind, total_size, time: Timestamp(fields.u64().unwrap_or_default()) }
    }
}

/// `JIT_CODE_LOAD`.
#[derive(Debug)]
pub(super) struct Load<'a> {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) number: u64,
    pub(super) name: &'a [u8],
}

impl<'a> Load<'a> {
    /// Parses the record. A name that is longer than `bytes` is cut there.
    pub(super) fn parse(bytes: &'a [u8], endian: Endian) -> Option<Self> {
        let mut fields = Fields::new(bytes, endian);
        let _pid_and_tid = fields.u64()?;
        let _vma = fields.u64()?;
        let (address, size, number) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let name = match fields.text() {
            Some(name) => name,
            None => fields.rest(),
        };
        Some(Self { address, size, number, name })
    }
}

/// `JIT_CODE_MOVE`.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) new_address: u64,
    pub(super) size: u64,
    pub(super) number: u64,
}

impl Move {
    pub(super) fn parse(bytes: &[u8], endian: Endian) -> Option<Self> {
        let mut fields = Fields::new(bytes, endian);
        let _pid_and_tid = fields.u64()?;
        let (_vma, _old_address) = (fields.u64()?, fields.u64()?);
        Some(Self { new_address: fields.u64()?, size: fields.u64()?, number: fields.u64()? })
    }
}

/// `JIT_CODE_UNWINDING_INFO`, about the function that is loaded next.
#[derive(Debug)]
pub(super) struct Unwinding<'a> {
    /// `.eh_frame`. The `.eh_frame_hdr` behind it is not needed.
    pub(super) eh_frame: &'a [u8],
}

impl<'a> Unwinding<'a> {
    pub(super) fn parse(bytes: &'a [u8], endian: Endian) -> Option<Self> {
        let mut fields = Fields::new(bytes, endian);
        let (size, header_bytes, _mapped) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let bytes = fields.rest().get(..usize::try_from(size).ok()?)?;
        let tables = bytes.len().checked_sub(usize::try_from(header_bytes).ok()?)?;
        Some(Self { eh_frame: bytes.get(..tables)? })
    }
}
