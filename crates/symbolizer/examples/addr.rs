//! Symbolizes addresses of an object, in the output format of `llvm-symbolizer -fi --no-demangle`:
//! `cargo run --release -p prof-symbolizer --example addr -- OBJECT [DEBUG_DIR…] < ADDRESSES`.
#![expect(clippy::print_stderr, clippy::unwrap_used, reason = "a program of its own")]

#[path = "../tests/matrix/resolve.rs"]
mod resolve;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Instant;

use model::Resolution;
use prof_symbolizer::{NameStyle, Options};

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name| {
        let found = arguments.iter().position(|argument| argument == name);
        found.map(|at| arguments.remove(at)).is_some()
    };
    let quiet = flag("-q");
    let options = Options {
        names: if flag("-C") { NameStyle::Demangled } else { NameStyle::Linkage },
        inlines: !flag("--no-inlines"),
        locations: !flag("--no-lines"),
        for_compilers: flag("--for-compilers"),
    };
    let path = std::env::current_dir().unwrap().join(arguments.first().unwrap());
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).unwrap();
    let addresses: Vec<u64> =
        input.lines().map(|line| u64::from_str_radix(line.trim_start_matches("0x"), 16).unwrap()).collect();
    let begin = Instant::now();
    let debug_dirs = arguments.iter().skip(1).map(PathBuf::from).collect();
    let resolutions = resolve::resolve(&path, debug_dirs, options, &addresses);
    eprintln!("{} addresses: {:?}", addresses.len(), begin.elapsed());
    if quiet {
        return;
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (address, resolution) in addresses.iter().zip(resolutions) {
        writeln!(out, "{address:#x}").unwrap();
        match resolution {
            Resolution::Resolved(symbolized) => {
                for frame in symbolized.frames.iter() {
                    let (file, line, column) =
                        frame.location.clone().map_or(("??".into(), 0, 0), |location| {
                            (location.file, location.line, location.column)
                        });
                    writeln!(out, "{}\n{file}:{line}:{column}", frame.function).unwrap();
                }
            }
            Resolution::Unresolved(reason) | Resolution::Delimited { reason, .. } => {
                writeln!(out, "??\n({reason})").unwrap();
            }
        }
        writeln!(out).unwrap();
    }
}
