//! What simpleperf tells of files in a recording, their symbols above all: it reads these where it records, as the files
//! stay on the phone (`simpleperf/record_file_format.h` and `record_file.proto` of the Android sources).

use decoder::Endian;
use model::Name;

use super::Features;
use crate::bytes::{Bytes, until_nul};
use crate::error::Error;

/// Feature sections with files: entries of fixed fields, and messages of protocol buffers, which later versions write.
const FILE: u32 = 128;
const FILE2: u32 = 132;

/// The kind of addresses of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FileKind {
    /// The kernel image: addresses of the running kernel.
    Kernel,
    /// A module of the kernel, with addresses of its own file.
    KernelModule,
    /// An ELF file, with its own addresses.
    Elf,
    /// A file with Android's bytecode, the addresses of which are file offsets.
    Dex,
    /// Generated code of a process: addresses of that process.
    SymbolMap,
    /// A file that the recorder could not open either, or a newer type.
    Other(u32),
}

/// A file that samples fell into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedFile {
    /// As MMAP records name it.
    pub path: Name,
    /// The kind of its addresses.
    pub kind: FileKind,
    /// The address at which its first executable segment begins.
    pub first_address: u64,
    /// The file offset of that segment. Recordings of before 2019 do not have it.
    pub first_offset: Option<u64>,
    /// Its functions, or those of them that samples fell into.
    pub symbols: Vec<RecordedSymbol>,
}

/// A function of a [`RecordedFile`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedSymbol {
    /// The first address.
    pub address: u64,
    /// In bytes.
    pub size: u32,
    /// As the linker knows it.
    pub name: Name,
}

/// Returns the files that simpleperf describes ([`Features::recorded_files`]).
pub(super) fn recorded(features: &Features, endian: Endian) -> (Vec<RecordedFile>, Option<Error>) {
    let mut files = Vec::new();
    let error = features.verbatim.iter().find_map(|(feature, body)| {
        let read = match *feature {
            FILE => fixed_file,
            FILE2 => message_file,
            _ => return None,
        };
        let mut section = Bytes::new(body, "FILE", endian);
        while section.remaining() > 0 {
            let file = section.u32("size").and_then(|size| section.bytes("file", size.into()));
            match file.and_then(|file| read(Bytes::new(file, "FILE", endian))) {
                Ok(file) => files.push(file),
                Err(error) => return Some(error),
            }
        }
        None
    });
    (files, error)
}

fn kind(number: u32) -> FileKind {
    match number {
        0 => FileKind::Kernel,
        1 => FileKind::KernelModule,
        2 => FileKind::Elf,
        3 => FileKind::Dex,
        4 => FileKind::SymbolMap,
        other => FileKind::Other(other),
    }
}

fn fixed_file(mut bytes: Bytes<'_>) -> Result<RecordedFile, Error> {
    let path = Name::new(bytes.terminated("path")?);
    let kind = kind(bytes.u32("type")?);
    let first_address = bytes.u64("min_vaddr")?;
    let count = bytes.u32("symbol_count")?;
    let symbols = bytes.list(count.into(), |bytes| {
        Ok(RecordedSymbol {
            address: bytes.u64("start_vaddr")?,
            size: bytes.u32("len")?,
            name: Name::new(bytes.terminated("symbol_name")?),
        })
    })?;
    let first_offset = (kind == FileKind::Elf).then(|| bytes.u64("file_offset_of_min_vaddr").ok()).flatten();
    Ok(RecordedFile { path, kind, first_address, first_offset, symbols })
}

fn message_file(bytes: Bytes<'_>) -> Result<RecordedFile, Error> {
    let mut file = RecordedFile {
        path: Name::new(&[]),
        // The encoding omits fields that are zero.
        kind: FileKind::Kernel,
        first_address: 0,
        first_offset: None,
        symbols: Vec::new(),
    };
    each_field(bytes, |number, field| {
        match (number, field) {
            (1, Field::Bytes(path)) => file.path = Name::new(until_nul(path.clone().rest())),
            (2, Field::Number(number)) => file.kind = kind(u32::try_from(number).unwrap_or(u32::MAX)),
            (3, Field::Number(address)) => file.first_address = address,
            (4, Field::Bytes(symbol)) => file.symbols.push(message_symbol(symbol)?),
            (6, Field::Bytes(elf)) => {
                file.first_offset = Some(0);
                each_field(elf, |number, field| {
                    if let (1, Field::Number(offset)) = (number, field) {
                        file.first_offset = Some(offset);
                    }
                    Ok(())
                })?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(file)
}

fn message_symbol(bytes: Bytes<'_>) -> Result<RecordedSymbol, Error> {
    let mut symbol = RecordedSymbol { address: 0, size: 0, name: Name::new(&[]) };
    each_field(bytes, |number, field| {
        match (number, field) {
            (1, Field::Number(address)) => symbol.address = address,
            (2, Field::Number(size)) => symbol.size = u32::try_from(size).unwrap_or(u32::MAX),
            (3, Field::Bytes(mut name)) => symbol.name = Name::new(until_nul(name.rest())),
            _ => {}
        }
        Ok(())
    })?;
    Ok(symbol)
}

/// A value in a message of protocol buffers (`protobuf.dev/programming-guides/encoding`).
enum Field<'a> {
    Number(u64),
    Bytes(Bytes<'a>),
}

/// Shows each field of a message with its number.
fn each_field<'a>(
    mut message: Bytes<'a>,
    mut show: impl FnMut(u64, Field<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    while message.remaining() > 0 {
        let tag = varint(&mut message)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut message)?),
            1 => Field::Number(u64::from_le_bytes(message.array("64 bits")?)),
            2 => {
                let len = varint(&mut message)?;
                Field::Bytes(message.sub("message", len)?)
            }
            5 => Field::Number(u32::from_le_bytes(message.array("32 bits")?).into()),
            other => return Err(message.wrong("wire type", 1, other, "0, 1, 2 and 5 are known")),
        };
        show(tag >> 3, field)?;
    }
    Ok(())
}

/// Seven bits a byte, the lowest first; the eighth says that more follow.
fn varint(bytes: &mut Bytes<'_>) -> Result<u64, Error> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = bytes.u8("number")?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(bytes.wrong("number", 1, number, "longer than ten bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(address: u64, size: u32, name: &str) -> RecordedSymbol {
        RecordedSymbol { address, size, name: Name::from(name) }
    }

    fn section(feature: u32, files: &[Vec<u8>]) -> Features {
        let sized = |file: &Vec<u8>| [&(file.len() as u32).to_le_bytes()[..], file].concat();
        Features { verbatim: vec![(feature, files.iter().flat_map(sized).collect())], ..Features::default() }
    }

    fn fixed(path: &str, kind: u32, first: u64, symbols: &[RecordedSymbol], tail: &[u8]) -> Vec<u8> {
        let mut bytes = path.as_bytes().to_vec();
        bytes.push(0);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(first.to_le_bytes());
        bytes.extend((symbols.len() as u32).to_le_bytes());
        for symbol in symbols {
            bytes.extend(symbol.address.to_le_bytes());
            bytes.extend(symbol.size.to_le_bytes());
            bytes.extend(symbol.name.as_bytes());
            bytes.push(0);
        }
        bytes.extend(tail);
        bytes
    }

    #[test]
    fn files_of_fixed_fields() {
        let symbols = [symbol(0x15afc, 164, "png_process_data"), symbol(0x16000, 8, "")];
        let features = section(
            FILE,
            &[
                fixed("/lib/libpng.so", 2, 0xf000, &symbols, &0xe000_u64.to_le_bytes()),
                fixed("/lib/old.so", 2, 0x6000, &[], &[]),
                fixed("/framework/a.jar", 3, 0, &[], &[1, 0, 0, 0, 44, 0, 0, 0, 0, 0, 0, 0]),
            ],
        );
        let (files, error) = features.recorded_files(Endian::Little);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(files.len(), 3);
        assert_eq!(files[0].path, Name::from("/lib/libpng.so"));
        assert_eq!((files[0].kind, files[0].first_address), (FileKind::Elf, 0xf000));
        assert_eq!(files[0].first_offset, Some(0xe000));
        assert_eq!(files[0].symbols, symbols);
        assert_eq!((files[1].kind, files[1].first_offset), (FileKind::Elf, None));
        assert_eq!((files[2].kind, files[2].first_offset), (FileKind::Dex, None));
    }

    #[test]
    fn files_as_messages() {
        // path 1, type 2, min_vaddr 3, symbol 4 { vaddr 1, len 2, name 3 }, an unknown field 9, elf_file 6 { offset 1 }
        let symbol_message = b"\x08\x80\x20\x10\x08\x1a\x03foo";
        let mut message = b"\x0a\x02/a\x10\x02\x18\x80\x40\x22".to_vec();
        message.push(symbol_message.len() as u8);
        message.extend(symbol_message);
        message.extend(b"\x4d\x01\x02\x03\x04\x32\x03\x08\x80\x10");
        let (files, error) = section(FILE2, &[message.clone(), Vec::new()]).recorded_files(Endian::Little);
        assert!(error.is_none(), "{error:?}");
        let expected = RecordedFile {
            path: Name::from("/a"),
            kind: FileKind::Elf,
            first_address: 0x2000,
            first_offset: Some(0x800),
            symbols: vec![symbol(0x1000, 8, "foo")],
        };
        assert_eq!(files[0], expected);
        assert_eq!(files[1].kind, FileKind::Kernel);
        // A message that is cut at any byte gives an error with the field, or a shorter message. Those before it stay.
        for len in 0..message.len() {
            let (files, error) =
                section(FILE2, &[message.clone(), message[..len].to_vec()]).recorded_files(Endian::Little);
            assert_eq!(files[0], expected);
            assert_eq!(files.len() + usize::from(error.is_some()), 2, "{len}");
        }
    }

    #[test]
    fn counts_that_lie_end_in_an_error() {
        let mut file = fixed("/a", 2, 0, &[], &[]);
        let count_at = file.len() - 4;
        file[count_at..].copy_from_slice(&u32::MAX.to_le_bytes());
        let (files, error) = section(FILE, &[file]).recorded_files(Endian::Little);
        assert!(files.is_empty());
        assert!(matches!(error, Some(Error::Cut { field: "start_vaddr", .. })), "{error:?}");
        let (_, error) = section(FILE2, &[vec![0x0b]]).recorded_files(Endian::Little);
        assert!(matches!(error, Some(Error::Field { field: "wire type", value: 3, .. })), "{error:?}");
        let (_, error) = section(FILE2, &[vec![0xff; 12]]).recorded_files(Endian::Little);
        assert!(matches!(error, Some(Error::Field { field: "number", .. })), "{error:?}");
    }
}
