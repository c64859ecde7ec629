//! The running kernel's symbols, as `/proc/kallsyms` lists them: `address type name [module]` per line.

use model::{Avma, KernelText, TextSymbol};

/// The symbols of a kernel and its modules.
#[derive(Default)]
pub struct Kallsyms {
    /// The names of all functions, one behind the other: half of the list's text.
    names: String,
    /// The names of modules. The first one is empty: that of the kernel.
    modules: Vec<String>,
    /// Sorted by address, one for each: the last of several in the list, which is perf's choice.
    symbols: Vec<Entry>,
    /// The addresses of `_text` and `_stext`, of those that are listed.
    starts: Vec<KernelText>,
    addresses_hidden: bool,
}

/// A symbol: where its name begins in the names, the length of that, and the number of its module.
#[derive(Clone, Copy)]
struct Entry {
    address: u64,
    name: u32,
    length: u16,
    module: u16,
}

/// A function of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelSymbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its address in the kernel that listed it.
    pub start: Avma,
    /// Its module, without brackets; `None` for the kernel itself.
    pub module: Option<&'a str>,
}

/// The greatest distance of an address from its symbol: 512 MiB, twice what x86-64 reserves for kernel text.
const MAX_FUNCTION_BYTES: u64 = 512 << 20;

impl Kallsyms {
    /// Parses the text of `/proc/kallsyms`. Skips lines of another form, names beyond 4 GiB, and modules beyond 65,535.
    pub fn parse(text: &str) -> Self {
        let mut symbols = Vec::with_capacity(text.len() / 40);
        let mut names = String::with_capacity(text.len() / 2);
        let mut modules = vec![String::new()];
        let mut all_zero = true;
        let mut starts = Vec::new();
        for line in text.split('\n') {
            let Some((address, kind, rest)) = columns(line) else { continue };
            all_zero &= address == 0;
            // Text and weak symbols (nm(1)), but no mapping symbols of Arm ELF (`$x`).
            if !matches!(kind, b'T' | b't' | b'W' | b'w') || rest.starts_with('$') {
                continue;
            }
            let (name, module) = match rest.split_once('\t') {
                Some((name, module)) => {
                    (name.trim_end(), module.trim_start_matches('[').trim_end().trim_end_matches(']'))
                }
                None => (rest.trim_end(), ""),
            };
            if name.is_empty() {
                continue;
            }
            if name.starts_with('_')
                && let Some(symbol) = TextSymbol::from_name(name)
            {
                starts.push(KernelText { symbol, address });
            }
            // The functions of a module follow each other: another one begins where the last one ends.
            let last = modules.last().map_or("", String::as_str);
            let number = match module {
                "" => 0,
                known if known == last => modules.len() - 1,
                _ => modules.len(),
            };
            let (Ok(offset), Ok(length), Ok(of_module)) =
                (u32::try_from(names.len()), u16::try_from(name.len()), u16::try_from(number))
            else {
                continue;
            };
            if number == modules.len() {
                modules.push(module.to_owned());
            }
            names.push_str(name);
            symbols.push(Entry { address, name: offset, length, module: of_module });
        }
        let addresses_hidden = all_zero && !symbols.is_empty();
        symbols.sort_by_key(|entry| entry.address);
        // The sort is stable, and the last of several symbols at one address stays, as in perf: there a symbol ends where
        // the next one starts (`symbols__fixup_end()` in tools/perf/util/symbol.c), so all but the last have length 0
        // and lose (`choose_best_symbol()`).
        symbols.dedup_by(|next, kept| {
            let same = next.address == kept.address;
            if same {
                *kept = *next;
            }
            same
        });
        names.shrink_to_fit();
        symbols.shrink_to_fit();
        Self { names, modules, symbols, starts, addresses_hidden }
    }

    /// Returns true if the kernel lists its symbols with all addresses 0 (`kernel.kptr_restrict`, or a reader without
    /// `CAP_SYSLOG`).
    pub fn addresses_hidden(&self) -> bool {
        self.addresses_hidden
    }

    /// Returns true if no function is listed.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// Returns the address of a symbol at the start of the kernel's text; `None` if it is not listed.
    pub fn text_address(&self, symbol: TextSymbol) -> Option<Avma> {
        self.starts.iter().find(|start| start.symbol == symbol).map(|start| Avma(start.address))
    }

    /// Returns the function of a return address, given with the address one byte before it to look up.
    ///
    /// A stack through an interrupt has the address of the interrupted instruction among its return addresses. Where
    /// that is the first instruction of a function, the byte before it is padding with a symbol of its own
    /// (`__pfx_NAME`, `__cfi_NAME`), from which nothing returns. Then this returns the function that starts there.
    pub fn find_caller(&self, lookup: Avma, return_address: Avma) -> Option<KernelSymbol<'_>> {
        let symbol = self.find(lookup)?;
        let padded = symbol.name.strip_prefix("__pfx_").or_else(|| symbol.name.strip_prefix("__cfi_"));
        let here = padded.and_then(|_| self.find(return_address)).filter(|here| here.start == return_address);
        Some(here.unwrap_or(symbol))
    }

    /// Returns the function that covers an address of this kernel. The list has no sizes: a function ends where the next
    /// symbol starts.
    pub fn find(&self, address: Avma) -> Option<KernelSymbol<'_>> {
        let after = self.symbols.partition_point(|entry| entry.address <= address.0);
        let entry = self.symbols.get(after.checked_sub(1)?)?;
        if address.0 - entry.address > MAX_FUNCTION_BYTES {
            return None;
        }
        let module = self.module(entry);
        Some(KernelSymbol {
            name: self.names.get(entry.name as usize..)?.get(..usize::from(entry.length))?,
            start: Avma(entry.address),
            module: (!module.is_empty()).then_some(module),
        })
    }

    fn module(&self, entry: &Entry) -> &str {
        self.modules.get(usize::from(entry.module)).map_or("", String::as_str)
    }
}

/// Splits a line into its address, its type, and the rest.
fn columns(line: &str) -> Option<(u64, u8, &str)> {
    let mut address = 0_u64;
    let mut digits = 0;
    for &byte in line.as_bytes() {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => break,
        };
        address = address << 4 | u64::from(digit);
        digits += 1;
    }
    let rest = line.get(digits..).filter(|_| (1..=16).contains(&digits))?;
    let &[b' ', kind, b' ', ..] = rest.as_bytes() else { return None };
    Some((address, kind, rest.get(3..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T srso_alias_untrain_ret
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81001000 t do_one
ffffffff81001000 T do_one_alias
ffffffff81002000 D some_data
ffffffff81003000 T memset
ffffffff81003000 W __memset
ffffffff81003000 T __pi_memset
ffffffffc0001000 t helper\t[ext4]
ffffffffc0001100 T ext4_open\t[ext4]
not a line
zzzz T bad
";

    fn name(table: &Kallsyms, address: u64) -> Option<&str> {
        table.find(Avma(address)).map(|symbol| symbol.name)
    }

    #[test]
    fn functions_end_where_the_next_starts() {
        let table = Kallsyms::parse(TABLE);
        assert_eq!(name(&table, 0xffff_ffff_8100_0fff), Some("_text"));
        assert_eq!(name(&table, 0xffff_ffff_8100_2abc), Some("do_one_alias"));
        assert_eq!(name(&table, 0xffff_ffff_8100_3000), Some("__pi_memset"));
        assert_eq!(name(&table, 0x1000), None);
        assert_eq!(name(&table, u64::MAX), None);
        let symbol = table.find(Avma(0xffff_ffff_c000_1180)).unwrap();
        assert_eq!((symbol.name, symbol.module), ("ext4_open", Some("ext4")));
        for symbol in [TextSymbol::Text, TextSymbol::Stext] {
            assert_eq!(table.text_address(symbol), Some(Avma(0xffff_ffff_8100_0000)));
        }
        assert!(!table.addresses_hidden());
    }

    #[test]
    fn padding_before_a_function_calls_nothing() {
        let table = Kallsyms::parse(
            "ffffffff81000000 T before\nffffffff81000ff0 t __pfx_work\nffffffff81001000 t work\n",
        );
        let caller = |lookup: u64| {
            let (lookup, found) = (Avma(lookup), Avma(lookup + 1));
            table.find_caller(lookup, found).map(|symbol| symbol.name)
        };
        assert_eq!(caller(0xffff_ffff_8100_0fff), Some("work"), "interrupted at its first instruction");
        assert_eq!(caller(0xffff_ffff_8100_1004), Some("work"));
        assert_eq!(caller(0xffff_ffff_8100_0fef), Some("before"), "a call at its end returns nowhere");
        assert_eq!(caller(0xffff_ffff_8100_0ff4), Some("__pfx_work"));
    }

    #[test]
    fn hidden_addresses_are_noticed() {
        let table = Kallsyms::parse("0000000000000000 T _text\n0000000000000000 T main\n");
        assert!(table.addresses_hidden());
        assert!(!Kallsyms::parse("").addresses_hidden());
    }
}
