//! A record's header and the bytes behind it, not decoded.

use crate::endian::Endian;
use crate::error::DecodeError;
use crate::header::{CpuMode, HEADER_SIZE, RecordHeader, misc};

/// A record, cut out but not decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawRecord<'a> {
    /// `PERF_RECORD_*`; 64 and above belong to tools.
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`.
    pub misc: u16,
    /// The bytes behind the header.
    pub body: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// Cuts the record at the start of `bytes`, and says how many bytes it took, header included.
    ///
    /// # Errors
    /// [`DecodeError::RecordCut`] where `bytes` end before the record does, [`DecodeError::RecordSize`] where its
    /// size is smaller than its header.
    #[inline]
    pub fn parse(bytes: &'a [u8], endian: Endian) -> Result<(Self, usize), DecodeError> {
        let Some((header, _)) = bytes.split_first_chunk::<HEADER_SIZE>() else {
            return Err(DecodeError::RecordCut { size: HEADER_SIZE, available: bytes.len() });
        };
        let RecordHeader { kind, misc, size } = RecordHeader::from_bytes(*header, endian);
        if size < HEADER_SIZE {
            return Err(DecodeError::RecordSize { size });
        }
        let Some(body) = bytes.get(HEADER_SIZE..size) else {
            return Err(DecodeError::RecordCut { size, available: bytes.len() });
        };
        Ok((Self { kind, misc, body }, size))
    }

    /// The privilege level in `misc`.
    #[inline]
    pub fn mode(&self) -> CpuMode {
        match self.misc & misc::CPUMODE_MASK {
            1 => CpuMode::Kernel,
            2 => CpuMode::User,
            3 => CpuMode::Hypervisor,
            4 => CpuMode::GuestKernel,
            5 => CpuMode::GuestUser,
            _ => CpuMode::Unknown,
        }
    }

    /// Returns true if `misc` has this bit.
    #[inline]
    pub fn has(&self, bit: u16) -> bool {
        self.misc & bit != 0
    }

    /// Bytes of the whole record, header included.
    pub fn size(&self) -> usize {
        HEADER_SIZE + self.body.len()
    }
}
