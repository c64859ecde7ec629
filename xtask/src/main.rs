//! The project's chores: `cargo xtask CHORE [ARGS…]`, one file per chore.

mod bench;
mod book;
mod ci;
mod corpus;
mod dist;
mod fixtures;
mod fuzz;
mod growth;
mod matrix;
mod no_std;
mod package;
mod page_types;
mod soak;
mod sweep;
mod terminal;
mod test_runner;
mod tidy;
mod workspace;

use std::process::ExitCode;

/// A chore: what is typed, what `cargo xtask` alone prints about it, and what it does with its arguments.
struct Chore {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> anyhow::Result<()>,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "tidy",
        about: "hold the rules of the house: imports, purity, sizes, names",
        run: tidy::run,
    },
    Chore {
        name: "ci",
        about: "format, clippy, tidy, fuzzing, tests: what has to pass before anything lands",
        run: ci::run,
    },
    Chore {
        name: "page-types",
        about: "check the types in the script of prof view's page (with npm)",
        run: page_types::run,
    },
    Chore {
        name: "fixtures",
        about: "build what tests and benchmarks look at (--big: a recording of 1.5 million samples)",
        run: fixtures::run,
    },
    Chore {
        name: "matrix",
        about: "symbolize programs of every toolchain, and compare (--full: every combination)",
        run: matrix::run,
    },
    Chore {
        name: "sweep",
        about: "symbolize all code of a program, and compare (OBJECT, --reference FILE, --step BYTES)",
        run: sweep::run,
    },
    Chore {
        name: "bench",
        about: "hold prof against perf and inferno, in ratios of one run",
        run: bench::run,
    },
    Chore {
        name: "ablation",
        about: "leave out each source of stack frames and each saving in turn (--runs N, --busy, PROGRAM…)",
        run: bench::ablation::run,
    },
    Chore {
        name: "fuzz",
        about: "give hostile bytes to readers (TARGET or all, --secs N) or to the program (commands, --count N)",
        run: fuzz::run,
    },
    Chore {
        name: "growth",
        about: "count what recordings four times as long take (words of a SHAPE's name, --prof FILE)",
        run: growth::run,
    },
    Chore {
        name: "soak",
        about: "let prof top run under a fork storm, and watch its memory (MINUTES, 30 if not said)",
        run: soak::run,
    },
    Chore {
        name: "corpus",
        about: "hold every recording below a folder against perf's reading of it [default: ../shared/corpus]",
        run: corpus::run,
    },
    Chore { name: "book", about: "build the book as a site, in target/book (with mdbook)", run: book::run },
    Chore {
        name: "dist",
        about: "build what is handed to users: static and dynamic programs, deb, rpm (names choose)",
        run: dist::run,
    },
    Chore {
        name: "package",
        about: "pack all crates as for a registry (--verify builds them)",
        run: package::run,
    },
    Chore {
        name: "no-std",
        about: "compile the crates that are no_std for a target without an operating system",
        run: no_std::run,
    },
    Chore {
        name: "measure",
        about: "run one command for bench, and print what it took",
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
