//! The format of one tracepoint.

use std::collections::HashMap;
use std::sync::Arc;

use decoder::Endian;

use super::expression::Print;
use super::field::{Field, FieldLocation, size_of_type};
use super::parse;

/// The format in which a tracepoint's raw data are printed.
#[derive(Clone, Debug)]
pub struct TracepointFormat {
    pub(super) fields: Vec<Field>,
    /// The parsed `print fmt`; `None` if it cannot be parsed.
    pub(super) print: Option<Print>,
    pub(super) big_endian: bool,
    /// Strings of the recorded kernel, by their addresses.
    pub(super) strings: Arc<HashMap<u64, String>>,
}

impl TracepointFormat {
    /// Parses the text of a `format` file.
    pub(super) fn parse(text: &str, endian: Endian, long_size: u8) -> Self {
        let mut fields = Vec::new();
        let mut print = None;
        for line in text.lines() {
            let line = line.trim_start();
            if let Some(declaration) = line.strip_prefix("field:") {
                fields.extend(field(declaration, usize::from(long_size)));
            } else if let Some(c) = line.strip_prefix("print fmt:") {
                // `print fmt` is the rest of the text, which may contain line breaks.
                let rest =
                    text.find("print fmt:").and_then(|at| text.get(at + "print fmt:".len()..)).unwrap_or(c);
                print = parse::print(rest, &fields, long_size);
                break;
            }
        }
        Self { fields, print, big_endian: endian == Endian::Big, strings: Arc::default() }
    }
}

/// Parses a field: `char comm[16]; offset:8; size:16; signed:0;`, separated by tabs.
fn field(declaration: &str, long_size: usize) -> Option<Field> {
    let mut parts = declaration.split(';').map(str::trim);
    let declared = parts.next()?;
    let mut number = |name: &str| parts.next()?.strip_prefix(name)?.trim().parse::<usize>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    let signed = number("signed:").unwrap_or(0) != 0;
    let (declared, location) =
        match (declared.strip_prefix("__data_loc "), declared.strip_prefix("__rel_loc ")) {
            (Some(rest), _) => (rest, FieldLocation::DataLoc),
            (_, Some(rest)) => (rest, FieldLocation::RelLoc),
            _ => (declared, FieldLocation::Inline),
        };
    // `__data_loc char[] name`, `unsigned long args[6]`, `const char * buf`.
    let (of, count) = match declared.split_once('[') {
        Some((of, rest)) => {
            (format!("{of} {}", rest.split_once(']').map_or("", |(_, name)| name)), Some(rest))
        }
        None => (declared.to_owned(), None),
    };
    let of = of.trim();
    let (kind, name) = of.rsplit_once([' ', '*']).unwrap_or(("", of));
    let pointer = of.contains('*');
    let array = count.is_some() || location != FieldLocation::Inline;
    let element = array.then(|| {
        let counted = count.and_then(|count| count.split_once(']')?.0.trim().parse::<usize>().ok());
        match counted {
            Some(count) if count > 0 && location == FieldLocation::Inline => size / count,
            _ if pointer => long_size,
            _ => size_of_type(kind, long_size),
        }
    });
    let words = || kind.split(|character: char| !character.is_alphanumeric() && character != '_');
    Some(Field {
        name: name.to_owned(),
        offset,
        size,
        signed,
        element: element.map(|size| size.max(1)),
        location,
        text: array && words().any(|word| word == "char"),
        pointer,
        long: words().any(|word| word == "long"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations() {
        let parse = |text: &str| field(text, 8).unwrap();
        let comm = parse("char prev_comm[16];	offset:8;	size:16;	signed:0;");
        assert_eq!((comm.name.as_str(), comm.element, comm.text), ("prev_comm", Some(1), true));
        let args = parse("unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;");
        assert_eq!((args.name.as_str(), args.element, args.long), ("args", Some(8), true));
        let dynamic = parse("__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!(
            (dynamic.name.as_str(), dynamic.location, dynamic.text),
            ("name", FieldLocation::DataLoc, true)
        );
        let words = parse("__data_loc unsigned long[] values;\toffset:8;\tsize:4;\tsigned:0;");
        assert_eq!((words.name.as_str(), words.element), ("values", Some(8)));
        let pointer = parse("const char * buf;\toffset:24;\tsize:8;\tsigned:0;");
        assert_eq!((pointer.name.as_str(), pointer.pointer, pointer.text), ("buf", true, false));
        assert!(field("int x; offset:a; size:4;", 8).is_none());
    }
}
