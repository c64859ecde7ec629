//! Small sound objects to begin with.

/// Where the code of [`object`] is, in the file and in memory, and how long it is.
pub const CODE: u64 = 0x1000;

/// A 64-bit object with one executable segment (offset and address [`CODE`]) and these sections.
pub fn object(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 56];
    bytes.resize(2 * CODE as usize, 0);
    let mut names = vec![0];
    let mut headers = vec![0; 64];
    let mut header = |name: usize, kind: u32, offset: usize, size: usize, link: u32| {
        headers.extend((name as u32).to_le_bytes());
        headers.extend(kind.to_le_bytes());
        headers.extend([0, 0, offset as u64, size as u64].map(u64::to_le_bytes).concat());
        headers.extend(link.to_le_bytes());
        headers.extend(0_u32.to_le_bytes());
        headers.extend([1, 24_u64].map(u64::to_le_bytes).concat());
    };
    for (index, (name, contents)) in sections.iter().enumerate() {
        let offset = bytes.len();
        bytes.extend_from_slice(contents);
        // SHT_SYMTAB, whose names are in the section behind it; SHT_STRTAB; SHT_PROGBITS.
        let kind = match *name {
            ".symtab" => 2,
            ".strtab" => 3,
            _ => 1,
        };
        header(names.len(), kind, offset, contents.len(), index as u32 + 2);
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    let names_at = bytes.len();
    bytes.extend_from_slice(&names);
    header(0, 3, names_at, names.len(), 0);
    let headers_at = bytes.len();
    bytes.extend_from_slice(&headers);
    // Elf64_Ehdr: ET_DYN, x86-64; one program header: PT_LOAD, R + X.
    let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec();
    head.extend([0, 64, headers_at as u64].map(u64::to_le_bytes).concat());
    head.extend(0_u32.to_le_bytes());
    let count = sections.len() as u16 + 2;
    head.extend([64, 56, 1, 64, count, count - 1].map(u16::to_le_bytes).concat());
    head.extend([1, 5_u32].map(u32::to_le_bytes).concat());
    head.extend([CODE; 6].map(u64::to_le_bytes).concat());
    bytes.splice(..head.len(), head);
    bytes
}

/// Abbreviations: 1 a unit, 2 a function, 3 an inlined call, each with a range and children; 2 has a name, 3 an origin
/// and the line of its call.
const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0, 0, //
    2, 0x2e, 1, 0x11, 0x01, 0x12, 0x07, 0x03, 0x08, 0, 0, //
    3, 0x1d, 1, 0x11, 0x01, 0x12, 0x07, 0x31, 0x13, 0x58, 0x0b, 0x59, 0x0b, 0, 0, //
    0,
];

/// A unit with a function and an inlined call in it (DWARF 4), and its line table.
fn debug_sections() -> [(&'static str, Vec<u8>); 3] {
    let range = |out: &mut Vec<u8>, abbreviation: u8, begin: u64, size: u64| {
        out.push(abbreviation);
        out.extend([begin, size].map(u64::to_le_bytes).concat());
    };
    let mut entries = Vec::new();
    range(&mut entries, 1, CODE, 0x800);
    entries.extend(0_u32.to_le_bytes());
    let function = 11 + entries.len() as u32;
    range(&mut entries, 2, CODE, 0x400);
    entries.extend(b"work\0");
    range(&mut entries, 3, CODE + 0x10, 0x20);
    entries.extend(function.to_le_bytes());
    entries.extend([1, 7, 0, 0, 0]);
    let mut info = (entries.len() as u32 + 7).to_le_bytes().to_vec();
    info.extend([4, 0, 0, 0, 0, 0, 8]);
    info.extend(entries);

    // Header of version 4 with one file; set address, advance, copy, special opcodes, end.
    let mut program = b"\x01\x01\xfb\x0e\x0d\0\x01\x01\x01\x01\0\0\0\x01\0\0\x01\0a.c\0\0\0\0\0".to_vec();
    let header = program.len() as u32;
    program.extend([0, 9, 2]);
    program.extend(CODE.to_le_bytes());
    program.extend([0x01, 0x4b, 0x4b, 0x02, 0x40, 0, 1, 1]);
    let mut lines = (program.len() as u32 + 6).to_le_bytes().to_vec();
    lines.extend([4, 0]);
    lines.extend(header.to_le_bytes());
    lines.extend(program);
    [(".debug_info", info), (".debug_abbrev", ABBREVIATIONS.to_vec()), (".debug_line", lines)]
}

/// Two symbols and their names.
fn symbols() -> [(&'static str, Vec<u8>); 2] {
    let mut table = vec![0; 24];
    for (name, start, size) in [(1_u32, CODE, 0x400_u64), (6, CODE + 0x400, 0x100)] {
        table.extend(name.to_le_bytes());
        table.extend([0x12, 0, 1, 0]);
        table.extend([start, size].map(u64::to_le_bytes).concat());
    }
    [(".symtab", table), (".strtab", b"\0work\0_ZN3foo3barEv\0".to_vec())]
}

/// A Go program with this table, and the runtime's words that say where it and the code are.
pub fn go_program(table: &[u8]) -> Vec<u8> {
    let mut module = [0_u64; 48];
    // text; gofunc, of Go 1.18 and of 1.20. The table's own address is 0.
    for index in [22, 38, 40] {
        module[index] = CODE;
    }
    object(&[(".gopclntab", table), (".data", &module.map(u64::to_le_bytes).concat())])
}

/// The first bytes of this program's own debug sections, where it has some: what a compiler writes.
fn of_this_program() -> Option<Vec<u8>> {
    let bytes = std::fs::read(std::env::current_exe().ok()?).ok()?;
    let object = elf::Object::parse(bytes.as_slice()).ok()?;
    let names =
        [".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_aranges", ".debug_ranges"];
    let parts: Vec<(&str, Vec<u8>)> = names
        .into_iter()
        .filter_map(|name| {
            let contents = object.contents(name).ok()??;
            Some((name, contents.get(..contents.len().min(1 << 14))?.to_vec()))
        })
        .collect();
    Some(built(&parts))
}

fn built(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
    object(&sections.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect::<Vec<_>>())
}

/// Objects with symbols, debug information, links and notes.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut all = symbols().to_vec();
    all.extend(debug_sections());
    all.push((".gnu_debuglink", b"a.debug\0\x78\x56\x34\x12".to_vec()));
    all.push((".gnu_debugaltlink", b"/x.dwz\0\x01\x02\x03\x04".to_vec()));
    all.push((".note.gnu.build-id", b"\x04\0\0\0\x04\0\0\0\x03\0\0\0GNU\0abcd".to_vec()));
    let mut seeds = vec![built(&all), built(&debug_sections())];
    seeds.extend(of_this_program());
    seeds
}
