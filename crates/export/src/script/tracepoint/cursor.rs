//! Reading the tracing data, byte by byte.

use super::tracing_data::TracingDataError;

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
    pub(super) big_endian: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0, big_endian: false }
    }

    pub(super) fn take(&mut self, field: &'static str, len: u64) -> Result<&'a [u8], TracingDataError> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let taken = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let error = TracingDataError::Cut { field, offset: self.offset, len, available: rest.len() };
        let taken = taken.ok_or(error)?;
        self.offset += taken.len();
        Ok(taken)
    }

    /// Up to the next NUL, which is skipped.
    pub(super) fn string(&mut self, field: &'static str) -> Result<&'a [u8], TracingDataError> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == 0);
        let end = end.ok_or(TracingDataError::Unterminated { field, offset: self.offset })?;
        self.offset += end + 1;
        Ok(rest.get(..end).unwrap_or_default())
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], TracingDataError> {
        let bytes = self.take(field, N as u64)?;
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        if self.big_endian {
            array.reverse();
        }
        Ok(array)
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, TracingDataError> {
        self.array(field).map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, TracingDataError> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, TracingDataError> {
        self.array(field).map(u64::from_le_bytes)
    }
}
