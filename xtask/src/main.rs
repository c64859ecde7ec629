//! The chores of the project: `cargo xtask CHORE [ARGS…]`, one file each.

mod bench;
mod book;
mod ci;
mod corpus;
mod count;
mod dist;
mod fixtures;
mod fuzz;
mod growth;
mod kernels;
mod matrix;
mod no_std;
mod outputs;
mod package;
mod page_types;
mod pictures;
mod records;
mod simulate;
mod soak;
mod sweep;
mod terminal;
mod test_runner;
mod tidy;
mod workspace;

use std::process::ExitCode;

/// A chore: its name, its description in the usage text, and its implementation.
struct Chore {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> anyhow::Result<()>,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "tidy",
        about: "check the project's rules: imports, circles, purity, licences, fixtures",
        run: tidy::run,
    },
    Chore { name: "ci", about: "run every check of CI: format, clippy, tidy, fuzzing, tests", run: ci::run },
    Chore {
        name: "page-types",
        about: "check the types in the script of the page of prof view (with npm)",
        run: page_types::run,
    },
    Chore {
        name: "fixtures",
        about: "build the programs of tests and benchmarks (--big: also a recording of 1.5 million samples)",
        run: fixtures::run,
    },
    Chore {
        name: "matrix",
        about: "compare symbols of programs of every toolchain with other symbolizers (--full: every combination)",
        run: matrix::run,
    },
    Chore {
        name: "sweep",
        about: "compare symbols of all code of a program with other symbolizers (OBJECT, --reference FILE, --step BYTES)",
        run: sweep::run,
    },
    Chore {
        name: "bench",
        about: "compare prof with perf and inferno, as ratios of one run",
        run: bench::run,
    },
    Chore {
        name: "ablation",
        about: "record without each source of stack frames or optimization in turn (--runs N, --busy, PROGRAM…)",
        run: bench::ablation::run,
    },
    Chore {
        name: "fuzz",
        about: "fuzz the parsers (TARGET or all, --secs N) or the program (commands, --count N)",
        run: fuzz::run,
    },
    Chore {
        name: "growth",
        about: "compare instructions and memory for recordings four times as long (words of a SHAPE, --prof FILE)",
        run: growth::run,
    },
    Chore {
        name: "kernels",
        about: "boot Debian's kernels in an emulator and check prof in them (--all, words of kernels or checks)",
        run: kernels::run,
    },
    Chore {
        name: "soak",
        about: "run prof top under a fork storm and watch its memory (MINUTES) [default: 30]",
        run: soak::run,
    },
    Chore {
        name: "corpus",
        about: "compare how prof and perf read every recording in a folder [default: ../shared/corpus]",
        run: corpus::run,
    },
    Chore {
        name: "records",
        about: "print kind, time, pid, tid, ip and size of each record of a recording (FILE)",
        run: records::run,
    },
    Chore {
        name: "count",
        about: "count lines, files, circles of imports and chosen constants (FOLDER: another checkout; --check: hold the ceilings; --lower: lower them)",
        run: count::run,
    },
    Chore {
        name: "outputs",
        about: "write all that a binary says of recordings, to compare two binaries (PROF OUT [DIR…])",
        run: outputs::run,
    },
    Chore {
        name: "simulate",
        about: "count how often the test of prof diff errs, with invented runs (--rounds N, words of a scenario)",
        run: simulate::run,
    },
    Chore {
        name: "pictures",
        about: "make the pictures of README and the book (with Chromium and tmux)",
        run: pictures::run,
    },
    Chore { name: "book", about: "build the book as a site, in target/book (with mdbook)", run: book::run },
    Chore {
        name: "dist",
        about: "build release artefacts: static and dynamic programs, deb, rpm (or those named)",
        run: dist::run,
    },
    Chore {
        name: "package",
        about: "package all crates as for a registry (--verify builds them)",
        run: package::run,
    },
    Chore {
        name: "no-std",
        about: "compile the crates that are no_std for a target without an operating system",
        run: no_std::run,
    },
    Chore {
        name: "measure",
        about: "run one command for bench, and print its cost",
        run: bench::measure::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else {
        return usage();
    };
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        eprintln!("xtask: no chore is called {name}");
        return usage();
    };
    match (chore.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask CHORE [ARGS…]\n");
    for chore in CHORES {
        eprintln!("  {:<11} {}", chore.name, chore.about);
    }
    ExitCode::from(2)
}
