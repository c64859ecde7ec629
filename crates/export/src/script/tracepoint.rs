//! The raw data of tracepoints as text: `name=value` for each field.
//!
//! A recording with tracepoints carries the text of each one's `tracing/events/SYSTEM/NAME/format`, which says where its fields lie.

use decoder::Endian;
use model::Name;
use perfdata::tracing_data::{Field, Location, fields};

use super::address::display;

/// The format in which a tracepoint's raw data are printed.
#[derive(Clone, Debug)]
pub struct TracepointFormat {
    fields: Vec<(Name, Value)>,
    endian: Endian,
}

/// How a field's value is printed, and where it lies.
#[derive(Clone, Copy, Debug)]
struct Value {
    offset: usize,
    size: usize,
    location: Location,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Signed,
    Unsigned,
    /// An address, printed in hexadecimal.
    Pointer,
    /// Text up to the first NUL.
    Text,
    /// Unsigned numbers of this size in bytes.
    Numbers(usize),
}

impl TracepointFormat {
    /// Parses the text of a `format` file, for data in the byte order `endian`.
    pub fn new(format: &[u8], endian: Endian) -> Self {
        let text = String::from_utf8_lossy(format);
        let own = fields(&text).filter(|field| !field.name.starts_with("common_"));
        Self { fields: own.map(|field| (Name::from(field.name), Value::new(&field))).collect(), endian }
    }

    /// Appends the raw data of a sample.
    pub fn print(&self, raw: &[u8], out: &mut Vec<u8>) {
        for (index, (name, value)) in self.fields.iter().enumerate() {
            let separator = if index == 0 { "" } else { " " };
            display(out, format_args!("{separator}{name}="));
            let bytes = self.bytes(value, raw);
            match value.form {
                Form::Signed => {
                    let unused = 64 - 8 * bytes.len().clamp(1, 8);
                    display(out, format_args!("{}", ((self.number(bytes) << unused) as i64) >> unused));
                }
                Form::Unsigned => display(out, format_args!("{}", self.number(bytes))),
                Form::Pointer => display(out, format_args!("{:#x}", self.number(bytes))),
                Form::Text => {
                    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
                    display(out, format_args!("{}", Name::new(text)));
                }
                Form::Numbers(size) => {
                    for (index, element) in bytes.chunks(size).enumerate() {
                        let separator = if index == 0 { "" } else { "," };
                        display(out, format_args!("{separator}{}", self.number(element)));
                    }
                }
            }
        }
    }

    /// Returns the bytes of a field, or those that it refers to, as far as the data have them.
    fn bytes<'a>(&self, value: &Value, raw: &'a [u8]) -> &'a [u8] {
        let slice = |offset: usize, size: usize| {
            let rest = raw.get(offset..).unwrap_or_default();
            rest.get(..size).unwrap_or(rest)
        };
        let own = slice(value.offset, value.size);
        let reference = self.number(own.get(..4).unwrap_or(own)) as usize;
        let (offset, size) = (reference & 0xffff, reference >> 16 & 0xffff);
        match value.location {
            Location::Inline => own,
            Location::Absolute => slice(offset, size),
            Location::Relative => slice(value.offset.saturating_add(value.size).saturating_add(offset), size),
        }
    }

    /// Returns the number in the first eight of `bytes`.
    fn number(&self, bytes: &[u8]) -> u64 {
        let bytes = bytes.get(..8).unwrap_or(bytes);
        let push = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
        match self.endian {
            Endian::Big => bytes.iter().fold(0, push),
            Endian::Little => bytes.iter().rev().fold(0, push),
        }
    }
}

impl Value {
    fn new(field: &Field<'_>) -> Self {
        let form = match (field.element_count(), field.is_pointer()) {
            (Some(_), false) if field.is_text() => Form::Text,
            (Some(count), _) => Form::Numbers(field.size.checked_div(count).map_or(1, |size| size.max(1))),
            (None, true) => Form::Pointer,
            (None, false) if field.signed => Form::Signed,
            (None, false) => Form::Unsigned,
        };
        Self { offset: field.offset, size: field.size, location: field.location, form }
    }
}
