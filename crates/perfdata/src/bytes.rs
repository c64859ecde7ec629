//! A walk over the bytes of a section or tool record that checks each step.

use decoder::Endian;
use model::Name;

use crate::error::Error;

/// The rest of a section that is not yet parsed.
#[derive(Clone)]
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
    // Length of the whole section, for the offsets in errors.
    len: usize,
    section: &'static str,
    endian: Endian,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8], section: &'static str, endian: Endian) -> Self {
        Self { rest: bytes, len: bytes.len(), section, endian }
    }

    /// For what says its byte order itself.
    pub(crate) fn set_endian(&mut self, endian: Endian) {
        self.endian = endian;
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn offset(&self) -> u64 {
        (self.len - self.rest.len()) as u64
    }

    pub(crate) fn cut(&self, field: &'static str, needed: u64) -> Error {
        let (section, offset, available) = (self.section, self.offset(), self.rest.len() as u64);
        Error::Cut { section, field, offset, needed, available }
    }

    /// An error about a value of `width` bytes that was just read.
    pub(crate) fn wrong(&self, field: &'static str, width: u64, value: u64, expected: &'static str) -> Error {
        Error::Field {
            section: self.section,
            field,
            offset: self.offset().saturating_sub(width),
            value,
            expected,
        }
    }

    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>().ok_or_else(|| self.cut(field, N as u64))?;
        self.rest = rest;
        Ok(*chunk)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, Error> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, Error> {
        Ok(self.endian.u16(self.array(field)?))
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, Error> {
        Ok(self.endian.u32(self.array(field)?))
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, Error> {
        Ok(self.endian.u64(self.array(field)?))
    }

    pub(crate) fn bytes(&mut self, field: &'static str, len: u64) -> Result<&'a [u8], Error> {
        let split = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (bytes, rest) = split.ok_or_else(|| self.cut(field, len))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The next `len` bytes, as something to be walked over itself.
    pub(crate) fn sub(&mut self, field: &'static str, len: u64) -> Result<Self, Error> {
        let (section, endian) = (self.section, self.endian);
        self.bytes(field, len).map(|bytes| Self::new(bytes, section, endian))
    }

    /// Takes the bytes before the next NUL, which is stepped over.
    pub(crate) fn terminated(&mut self, field: &'static str) -> Result<&'a [u8], Error> {
        let len = self.rest.iter().position(|&byte| byte == 0);
        let text = self.bytes(field, len.map_or(u64::MAX, |len| len as u64))?;
        self.u8(field).map(|_| text)
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// `struct perf_header_string`: a length, then that many bytes up to their first NUL.
    pub(crate) fn string(&mut self, field: &'static str) -> Result<Name, Error> {
        let len = self.u32(field)?;
        Ok(Name::new(until_nul(self.bytes(field, len.into())?)))
    }

    /// `count` items, as many as there are bytes for. Each takes at least one byte, so a count that lies ends in an
    /// error and not in an allocation.
    pub(crate) fn list<T>(
        &mut self,
        count: u64,
        mut item: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }
}

/// Returns the bytes before the first NUL.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or(bytes)
}
