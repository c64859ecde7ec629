//! The functions that an object's symbol tables name, and which of them an address belongs to.

use std::cmp::Ordering;

use elf::{Machine, Symbol, SymbolKind, SymbolSource};
use model::Svma;
use rustc_hash::FxHashMap;

use crate::gopclntab::GoFunction;
use crate::names::{NameStyle, display_name};
use crate::object::ObjectFiles;
use crate::plt::{self, PltEntry, PltTarget};
use crate::strings::{Names, Strings};

/// A function's symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) start: u64,
    /// One behind its last byte.
    pub(crate) end: u64,
    pub(crate) name: FunctionName,
    /// True if the table stated the size; else the end is where the next symbol starts.
    pub(crate) sized: bool,
    typed: bool,
    weak: bool,
    global: bool,
    /// True if it chooses the function that is called by this name (`STT_GNU_IFUNC`).
    resolver: bool,
}

/// The place where the name of a function is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FunctionName {
    pub(crate) strings: Strings,
    /// The offset of its first byte in them.
    pub(crate) offset: u32,
    /// The stub that jumps to the function with this name in another object; shown as `name@plt`.
    pub(crate) is_plt: bool,
}

/// The number of a function in its [`SymbolTable`].
pub(crate) type FunctionId = u32;

/// All functions, sorted by address. Holds nothing of the files: names are read in [`Names`] when they are asked for.
#[derive(Default)]
pub(crate) struct SymbolTable {
    functions: Vec<Function>,
    /// True if there were more than [`MAX_SYMBOLS`].
    is_cut: bool,
    /// For each function the greatest end up to and including it: tells when to stop looking for one that encloses.
    greatest_end: Vec<u64>,
}

/// Functions that are taken of an object, in the order of its files: chromium has 1.5 million.
pub(crate) const MAX_SYMBOLS: usize = 1 << 22;

/// Symbols that overlap an address are looked at back to this many before it; more only a hostile table has.
const MAX_BACKWARD: usize = 4096;

impl SymbolTable {
    /// Takes the symbol tables of the files that describe an object, its linkage stubs, and what a Go program knows
    /// itself.
    pub(crate) fn new<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>, go: &[GoFunction]) -> Self {
        let mut functions = collect(files, false);
        let stubs = stubs(files, &functions);
        functions.extend(stubs);
        functions.extend(go.iter().map(|function| Function {
            start: function.start,
            end: function.end,
            name: FunctionName { strings: Strings::Go, offset: function.name, is_plt: false },
            sized: true,
            typed: true,
            weak: false,
            global: true,
            resolver: false,
        }));
        Self::sorted(functions)
    }

    /// Takes variables as well as functions.
    pub(crate) fn with_data<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>) -> Self {
        Self::sorted(collect(files, true))
    }

    /// The bytes of memory that it has besides its own.
    pub(crate) fn memory(&self) -> usize {
        self.functions.capacity() * size_of::<Function>() + self.greatest_end.capacity() * size_of::<u64>()
    }

    fn sorted(mut functions: Vec<Function>) -> Self {
        let is_cut = functions.len() > MAX_SYMBOLS;
        functions.truncate(MAX_SYMBOLS);
        // Stable: among equals, the one that the file has first stays first.
        functions.sort_by_key(|function| function.start);
        end_unsized_at_next(&mut functions);
        let mut greatest = 0;
        let greatest_end = functions.iter().map(|function| {
            greatest = function.end.max(greatest);
            greatest
        });
        let greatest_end = greatest_end.collect();
        Self { functions, greatest_end, is_cut }
    }

    /// Returns true if some were left out, as there were too many.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    pub(crate) fn get(&self, id: FunctionId) -> Option<&Function> {
        self.functions.get(id as usize)
    }

    /// The function that an address belongs to: the one that starts last at or before it and covers it. A label
    /// without a size inside a function that has one does not count, and of several names for the same place perf's
    /// choice is taken.
    pub(crate) fn find(&self, address: Svma, names: &Names<'_>) -> Option<FunctionId> {
        self.covering(address.0, self.starting_up_to(address.0), names)
    }

    /// The number of functions that start at or before an address.
    fn starting_up_to(&self, address: u64) -> usize {
        self.functions.partition_point(|function| function.start <= address)
    }

    fn covering(&self, address: u64, after: usize, names: &Names<'_>) -> Option<FunctionId> {
        let mut label: Option<(usize, &Function)> = None;
        let mut best: Option<(usize, &Function)> = None;
        for index in (0..after).rev().take(MAX_BACKWARD) {
            let function = self.functions.get(index)?;
            if best.is_some_and(|(_, best)| best.start != function.start) {
                break;
            }
            if self.greatest_end.get(index).is_none_or(|&end| end <= address) {
                break;
            }
            if function.end <= address || names.of(function.name).is_empty() {
                continue;
            }
            let known = if function.sized { &mut best } else { &mut label };
            // `function` comes before the known one in the file: it is the one that wins a tie.
            if known.is_none_or(|(_, known)| is_better(function, known, names)) {
                *known = Some((index, function));
            }
        }
        // More symbols than 2^32 do not fit into a table.
        best.or(label).map(|(index, _)| index as FunctionId)
    }
}

/// Looks up addresses that come in order: neighbours mostly belong to the same function.
pub(crate) struct Neighbours<'t, 'a> {
    table: &'t SymbolTable,
    names: &'t Names<'a>,
    /// The answer for addresses from the first number to below the second.
    last: (u64, u64, FunctionId),
}

impl<'t, 'a> Neighbours<'t, 'a> {
    pub(crate) fn new(table: &'t SymbolTable, names: &'t Names<'a>) -> Self {
        Self { table, names, last: (0, 0, 0) }
    }

    /// Finds a function as [`SymbolTable::find`] does.
    pub(crate) fn find(&mut self, address: u64) -> Option<FunctionId> {
        let (from, to, id) = self.last;
        if from <= address && address < to {
            return Some(id);
        }
        let after = self.table.starting_up_to(address);
        let id = self.table.covering(address, after, self.names)?;
        // Up to where the next function starts no other one can cover, and this one stays the best as long as it does.
        let next = self.table.functions.get(after).map_or(u64::MAX, |next| next.start);
        let end = self.table.get(id).map_or(0, |function| function.end);
        self.last = (address, end.min(next), id);
        Some(id)
    }
}

/// A symbol without a size ends where the next one starts, or its section ends.
fn end_unsized_at_next(functions: &mut [Function]) {
    let mut next_start = u64::MAX;
    let mut this_start = u64::MAX;
    for function in functions.iter_mut().rev() {
        if function.start != this_start {
            next_start = this_start;
            this_start = function.start;
        }
        if !function.sized {
            // Its section's end was put here.
            function.end = function.end.min(next_start);
        }
    }
}

/// perf's order of preference between two symbols at one address (tools/perf/util/symbol.c, `choose_best_symbol`):
/// typed, not weak, global, fewer underscores in front, the longer name, the first.
fn is_better(first: &Function, second: &Function, names: &Names<'_>) -> bool {
    let rank = |function: &Function| (function.sized, function.typed, !function.weak, function.global);
    match rank(first).cmp(&rank(second)) {
        Ordering::Greater => return true,
        Ordering::Less => return false,
        Ordering::Equal => {}
    }
    let (first_name, second_name) = (names.of(first.name), names.of(second.name));
    if first_name == second_name {
        return true;
    }
    let shown = |name| display_name(name, NameStyle::Demangled);
    let (first_name, second_name) = (shown(first_name), shown(second_name));
    let underscores = |name: &str| name.bytes().take_while(|&byte| byte == b'_').count();
    match underscores(&first_name).cmp(&underscores(&second_name)) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => first_name.len() >= second_name.len(),
    }
}

/// The functions of all symbol tables.
fn collect<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>, with_data: bool) -> Vec<Function> {
    let mut functions = Vec::new();
    let full = [
        (Some(files.object), Strings::Object),
        (files.debug, Strings::Debug),
        (files.minidebug, Strings::Minidebug),
    ];
    let full = full.into_iter().filter_map(|(file, strings)| Some((file?, SymbolSource::Full, strings)));
    for (file, source, strings) in full.chain([(files.object, SymbolSource::Dynamic, Strings::Dynamic)]) {
        let bias = files.bias_of(file);
        let (machine, sections) = (file.machine(), file.sections());
        // One more, by which it is seen that there are.
        let room = (MAX_SYMBOLS + 1).saturating_sub(functions.len());
        let found = file.symbols(source).filter_map(|symbol| {
            let function = function(&symbol, strings, machine, sections, with_data)?;
            let (start, end) = (function.start.wrapping_add(bias), function.end.wrapping_add(bias));
            Some(Function { start, end, ..function })
        });
        functions.extend(found.take(room));
    }
    functions
}

/// The linkage stubs of an object with these functions.
fn stubs<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>, functions: &[Function]) -> Vec<Function> {
    let entries = plt::entries(files.object);
    let names = Names::new(files);
    // The indirect functions that stubs are for, by the address of their resolvers.
    let mut resolvers: FxHashMap<u64, Option<&Function>> = entries
        .iter()
        .filter_map(|entry| match entry.target {
            PltTarget::Resolved(address) => Some((address, None)),
            PltTarget::Named(_) => None,
        })
        .collect();
    if !resolvers.is_empty() {
        for function in functions.iter().filter(|function| function.resolver) {
            let Some(known) = resolvers.get_mut(&function.start) else { continue };
            if known.is_none_or(|known| !is_better(known, function, &names)) {
                *known = Some(function);
            }
        }
    }
    let stub = |entry: PltEntry| {
        let (strings, offset) = match entry.target {
            PltTarget::Named(offset) => (Strings::Dynamic, offset),
            PltTarget::Resolved(address) => {
                let name = (*resolvers.get(&address)?)?.name;
                (name.strings, name.offset)
            }
        };
        Some(Function {
            start: entry.start,
            end: entry.end,
            name: FunctionName { strings, offset, is_plt: true },
            sized: true,
            typed: true,
            weak: true,
            global: false,
            resolver: false,
        })
    };
    entries.into_iter().filter_map(stub).collect()
}

fn function(
    symbol: &Symbol<'_>,
    strings: Strings,
    machine: Machine,
    sections: &[elf::Section],
    with_data: bool,
) -> Option<Function> {
    if symbol.is_undefined() || symbol.is_absolute() || symbol.name_offset == 0 {
        return None;
    }
    let section = sections.get(usize::from(symbol.section));
    let typed = match symbol.kind {
        SymbolKind::Function | SymbolKind::IndirectFunction => true,
        // A label of assembly counts where code can be; hidden ones are the assembler's own.
        SymbolKind::Untyped => {
            let with_data = with_data && !symbol.is_hidden;
            let is_place = section.is_some_and(|section| with_data || section.is_executable());
            if !is_place || is_mapping_symbol(symbol.name(), machine) || symbol.name().starts_with(b".L") {
                return None;
            }
            false
        }
        SymbolKind::Data if with_data && !section.is_some_and(elf::Section::is_thread_local) => true,
        _ => return None,
    };
    let start = match machine {
        // The lowest bit says that the code is Thumb.
        Machine::ARM if typed => symbol.address.0 & !1,
        _ => symbol.address.0,
    };
    let end = if symbol.size > 0 {
        start.saturating_add(symbol.size)
    } else {
        // Not known yet; at most to the end of its section.
        match section {
            Some(section) if section.address.0 <= start => section.address.0.saturating_add(section.size),
            _ => start.saturating_add(4096),
        }
    };
    Some(Function {
        start,
        end,
        name: FunctionName { strings, offset: symbol.name_offset, is_plt: false },
        sized: symbol.size > 0,
        typed,
        weak: symbol.is_weak,
        global: symbol.is_global,
        resolver: symbol.kind == SymbolKind::IndirectFunction,
    })
}

/// `$a`, `$t`, `$d`, `$x`, alone or with a suffix, tell where code of which kind and data begin ("ELF for the Arm
/// Architecture", Mapping symbols; RISC-V has `$x` and `$d` too).
fn is_mapping_symbol(name: &[u8], machine: Machine) -> bool {
    matches!(machine, Machine::ARM | Machine::AARCH64 | Machine::RISCV)
        && matches!(
            name,
            [b'$', b'a' | b't' | b'd' | b'x']
                | [b'$', b'a' | b't' | b'd' | b'x', b'.', ..]
                | [b'$', b'x', b'r', b'v', ..]
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A symbol whose name is told apart from others' by its place in the strings.
    #[derive(Clone)]
    struct Named(Function, &'static str);

    fn function(start: u64, size: u64, name: &'static str) -> Named {
        let function = Function {
            start,
            end: if size > 0 { start + size } else { 0x1000 },
            name: FunctionName { strings: Strings::Object, offset: 0, is_plt: false },
            sized: size > 0,
            typed: true,
            weak: false,
            global: true,
            resolver: false,
        };
        Named(function, name)
    }

    struct Table {
        symbols: SymbolTable,
        strings: Vec<u8>,
    }

    impl Table {
        fn names(&self) -> Names<'_> {
            Names::of_strings(Strings::Object, &self.strings)
        }
    }

    fn table(functions: Vec<Named>) -> Table {
        let mut strings = vec![0];
        let functions = functions.into_iter().map(|Named(mut function, name)| {
            function.name.offset = strings.len() as u32;
            strings.extend_from_slice(name.as_bytes());
            strings.push(0);
            function
        });
        let symbols = SymbolTable::sorted(functions.collect());
        Table { symbols, strings }
    }

    fn name_at(table: &Table, address: u64) -> Option<&str> {
        let names = table.names();
        let id = table.symbols.find(Svma(address), &names);
        assert_eq!(id, Neighbours::new(&table.symbols, &names).find(address));
        let name = names.of(table.symbols.get(id?)?.name);
        Some(std::str::from_utf8(name).unwrap())
    }

    #[test]
    fn neighbours_are_found_as_any_address_is() {
        let mut label = function(0x120, 0, "label");
        label.0.typed = false;
        let table = table(vec![
            function(0x100, 0x100, "outer"),
            label,
            function(0x140, 0x10, "inner"),
            function(0x140, 0x20, "alias"),
            function(0x300, 0, "open"),
            function(0x310, 0, "next"),
        ]);
        let names = table.names();
        let mut neighbours = Neighbours::new(&table.symbols, &names);
        for address in 0..0x2000 {
            assert_eq!(neighbours.find(address), table.symbols.find(Svma(address), &names), "{address:#x}");
        }
    }

    #[test]
    fn ends_are_respected_and_made_up_where_missing() {
        let table = table(vec![
            function(0x100, 0x10, "sized"),
            function(0x200, 0, "open"),
            function(0x300, 8, "next"),
        ]);
        assert_eq!(name_at(&table, 0xff), None);
        assert_eq!(name_at(&table, 0x10f), Some("sized"));
        assert_eq!(name_at(&table, 0x110), None);
        assert_eq!(name_at(&table, 0x2ff), Some("open"));
        assert_eq!(name_at(&table, 0x307), Some("next"));
        assert_eq!(name_at(&table, 0x308), None);
    }

    #[test]
    fn the_innermost_of_nested_symbols_covers() {
        let table = table(vec![function(0x100, 0x100, "outer"), function(0x120, 0x10, "inner")]);
        assert_eq!(name_at(&table, 0x110), Some("outer"));
        assert_eq!(name_at(&table, 0x12f), Some("inner"));
        assert_eq!(name_at(&table, 0x130), Some("outer"));
    }

    #[test]
    fn a_label_does_not_split_a_function() {
        let mut label = function(0x120, 0, "label");
        label.0.typed = false;
        let table = table(vec![function(0x100, 0x100, "outer"), label]);
        assert_eq!(name_at(&table, 0x130), Some("outer"));
        assert_eq!(name_at(&table, 0x210), Some("label"));
    }

    #[test]
    fn aliases_are_chosen_as_perf_chooses() {
        let mut weak = function(0x100, 0x10, "write_very_long");
        (weak.0.weak, weak.0.global) = (true, false);
        let mut local = function(0x100, 0x10, "local_longer_name");
        local.0.global = false;
        let find = |functions: Vec<Named>| name_at(&table(functions), 0x105).unwrap().to_owned();
        assert_eq!(find(vec![weak, function(0x100, 0x10, "__write")]), "__write");
        assert_eq!(find(vec![local, function(0x100, 0x10, "__write")]), "__write");
        assert_eq!(
            find(vec![function(0x100, 0x10, "__libc_malloc"), function(0x100, 0x10, "malloc")]),
            "malloc"
        );
        assert_eq!(find(vec![function(0x100, 0x10, "ab"), function(0x100, 0x10, "abc")]), "abc");
        assert_eq!(find(vec![function(0x100, 0x10, "first"), function(0x100, 0x10, "later")]), "first");
        let open = function(0x100, 0, "open_but_longer");
        assert_eq!(find(vec![open, function(0x100, 0x10, "x")]), "x");
        assert_eq!(find(vec![function(0x100, 0x10, ""), function(0x100, 0x10, "x")]), "x", "no name at all");
    }

    #[test]
    fn variables_count_where_data_are_asked_for() {
        let section = |flags| elf::Section {
            name: b"s".as_slice().into(),
            address: Svma(0x1000),
            file_offset: model::FileOffset(0x1000),
            size: 0x100,
            kind: 1,
            flags,
            link: 0,
            info: 0,
            entry_size: 0,
        };
        // Data, and data of each thread.
        let sections = [section(0), section(3), section(0x403)];
        let taken = |kind, section, with_data| {
            let symbol = Symbol {
                name_offset: 1,
                strings: b"\0variable",
                address: Svma(0x1010),
                size: 8,
                kind,
                is_global: true,
                is_weak: false,
                is_hidden: false,
                section,
            };
            super::function(&symbol, Strings::Object, Machine::X86_64, &sections, with_data).is_some()
        };
        assert!(taken(SymbolKind::Data, 1, true) && !taken(SymbolKind::Data, 1, false));
        assert!(taken(SymbolKind::Untyped, 1, true) && !taken(SymbolKind::Untyped, 1, false));
        assert!(!taken(SymbolKind::Data, 2, true), "an offset, and no address");
    }

    #[test]
    fn many_enclosing_symbols_are_no_endless_work() {
        let mut functions = vec![function(0, u64::MAX, "all")];
        functions.extend((1..100_000).map(|start| function(start, 1, "small")));
        let table = table(functions);
        for address in 100_000..100_100 {
            assert_eq!(name_at(&table, address), None);
        }
    }
}
