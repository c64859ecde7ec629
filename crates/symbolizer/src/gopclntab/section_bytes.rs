//! Bounds-checked reads of numbers and texts from the bytes of a section.

use elf::Endianness;

/// The bytes of a section, which may be hostile: every read is checked.
#[derive(Clone, Copy)]
pub(super) struct SectionBytes<'a> {
    pub(super) data: &'a [u8],
    pub(super) endian: Endianness,
    /// The size of a pointer, in bytes.
    pub(super) pointer: usize,
}

impl<'a> SectionBytes<'a> {
    /// Reads an unsigned number of `width` bytes, at most 8.
    pub(super) fn number(&self, at: usize, width: usize) -> Option<u64> {
        let bytes = self.data.get(at..at.checked_add(width)?)?;
        let fold = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
        Some(match self.endian {
            Endianness::Little => bytes.iter().rev().fold(0, fold),
            Endianness::Big => bytes.iter().fold(0, fold),
        })
    }

    /// Reads a signed number of four bytes.
    pub(super) fn signed(&self, at: usize) -> Option<i64> {
        Some(i64::from(self.number(at, 4)? as u32 as i32))
    }

    /// Reads the text up to the next NUL.
    pub(super) fn text(&self, at: usize) -> Option<&'a [u8]> {
        self.data.get(at..)?;
        Some(elf::name_at(self.data, at))
    }

    /// Reads an unsigned LEB128 number and moves `at` behind it.
    pub(super) fn varint(&self, at: &mut usize) -> Option<u32> {
        let mut number = 0_u32;
        for shift in (0..35).step_by(7) {
            let byte = *self.data.get(*at)?;
            *at += 1;
            number |= u32::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}
