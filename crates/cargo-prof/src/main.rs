//! `cargo prof`: builds a binary, test, benchmark or example with cargo, records it with `prof` and draws a flame graph.
//!
//! [`arguments`] divides the command line among cargo and `prof`, [`profile`] ensures that the build has line tables, [`build`] runs
//! cargo and reads its JSON messages, [`record`] runs `prof record` and
//! `prof flame`, and [`compare`] records two revisions and runs `prof diff`.
#![allow(unreachable_pub, reason = "a binary has no public items; `pub` marks a module's interface")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its user")]

mod arguments;
mod build;
mod compare;
mod profile;
mod record;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo prof …` runs `cargo-prof prof …`.
    if words.first().is_some_and(|word| word == "prof") {
        words.remove(0);
    }
    let arguments = match Arguments::parse(words) {
        Ok(arguments) => arguments,
        Err(answer) => answer.exit(),
    };
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cargo prof: error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let workspace = build::Workspace::find(arguments)?;
    let environment = profile::line_tables(arguments, &workspace.root)?;
    let quiet = arguments.flame.iter().any(|word| word == "--quiet");
    if let Some(message) = environment.message().filter(|_| !quiet) {
        eprintln!("cargo prof: {message}");
    }
    if arguments.is_unoptimized() && !quiet {
        eprintln!("cargo prof: the profile dev is not optimized; try: cargo prof --release");
    }
    if let Some(base) = &arguments.base {
        return compare::run(arguments, base, &workspace, &environment);
    }
    let target = build::build(arguments, &environment, None)?;
    record::run(arguments, &workspace, &target)
}
