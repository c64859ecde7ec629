//! Demangling: linkage names to the names that users read.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use model::Name;

use crate::scoped_types;

/// The style in which a function's name is given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
#[non_exhaustive]
pub enum NameStyle {
    /// Demangled: Rust without hashes, C++ without parameters and without the suffixes of clones, as perf shows them.
    /// Names of other languages stay as they are.
    #[default]
    Demangled,
    /// As the linker knows it.
    Linkage,
}

/// The longest demangled name, in bytes; the mangled name is shown instead of a longer one. Back-references can double
/// the output with every few bytes of input.
const MAX_DEMANGLED_BYTES: usize = 1 << 14;

/// The greatest nesting depth of a C++ name that is demangled.
const MAX_DEPTH: u32 = 128;

/// Returns the name to show for a symbol, cut as [`Name::cut`] does.
///
/// Tries Rust before C++, because a legacy Rust name is a valid C++ name as well, with a hash for its last part. A name
/// longer than [`elf::MAX_NAME_BYTES`] stays mangled: hostile names can keep demanglers busy for hours.
pub fn display_name(linkage_name: &[u8], style: NameStyle) -> Cow<'_, str> {
    let looked_at = linkage_name.get(..elf::MAX_NAME_BYTES).unwrap_or(linkage_name);
    let text = String::from_utf8_lossy(looked_at);
    let is_whole = looked_at.len() == linkage_name.len();
    let demangled = (style == NameStyle::Demangled && is_whole).then(|| demangle(&text)).flatten();
    let name = demangled.map_or(text, Cow::Owned);
    match name {
        Cow::Borrowed(name) => Name::cut(name),
        Cow::Owned(name) if name.len() > Name::MAX_BYTES => Cow::Owned(Name::cut(&name).into_owned()),
        whole => whole,
    }
}

fn demangle(name: &str) -> Option<String> {
    // Linkers write versioned symbols into .symtab as `name@VERSION` and `name@@VERSION`; we append `@plt`.
    let (base, suffix) = match name.split_once('@') {
        Some((base, "plt")) => (base, "@plt"),
        Some((base, _)) => (base, ""),
        None => (name, ""),
    };
    let demangled = demangle_rust(base).or_else(|| demangle_cpp(base))?;
    Some(demangled + suffix)
}

fn demangle_rust(name: &str) -> Option<String> {
    if !(name.starts_with("_R")
        || name.starts_with("_ZN")
        || name.starts_with("__R")
        || name.starts_with("__ZN"))
    {
        return None;
    }
    let demangled = rustc_demangle::try_demangle(without_rust_suffix(name)).ok()?;
    let mut text = Capped::default();
    // The alternate form omits the hash of legacy names and the disambiguators of v0 names.
    fmt::write(&mut text, format_args!("{demangled:#}")).ok()?;
    Some(text.0)
}

/// Returns the name without the `.cold` or `.warm` that optimizers append to parts of a function. Legacy names have dots
/// of their own (`core..fmt`), but only before their hash.
fn without_rust_suffix(name: &str) -> &str {
    const HASH: usize = "17h0123456789abcdefE".len();
    let is_legacy = name.contains("ZN");
    let ends_here = |dot: usize| {
        let hash = dot.checked_sub(HASH).and_then(|start| name.get(start..dot));
        !is_legacy || hash.is_some_and(|hash| hash.starts_with("17h") && hash.ends_with('E'))
    };
    match name.match_indices('.').find(|&(dot, _)| ends_here(dot)) {
        Some((dot, _)) => name.get(..dot).unwrap_or(name),
        None => name,
    }
}

fn demangle_cpp(name: &str) -> Option<String> {
    if !(name.starts_with("_Z") || name.starts_with("__Z") || name.starts_with("___Z")) {
        return None;
    }
    // Compilers append `.cold`, `.part.0` or `.llvm.1234` to the mangled name of a part or copy of a function.
    let parse = |name: &str| {
        let options = cpp_demangle::ParseOptions::default().recursion_limit(MAX_DEPTH);
        let symbol = cpp_demangle::Symbol::new_with_options(name, &options).ok()?;
        let mut text = Capped::default();
        let options = cpp_demangle::DemangleOptions::default();
        let options = options.recursion_limit(MAX_DEPTH).no_params().no_return_type();
        symbol.structured_demangle(&mut CppWriter(&mut text), &options).ok()?;
        Some(as_binutils_writes(text.0, name))
    };
    // Mangled names have no dot, apart from some that only compilers generate.
    let base = name.split_once('.').map_or(name, |(base, _)| base);
    parse(base).or_else(|| parse(name)).or_else(|| scoped_types::demangle(base, &parse))
}

/// Returns the name in the spelling of binutils' demangler, which perf uses.
fn as_binutils_writes(demangled: String, mangled: &str) -> String {
    let demangled = special_name(&demangled, mangled).unwrap_or(demangled);
    // cpp_demangle leaves the comma before an empty argument pack.
    let mut text = demangled.replace(", >", ">");
    const LITERALS: [(&str, &str); 5] = [
        ("(unsigned int)", "u"),
        ("(unsigned long long)", "ull"),
        ("(unsigned long)", "ul"),
        ("(long long)", "ll"),
        ("(long)", "l"),
    ];
    for (cast, suffix) in LITERALS {
        let mut from = 0;
        while let Some(at) = text.get(from..).and_then(|rest| rest.find(cast)).map(|at| from + at) {
            let rest = text.get(at + cast.len()..).unwrap_or_default();
            let digits = rest.bytes().take_while(|&byte| byte.is_ascii_digit() || byte == b'-').count();
            from = at + cast.len();
            if digits > 0 {
                text.insert_str(from + digits, suffix);
                text.replace_range(at..from, "");
                from = at + digits + suffix.len();
            }
        }
    }
    // Ref-qualifiers of the function; references in types follow without a blank.
    let without_reference = text.strip_suffix(" &&").or_else(|| text.strip_suffix(" &"));
    text.truncate(without_reference.map_or(text.len(), str::len));
    // ` const` at the end belongs to a const member function (`K`), or to the type of a conversion operator, which stays.
    let is_conversion = text.rsplit("::").next().is_some_and(|last| last.starts_with("operator "));
    if mangled.contains("NK") && !is_conversion {
        text.truncate(text.strip_suffix(" const").map_or(text.len(), str::len));
    }
    text
}

/// Returns binutils' spelling for a vtable, VTT or thunk (Itanium C++ ABI, 5.1.4.1 and following); `None` for other names.
fn special_name(demangled: &str, mangled: &str) -> Option<String> {
    const THUNK: &str = "{virtual override thunk(";
    const SPECIAL: [(&str, &str, &str); 5] = [
        ("_ZTV", "{vtable(", "vtable for "),
        ("_ZTT", "{vtt(", "VTT for "),
        ("_ZTh", THUNK, "non-virtual thunk to "),
        ("_ZTv", THUNK, "virtual thunk to "),
        ("_ZTc", THUNK, "covariant return thunk to "),
    ];
    let (_, braces, words) = SPECIAL.iter().find(|(prefix, _, _)| mangled.starts_with(prefix))?;
    let mut name = demangled.strip_prefix(braces)?.strip_suffix(")}")?;
    // cpp_demangle writes the offsets of a thunk before the name.
    while let Some((_, rest)) = name
        .split_once(")}, ")
        .filter(|_| name.starts_with("{offset(") || name.starts_with("{virtual offset("))
    {
        name = rest;
    }
    Some(format!("{words}{name}"))
}

/// A string that fails to grow beyond [`MAX_DEMANGLED_BYTES`].
#[derive(Default)]
struct Capped(String);

impl fmt::Write for Capped {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_DEMANGLED_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

struct CppWriter<'a>(&'a mut Capped);

impl cpp_demangle::DemangleWrite for CppWriter<'_> {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        fmt::Write::write_str(self.0, text)
    }
}

/// Interns names: demangles each once, and gives equal names one allocation.
#[derive(Default)]
pub(crate) struct NameTable {
    style: NameStyle,
    names: Mutex<KnownNames>,
    /// Hashes long names, with a random key so that a hostile file cannot make hashes collide.
    hashes: RandomState,
}

#[derive(Default)]
struct KnownNames {
    shown: HashMap<Box<[u8]>, Arc<str>>,
    /// Names whose linkage names are longer than [`Name::MAX_BYTES`], by the hashes of those: the linkage names would take
    /// more memory than the names that are shown.
    shown_of_long: HashMap<u64, Arc<str>>,
    /// The number of names that were cut.
    cut: usize,
}

impl NameTable {
    pub(crate) fn new(style: NameStyle) -> Self {
        Self { style, ..Self::default() }
    }

    /// Estimates the memory that it has on the heap, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let names = self.lock();
        let texts: usize = names.shown.iter().map(|(linkage, shown)| linkage.len() + shown.len()).sum();
        let texts_of_long: usize = names.shown_of_long.values().map(|shown| shown.len()).sum();
        let slots = names.shown.capacity() * size_of::<(Box<[u8]>, Arc<str>)>()
            + names.shown_of_long.capacity() * size_of::<(u64, Arc<str>)>();
        texts + texts_of_long + slots
    }

    /// Returns the number of names that were too long and were cut.
    pub(crate) fn cut(&self) -> usize {
        self.lock().cut
    }

    pub(crate) fn display(&self, linkage_name: &[u8]) -> Arc<str> {
        let hash = (linkage_name.len() > Name::MAX_BYTES).then(|| self.hashes.hash_one(linkage_name));
        let names = self.lock();
        let known = match hash {
            Some(hash) => names.shown_of_long.get(&hash),
            None => names.shown.get(linkage_name),
        };
        if let Some(known) = known {
            return Arc::clone(known);
        }
        drop(names);
        // Demangles without the lock, since it takes long. Two threads that demangle one name get equal results.
        let name: Arc<str> = Arc::from(display_name(linkage_name, self.style));
        let mut names = self.lock();
        let replaced = match hash {
            Some(hash) => names.shown_of_long.insert(hash, Arc::clone(&name)),
            None => names.shown.insert(linkage_name.into(), Arc::clone(&name)),
        };
        names.cut += usize::from(replaced.is_none() && Name::is_cut(&name));
        name
    }

    fn lock(&self) -> MutexGuard<'_, KnownNames> {
        // The table is consistent even if another thread panicked while it held the lock.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        display_name(name.as_bytes(), NameStyle::Demangled).into_owned()
    }

    #[test]
    fn each_language_by_its_own_rules() {
        assert_eq!(shown("_ZN4core3ptr13drop_in_place17h0123456789abcdefE"), "core::ptr::drop_in_place");
        assert_eq!(shown("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
        assert_eq!(
            shown("_ZNSt6vectorIiSaIiEE9push_backEOi"),
            "std::vector<int, std::allocator<int> >::push_back"
        );
        assert_eq!(shown("main.main"), "main.main");
        assert_eq!(shown("_D3std5stdio6stdoutFZv"), "_D3std5stdio6stdoutFZv");
        assert_eq!(shown("malloc"), "malloc");
    }

    #[test]
    fn suffixes_stay_readable() {
        assert_eq!(shown("_Z3foov.cold"), "foo");
        assert_eq!(shown("_ZN12_GLOBAL__N_13barEi.llvm.123"), "(anonymous namespace)::bar");
        assert_eq!(shown("foo.cold"), "foo.cold");
        assert_eq!(shown("_Z3foov@@VERS_1"), "foo");
        assert_eq!(shown("_Z3foov@plt"), "foo@plt");
        assert_eq!(shown("malloc@plt"), "malloc@plt");
        assert_eq!(shown("memcpy@@GLIBC_2.14"), "memcpy@@GLIBC_2.14");
        assert_eq!(
            shown("_ZN4core3ptr13drop_in_place17h0123456789abcdefE.llvm.123"),
            "core::ptr::drop_in_place"
        );
    }

    #[test]
    fn names_are_spelled_as_perf_spells_them() {
        assert_eq!(shown("_ZN1AILj2ELm3ELl4ELb1ELi5EE3runEv"), "A<2u, 3ul, 4l, true, 5>::run");
        assert_eq!(shown("_ZNK1A3getEv"), "A::get");
        assert_eq!(shown("_ZNK1AcvbEv"), "A::operator bool");
        assert_eq!(shown("_ZNK1AcvPKcEv"), "A::operator char const*");
        assert_eq!(shown("_ZN1BIKiE3runEv"), "B<int const>::run");
        assert_eq!(shown("_ZZNK1A3runEvENKUlvE_clEv"), "A::run() const::{lambda()#1}::operator()");
    }

    #[test]
    fn qualifiers_of_functions_are_left_out() {
        assert_eq!(shown("_ZNR1X3hotEv"), "X::hot");
        assert_eq!(shown("_ZNKO1X3hotEv"), "X::hot");
        assert_eq!(shown("_ZNVKR1A2f6Ev"), "A::f6");
        assert_eq!(shown("_ZNR1A2t1IiEET_S1_"), "A::t1<int>");
        assert_eq!(shown("_ZNO1AcvRKiEv"), "A::operator int const&");
    }

    #[test]
    fn types_before_a_name_in_an_expression_are_read() {
        let relocate = "_ZSt14__relocate_a_1IddENSt9enable_ifIXsrSt24__is_bitwise_relocatableIT_vE5valueEPS2_E4typeES4_S4_S4_RSaIT0_E";
        assert_eq!(shown(relocate), "std::__relocate_a_1<double, double>");
        assert_eq!(shown("_Z2e1IiENSt9enable_ifIXsr3fooIT_E5valueEiE4typeES2_"), "e1<int>");
        assert_eq!(shown("_Z2e2IiENSt9enable_ifIXsrN2n13barIT_EE5valueEiE4typeES3_"), "e2<int>");
        assert_eq!(shown("_Z2e7IiENSt9enable_ifIXsrN2n13barIT_EE2tvILi3EEEiE4typeES3_"), "e7<int>");
        let three = "_Z2e4IiENSt9enable_ifIXaaaasrSt7is_sameIT_iE5valuesrSt11is_integralIS2_E5valuesr3fooIS2_E5valueEiE4typeES2_";
        assert_eq!(shown(three), "e4<int>");
        let lambda = "_ZZ3e11IiENSt9enable_ifIXsrSt7is_sameIT_iE5valueEiE4typeES2_ENKUlS2_E_clIiEEDaS2_";
        assert_eq!(shown(lambda), "e11<int>(int)::{lambda(auto:1)#1}::operator()<int>");
        // It would be shown as something else.
        let in_a_parameter = "_ZZ1fIiEvPAsrSt7is_sameIT_iE5value_cENKUlvE_clEv";
        assert_eq!(shown(in_a_parameter), in_a_parameter);
    }

    #[test]
    fn what_cannot_be_read_to_its_end_stays_mangled() {
        let closure = "_ZN1M5applyIZNS_2goEvEUlTyT_E_EEvS1_";
        for mangled in [closure, "_Z3foovsr", "_ZSt1fIXsrSt2isIT_E5valu", "_ZN1XsrE"] {
            assert_eq!(shown(mangled), mangled);
        }
    }

    #[test]
    fn thunks_and_tables_are_spelled_as_perf_spells_them() {
        assert_eq!(
            shown("_ZThn32_N4llvm13MPPassManagerD1Ev"),
            "non-virtual thunk to llvm::MPPassManager::~MPPassManager"
        );
        assert_eq!(
            shown("_ZTv0_n24_NSt13basic_ostreamIwED1Ev"),
            "virtual thunk to std::basic_ostream<wchar_t>::~basic_ostream"
        );
        assert_eq!(shown("_ZTch0_h16_N1A1fEv"), "covariant return thunk to A::f");
        assert_eq!(shown("_ZTV3Foo"), "vtable for Foo");
        assert_eq!(shown("_ZTT3Foo"), "VTT for Foo");
        assert_eq!(shown("_ZTI3Foo"), "typeinfo for Foo");
        assert_eq!(shown("_ZTS3Foo"), "typeinfo name for Foo");
        assert_eq!(shown("_ZGVZ3foovE1x"), "guard variable for foo()::x");
        assert_eq!(shown("_ZTWN1A1xE"), "TLS wrapper function for A::x");
        assert_eq!(shown("_ZTHN1A1xE"), "TLS init function for A::x");
    }

    #[test]
    fn parts_of_rust_functions_have_its_name() {
        assert_eq!(shown("_RNvCs1234_7mycrate3foo.cold"), "mycrate::foo");
        assert_eq!(
            shown("_ZN4core3ptr28drop_in_place$LT$a..b..C$GT$17h0123456789abcdefE.warm"),
            "core::ptr::drop_in_place<a::b::C>"
        );
        assert_eq!(shown("_ZN4a..b3foo17h0123456789abcdefE"), "a::b::foo");
    }

    #[test]
    fn raw_names_and_strange_bytes() {
        assert_eq!(display_name(b"_Z3foov", NameStyle::Linkage), "_Z3foov");
        assert_eq!(display_name(b"a\xffb", NameStyle::Demangled), "a\u{fffd}b");
    }

    #[test]
    fn long_names_are_cut_counted_and_take_no_memory_for_what_is_left_out() {
        let table = NameTable::new(NameStyle::Demangled);
        let giant = vec![b'a'; 1 << 20];
        for start in 0..1000 {
            let name = table.display(&giant[start..]);
            assert!(name.len() <= Name::MAX_BYTES && name.ends_with("aa…"), "{}", name.len());
        }
        table.display(&giant);
        assert_eq!(table.cut(), 1000);
        assert!(table.memory_bytes() < 1000 * 5000, "{}", table.memory_bytes());
        assert_eq!(&*table.display(b"short"), "short");
        assert_eq!(table.cut(), 1000);
        // Whole names are demangled, though they are too long to be shown.
        let list = format!("_ZN1aI{}E1fEv", "3abc".repeat(2000));
        assert!(shown(&list).starts_with("a<abc, abc"), "{:.40}", shown(&list));
    }

    #[test]
    fn blow_ups_are_cut_short() {
        // Each level doubles the output through back-references.
        let mut bomb = String::from("_Z1fSt4pairIiiE");
        for level in 0..40 {
            let back = if level == 0 { String::from("S_") } else { format!("S{}_", level - 1) };
            bomb.push_str(&format!("St4pairI{back}{back}E"));
        }
        let _ = shown(&bomb);
        let _ = shown(&format!("_Z{}", "N".repeat(10_000)));
        let _ = shown(&format!("_R{}", "NvC".repeat(5_000)));
        let _ = shown(&format!("_ZN{}E", "1a".repeat(500_000)));
        let _ = shown(&format!("_Z1fI{}", "sr1aIT_E1b".repeat(1_000)));
    }
}
