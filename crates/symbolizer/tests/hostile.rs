//! Objects whose bytes are wrong: an answer or none, never a panic, and never without end.

use elf::Object;
use model::{FileOffset, Resolution};
use prof_symbolizer::{LookupAddress, ObjectFiles, ObjectSymbolizer, Options, minidebug};

fn resolve(bytes: &[u8], offsets: &[u64]) -> Vec<Resolution> {
    let Ok(object) = Object::parse(bytes) else { return Vec::new() };
    let _ = minidebug(&object);
    let files = ObjectFiles {
        object: &object,
        debug: None,
        minidebug: None,
        supplementary: Some(&object),
        package: None,
    };
    let options = Options { locations: true, for_compilers: true, ..Options::default() };
    let symbolizer = ObjectSymbolizer::new(&files, options);
    let place = |&offset: &u64| LookupAddress { address: FileOffset(offset + 1), lookup: FileOffset(offset) };
    let places: Vec<LookupAddress> = offsets.iter().map(place).collect();
    let mut plan = symbolizer.plan(&places);
    let mut walks = Vec::new();
    loop {
        walks.extend((0..plan.tasks()).map(|task| symbolizer.walk(&plan, task, &|_| None)));
        if !plan.next_pass(&walks) {
            break;
        }
    }
    let resolutions = symbolizer.finish(&plan, walks);
    assert_eq!(resolutions.len(), offsets.len());
    resolutions
}

/// A 64-bit object with one executable segment (offset 0x1000, address 0x1000) and these sections.
fn object(sections: &[(&str, &[u8])]) -> Vec<u8> {
    const TEXT: u64 = 0x1000;
    let mut bytes = vec![0; 2 * TEXT as usize];
    bytes[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let mut names = vec![0];
    let mut headers = vec![0; 64];
    let mut header = |name_at: usize, kind: u32, offset: usize, size: usize| {
        headers.extend_from_slice(&(name_at as u32).to_le_bytes());
        headers.extend_from_slice(&kind.to_le_bytes());
        for word in [0, 0, offset as u64, size as u64, 0, 1, 0] {
            headers.extend_from_slice(&word.to_le_bytes());
        }
    };
    for (name, contents) in sections {
        let offset = bytes.len();
        bytes.extend_from_slice(contents);
        header(names.len(), 1, offset, contents.len());
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    let names_at = bytes.len();
    bytes.extend_from_slice(&names);
    header(0, 3, names_at, names.len());
    let headers_at = bytes.len();
    bytes.extend_from_slice(&headers);
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(16, &3_u16.to_le_bytes());
    put(18, &62_u16.to_le_bytes());
    put(20, &1_u32.to_le_bytes());
    put(32, &64_u64.to_le_bytes());
    put(40, &(headers_at as u64).to_le_bytes());
    put(52, &64_u16.to_le_bytes());
    put(54, &56_u16.to_le_bytes());
    put(56, &1_u16.to_le_bytes());
    put(58, &64_u16.to_le_bytes());
    put(60, &(sections.len() as u16 + 2).to_le_bytes());
    put(62, &(sections.len() as u16 + 1).to_le_bytes());
    put(64, &1_u32.to_le_bytes());
    put(68, &5_u32.to_le_bytes());
    for (index, word) in [TEXT, TEXT, TEXT, TEXT, TEXT, TEXT].iter().enumerate() {
        put(72 + 8 * index, &word.to_le_bytes());
    }
    bytes
}

/// Abbreviations: 1 a unit, 2 a function, 3 an inlined call, each with children; ranges, and for 2 and 3 an origin. 4 is a
/// function that says where the entry behind it is, 5 one with a name and no children.
const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0, // low_pc address, high_pc data8
    2, 0x2e, 1, 0x11, 0x01, 0x12, 0x07, 0x31, 0x13, 0, 0, // and abstract_origin ref4
    3, 0x1d, 1, 0x11, 0x01, 0x12, 0x07, 0x31, 0x13, 0, 0, //
    4, 0x2e, 1, 0x01, 0x13, 0x11, 0x01, 0x12, 0x07, 0, 0, // sibling ref4
    5, 0x2e, 0, 0x11, 0x01, 0x12, 0x07, 0x03, 0x08, 0, 0, // name string
    0,
];

fn unit(entries: &[u8]) -> Vec<u8> {
    let mut unit = vec![5, 0, 1, 8];
    unit.extend_from_slice(&0_u32.to_le_bytes());
    unit.extend_from_slice(entries);
    let mut bytes = (unit.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&unit);
    bytes
}

fn entry(abbreviation: u8, origin: Option<u32>) -> Vec<u8> {
    let mut bytes = vec![abbreviation];
    bytes.extend_from_slice(&0x1000_u64.to_le_bytes());
    bytes.extend_from_slice(&0x800_u64.to_le_bytes());
    bytes.extend(origin.map(u32::to_le_bytes).into_iter().flatten());
    bytes
}

#[test]
fn calls_nested_without_end_are_cut_short() {
    let mut entries = entry(1, None);
    entries.extend(entry(2, Some(12)));
    for _ in 0..200_000 {
        // Each call is its own origin.
        let here = 12 + entries.len() as u32;
        entries.extend(entry(3, Some(here)));
    }
    let bytes = object(&[(".debug_info", &unit(&entries)), (".debug_abbrev", ABBREVIATIONS)]);
    let resolutions = resolve(&bytes, &[0x1000, 0x1400, 0x1900]);
    assert!(resolutions.iter().all(|resolution| matches!(resolution, Resolution::Unresolved(_))));
}

#[test]
fn origins_in_a_circle_lead_nowhere() {
    let mut entries = entry(1, None);
    let first = 12 + entries.len() as u32;
    let second = first + entry(2, Some(0)).len() as u32;
    entries.extend(entry(2, Some(second)));
    entries.extend(entry(2, Some(first)));
    entries.extend([0, 0, 0]);
    let bytes = object(&[(".debug_info", &unit(&entries)), (".debug_abbrev", ABBREVIATIONS)]);
    assert!(matches!(resolve(&bytes, &[0x1004])[0], Resolution::Unresolved(_)));
}

#[test]
fn an_entry_that_lies_about_the_one_behind_it_hides_nothing() {
    let found = |sibling: u32| {
        let mut entries = entry(1, None);
        entries.push(4);
        entries.extend(sibling.to_le_bytes());
        entries.extend([0x1f00_u64, 0x10].map(u64::to_le_bytes).concat());
        entries.push(0);
        let behind = 12 + entries.len() as u32;
        entries.extend(entry(5, None));
        entries.extend(b"work\0\0");
        let bytes = object(&[(".debug_info", &unit(&entries)), (".debug_abbrev", ABBREVIATIONS)]);
        let name = match &resolve(&bytes, &[0x1004])[0] {
            Resolution::Resolved(known) => known.frames[0].function.to_string(),
            other => panic!("{sibling}: {:?}", other.reason()),
        };
        (name, behind)
    };
    let (_, right) = found(0);
    // Nowhere, the unit, itself, in its middle, the right one, behind the wanted one, its name, far away.
    for sibling in [0, 12, 29, 40, right, right + 22, right + 18, right + 23, 1 << 20, u32::MAX] {
        assert_eq!(found(sibling).0, "work", "{sibling}");
    }
}

#[test]
fn changed_bytes_of_a_real_program_never_panic() {
    let original = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    // Only its front part, so that a run is short: debug information is made to lie there by the changed headers.
    let section = |name: &str| {
        let object = Object::parse(original.as_slice()).unwrap();
        let section = object.section(name).unwrap();
        let bytes = object.section_bytes(section).unwrap();
        bytes[..bytes.len().min(1 << 15)].to_vec()
    };
    let parts =
        [".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_ranges", ".debug_aranges"];
    let parts = parts.map(|name| (name, if name == ".debug_ranges" { Vec::new() } else { section(name) }));
    let sections: Vec<(&str, &[u8])> = parts.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    let mut bytes = object(&sections);
    let pristine = bytes.clone();
    let mut state = 1_u64;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    for _ in 0..120 {
        for _ in 0..1 + next(6) {
            let at = 0x2000 + next(pristine.len() - 0x2000);
            bytes[at] = if next(2) == 0 { 0xff } else { next(256) as u8 };
        }
        resolve(&bytes, &[0x1000, 0x1123, 0x1fff]);
        bytes.copy_from_slice(&pristine);
    }
}
