//! Reads the fields of a protobuf message one by one. Messages are not decoded whole: a message of two bytes takes a hundred in memory.

use prost::encoding::{WireType, decode_key, decode_varint};

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'b> {
    /// The number of a varint field.
    Number(u64),
    /// A string, message, or packed list.
    Bytes(&'b [u8]),
    /// A number of fixed length: profiles have none.
    Other,
}

impl<'b> Value<'b> {
    /// Returns the number; 0 for other values, as for a missing field.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) | Self::Other => 0,
        }
    }

    /// Returns the bytes; none for other values.
    pub(crate) fn bytes(self) -> &'b [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) | Self::Other => &[],
        }
    }

    /// Calls `each` with the numbers of a repeated field, which may be packed. Returns `None` if the list is damaged.
    pub(crate) fn numbers(self, mut each: impl FnMut(u64)) -> Option<()> {
        match self {
            Self::Number(number) => each(number),
            Self::Bytes(mut bytes) => {
                while !bytes.is_empty() {
                    each(decode_varint(&mut bytes).ok()?);
                }
            }
            Self::Other => {}
        }
        Some(())
    }
}

/// The fields of a message.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'b> {
    whole: &'b [u8],
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    /// Reads a message from its first field on.
    pub(crate) fn of(message: &'b [u8]) -> Self {
        Self { whole: message, rest: message }
    }

    /// The offset of the next field in the message.
    pub(crate) fn offset(&self) -> usize {
        self.whole.len() - self.rest.len()
    }

    fn field(&mut self) -> Option<(u32, Value<'b>)> {
        let (number, wire_type) = decode_key(&mut self.rest).ok()?;
        let value = match wire_type {
            WireType::Varint => Value::Number(decode_varint(&mut self.rest).ok()?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.rest).ok()?;
                Value::Bytes(self.skip(usize::try_from(length).ok()?)?)
            }
            WireType::SixtyFourBit => self.skip(8).map(|_| Value::Other)?,
            WireType::ThirtyTwoBit => self.skip(4).map(|_| Value::Other)?,
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        Some((number, value))
    }

    fn skip(&mut self, length: usize) -> Option<&'b [u8]> {
        let (skipped, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(skipped)
    }
}

/// The message ends within a field, or has one of a kind that profiles do not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadField;

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u32, Value<'b>), BadField>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(BadField))
    }
}
