//! `cargo prof`: builds a binary, test, benchmark or example with cargo, records it with `prof` and draws a flame graph.
//!
//! [`arguments`] divides the command line among cargo and `prof`, [`profile`] ensures that the build has line tables, [`build`] runs
//! cargo and reads its JSON messages, and [`record`] runs `prof record` and `prof flame`.
#![allow(unreachable_pub, reason = "a binary has no public items; `pub` marks a module's interface")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command talks to its user")]

mod arguments;
mod build;
mod profile;
mod record;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    // `cargo prof …` runs `cargo-prof prof …`.
    let mut words = std::env::args_os().skip(1).peekable();
    words.next_if(|word| word == "prof");
    let arguments = Arguments::parse(words).unwrap_or_else(|answer| answer.exit());
    run(&arguments).unwrap_or_else(|error| {
        eprintln!("cargo prof: error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let workspace = build::Workspace::find(arguments)?;
    let profile = arguments.profile();
    let variables = profile::line_tables(profile, &workspace.root)?;
    if !variables.is_empty() && !arguments.quiet {
        let set: Vec<_> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        eprintln!(
            "cargo prof: the profile {profile} has no line tables: building with {} (to keep one build, write \
             `debug = \"line-tables-only\"` below [profile.{profile}] in Cargo.toml)",
            set.join(" ")
        );
    }
    if profile == "dev" && !arguments.quiet {
        eprintln!("cargo prof: the profile dev is not optimized; try: cargo prof --release");
    }
    let target = build::build(arguments, variables)?;
    record::run(arguments, &workspace.output, &target)
}
