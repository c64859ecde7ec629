//! The function symbols of an object, and the lookup of the one that covers an address.

use std::cmp::Ordering;

use elf::{Machine, Object, Symbol, SymbolKind, SymbolSource};
use model::Svma;
use rustc_hash::FxHashMap;

use crate::MAX_TABLE_ENTRIES;
use crate::function_end::FunctionEnds;
use crate::function_symbol::{Function, Traits};
use crate::gopclntab::GoFunction;
use crate::names::{NameStyle, display_name};
use crate::near_functions::NearFunctions;
use crate::object_files::ObjectFiles;
use crate::plt::{self, PltEntry, PltTarget};
use crate::string_tables::{FunctionName, StringTable, StringTables};

/// The index of a function in its [`SymbolTable`].
pub(crate) type FunctionId = u32;

/// All functions of an object, sorted by address. Holds no reference to its files: names are read from [`StringTables`]
/// on demand.
#[derive(Default)]
pub(crate) struct SymbolTable {
    functions: Vec<Function>,
    /// True if there were more than [`MAX_TABLE_ENTRIES`].
    is_cut: bool,
    /// For each block of [`BLOCK`] functions the greatest end of all functions up to its last. A search for an enclosing function stops
    /// where it is not behind the address.
    greatest_end: Vec<u64>,
}

/// Number of functions that share a greatest end: so many more are examined where no function encloses an address.
const BLOCK: usize = 32;
/// Maximum number of symbols before an address that are examined for one that encloses it. Only a hostile table nests
/// more.
pub(crate) const MAX_EXAMINED_SYMBOLS: usize = 4096;

impl SymbolTable {
    /// Collects the symbols of the files that describe an object, its PLT stubs, and the functions of a Go program's own
    /// table.
    pub(crate) fn new<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>, go: &[GoFunction]) -> Self {
        let mut functions = collect(files, false);
        let stubs = stubs(files, &functions);
        functions.extend(stubs);
        functions.extend(go.iter().map(|function| {
            let name = FunctionName { strings: StringTable::Go, offset: function.name, is_plt: false };
            let traits = Traits::SIZED | Traits::TYPED | Traits::STRONG | Traits::GLOBAL;
            Function::new(function.start, function.end, name, traits)
        }));
        let mut table = Self::sorted(functions);
        if !table.has_all_functions() {
            table.end_unsized_with_code(files.object);
        }
        table
    }

    /// Returns true if a symbol table of the files has functions that only their own object uses: strip(1) removes those
    /// first.
    fn has_all_functions(&self) -> bool {
        self.functions.iter().any(Function::is_local)
    }

    /// Ends each function without a size where its code ends.
    fn end_unsized_with_code<D: AsRef<[u8]>>(&mut self, object: &Object<D>) {
        if self.functions.iter().all(Function::is_sized) {
            return;
        }
        let Some(mut ends) = FunctionEnds::new(object) else { return };
        // Symbols at one address have one end.
        let mut last = (0, 0, 0);
        for function in self.functions.iter_mut().filter(|function| !function.is_sized()) {
            if (function.start, function.end) != (last.0, last.1) {
                last = (function.start, function.end, ends.end_of(function.start, function.end));
            }
            function.end = last.2;
        }
        self.greatest_end = greatest_ends(&self.functions);
    }

    /// Collects only the functions on which the answer of [`Self::find`] for some addresses (ascending) depends: nothing else of a large
    /// object is sorted or takes memory. The files must have full symbol tables.
    pub(crate) fn near<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>, addresses: &[u64]) -> Self {
        let mut near = NearFunctions::new(addresses);
        let (mut resolvers, mut has_local) = (Vec::new(), false);
        let with_stubs = addresses.iter().any(|&address| plt::covers(files.object, address));
        for_each(files, false, |function| {
            has_local |= function.is_local();
            if with_stubs && function.traits.contains(Traits::RESOLVER) && resolvers.len() < MAX_TABLE_ENTRIES
            {
                resolvers.push(function);
            }
            near.add(function);
            true
        });
        if with_stubs {
            stubs(files, &resolvers).into_iter().for_each(|stub| near.add(stub));
        }
        let mut table = Self::sorted(near.into_functions());
        if !has_local {
            table.end_unsized_with_code(files.object);
        }
        table
    }

    /// Collects the symbols of variables as well as functions.
    pub(crate) fn with_data<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>) -> Self {
        Self::sorted(collect(files, true))
    }

    /// Returns the memory that it has on the heap, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.functions.capacity() * size_of::<Function>() + self.greatest_end.capacity() * size_of::<u64>()
    }

    fn sorted(mut functions: Vec<Function>) -> Self {
        let is_cut = functions.len() > MAX_TABLE_ENTRIES;
        functions.truncate(MAX_TABLE_ENTRIES);
        // Indexes are kept, and count with their capacity: up to twice as much after growing.
        functions.shrink_to_fit();
        // Stable: symbols at one address stay in the order of the file.
        functions.sort_by_key(|function| function.start);
        end_unsized_at_next(&mut functions);
        Self { greatest_end: greatest_ends(&functions), functions, is_cut }
    }

    /// Returns true if functions were left out because there were more than [`MAX_TABLE_ENTRIES`].
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    pub(crate) fn get(&self, id: FunctionId) -> Option<&Function> {
        self.functions.get(id as usize)
    }

    /// Returns the function that an address belongs to: of those that cover it, the one that starts last. Ignores a label
    /// without a size inside a function with one. Chooses as perf does between several symbols at one address.
    pub(crate) fn find(&self, address: Svma, names: &StringTables<'_>) -> Option<FunctionId> {
        self.covering(address.0, self.starting_up_to(address.0), names)
    }

    /// Returns the number of functions that start at or before an address.
    fn starting_up_to(&self, address: u64) -> usize {
        self.functions.partition_point(|function| function.start <= address)
    }

    fn covering(&self, address: u64, after: usize, names: &StringTables<'_>) -> Option<FunctionId> {
        let mut label: Option<(usize, &Function)> = None;
        let mut best: Option<(usize, &Function)> = None;
        for index in (0..after).rev().take(MAX_EXAMINED_SYMBOLS) {
            let function = self.functions.get(index)?;
            if best.is_some_and(|(_, best)| best.start != function.start) {
                break;
            }
            if self.greatest_end.get(index / BLOCK).is_none_or(|&end| end <= address) {
                break;
            }
            if function.end <= address || names.name(function.name()).is_empty() {
                continue;
            }
            let known = if function.is_sized() { &mut best } else { &mut label };
            // The search goes backwards: `function` comes before the known one in the file, so it wins a tie.
            if known.is_none_or(|(_, known)| is_better(function, known, names)) {
                *known = Some((index, function));
            }
        }
        // Fits: the table has at most `MAX_TABLE_ENTRIES` functions.
        best.or(label).map(|(index, _)| index as FunctionId)
    }
}

/// Looks up ascending addresses. Remembers the last function, because neighbours mostly belong to the same one.
pub(crate) struct OrderedLookup<'t, 'a> {
    table: &'t SymbolTable,
    names: &'t StringTables<'a>,
    /// The result for addresses from the first number to below the second.
    last: (u64, u64, FunctionId),
}

impl<'t, 'a> OrderedLookup<'t, 'a> {
    pub(crate) fn new(table: &'t SymbolTable, names: &'t StringTables<'a>) -> Self {
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
        // Up to the start of the next function no other function can cover an address that this one covers.
        let next = self.table.functions.get(after).map_or(u64::MAX, |next| next.start);
        let end = self.table.get(id).map_or(0, |function| function.end);
        self.last = (address, end.min(next), id);
        Some(id)
    }
}

/// Returns for each block of functions the greatest end of all functions up to its last.
fn greatest_ends(functions: &[Function]) -> Vec<u64> {
    let mut greatest = 0;
    let ends = functions.chunks(BLOCK).map(|block| {
        greatest = block.iter().map(|function| function.end).fold(greatest, u64::max);
        greatest
    });
    ends.collect()
}

/// Ends each symbol without a size where the next one starts, or else where its section ends.
fn end_unsized_at_next(functions: &mut [Function]) {
    let mut next_start = u64::MAX;
    let mut this_start = u64::MAX;
    for function in functions.iter_mut().rev() {
        if function.start != this_start {
            next_start = this_start;
            this_start = function.start;
        }
        if !function.is_sized() {
            // `end` is the end of its section so far.
            function.end = function.end.min(next_start);
        }
    }
}

/// Returns true if perf prefers the first of two symbols at one address (tools/perf/util/symbol.c,
/// `choose_best_symbol`): typed, not weak, global, fewer leading underscores, the longer name, the first in the file.
fn is_better(first: &Function, second: &Function, names: &StringTables<'_>) -> bool {
    match first.traits.rank().cmp(&second.traits.rank()) {
        Ordering::Greater => return true,
        Ordering::Less => return false,
        Ordering::Equal => {}
    }
    let (first_name, second_name) = (names.name(first.name()), names.name(second.name()));
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

/// Collects the functions of all symbol tables, and variables `with_data`.
fn collect<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>, with_data: bool) -> Vec<Function> {
    let mut functions = Vec::new();
    for_each(files, with_data, |function| {
        functions.push(function);
        // One more than is kept shows that the table is cut.
        functions.len() <= MAX_TABLE_ENTRIES
    });
    functions
}

/// Calls `take` for the functions of all symbol tables, and variables `with_data`, in the order of the files, until it returns false.
fn for_each<D: AsRef<[u8]>>(
    files: &ObjectFiles<'_, D>,
    with_data: bool,
    mut take: impl FnMut(Function) -> bool,
) {
    let full = [
        (Some(files.object), StringTable::Object),
        (files.debug, StringTable::Debug),
        (files.minidebug, StringTable::Minidebug),
    ];
    let full = full.into_iter().filter_map(|(file, strings)| Some((file?, SymbolSource::Full, strings)));
    for (file, source, strings) in full.chain([(files.object, SymbolSource::Dynamic, StringTable::Dynamic)]) {
        let bias = files.bias_of(file);
        let (machine, sections) = (file.machine(), file.sections());
        for symbol in file.symbols(source) {
            let Some(function) = function(&symbol, strings, machine, sections, with_data) else { continue };
            let (start, end) = (function.start.wrapping_add(bias), function.end.wrapping_add(bias));
            if !take(Function { start, end, ..function }) {
                return;
            }
        }
    }
}

/// Returns the PLT stubs of an object with these functions.
fn stubs<D: AsRef<[u8]>>(files: &ObjectFiles<'_, D>, functions: &[Function]) -> Vec<Function> {
    let entries = plt::entries(files.object);
    let names = StringTables::new(files);
    // Indirect functions by the addresses of their resolvers.
    let mut resolvers: FxHashMap<u64, Option<&Function>> = entries
        .iter()
        .filter_map(|entry| match entry.target {
            PltTarget::Resolved(address) => Some((address, None)),
            PltTarget::Named(_) => None,
        })
        .collect();
    if !resolvers.is_empty() {
        for function in functions.iter().filter(|function| function.traits.contains(Traits::RESOLVER)) {
            let Some(known) = resolvers.get_mut(&function.start) else { continue };
            if known.is_none_or(|known| !is_better(known, function, &names)) {
                *known = Some(function);
            }
        }
    }
    let stub = |entry: PltEntry| {
        let (strings, offset) = match entry.target {
            PltTarget::Named(offset) => (StringTable::Dynamic, offset),
            PltTarget::Resolved(address) => {
                let resolver = (*resolvers.get(&address)?)?;
                (resolver.strings, resolver.name)
            }
        };
        let name = FunctionName { strings, offset, is_plt: true };
        Some(Function::new(entry.start, entry.end, name, Traits::SIZED | Traits::TYPED))
    };
    entries.into_iter().filter_map(stub).collect()
}

fn function(
    symbol: &Symbol<'_>,
    strings: StringTable,
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
        // Labels of assembly have no type. Hidden ones are the assembler's own.
        SymbolKind::Untyped => {
            let with_data = with_data && !symbol.is_hidden;
            let is_in_section = section.is_some_and(|section| with_data || section.is_executable());
            if !is_in_section || is_mapping_symbol(symbol.name(), machine) || symbol.name().starts_with(b".L")
            {
                return None;
            }
            false
        }
        SymbolKind::Data if with_data && !section.is_some_and(elf::Section::is_thread_local) => true,
        _ => return None,
    };
    let start = match machine {
        // The lowest bit marks Thumb code.
        Machine::ARM if typed => symbol.address.0 & !1,
        _ => symbol.address.0,
    };
    let end = if symbol.size > 0 {
        start.saturating_add(symbol.size)
    } else {
        // `end_unsized_at_next` shortens it.
        match section {
            Some(section) if section.address.0 <= start => section.address.0.saturating_add(section.size),
            _ => start.saturating_add(4096),
        }
    };
    let traits = Traits::SIZED.when(symbol.size > 0)
        | Traits::TYPED.when(typed)
        | Traits::STRONG.when(!symbol.is_weak)
        | Traits::GLOBAL.when(symbol.is_global)
        | Traits::RESOLVER.when(symbol.kind == SymbolKind::IndirectFunction);
    let name = FunctionName { strings, offset: symbol.name_offset, is_plt: false };
    Some(Function::new(start, end, name, traits))
}

/// Returns true for mapping symbols, which mark where Arm code, Thumb code or data starts: `$a`, `$t`, `$d`, `$x`, alone
/// or with a suffix ("ELF for the Arm Architecture", Mapping symbols; RISC-V has `$x` and `$d` too).
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

    /// A function and its name, which `table` adds to the strings.
    #[derive(Clone)]
    struct Named(Function, &'static str);

    fn function(start: u64, size: u64, name: &'static str) -> Named {
        let end = if size > 0 { start + size } else { 0x1000 };
        let traits = Traits::SIZED.when(size > 0) | Traits::TYPED | Traits::STRONG | Traits::GLOBAL;
        let nameless = FunctionName { strings: StringTable::Object, offset: 0, is_plt: false };
        Named(Function::new(start, end, nameless, traits), name)
    }

    impl Named {
        fn without(mut self, traits: Traits) -> Self {
            self.0.traits.remove(traits);
            self
        }
    }

    struct Table {
        symbols: SymbolTable,
        strings: Vec<u8>,
    }

    impl Table {
        fn names(&self) -> StringTables<'_> {
            StringTables::with_table(StringTable::Object, &self.strings)
        }
    }

    fn table(functions: Vec<Named>) -> Table {
        let mut strings = vec![0];
        let functions = functions.into_iter().map(|Named(mut function, name)| {
            function.name = strings.len() as u32;
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
        assert_eq!(id, OrderedLookup::new(&table.symbols, &names).find(address));
        let name = names.name(table.symbols.get(id?)?.name());
        Some(std::str::from_utf8(name).unwrap())
    }

    #[test]
    fn neighbours_are_found_as_any_address_is() {
        let label = function(0x120, 0, "label").without(Traits::TYPED);
        let table = table(vec![
            function(0x100, 0x100, "outer"),
            label,
            function(0x140, 0x10, "inner"),
            function(0x140, 0x20, "alias"),
            function(0x300, 0, "open"),
            function(0x310, 0, "next"),
        ]);
        let names = table.names();
        let mut neighbours = OrderedLookup::new(&table.symbols, &names);
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
        let label = function(0x120, 0, "label").without(Traits::TYPED);
        let table = table(vec![function(0x100, 0x100, "outer"), label]);
        assert_eq!(name_at(&table, 0x130), Some("outer"));
        assert_eq!(name_at(&table, 0x210), Some("label"));
    }

    #[test]
    fn aliases_are_chosen_as_perf_chooses() {
        let weak = function(0x100, 0x10, "write_very_long").without(Traits::STRONG).without(Traits::GLOBAL);
        let local = function(0x100, 0x10, "local_longer_name").without(Traits::GLOBAL);
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
            super::function(&symbol, StringTable::Object, Machine::X86_64, &sections, with_data).is_some()
        };
        assert!(taken(SymbolKind::Data, 1, true) && !taken(SymbolKind::Data, 1, false));
        assert!(taken(SymbolKind::Untyped, 1, true) && !taken(SymbolKind::Untyped, 1, false));
        assert!(!taken(SymbolKind::Data, 2, true), "an offset, and no address");
    }

    #[test]
    fn near_functions_give_the_same_answers() {
        const NAMES: [&str; 4] = ["a", "_b", "ccc", ""];
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..2000 {
            let count = random(12);
            let functions: Vec<Named> = (0..count)
                .map(|_| {
                    let size = random(4) * random(30);
                    let traits = [Traits::STRONG, Traits::GLOBAL, Traits::TYPED, Traits::PLT];
                    function(random(60), size, NAMES[random(4) as usize]).without(traits[random(4) as usize])
                })
                .collect();
            let mut addresses: Vec<u64> = (0..random(5)).map(|_| random(100)).collect();
            addresses.sort_unstable();
            addresses.dedup();
            let whole = table(functions);
            // The strings and the order of the file, as the table got them.
            let mut in_file = whole.symbols.functions.clone();
            in_file.sort_by_key(|function| function.name);
            let mut near = NearFunctions::new(&addresses);
            for mut function in in_file {
                if !function.is_sized() {
                    function.end = 0x1000;
                }
                near.add(function);
            }
            let near =
                Table { symbols: SymbolTable::sorted(near.into_functions()), strings: whole.strings.clone() };
            for &address in &addresses {
                let found = |table: &Table| {
                    let id = table.symbols.find(Svma(address), &table.names())?;
                    table.symbols.get(id).map(|function| (function.start, function.name))
                };
                assert_eq!(found(&whole), found(&near), "{address:#x}");
            }
        }
    }

    #[test]
    fn a_function_is_small() {
        assert_eq!(size_of::<Function>(), 24);
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
