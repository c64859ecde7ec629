//! An object file: its headers, symbols and sections, and names for its code.

use elf::{Object, SymbolSource};
use model::{FileOffset, Resolution};
use symbolizer::{LookupAddress, ObjectFiles, ObjectSymbolizer, Options, minidebug};

use crate::objects::{self, CODE};

/// Asks for all that the headers tell.
pub(super) fn run_elf(bytes: &[u8]) {
    let Ok(object) = Object::parse(bytes) else { return };
    let _ = (object.build_id(), object.debug_link(), object.alt_link(), object.eh_frame_header());
    for section in object.sections() {
        let _ = object.section_contents(section).map(|contents| contents.len());
        let _ = object.relocations(section).count();
    }
    for source in [SymbolSource::Full, SymbolSource::Dynamic] {
        let _ = object.symbols(source).map(|symbol| symbol.name().len()).fold(0, usize::wrapping_add);
    }
    for offset in [0, CODE, bytes.len() as u64, u64::MAX] {
        if let Some(address) = object.svma_of(FileOffset(offset)) {
            let _ = (object.file_offset_of(address), object.bytes_at(address).map(<[u8]>::len));
        }
    }
}

/// Asks for names all over the code, with everything that can be told.
pub(super) fn run_dwarf(bytes: &[u8]) {
    let Ok(object) = Object::parse(bytes) else { return };
    let files = ObjectFiles {
        object: &object,
        debug: None,
        minidebug: None,
        supplementary: Some(&object),
        package: Some(&object),
    };
    resolve(&object, &files);
}

/// What `.gnu_debugdata` unpacks to, as symbols of the object.
pub(super) fn run_minidebug(bytes: &[u8]) {
    let wrapped = objects::object(&[(".gnu_debugdata", bytes)]);
    let Ok(object) = Object::parse(wrapped.as_slice()) else { return };
    let Ok(Some(unpacked)) = minidebug(&object) else { return };
    let Ok(inner) = Object::parse(unpacked.as_slice()) else { return };
    let files =
        ObjectFiles { object: &object, debug: None, minidebug: None, supplementary: None, package: None };
    resolve(&object, &ObjectFiles { minidebug: Some(&inner), ..files });
}

/// A Go program's table of itself.
pub(super) fn run_gopclntab(bytes: &[u8]) {
    let wrapped = objects::go_program(bytes);
    let Ok(object) = Object::parse(wrapped.as_slice()) else { return };
    let files =
        ObjectFiles { object: &object, debug: None, minidebug: None, supplementary: None, package: None };
    resolve(&object, &files);
}

/// The sections that name other files.
pub(super) fn run_debug_links(bytes: &[u8]) {
    let wrapped = objects::object(&[(".gnu_debuglink", bytes), (".gnu_debugaltlink", bytes)]);
    let Ok(object) = Object::parse(wrapped.as_slice()) else { return };
    let _ = (object.debug_link(), object.alt_link(), elf::debug_link_crc(0, bytes));
}

fn resolve<'a>(object: &'a Object<&'a [u8]>, files: &ObjectFiles<'a, &'a [u8]>) {
    let options = Options { locations: true, for_compilers: true, ..Options::default() };
    let symbolizer = ObjectSymbolizer::new(files, options);
    let mut places: Vec<LookupAddress> = (0..64).map(|step| place(CODE + 0x11 * step)).collect();
    // Where the segments of other seeds lie.
    places.extend(
        object.segments().iter().take(16).map(|segment| place(segment.file_offset.0.saturating_add(0x40))),
    );
    let mut plan = symbolizer.plan(&places);
    let mut walks = Vec::new();
    loop {
        let split = |_: &_| Object::parse(object.data()).ok();
        walks.extend((0..plan.tasks()).map(|task| symbolizer.walk(&plan, task, &split)));
        if !plan.next_pass(&walks) {
            break;
        }
    }
    let resolutions: Vec<Resolution> = symbolizer.finish(&plan, walks);
    assert_eq!(resolutions.len(), places.len(), "one answer for each place");
}

fn place(offset: u64) -> LookupAddress {
    LookupAddress { address: FileOffset(offset.saturating_add(1)), lookup: FileOffset(offset) }
}

/// [`objects::object`] with two symbols, packed: `xz --check=crc32`.
const PACKED: &[u8] = include_bytes!("minidebug.xz");

pub(super) fn minidebug_seeds() -> Vec<Vec<u8>> {
    vec![PACKED.to_vec()]
}

pub(super) fn debug_link_seeds() -> Vec<Vec<u8>> {
    let long = [b"usr/lib/debug/".repeat(6).as_slice(), b"a.debug\0\0\0\x78\x56\x34\x12"].concat();
    vec![long]
}

/// A table of Go 1.18 and one of 1.20, each with two functions, of which the first has an inlined call.
pub(super) fn gopclntab_seeds() -> Vec<Vec<u8>> {
    [(0xf0_u8, 9_u32), (0xf1, 10)].into_iter().map(|(magic, fields)| gopclntab(magic, fields)).collect()
}

fn gopclntab(magic: u8, fields: u32) -> Vec<u8> {
    let names = b"main.work\0main.main\0\0\0\0\0";
    let files = b"a.go\0\0\0\0";
    // By address: value 1 (zigzag 4, from -1) for 0x20, then 2; end.
    let values = [4_u8, 0x20, 2, 0x20, 0, 0, 0, 0];
    let header = 8 + 8 * 8;
    let names_at = header;
    let units_at = names_at + names.len();
    let files_at = units_at + 12;
    let values_at = files_at + files.len();
    let list_at = values_at + values.len();
    let mut bytes = vec![magic, 0xff, 0xff, 0xff, 0, 0, 1, 8];
    for word in [2, 1, CODE as usize, names_at, units_at, files_at, values_at, list_at] {
        bytes.extend((word as u64).to_le_bytes());
    }
    bytes.extend(names);
    bytes.extend([0_u32; 3].map(u32::to_le_bytes).concat());
    bytes.extend(files);
    bytes.extend(values);
    let size = 4 + fields * 4 + 3 * 4 + 4 * 4;
    bytes.extend([0_u32, 20, 0x40, 20 + size, 0x80].map(u32::to_le_bytes).concat());
    for name in [0_u32, 10] {
        let start = name / 10 * 0x40;
        // entry, name, args, deferreturn, pcsp, pcfile, pcln, npcdata, cuOffset, (startLine,) funcID … nfuncdata.
        bytes.extend([start, name, 0, 0, 0, 0, 0, 3, 0].map(u32::to_le_bytes).concat());
        bytes.extend(std::iter::repeat_n(0_u8, (fields as usize - 9) * 4));
        bytes.extend([0, 0, 0, 4]);
        bytes.extend([0_u32, 0, 1, 0, 0, 0, 0].map(u32::to_le_bytes).concat());
    }
    bytes
}
