//! The functions that an object's symbol tables name, and which of them an address belongs to.

use elf::{Machine, Object, Symbol, SymbolKind, SymbolSource};
use model::Svma;

use crate::gopclntab::GoFunction;
use crate::names::{NameStyle, display_name};
use crate::plt::PltEntry;

/// A function's symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function<'a> {
    pub(crate) start: u64,
    /// One behind its last byte.
    pub(crate) end: u64,
    pub(crate) name: FunctionName<'a>,
    /// Whether the table stated the size; else the end is where the next symbol starts.
    pub(crate) sized: bool,
    typed: bool,
    weak: bool,
    global: bool,
}

/// A name, as the table has it or made up for an entry of the procedure linkage table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FunctionName<'a> {
    Symbol(&'a [u8]),
    /// The stub that jumps to this function of another object; shown as `name@plt`.
    Plt(&'a [u8]),
}

/// All functions, sorted by address.
#[derive(Default)]
pub(crate) struct SymbolTable<'a> {
    functions: Vec<Function<'a>>,
    /// For each function the greatest end up to and including it: tells when to stop looking for one that encloses.
    greatest_end: Vec<u64>,
}

/// Symbols that overlap an address are looked at back to this many before it; more only a hostile table has.
const MAX_BACKWARD: usize = 4096;

impl<'a> SymbolTable<'a> {
    /// Takes the symbol tables of several files that describe the same object, and its linkage stubs.
    pub(crate) fn new(
        tables: impl IntoIterator<Item = TableSource<'a>>,
        plt: Vec<PltEntry<'a>>,
        go: Vec<GoFunction<'a>>,
    ) -> Self {
        let mut functions = Vec::new();
        for table in tables {
            table.collect_into(&mut functions);
        }
        functions.extend(plt.iter().map(|entry| Function {
            start: entry.start,
            end: entry.end,
            name: FunctionName::Plt(entry.name),
            sized: true,
            typed: true,
            weak: true,
            global: false,
        }));
        functions.extend(go.into_iter().map(|function| Function {
            start: function.start,
            end: function.end,
            name: FunctionName::Symbol(function.name),
            sized: true,
            typed: true,
            weak: false,
            global: true,
        }));
        // Stable: among equals, the one that the file has first stays first.
        functions.sort_by_key(|function| function.start);
        end_unsized_at_next(&mut functions);
        let mut greatest = 0;
        let greatest_end = functions.iter().map(|function| {
            greatest = function.end.max(greatest);
            greatest
        });
        let greatest_end = greatest_end.collect();
        Self { functions, greatest_end }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function that an address belongs to: the one that starts last at or before it and covers it. A label
    /// without a size inside a function that has one does not count, and of several names for the same place perf's
    /// choice is taken.
    pub(crate) fn find(&self, address: Svma) -> Option<&Function<'a>> {
        let address = address.0;
        let after = self.functions.partition_point(|function| function.start <= address);
        let mut label = None;
        let mut best: Option<&Function<'a>> = None;
        for index in (0..after).rev().take(MAX_BACKWARD) {
            let function = self.functions.get(index)?;
            if best.is_some_and(|best| best.start != function.start) {
                break;
            }
            if self.greatest_end.get(index).is_none_or(|&end| end <= address) {
                break;
            }
            if function.end <= address {
                continue;
            }
            if !function.sized {
                label = match label {
                    Some(known) => Some(choose(function, known)),
                    None => Some(function),
                };
                continue;
            }
            best = match best {
                // `function` comes before `best` in the file: it is the one that wins a tie.
                Some(best) => Some(choose(function, best)),
                None => Some(function),
            };
        }
        best.or(label)
    }
}

/// A symbol without a size ends where the next one starts, or its section ends.
fn end_unsized_at_next(functions: &mut [Function<'_>]) {
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
fn choose<'f, 'a>(first: &'f Function<'a>, second: &'f Function<'a>) -> &'f Function<'a> {
    let rank = |function: &Function<'_>| (function.sized, function.typed, !function.weak, function.global);
    match rank(first).cmp(&rank(second)) {
        std::cmp::Ordering::Greater => return first,
        std::cmp::Ordering::Less => return second,
        std::cmp::Ordering::Equal => {}
    }
    let (FunctionName::Symbol(first_name) | FunctionName::Plt(first_name)) = first.name;
    let (FunctionName::Symbol(second_name) | FunctionName::Plt(second_name)) = second.name;
    if first_name == second_name {
        return first;
    }
    let shown = |name| display_name(name, NameStyle::Demangled);
    let (first_name, second_name) = (shown(first_name), shown(second_name));
    let underscores = |name: &str| name.bytes().take_while(|&byte| byte == b'_').count();
    match underscores(&first_name).cmp(&underscores(&second_name)) {
        std::cmp::Ordering::Less => first,
        std::cmp::Ordering::Greater => second,
        std::cmp::Ordering::Equal if first_name.len() < second_name.len() => second,
        std::cmp::Ordering::Equal => first,
    }
}

/// One symbol table.
pub(crate) struct TableSource<'a> {
    bias: u64,
    machine: Machine,
    sections: &'a [elf::Section],
    symbols: Box<dyn Iterator<Item = Symbol<'a>> + 'a>,
    with_data: bool,
}

impl<'a> TableSource<'a> {
    /// `bias` is added to the addresses of the table.
    pub(crate) fn new<D: AsRef<[u8]>>(object: &'a Object<D>, source: SymbolSource, bias: u64) -> Self {
        Self {
            bias,
            machine: object.machine(),
            sections: object.sections(),
            symbols: Box::new(object.symbols(source)),
            with_data: false,
        }
    }

    /// Takes variables, too.
    pub(crate) fn with_data(self) -> Self {
        Self { with_data: true, ..self }
    }

    fn collect_into(self, functions: &mut Vec<Function<'a>>) {
        let Self { bias, machine, sections, symbols, with_data } = self;
        functions.extend(symbols.filter_map(|symbol| {
            let function = function(&symbol, machine, sections, with_data)?;
            let (start, end) = (function.start.wrapping_add(bias), function.end.wrapping_add(bias));
            Some(Function { start, end, ..function })
        }));
    }
}

fn function<'a>(
    symbol: &Symbol<'a>,
    machine: Machine,
    sections: &[elf::Section],
    with_data: bool,
) -> Option<Function<'a>> {
    if symbol.is_undefined() || symbol.is_absolute() || symbol.name.is_empty() {
        return None;
    }
    let section = sections.get(usize::from(symbol.section));
    let typed = match symbol.kind {
        SymbolKind::Function | SymbolKind::IndirectFunction => true,
        // A label of assembly counts where code can be; hidden ones are the assembler's own.
        SymbolKind::Untyped => {
            let with_data = with_data && !symbol.is_hidden;
            let is_place = section.is_some_and(|section| with_data || section.is_executable());
            if !is_place || is_mapping_symbol(symbol.name, machine) || symbol.name.starts_with(b".L") {
                return None;
            }
            false
        }
        SymbolKind::Data if with_data && !section.is_some_and(elf::Section::is_thread_local) => true,
        SymbolKind::Data | SymbolKind::Other => return None,
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
        name: FunctionName::Symbol(symbol.name),
        sized: symbol.size > 0,
        typed,
        weak: symbol.is_weak,
        global: symbol.is_global,
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

    fn function(start: u64, size: u64, name: &'static str) -> Function<'static> {
        Function {
            start,
            end: if size > 0 { start + size } else { 0x1000 },
            name: FunctionName::Symbol(name.as_bytes()),
            sized: size > 0,
            typed: true,
            weak: false,
            global: true,
        }
    }

    fn table(mut functions: Vec<Function<'static>>) -> SymbolTable<'static> {
        functions.sort_by_key(|function| function.start);
        end_unsized_at_next(&mut functions);
        let greatest_end = functions
            .iter()
            .scan(0, |greatest, function| {
                *greatest = function.end.max(*greatest);
                Some(*greatest)
            })
            .collect();
        SymbolTable { functions, greatest_end }
    }

    fn name_at(table: &SymbolTable<'static>, address: u64) -> Option<&'static str> {
        table.find(Svma(address)).map(|function| match function.name {
            FunctionName::Symbol(name) | FunctionName::Plt(name) => std::str::from_utf8(name).unwrap(),
        })
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
        label.typed = false;
        let table = table(vec![function(0x100, 0x100, "outer"), label]);
        assert_eq!(name_at(&table, 0x130), Some("outer"));
        assert_eq!(name_at(&table, 0x210), Some("label"));
    }

    #[test]
    fn aliases_are_chosen_as_perf_chooses() {
        let weak = Function { weak: true, global: false, ..function(0x100, 0x10, "write_very_long") };
        let local = Function { global: false, ..function(0x100, 0x10, "local_longer_name") };
        let find = |functions: Vec<Function<'static>>| name_at(&table(functions), 0x105).unwrap();
        assert_eq!(find(vec![weak, function(0x100, 0x10, "__write")]), "__write");
        assert_eq!(find(vec![local, function(0x100, 0x10, "__write")]), "__write");
        assert_eq!(
            find(vec![function(0x100, 0x10, "__libc_malloc"), function(0x100, 0x10, "malloc")]),
            "malloc"
        );
        assert_eq!(find(vec![function(0x100, 0x10, "ab"), function(0x100, 0x10, "abc")]), "abc");
        assert_eq!(find(vec![function(0x100, 0x10, "first"), function(0x100, 0x10, "later")]), "first");
        let open = Function { end: 0x1000, sized: false, ..function(0x100, 1, "open_but_longer") };
        assert_eq!(find(vec![open, function(0x100, 0x10, "x")]), "x");
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
                name: b"variable",
                address: Svma(0x1010),
                size: 8,
                kind,
                is_global: true,
                is_weak: false,
                is_hidden: false,
                section,
            };
            super::function(&symbol, Machine::X86_64, &sections, with_data).is_some()
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
