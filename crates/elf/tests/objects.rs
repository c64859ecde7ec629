//! Real object files of this machine, and what remains of them when bytes change.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use model::FileOffset;
use prof_elf::{Object, SymbolSource, may_export};

fn this_program() -> Vec<u8> {
    std::fs::read(std::env::current_exe().unwrap()).unwrap()
}

/// Asks for everything that an object can answer.
fn exercise(bytes: &[u8]) {
    let Ok(object) = Object::parse(bytes) else { return };
    let _ = (object.build_id(), object.debug_link(), object.alt_link(), object.eh_frame_header());
    for section in object.sections() {
        if section.size < 1 << 16 {
            let _ = object.section_contents(section);
        }
        let _ = object.relocations(section).take(64).count();
    }
    let _ = may_export(&object, b"main");
    for source in [SymbolSource::Full, SymbolSource::Dynamic] {
        let _ = object.symbols(source).take(4096).map(|symbol| symbol.name().len()).sum::<usize>();
    }
    for offset in [0, 0x1000, bytes.len() as u64, u64::MAX] {
        if let Some(address) = object.svma_of(FileOffset(offset)) {
            let _ = (object.file_offset_of(address), object.bytes_at(address).map(<[u8]>::len));
        }
    }
}

#[test]
fn code_of_this_program_is_found_by_its_file_offset() {
    let bytes = this_program();
    let object = Object::parse(bytes.as_slice()).unwrap();
    let text = object.section(".text").unwrap();
    assert_eq!(object.svma_of(text.file_offset), Some(text.address));
    assert_eq!(object.file_offset_of(text.address), Some(text.file_offset));
    let named = object.symbols(SymbolSource::Full).find(|symbol| symbol.name() == b"main").unwrap();
    assert!(text.covers(named.address) && named.size > 0);
    assert!(object.contents(".eh_frame").unwrap().is_some());
    assert!(object.contents(".no_such_section").unwrap().is_none());
}

/// The C library of this machine, which has functions to offer.
fn c_library() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libc"))?;
    std::fs::read(path).ok()
}

#[test]
fn dynamic_symbols_need_no_section_headers() {
    let Some(mut bytes) = c_library() else {
        println!("skipped: this program has no C library of its own file");
        return;
    };
    let symbols = |bytes: &[u8]| {
        let object = Object::parse(bytes).unwrap();
        let symbols = object.symbols(SymbolSource::Dynamic);
        symbols.map(|symbol| (symbol.name().to_vec(), symbol.address, symbol.size)).collect::<Vec<_>>()
    };
    let expected = symbols(&bytes);
    assert!(expected.len() > 1000);
    // e_shoff, e_shnum, e_shstrndx.
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
    assert!(Object::parse(bytes.as_slice()).unwrap().sections().is_empty());
    assert_eq!(symbols(&bytes), expected);
}

#[test]
fn names_that_an_object_exports_are_told_from_others() {
    let Some(bytes) = c_library() else {
        println!("skipped: this program has no C library of its own file");
        return;
    };
    let object = Object::parse(bytes.as_slice()).unwrap();
    if object.section(".gnu.hash").is_none() {
        println!("skipped: the C library has no .gnu.hash");
        return;
    }
    let exported = object.symbols(SymbolSource::Dynamic).filter(|symbol| !symbol.is_undefined());
    assert!(exported.skip(1).all(|symbol| may_export(&object, symbol.name())));
    // A filter says of a few others that they may be exported.
    let others = (0..1000).filter(|number| may_export(&object, format!("no_such_name_{number}").as_bytes()));
    assert!(others.count() < 300);
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_a_smaller_object() {
    let bytes = this_program();
    for length in (0..4096).chain((4096..bytes.len()).step_by(bytes.len() / 200)) {
        exercise(&bytes[..length]);
    }
}

#[test]
fn changed_bytes_never_panic() {
    // A splitmix sequence: the same on every run, so that a failure can be repeated.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let original = this_program();
    let section_headers = u64::from_le_bytes(original[0x28..0x30].try_into().unwrap()) as usize;
    let mut bytes = original.clone();
    for _ in 0..600 {
        let mut touched = Vec::new();
        for _ in 0..1 + next() % 8 {
            // The headers decide nearly everything, so most changes go there.
            let at = match next() % 4 {
                0 | 1 => next() as usize % 0x400,
                2 => section_headers + next() as usize % (original.len() - section_headers),
                _ => next() as usize % original.len(),
            };
            bytes[at] = if next() % 3 == 0 { 0xff } else { next() as u8 };
            touched.push(at);
        }
        exercise(&bytes);
        for at in touched {
            bytes[at] = original[at];
        }
    }
}
