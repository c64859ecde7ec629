//! Programs of every toolchain and form of debug information, held against llvm-symbolizer and eu-addr2line.
//!
//! `every_pair` builds a small set in which every two of {compiler, DWARF version, kind, linker, form} meet;
//! `every_combination` (ignored by default: `cargo xtask matrix --full`) builds all.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where it cannot go on, and tells what it skips"
)]

mod build;
mod combination;
mod oracle;
mod resolve;
mod sweep;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use elf::{Object, SymbolKind, SymbolSource};
use prof_symbolizer::{NameStyle, Options};

use combination::{Combination, Form};

#[test]
fn every_pair() {
    check(&Combination::pairwise());
}

#[test]
#[ignore = "builds more than a thousand programs: cargo xtask matrix --full"]
fn every_combination() {
    let part = std::env::var("MATRIX_PART").unwrap_or_default();
    let mut combinations = Combination::all();
    combinations.retain(|combination| combination.to_string().contains(&part));
    check(&combinations);
}

#[test]
#[ignore = "of any program: cargo xtask sweep"]
fn a_sweep() {
    oracle::available().unwrap();
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let object = set("SWEEP_OBJECT").unwrap();
    let reference = set("SWEEP_REFERENCE").unwrap_or_else(|| object.clone());
    let step = set("SWEEP_STEP").map_or(1, |step| step.to_str().unwrap().parse().unwrap());
    let found = sweep::sweep(&object, &reference, set("SWEEP_DEBUG_DIR").into_iter().collect(), step);
    println!("{found}");
    assert!(found.is_right());
}

/// A stripped Go program tells by its own table what the debug information of its twin says.
#[test]
fn stripped_go() {
    let go = |args: &[&str]| std::process::Command::new("go").args(args).output();
    if let Err(why) =
        oracle::available().and_then(|()| go(&["version"]).map_err(|_| "go is not installed".into()))
    {
        println!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/matrix/program.go");
    for mode in ["exe", "pie"] {
        let build = |name: &str, linker: &str| {
            let built = folder.path().join(name);
            let flags =
                [&format!("-buildmode={mode}"), "-ldflags", linker, "-o", built.to_str().unwrap(), source];
            let out = go(&[&["build"][..], &flags].concat()).unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            built
        };
        let (whole, stripped) = (build("whole", ""), build("stripped", "-s -w"));
        let found = sweep::sweep(&stripped, &whole, Vec::new(), 11);
        println!("{mode}: {found}");
        assert!(found.is_right(), "{mode}: {found}");
    }
}

/// Where another linker put C code before Go's functions, the names are those of the symbols that a twin kept, and C
/// functions have none.
#[test]
fn stripped_go_with_c() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/matrix/with_c.go");
    let folder = tempfile::tempdir().unwrap();
    // lld leaves the addresses of a position-independent program to its relocations.
    for (mode, linker) in [("exe", ""), ("pie", ""), ("pie", " -extldflags=-fuse-ld=lld")] {
        let build = |name: &str, strip: &str| {
            let built = folder.path().join(name);
            let flags = [
                &format!("-buildmode={mode}"),
                &format!("-ldflags={strip}{linker}"),
                "-o",
                built.to_str().unwrap(),
                source,
            ];
            let go =
                std::process::Command::new("go").arg("build").args(flags).env("CGO_ENABLED", "1").output();
            let out = go.map_err(|_| String::from("go is not installed"))?;
            let complaint = String::from_utf8_lossy(&out.stderr).into_owned();
            out.status.success().then_some(built).ok_or(complaint)
        };
        let (whole, stripped) =
            match build("whole", "").and_then(|whole| Ok((whole, build("stripped", "-s -w")?))) {
                Ok(built) => built,
                Err(why) => {
                    println!("skipped: {mode}{linker}: {why}");
                    continue;
                }
            };
        let object = Object::parse(std::fs::read(&whole).unwrap()).unwrap();
        let symbols = object.symbols(SymbolSource::Full).filter(|symbol| symbol.kind == SymbolKind::Function);
        let functions: Vec<(u64, String)> = symbols
            .map(|symbol| (symbol.address.0 + 1, String::from_utf8_lossy(symbol.name()).into_owned()))
            .filter(|(_, name)| name.starts_with("main.") || name.starts_with("probe_"))
            .collect();
        let addresses: Vec<u64> = functions.iter().map(|&(address, _)| address).collect();
        let options =
            Options { names: NameStyle::Linkage, inlines: false, locations: false, ..Options::default() };
        let found = resolve::resolve(&stripped, Vec::new(), options, &addresses);
        let mut seen = [0; 2];
        for ((address, name), found) in functions.iter().zip(&found) {
            let is_go = name.starts_with("main.");
            seen[usize::from(is_go)] += 1;
            let ours = oracle::told(found).first().map(|told| told.0.clone());
            let expected = is_go.then(|| oracle::plain(name).to_owned());
            assert_eq!(ours, expected, "{mode}{linker}: {address:#x} is {name}");
        }
        assert!(seen.iter().all(|&count| count > 1), "{mode}{linker}: {functions:?}");
    }
}

/// The C library with its debug file, as the distribution builds them: assembly, aliases, packed sections.
#[test]
fn the_c_library() {
    let library = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    let Ok(bytes) = std::fs::read(library) else {
        println!("skipped: no {}", library.display());
        return;
    };
    if let Err(why) = oracle::available() {
        println!("skipped: {why}");
        return;
    }
    let object = Object::parse(bytes).unwrap();
    let text = object.section(".text").unwrap();
    // Some two thousand places all over the code.
    let addresses: Vec<u64> = (text.address.0..text.address.0 + text.size).step_by(701).collect();
    let options = Options { names: NameStyle::Linkage, inlines: true, locations: true, ..Options::default() };
    let ours = resolve::resolve(library, Vec::new(), options, &addresses);
    let agreed = oracle::agreed(library, &addresses);
    let (mut asked, mut wrong) = (0, Vec::new());
    for ((address, expected), ours) in addresses.iter().zip(agreed).zip(&ours) {
        // Where there is an inlined call there is debug information; the function itself may have several names, and
        // each tool has its own way to choose.
        let Some(expected) = expected.filter(|expected| expected.len() > 1) else { continue };
        asked += 1;
        let ours = oracle::told(ours);
        let chain = |told: &[oracle::Told]| told.split_last().map(|(_, inlined)| inlined.to_vec());
        let place = |told: &[oracle::Told]| told.last().map(|told| (told.1.clone(), told.2));
        if chain(&ours) != chain(&expected) || place(&ours) != place(&expected) {
            wrong.push(format!("{address:#x} is {ours:?}, expected {expected:?}"));
        }
    }
    if asked == 0 {
        println!("skipped: libc6-dbg is not installed");
    }
    println!("{asked} places compared");
    assert!(wrong.len() * 1000 <= asked, "{}", wrong.join("\n"));
}

/// GNU C's function in a function has code outside of that one's, and inlined calls of its own.
#[test]
fn functions_within_functions() {
    const SOURCE: &str = "static int twice(int x) { return x * 2 + (x >> 3); }\n\
        int probe_outer(int x) {\n\
            __attribute__((noinline)) int probe_nested(int y) { return twice(y + x) * 7; }\n\
            return probe_nested(x) + probe_nested(x + 1);\n\
        }\n\
        int main(int count, char **arguments) { return probe_outer(count); }\n";
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("nested.c"), folder.path().join("nested"));
    std::fs::write(&source, SOURCE).unwrap();
    let gcc = std::process::Command::new("gcc").args(["-O2", "-g", "-o"]).args([&program, &source]).output();
    if !gcc.is_ok_and(|output| output.status.success()) {
        println!("skipped: gcc is not installed");
        return;
    }
    let object = Object::parse(std::fs::read(&program).unwrap()).unwrap();
    let nested =
        object.symbols(SymbolSource::Full).find(|symbol| symbol.name().starts_with(b"probe_nested")).unwrap();
    let outer = object.symbols(SymbolSource::Full).find(|symbol| symbol.name() == b"probe_outer").unwrap();
    let addresses: Vec<u64> = (nested.address.0..nested.address.0 + nested.size).collect();
    let options =
        Options { names: NameStyle::Linkage, inlines: true, locations: false, ..Options::default() };
    // Alone, and with an address of the function around it.
    for more in [None, Some(outer.address.0)] {
        let asked: Vec<u64> = addresses.iter().copied().chain(more).collect();
        let found = resolve::resolve(&program, Vec::new(), options, &asked);
        let inlined = found.iter().map(oracle::told).any(|told| {
            matches!(told.as_slice(), [call, function] if call.0 == "twice" && function.0.starts_with("probe_nested"))
        });
        assert!(inlined, "{found:?}");
    }
}

/// Where strip(1) has removed functions, a label without a size names its own code, and not the functions behind it.
#[test]
fn labels_before_functions_without_symbols() {
    const SOURCE: &str = "__asm__(\".text\\n.globl probe_label\\nprobe_label: test %edi, %edi\\n\"\n\
        \"jne 1f\\nret\\n1: nop\\nret\\n\");\n\
        static __attribute__((noinline, noreturn)) void probe_hidden(volatile int *x) { for (;;) ++*x; }\n\
        extern void probe_label(int);\n\
        int probe_caller(int x) { probe_label(x); probe_hidden(&x); }\n\
        int main(int count, char **arguments) { return probe_caller(count); }\n";
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("gap.c"), SOURCE).unwrap();
    let (whole, stripped) = (path("gap"), path("stripped"));
    for tables in ["-fasynchronous-unwind-tables", "-fno-asynchronous-unwind-tables"] {
        let mut gcc = std::process::Command::new("gcc");
        gcc.args(["-O1", "-rdynamic", "-fno-toplevel-reorder", tables, "-o"]).args([&whole, &path("gap.c")]);
        if !gcc.output().is_ok_and(|output| output.status.success()) || cfg!(not(target_arch = "x86_64")) {
            println!("skipped: there is no gcc for x86-64");
            return;
        }
        let object = Object::parse(std::fs::read(&whole).unwrap()).unwrap();
        let symbol = |name: &str| {
            let wanted = |symbol: &elf::Symbol<'_>| symbol.name() == name.as_bytes();
            object.symbols(SymbolSource::Full).find(wanted).unwrap().address.0
        };
        let (label, hidden) = (symbol("probe_label"), symbol("probe_hidden"));
        assert!(label < hidden, "the gap lies behind the label");
        // All symbols, those of other objects, those of the dynamic linker.
        for (strip, function) in
            [("--strip-debug", Some("probe_hidden")), ("--discard-all", None), ("--strip-all", None)]
        {
            build::run(std::process::Command::new("strip").args([strip, "-o"]).args([&stripped, &whole]))
                .unwrap();
            let options = Options {
                names: NameStyle::Demangled,
                inlines: false,
                locations: false,
                ..Options::default()
            };
            let found =
                resolve::resolve(&stripped, Vec::new(), options, &[label, label + 5, hidden, hidden + 2]);
            let names: Vec<_> =
                found.iter().map(|found| oracle::told(found).first().map(|told| told.0.clone())).collect();
            let names: Vec<Option<&str>> = names.iter().map(Option::as_deref).collect();
            let label = Some("probe_label");
            assert_eq!(names, [label, label, function, function], "{strip} {tables}");
        }
    }
}

/// GCC states no linkage name for an inlined function that only its own unit uses: its scope is that of the entries around.
#[test]
fn inlined_functions_have_their_scope() {
    const SOURCE: &str = "#define INLINE inline __attribute__((always_inline))\n\
        namespace outer { namespace {\n\
        struct One { static INLINE int step(int n) { volatile int s = 0; s += n; return s; } };\n\
        template <class T> struct Two { T INLINE step(T n) { volatile T s = 0; s ^= n; return s; } };\n\
        } static INLINE int step(int n) { volatile int s = n; return s; } }\n\
        static INLINE int step(int n) { volatile int s = -n; return s; }\n\
        int main(int count, char **) {\n\
            auto a = [&](int n) { volatile int t = n; return t + 1; }; auto b = [&](int n) { volatile int t = n; return t; };\n\
            struct { INLINE int step(int n) { volatile int s = n; return s * 2; } } local;\n\
            outer::Two<int> two;\n\
            return outer::One::step(count) + two.step(count) + outer::step(count) + step(count) + a(1) + b(2) + local.step(3);\n\
        }\n";
    const EXPECTED: [&str; 7] = [
        "main::{lambda at 8}::operator()",
        "main::{lambda at 8}::operator()",
        "main::{unnamed type at 9}::step",
        "outer::(anonymous namespace)::One::step",
        "outer::(anonymous namespace)::Two<int>::step",
        "outer::step",
        "step",
    ];
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("scopes.cpp"), folder.path().join("scopes"));
    std::fs::write(&source, SOURCE).unwrap();
    for flags in
        [&["-gdwarf-4"][..], &["-gdwarf-5"], &["-gdwarf-4", "-fdebug-types-section"], &["-gsplit-dwarf"]]
    {
        let mut gcc = std::process::Command::new("g++");
        gcc.args(["-O2", "-g"]).args(flags).arg("-o").args([&program, &source]).current_dir(&folder);
        if !gcc.output().is_ok_and(|output| output.status.success()) {
            println!("skipped: g++ is not installed");
            return;
        }
        let object = Object::parse(std::fs::read(&program).unwrap()).unwrap();
        let main = object.symbols(SymbolSource::Full).find(|symbol| symbol.name() == b"main").unwrap();
        let addresses: Vec<u64> = (main.address.0..main.address.0 + main.size).collect();
        // None of them has a linkage name.
        let options =
            Options { names: NameStyle::Linkage, inlines: true, locations: false, ..Options::default() };
        let found = resolve::resolve(&program, Vec::new(), options, &addresses);
        let frames = found.iter().filter_map(|found| match found {
            model::Resolution::Resolved(known) => Some(known.frames.iter().filter(|frame| frame.inlined)),
            _ => None,
        });
        let names: std::collections::BTreeSet<&str> =
            frames.flatten().map(|frame| &*frame.function).collect();
        // Releases of GCC differ in the column.
        let without_column = |name: &str| match (name.rfind(" at "), name.find('}')) {
            (Some(at), Some(end)) => {
                let line = name[at..end].split(':').next().unwrap();
                [&name[..at], line, &name[end..]].concat()
            }
            _ => name.to_owned(),
        };
        let names: Vec<String> = names.into_iter().map(without_column).collect();
        assert_eq!(names, EXPECTED, "{flags:?}");
    }
}

/// Calls of an indirect function go through a stub whose relocation names no symbol, but the resolver's address.
#[test]
fn stubs_of_indirect_functions() {
    const SOURCE: &str = "static int one(void) { return 1; }\n\
        static int (*resolve(void))(void) { return one; }\n\
        int chosen(void) __attribute__((ifunc(\"resolve\"), visibility(\"hidden\")));\n\
        int main(void) { return chosen(); }\n";
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("chosen.c");
    std::fs::write(&source, SOURCE).unwrap();
    let ways: &[&[&str]] = &[
        &[],
        &["-static"],
        &["-no-pie"],
        &["-m32", "-fPIE", "-pie"],
        &["-m32", "-no-pie"],
        &["-fuse-ld=gold"],
        &["-fuse-ld=lld"],
        &["-fuse-ld=mold"],
    ];
    for way in ways {
        let program = folder.path().join("chosen");
        let gcc = std::process::Command::new("gcc").args(*way).arg("-o").args([&program, &source]).output();
        if !gcc.is_ok_and(|output| output.status.success()) {
            println!("skipped: gcc {} does not link here", way.join(" "));
            continue;
        }
        let object = Object::parse(std::fs::read(&program).unwrap()).unwrap();
        let stubs = object.sections().iter().filter(|section| {
            section.is_executable() && matches!(section.name.get(..4), Some(b".plt" | b".ipl"))
        });
        let addresses: Vec<u64> =
            stubs.flat_map(|stubs| (stubs.address.0..stubs.address.0 + stubs.size).step_by(8)).collect();
        let options =
            Options { names: NameStyle::Demangled, inlines: false, locations: false, ..Options::default() };
        let found = resolve::resolve(&program, Vec::new(), options, &addresses);
        let named = found.iter().filter_map(|found| match found {
            model::Resolution::Resolved(known) => known.frames.first(),
            _ => None,
        });
        let names: Vec<String> = named.map(|frame| frame.function.to_string()).collect();
        // mold gives its stubs symbols.
        let is_it = |name: &String| name == "chosen@plt" || name == "chosen$pltgot";
        assert!(names.iter().any(is_it), "gcc {}: {names:?}", way.join(" "));
    }
}

/// What came of one combination.
enum Outcome {
    Right { addresses: usize },
    Wrong(String),
    Impossible(String),
}

fn check(combinations: &[Combination]) {
    if let Err(why) = oracle::available() {
        println!("skipped: {why}");
        return;
    }
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(&combination) = combinations.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = check_one(combination);
                    outcomes.lock().unwrap().push((combination, outcome));
                }
            });
        }
    });
    let (mut right, mut addresses, mut wrong) = (0, 0, Vec::new());
    for (combination, outcome) in outcomes.into_inner().unwrap() {
        match outcome {
            Outcome::Right { addresses: checked } => {
                right += 1;
                addresses += checked;
            }
            Outcome::Wrong(what) => wrong.push(format!("{combination}: {what}")),
            Outcome::Impossible(why) => println!("cannot be built: {combination}: {why}"),
        }
    }
    println!("{right} of {} programs are right at {addresses} addresses", combinations.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right * 2 > combinations.len(), "most combinations can be built");
}

fn check_one(combination: Combination) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let built = match build::build(combination, folder.path()) {
        Ok(built) => built,
        Err(why) => return Outcome::Impossible(why),
    };
    let addresses = addresses_of_probes(&std::fs::read(&built.reference).unwrap());
    let mut expected = oracle::agreed(&built.reference, &addresses);
    let options = Options { names: NameStyle::Linkage, inlines: true, locations: true, ..Options::default() };
    let resolutions = resolve::resolve(&built.program, built.debug_dirs, options, &addresses);
    if combination.form == Form::MiniDebug {
        // A symbol table, and no more.
        for frames in expected.iter_mut().flatten() {
            let outermost = frames.pop().unwrap();
            *frames = vec![(outermost.0, String::from("??"), 0)];
        }
    }
    let (mut agreed, mut first_wrong, mut wrong) = (0, None, 0);
    for ((address, expected), resolution) in addresses.iter().zip(expected).zip(&resolutions) {
        let Some(expected) = expected else { continue };
        agreed += 1;
        let ours = oracle::told(resolution);
        if ours != expected {
            wrong += 1;
            first_wrong.get_or_insert_with(|| format!("{address:#x} is {ours:?}, expected {expected:?}"));
        }
    }
    match first_wrong {
        Some(first) if wrong * 1000 > agreed => {
            Outcome::Wrong(format!("{wrong} of {agreed} addresses; {first}"))
        }
        _ if agreed * 4 < addresses.len() => {
            Outcome::Wrong(format!("the oracles agree on {agreed} of {} addresses only", addresses.len()))
        }
        _ => Outcome::Right { addresses: agreed },
    }
}

/// Every second byte of the functions that the sources define.
fn addresses_of_probes(reference: &[u8]) -> Vec<u64> {
    let object = Object::parse(reference).unwrap();
    let probes = object.symbols(SymbolSource::Full).filter(|symbol| {
        let name = String::from_utf8_lossy(symbol.name());
        symbol.kind == SymbolKind::Function && (name.contains("probe_") || name.contains("ProbeBox"))
    });
    let mut addresses: Vec<u64> =
        probes.flat_map(|probe| (probe.address.0..probe.address.0 + probe.size).step_by(2)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert!(addresses.len() > 50, "the probes are not found");
    addresses
}
