//! A walk over a record's body that checks each step.

use crate::endian::Endian;
use crate::error::DecodeError;
use crate::header::HEADER_SIZE;
use crate::raw::RawRecord;
use crate::values::U64s;

/// A cursor over the rest of a body.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    // Length of the body, for the offsets in errors.
    len: usize,
    kind: u32,
    pub(crate) endian: Endian,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(raw: &RawRecord<'a>, endian: Endian) -> Self {
        Self { rest: raw.body, len: raw.body.len(), kind: raw.kind, endian }
    }

    /// Leaves out the last `bytes` of the body: the trailer.
    pub(crate) fn shorten(&mut self, bytes: usize) -> &'a [u8] {
        let at = self.rest.len().saturating_sub(bytes);
        let (rest, end) = self.rest.split_at(at);
        self.rest = rest;
        end
    }

    #[cold]
    #[inline(never)]
    fn cut(&self, field: &'static str, needed: u64) -> DecodeError {
        let offset = HEADER_SIZE + self.len - self.rest.len();
        DecodeError::FieldCut { kind: self.kind, field, offset, needed, available: self.rest.len() }
    }

    #[inline]
    fn chunk<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.rest = rest;
                Ok(*chunk)
            }
            None => Err(self.cut(field, N as u64)),
        }
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        Ok(self.endian.u16(self.chunk(field)?))
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        Ok(self.endian.u32(self.chunk(field)?))
    }

    #[inline]
    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        Ok(self.endian.u64(self.chunk(field)?))
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        self.chunk(field)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, field: &'static str, len: u64) -> Result<&'a [u8], DecodeError> {
        let split = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        match split {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(self.cut(field, len)),
        }
    }

    /// `count` groups of `words` u64 each; `field` names the count, which has just been read.
    #[inline]
    pub(crate) fn words(
        &mut self,
        field: &'static str,
        count: u64,
        words: u64,
    ) -> Result<U64s<'a>, DecodeError> {
        let split = count
            .checked_mul(words * 8)
            .and_then(|len| usize::try_from(len).ok())
            .and_then(|len| self.rest.split_at_checked(len));
        match split {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(U64s::new(bytes, self.endian))
            }
            None => Err(self.count_error(field, count)),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn count_error(&self, field: &'static str, count: u64) -> DecodeError {
        let offset = HEADER_SIZE + self.len - self.rest.len() - 8;
        DecodeError::Count { kind: self.kind, field, offset, count, available: self.rest.len() }
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// All that is left, up to its first NUL.
    pub(crate) fn string(&mut self) -> &'a [u8] {
        let bytes = self.rest();
        bytes.split(|&byte| byte == 0).next().unwrap_or(bytes)
    }
}
