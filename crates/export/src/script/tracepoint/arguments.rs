//! Evaluates the arguments of a format with the raw data of a sample.

use super::expression::Expression;
use super::field::{Field, FieldLocation};
use super::format::TracepointFormat;

/// The raw data of one sample.
#[derive(Clone, Copy)]
pub(super) struct RawData<'a> {
    pub(super) format: &'a TracepointFormat,
    pub(super) raw: &'a [u8],
}

impl<'a> RawData<'a> {
    /// Returns the number in the first eight of `bytes`, in the byte order of the recording.
    pub(super) fn number(&self, bytes: &[u8], signed: bool) -> u64 {
        let bytes = bytes.get(..8).unwrap_or(bytes);
        let push = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
        let value = if self.format.big_endian {
            bytes.iter().fold(0, push)
        } else {
            bytes.iter().rev().fold(0, push)
        };
        let unused = 64 - 8 * bytes.len().min(8) as u32;
        if signed && unused < 64 { ((value << unused) as i64 >> unused) as u64 } else { value }
    }

    fn slice(&self, offset: usize, len: usize) -> &'a [u8] {
        let rest = self.raw.get(offset..).unwrap_or_default();
        rest.get(..len).unwrap_or(rest)
    }

    pub(super) fn field(&self, index: usize) -> Option<&'a Field> {
        self.format.fields.get(index)
    }

    /// Returns the bytes of a field, or those that it refers to.
    pub(super) fn bytes_of(&self, field: &Field) -> &'a [u8] {
        let own = self.slice(field.offset, field.size);
        let location = self.number(own.get(..4).unwrap_or(own), false);
        let (offset, len) = ((location & 0xffff) as usize, (location >> 16 & 0xffff) as usize);
        match field.location {
            FieldLocation::Inline => own,
            FieldLocation::DataLoc => self.slice(offset, len),
            FieldLocation::RelLoc => {
                self.slice(field.offset.saturating_add(field.size).saturating_add(offset), len)
            }
        }
    }

    /// Returns the bytes of an array, fixed or dynamic.
    pub(super) fn bytes(&self, of: &Expression) -> Option<&'a [u8]> {
        match of {
            Expression::Field(index) | Expression::Str(index) | Expression::Bitmask(index) => {
                self.field(*index).map(|field| self.bytes_of(field))
            }
            Expression::Dynamic(index) => self.field(*index).map(|field| self.bytes_of(field)),
            Expression::Cast(_, inner) => self.bytes(inner),
            _ => None,
        }
    }

    /// Returns the size of an element of an array, and whether it is signed.
    fn element(&self, of: &Expression) -> Option<(usize, bool)> {
        match of {
            Expression::Field(index) | Expression::Dynamic(index) => {
                let field = self.field(*index)?;
                Some((field.element.unwrap_or(1), field.signed))
            }
            Expression::Cast(cast, inner) => {
                Some((cast.element.or(self.element(inner).map(|(size, _)| size))?, false))
            }
            _ => None,
        }
    }

    /// Evaluates an argument to a number.
    pub(super) fn value(&self, of: &Expression) -> u64 {
        match of {
            Expression::Number(value) => *value,
            Expression::Field(index) => self
                .field(*index)
                .map_or(0, |field| self.number(self.slice(field.offset, field.size), field.signed)),
            Expression::Element(array, index) => self.element_value(array, index).unwrap_or(0),
            Expression::Unary(operator, value) => operator.apply(self.value(value)),
            Expression::Binary(operator, left, right) => {
                let unsigned =
                    left.is_unsigned(&self.format.fields) || right.is_unsigned(&self.format.fields);
                operator.apply(self.value(left), self.value(right), unsigned)
            }
            Expression::Choice(condition, then, otherwise) => {
                self.value(if self.value(condition) != 0 { then } else { otherwise })
            }
            Expression::Cast(cast, value) => cast.apply(self.value(value)),
            Expression::DynamicLen(index) => {
                self.field(*index).map_or(0, |field| self.bytes_of(field).len() as u64)
            }
            _ => 0,
        }
    }

    fn element_value(&self, array: &Expression, index: &Expression) -> Option<u64> {
        let (size, signed) = self.element(array)?;
        let at = usize::try_from(self.value(index)).ok()?.checked_mul(size)?;
        let bytes = self.bytes(array)?.get(at..)?;
        Some(self.number(bytes.get(..size)?, signed))
    }

    /// Evaluates an argument to text, as for `%s`.
    pub(super) fn text(&self, of: &Expression) -> String {
        match of {
            Expression::Text(text) | Expression::Word(text) => text.clone(),
            Expression::Choice(condition, then, otherwise) => {
                self.text(if self.value(condition) != 0 { then } else { otherwise })
            }
            Expression::Cast(_, inner) => self.text(inner),
            Expression::Str(index) => {
                self.field(*index).map_or_else(String::new, |field| string(self.bytes_of(field)))
            }
            Expression::Field(index) => match self.field(*index) {
                Some(field) if field.element.is_some() => string(self.bytes_of(field)),
                // The address of a string in the recorded kernel, for which the recording may have the text.
                Some(_) => {
                    let address = self.value(of);
                    self.format.strings.get(&address).cloned().unwrap_or_else(|| format!("{address:x}"))
                }
                None => String::new(),
            },
            Expression::Flags(value, delimiter, table) => flags(self.value(value), delimiter, table),
            Expression::Symbolic(value, table) => {
                let value = self.value(value);
                let found = table.iter().find(|&&(known, _)| known as u64 == value);
                found.map_or_else(|| format!("{value:#x}"), |(_, name)| name.clone())
            }
            Expression::Hex(bytes, len, blanks) => {
                let bytes = self.bytes(bytes).unwrap_or_default();
                let len = usize::try_from(self.value(len)).unwrap_or(usize::MAX).min(bytes.len());
                let pairs: Vec<_> = bytes.iter().take(len).map(|byte| format!("{byte:02x}")).collect();
                pairs.join(if *blanks { " " } else { "" })
            }
            Expression::Array(values, count, size) => {
                let bytes = self.bytes(values).unwrap_or_default();
                let size = usize::try_from(self.value(size)).unwrap_or(0).clamp(1, 8);
                let count = usize::try_from(self.value(count)).unwrap_or(usize::MAX);
                let values = bytes.chunks_exact(size).take(count);
                values.map(|value| self.number(value, false).to_string()).collect::<Vec<_>>().join(" ")
            }
            Expression::Bitmask(index) => {
                self.field(*index).map_or_else(String::new, |field| self.bitmask(self.bytes_of(field)))
            }
            _ => format!("{:x}", self.value(of)),
        }
    }

    /// Formats a bit mask: hexadecimal digits, highest first, with a comma every 32 bits.
    fn bitmask(&self, bytes: &[u8]) -> String {
        let mut text = String::new();
        for index in 0..bytes.len() {
            let at = if self.format.big_endian { index } else { bytes.len() - 1 - index };
            if index > 0 && index.is_multiple_of(4) {
                text.push(',');
            }
            text.push_str(&format!("{:02x}", bytes.get(at).copied().unwrap_or(0)));
        }
        text
    }
}

/// Returns the text up to the first NUL. The caller replaces unsafe characters.
fn string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

fn flags(mut value: u64, delimiter: &str, table: &[(i64, String)]) -> String {
    let mut text = String::new();
    let mut add = |part: &str| {
        if !text.is_empty() {
            text.push_str(delimiter);
        }
        text.push_str(part);
    };
    for (flag, name) in table {
        if value == 0 && *flag == 0 {
            add(name);
            break;
        }
        let bits = *flag as u64;
        if *flag > 0 && value & bits == bits {
            add(name);
            value &= !bits;
        }
    }
    if value != 0 {
        add(&format!("{value:#x}"));
    }
    text
}
