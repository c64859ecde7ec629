use super::*;
use model::{ObjectIdentity, SpaceId};
use proptest::prelude::*;

fn entry(offset: u64) -> StackEntry {
    StackEntry { offset, space: SpaceId(7), kind: AddressKind::ReturnAddress, in_kernel: false }
}

fn spaces() -> Vec<Space> {
    let build_id = BuildId::from_hex("0102030405060708090a0b0c0d0e0f1011121314");
    let file = Some(FileIdentity { major: 8, minor: 1, inode: 1 << 40, generation: 3 });
    vec![
        Space::Object(ObjectIdentity { path: Name::from("/bin/a"), build_id, file: None }),
        Space::Object(ObjectIdentity { path: Name::from("/bin/a"), build_id: None, file }),
        Space::Vdso { build_id },
        Space::Kernel {
            build_id,
            text: Some(KernelText { symbol: TextSymbol::Text, address: u64::MAX - 1 }),
        },
        Space::Kernel { build_id, text: Some(KernelText { symbol: TextSymbol::Stext, address: 1 }) },
        Space::Kernel { build_id: None, text: None },
        Space::KernelModule { name: Name::from("[ext4]"), build_id: None, start: 5 },
        Space::KernelSymbol { name: Name::from("bpf") },
        Space::Jit { pid: Pid(-1), generation: 2, mapping: Name::from("//anon") },
        Space::JitDump { pid: Pid(3), generation: 2, path: Name::from("/tmp/jit-3.dump") },
        Space::Unmapped { pid: Pid(3), generation: 0 },
        Space::Python { file: Name::from("/app/a.py"), function: Name::from("A.run") },
    ]
}

fn found(name: &str) -> Resolution {
    let location =
        SourceLocation { file: Arc::from("/src/a.rs"), line: 7, column: 0, discriminator: 0, start_line: 5 };
    let inner = Frame { function: Arc::from("_ZN1a1bEv"), location: Some(location), inlined: true };
    let outer = Frame { function: Arc::from(name), location: None, inlined: false };
    Resolution::Resolved(Symbolized { frames: [inner, outer].into(), symbol_offset: Some(0) })
}

#[test]
fn names_of_before_start_lines_are_read() {
    let space = [5, 1, b'k', 1];
    // Offset, kind of address, offset in the symbol, number of frames; function, inlined, file, line and column.
    let address = [9, 1, 0, 1, 0, 0, 2, 7, 0];
    let bytes = [&[2, 2, 1, b'f', 3, b'a', b'.', b'c', 1][..], &space, &address].concat();
    let (names, error) = ArchivedNames::parse(&bytes, NameStyle::Linkage, HeldBytes::new(1 << 20));
    assert_eq!(error, None);
    let kernel_symbol = Space::KernelSymbol { name: Name::from("k") };
    let Some(Resolution::Resolved(found)) = names.resolve(&kernel_symbol, &entry(9)) else { panic!() };
    let location = found.frames[0].location.as_ref().unwrap();
    assert_eq!((&*location.file, location.line, location.start_line), ("a.c", 7, 0));
}

#[test]
fn what_was_written_is_read() {
    let spaces = spaces();
    let answers: Vec<_> = (0..20_u64).map(|number| found(&format!("f{number}"))).collect();
    let entries: Vec<_> = (0..20).map(|number| entry(number * 0x1_0000_0001)).collect();
    let all = spaces
        .iter()
        .flat_map(|space| entries.iter().zip(&answers).map(move |(entry, answer)| (space, entry, answer)));
    let bytes = encode(all.clone());
    let (names, error) = ArchivedNames::parse(&bytes, NameStyle::Linkage, HeldBytes::new(1 << 20));
    assert_eq!(error, None);
    for (space, entry, answer) in all {
        assert_eq!(names.resolve(space, entry), Some(answer.clone()), "{space:?}");
    }
    assert_eq!(names.contents().len(), spaces.len());
    let (demangled, _) = ArchivedNames::parse(&bytes, NameStyle::Demangled, HeldBytes::new(1 << 20));
    let Some(Resolution::Resolved(answer)) = demangled.resolve(&spaces[0], &entries[3]) else { panic!() };
    assert_eq!((&*answer.frames[0].function, &*answer.frames[1].function), ("a::b", "f3"));
    let other_kind = StackEntry { kind: AddressKind::InstructionPointer, ..entries[3] };
    assert_eq!(names.resolve(&spaces[0], &other_kind), None);
}

#[test]
fn functions_without_a_name_are_told_apart_where_nothing_better_is_known() {
    let (space, entries) = (&spaces()[0], [entry(1), entry(2), entry(3)]);
    let nameless = Resolution::Delimited { reason: Reason::Stripped, start: Svma(0x1a40), offset: 7 };
    let none = Resolution::Unresolved(Reason::NoSymbols);
    let bytes = encode([(space, &entries[0], &nameless), (space, &entries[2], &none)]);
    let (names, error) = ArchivedNames::parse(&bytes, NameStyle::Linkage, HeldBytes::new(1 << 20));
    assert_eq!((names.resolve(space, &entries[0]), error), (None, None));
    let mut here = [none.clone(), none.clone(), none.clone()];
    names.complete(space, &entries, &mut here);
    assert_eq!(here, [nameless, none.clone(), none]);
    let mut here = [found("f")];
    names.complete(space, &entries, &mut here);
    assert_eq!(here, [found("f")]);
}

#[test]
fn what_is_cut_off_says_where_and_what_came_before_is_kept() {
    let (space, answer, entries) = (&spaces()[0], found("f"), [entry(1), entry(2)]);
    let bytes = encode(entries.iter().map(|entry| (space, entry, &answer)));
    let (names, error) =
        ArchivedNames::parse(&bytes[..bytes.len() - 1], NameStyle::Linkage, HeldBytes::new(1 << 20));
    assert!(names.resolve(space, &entries[0]).is_some() && names.resolve(space, &entries[1]).is_none());
    assert_eq!(error.unwrap().offset, bytes.len() - 1);
}

/// A section of `count` strings, of which each address of its own space has one, and what it takes to hold it.
fn wide(count: u64, spaces: bool) -> Vec<u8> {
    let mut bytes = vec![2];
    write_number(&mut bytes, count);
    bytes.extend(std::iter::repeat_n(0, count as usize));
    let space = |bytes: &mut Vec<u8>, number: u64| {
        write_space(bytes, &Space::Unmapped { pid: Pid(number as i32), generation: 0 });
    };
    write_number(&mut bytes, if spaces { count } else { 1 });
    if !spaces {
        space(&mut bytes, 0);
        write_number(&mut bytes, count);
    }
    for number in 0..count {
        if spaces {
            space(&mut bytes, number);
            write_number(&mut bytes, 1);
        }
        bytes.extend([1, 0, 0, 1]);
        write_number(&mut bytes, number);
        bytes.extend([0, 0]);
    }
    bytes
}

#[test]
fn what_is_held_is_counted_and_not_what_is_packed() {
    for spaces in [false, true] {
        let bytes = wide(1000, spaces);
        let parse = |most| ArchivedNames::parse(&bytes, NameStyle::Linkage, HeldBytes::new(most));
        let (names, error) = parse(2 << 20);
        assert_eq!((names.spaces.values().map(HashMap::len).sum::<usize>(), error), (1000, None));
        // A table of strings, entries, frames and names: 48 + 2 × 56 + 48 bytes, and three allocations.
        let (names, error) = parse(200_000);
        assert!((100..1000).contains(&names.spaces.values().map(HashMap::len).sum::<usize>()));
        assert_eq!(error.unwrap().wrong, "more than is read of a section of its size");
        assert_eq!(parse(40_000).1.unwrap().field, "the number of strings");
    }
}

#[test]
fn names_that_grow_when_they_are_demangled_count_as_long_as_they_are() {
    let nested = (0..9).fold("i".to_owned(), |inner, _| format!("1pI{inner}{inner}E"));
    let long = format!("_Z1fI{nested}Evv");
    let shown = display_name(long.as_bytes(), NameStyle::Demangled).len();
    assert!(shown > 1000, "{shown}");
    let (space, answer) = (&spaces()[0], found(&long));
    let bytes = encode([(space, &entry(1), &answer)]);
    let parse = |most| ArchivedNames::parse(&bytes, NameStyle::Demangled, HeldBytes::new(most)).1;
    assert_eq!((parse(4000 + shown as u64), parse(shown as u64).is_some()), (None, true));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        changed in prop::collection::vec((0_usize..400, any::<u8>()), 0..4),
    ) {
        let _ = ArchivedNames::parse(&bytes, NameStyle::Demangled, HeldBytes::new(1 << 20));
        let (space, answer, entries) = (&spaces()[1], found("f"), [entry(1), entry(2)]);
        bytes = encode(entries.iter().map(|entry| (space, entry, &answer)));
        let length = bytes.len();
        for (at, byte) in changed {
            bytes[at % length] = byte;
        }
        let _ = ArchivedNames::parse(&bytes, NameStyle::Demangled, HeldBytes::new(1 << 20));
    }
}
