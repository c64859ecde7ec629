//! Prints the raw data of a sample.

use model::Name;

use super::super::address::{LocatedAddress, display};
use super::super::gapped_text::{GappedText, SymbolGap};
use super::arguments::RawData;
use super::expression::{Expression, Piece, Print};
use super::field::Field;
use super::format::TracepointFormat;
use super::printf::Directive;

impl TracepointFormat {
    /// Appends the raw data of a sample. `locate` maps an address of the kernel.
    pub fn print(&self, raw: &[u8], locate: &mut dyn FnMut(u64) -> LocatedAddress, text: &mut GappedText) {
        let data = RawData { format: self, raw };
        match &self.print {
            Some(print) => formatted(&data, print, locate, text),
            None => {
                text.bytes.extend_from_slice(b"[FAILED TO PARSE]");
                for field in self.fields.iter().filter(|field| !field.name.starts_with("common_")) {
                    plain(&data, field, &mut text.bytes);
                }
            }
        }
    }
}

fn formatted(
    data: &RawData<'_>,
    print: &Print,
    locate: &mut dyn FnMut(u64) -> LocatedAddress,
    text: &mut GappedText,
) {
    let mut arguments = print.arguments.iter();
    for piece in &print.format {
        let directive = match piece {
            Piece::Literal(literal) => {
                text.bytes.extend_from_slice(literal.as_bytes());
                continue;
            }
            Piece::Directive(directive) => directive,
        };
        // The directive is copied only if arguments set its width or precision.
        let mut changed = None;
        if directive.width_argument || directive.precision_argument {
            let form = changed.insert(directive.clone());
            if directive.width_argument {
                form.set_width(arguments.next().map_or(0, |width| data.value(width) as i64));
            }
            if directive.precision_argument {
                let precision = arguments.next().map_or(0, |precision| data.value(precision));
                form.precision = usize::try_from(precision as i64).ok();
            }
        }
        let form = changed.as_ref().unwrap_or(directive);
        let Some(argument) = arguments.next() else {
            text.bytes.extend_from_slice(b"[no argument]");
            continue;
        };
        match form.conversion {
            's' => form.text(&mut text.bytes, &data.text(argument)),
            'p' => pointer(data, form, argument, locate, text),
            _ => form.integer(&mut text.bytes, data.value(argument)),
        }
    }
}

fn pointer(
    data: &RawData<'_>,
    form: &Directive,
    argument: &Expression,
    locate: &mut dyn FnMut(u64) -> LocatedAddress,
    text: &mut GappedText,
) {
    let bytes = data.bytes(argument).unwrap_or_default();
    let part = match form.pointer.as_str() {
        kind @ ("F" | "f" | "S" | "s") => {
            let with_offset = matches!(kind, "F" | "S");
            return text.push_gap(SymbolGap::KernelFunction(locate(data.value(argument)), with_offset));
        }
        "I4" | "i4" => ipv4(bytes),
        "I6" => ipv6(bytes, false),
        "I6c" => ipv6(bytes, true),
        kind @ ("IS" | "ISc" | "ISp" | "ISpc") => socket_address(data, bytes, kind),
        kind @ ("U" | "Ub" | "UB" | "Ul" | "UL") => uuid(bytes, kind),
        "M" | "m" => hexadecimal(bytes.get(..6), if form.pointer == "M" { ":" } else { "" }),
        _ => match data.value(argument) {
            0 => "(nil)".to_owned(),
            value => format!("{value:#x}"),
        },
    };
    form.text(&mut text.bytes, &part);
}

fn hexadecimal(bytes: Option<&[u8]>, separator: &str) -> String {
    let pairs: Vec<_> = bytes.unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(separator)
}

fn ipv4(bytes: &[u8]) -> String {
    bytes.first_chunk().map_or_else(
        || "INVALIDIPv4".to_owned(),
        |&octets: &[u8; 4]| core::net::Ipv4Addr::from(octets).to_string(),
    )
}

fn ipv6(bytes: &[u8], compressed: bool) -> String {
    let Some(&octets) = bytes.first_chunk::<16>() else { return "INVALIDIPv6".to_owned() };
    if compressed {
        return core::net::Ipv6Addr::from(octets).to_string();
    }
    let groups: Vec<_> = octets.chunks_exact(2).map(|pair| hexadecimal(Some(pair), "")).collect();
    groups.join(":")
}

/// Formats a `struct sockaddr`: family, port, address.
fn socket_address(data: &RawData<'_>, bytes: &[u8], kind: &str) -> String {
    let family = data.number(bytes.get(..2).unwrap_or_default(), false);
    let port = bytes
        .get(2..4)
        .map_or(0, |port| port.iter().fold(0_u16, |value, &byte| value << 8 | u16::from(byte)));
    let with_port = kind.contains('p');
    match family {
        2 => {
            let address = ipv4(bytes.get(4..).unwrap_or_default());
            if with_port { format!("{address}:{port}") } else { address }
        }
        10 => {
            let address = ipv6(bytes.get(8..).unwrap_or_default(), kind.contains('c'));
            if with_port { format!("[{address}]:{port}") } else { address }
        }
        _ => String::new(),
    }
}

fn uuid(bytes: &[u8], kind: &str) -> String {
    let Some(&bytes) = bytes.first_chunk::<16>() else { return "INVALIDUUID".to_owned() };
    let mixed = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let order: [usize; 16] =
        if kind.ends_with(['l', 'L']) { mixed } else { std::array::from_fn(|index| index) };
    let mut text = String::new();
    for (index, from) in order.into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{:02x}", bytes.get(from).copied().unwrap_or(0)));
    }
    if kind.ends_with(['B', 'L']) { text.to_uppercase() } else { text }
}

/// Appends a field without a format: ` name=value`.
fn plain(data: &RawData<'_>, field: &Field, out: &mut Vec<u8>) {
    display(out, format_args!(" {}=", Name::from(field.name.as_str())));
    let bytes = data.bytes_of(field);
    if field.element.is_some() {
        let content = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        let printable = content.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        if field.text && printable {
            return out.extend_from_slice(content);
        }
        return display(out, format_args!("ARRAY[{}]", hexadecimal(Some(bytes), ", ")));
    }
    let value = data.number(bytes, field.signed);
    match (field.pointer, field.signed, field.long) {
        (true, ..) => display(out, format_args!("{value:#x}")),
        (_, true, true) if field.size == 4 => display(out, format_args!("{:#x}", value as u32)),
        (_, true, _) => {
            display(out, format_args!("{:1$}", value as i64, if field.size == 2 { 2 } else { 0 }))
        }
        (_, _, true) => display(out, format_args!("{value:#x}")),
        _ => display(out, format_args!("{value}")),
    }
}
