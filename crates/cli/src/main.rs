//! The program `prof`.
//!
//! `main` parses the arguments, runs one command and turns its result into an exit code. Each command has a file in [`commands`].
//! All commands that read a recording use the crate [`analysis`].
#![allow(unreachable_pub, reason = "a binary has no public items; `pub` marks a module's interface")]
#![allow(rustdoc::broken_intra_doc_links, reason = "the help texts of arguments have brackets of their own")]

mod arguments;
mod beside;
mod commands;
mod console;
mod doctor;
mod input;
mod output;
mod reading;
mod sandbox;
mod shorthand;
mod source_files;
mod top;
mod usage;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::process::ExitCode;

use analysis::foreign::ForeignProfile;
use clap::{CommandFactory, Parser, Subcommand};

use arguments::Deferred;
use console::Console;
use host::sys::{memory, signals};

/// The first lines of the help: what makes a picture.
const PICTURE: &str = "\
Where does the time go? Record a program, then look at it:
  prof -- ./program          records it and shows what is hot (a running one: prof PID)
  prof record -- ./program   writes prof.data
  prof view                  an interactive page (a picture: prof flame)
  prof explain               one page of text";

/// The text of the help below the list of commands.
const MORE_COMMANDS: &str =
    "prof help all lists the other commands, prof help filters what selects samples and functions.";

/// The commands for services, above [`MORE_COMMANDS`] in a build that has them.
const FOR_SERVICES: &str = "\
For services:
  push      Send a recording to an engine for profiles
  watch     Sample all the time, and send profiles to an engine

";

/// A sampling profiler for Linux
#[derive(Parser)]
#[command(name = "prof", version = version(), max_term_width = 110, before_help = PICTURE,
          after_help = [if cfg!(feature = "push") { FOR_SERVICES } else { "" }, MORE_COMMANDS].concat())]
struct Arguments {
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print details (-vv: also the attributes of each event)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Record a command, processes or the whole system
    Record(Deferred<commands::record::RecordArguments>),
    /// Draw a flame graph (SVG) of a recording or a command
    Flame(Deferred<commands::flame::FlameArguments>),
    /// Write an interactive HTML page of a recording or a command
    View(Deferred<commands::view::ViewArguments>),
    /// Show functions, processes and stacks live
    Top(Deferred<commands::top::TopArguments>),
    /// Print functions and call trees of a recording
    Report(Deferred<commands::report::ReportArguments>),
    /// Summarize on one page what is hot, who calls it, when, and how reliable it is
    Explain(Deferred<commands::explain::ExplainArguments>),
    /// Say what changed between two recordings, slices of one, or runs
    Diff(Deferred<commands::diff::DiffArguments>),
    /// Show source lines and instructions of a function with their samples
    Annotate(Deferred<commands::annotate::AnnotateArguments>),
    /// Count events of a command, processes or the whole system
    Stat(Deferred<commands::stat::StatArguments>),
    /// Convert a recording to the format of another tool
    Export(Deferred<commands::export::ExportArguments>),
    /// Check what this machine allows you to record, and how to allow more
    Doctor(Deferred<commands::doctor::DoctorArguments>),
    /// Send a recording to an engine for profiles
    #[cfg(feature = "push")]
    #[command(hide = true)]
    Push(Deferred<commands::push::PushArguments>),
    /// Sample all the time, and send profiles to an engine
    #[cfg(feature = "push")]
    #[command(hide = true)]
    Watch(Deferred<commands::watch::WatchArguments>),
    /// Print the samples of a recording, as `perf script` does
    #[command(hide = true)]
    Script(Deferred<commands::script::ScriptArguments>),
    /// Pack a recording with the names it needs into one file, for another machine
    #[command(hide = true)]
    Archive(Deferred<commands::archive::ArchiveArguments>),
    /// List the events that this machine offers
    #[command(hide = true)]
    List(Deferred<commands::list::ListArguments>),
    /// Make a running recording with --overwrite write its window
    #[command(hide = true)]
    Dump(Deferred<commands::dump::DumpArguments>),
    /// Print a completion script for a shell
    #[command(hide = true)]
    Completions(Deferred<commands::completions::CompletionsArguments>),
    /// Add names to a dump (run by the recorder)
    #[command(hide = true)]
    DumpNames(Deferred<commands::dump_names::DumpNamesArguments>),
    /// Open and read files (run by prof)
    #[command(hide = true)]
    FileHelper,
    /// Write the manual pages to a folder
    #[command(hide = true)]
    Man(Deferred<commands::completions::ManArguments>),
}

/// The commands that other programs run.
const INTERNAL: [&str; 3] = ["dump-names", "file-helper", "man"];

/// Returns the parser with all commands listed that people type.
fn with_all_commands() -> clap::Command {
    let shown = |command: clap::Command| {
        let is_internal = INTERNAL.contains(&command.get_name());
        command.hide(is_internal)
    };
    Arguments::command().mut_subcommands(shown).before_help(None::<&str>).after_help(None::<&str>)
}

/// Returns the help of `prof help all` and `prof help filters`.
fn help_page(words: &[OsString]) -> Option<clap::Command> {
    match words.get(1..)? {
        [help, page] if help == "help" && page == "all" => Some(with_all_commands()),
        [help, page] if help == "help" && page == "filters" => Some(arguments::QueryArguments::page()),
        _ => None,
    }
}

/// Returns version, commit, and the features that this build has (`+`) or lacks (`-`).
fn version() -> String {
    let sign = |has: bool| if has { '+' } else { '-' };
    let (debuginfod, zstd) = (sign(host::debuginfod::HAS_CLIENT), sign(perfdata::HAS_ZSTD));
    let disassembly = sign(analysis::annotate::HAS_DISASSEMBLY);
    let push = sign(cfg!(feature = "push"));
    let version = env!("PROF_VERSION");
    format!("{version} {debuginfod}debuginfod {disassembly}disassembly {push}push {zstd}zstd")
}

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

/// The last message when memory is exhausted.
static OUT_OF_MEMORY: &str =
    "prof: error: out of memory (limited by ulimit -v, or the machine has no more)\n";

fn main() -> ExitCode {
    memory::exit_when_exhausted(&OUT_OF_MEMORY);
    let _ = arguments::TYPED_COMMAND.set(usage::typed_command);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        memory::exit_if_exhausted();
        before(panic);
    }));
    // At the file size limit, a write fails, and what was written before remains.
    signals::ignore_file_size_limit();
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(mut page) = help_page(&words) {
        return if page.print_long_help().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    match shorthand::Commands::of(&words) {
        Some(commands) => commands.run(run),
        None => run(words),
    }
}

/// Runs one command, and prints its error.
fn run(words: Vec<OsString>) -> ExitCode {
    let arguments = arguments(words).unwrap_or_else(|error| usage::exit_with_error(error));
    let console = Console::new(arguments.quiet, arguments.verbose);
    let result = match arguments.command {
        Command::Record(Deferred(record)) => commands::record::run(&record, &console),
        Command::Flame(Deferred(flame)) => commands::flame::run(&flame, &console),
        Command::Report(Deferred(report)) => commands::report::run(&report, &console),
        Command::Explain(Deferred(explain)) => commands::explain::run(&explain, &console),
        Command::Diff(Deferred(diff)) => commands::diff::run(&diff, &console),
        Command::Annotate(Deferred(annotate)) => commands::annotate::run(&annotate, &console),
        Command::Archive(Deferred(archive)) => commands::archive::run(&archive, &console),
        Command::Export(Deferred(export)) => commands::export::run(&export, &console),
        #[cfg(feature = "push")]
        Command::Push(Deferred(push)) => commands::push::run(&push, &console),
        Command::View(Deferred(view)) => commands::view::run(&view, &console),
        Command::Script(Deferred(script)) => commands::script::run(&script, &console),
        Command::Stat(Deferred(stat)) => commands::stat::run(&stat, &console),
        Command::Top(Deferred(top)) => commands::top::run(&top, &console),
        #[cfg(feature = "push")]
        Command::Watch(Deferred(watch)) => commands::watch::run(&watch, &console),
        Command::List(Deferred(list)) => commands::list::run(&list, &console),
        Command::Dump(Deferred(dump)) => commands::dump::run(&dump, &console),
        Command::DumpNames(Deferred(names)) => commands::dump_names::run(&names, &console),
        Command::FileHelper => commands::file_helper::run(),
        Command::Doctor(Deferred(doctor)) => commands::doctor::run(&doctor, &console),
        Command::Completions(Deferred(shell)) => commands::completions::run(&shell, with_all_commands()),
        Command::Man(Deferred(man)) => {
            commands::completions::write_pages(&man, with_all_commands(), &console)
        }
    };
    console.finish();
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            console.error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Parses the command line. If the first word after `flame` is a recording, it is parsed as `-i FILE`, so that options may follow.
fn arguments(words: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let arguments = Arguments::try_parse_from(&words)?;
    let Command::Flame(Deferred(flame)) = &arguments.command else { return Ok(arguments) };
    let Some((before, rest)) = words.split_at_checked(words.len().saturating_sub(flame.command().len()))
    else {
        return Ok(arguments);
    };
    if before.last().is_some_and(|word| word == "--") || !rest.first().is_some_and(|word| is_recording(word))
    {
        return Ok(arguments);
    }
    Arguments::try_parse_from(before.iter().chain([&OsString::from("-i")]).chain(rest))
}

/// Returns true if a word is the path of a recording, or of a profile of another tool, or `-`.
fn is_recording(word: &OsStr) -> bool {
    // Opening anything but a regular file may block.
    let is_file = std::fs::metadata(word).is_ok_and(|file| file.is_file());
    let begins_like_one = |file: File| {
        let mut start = Vec::new();
        let read = file.take(TELLING_BYTES).read_to_end(&mut start);
        let magic = [b"PERFILE2", b"2ELIFREP", b"PERFFILE", b"ELIFFREP"];
        read.is_ok()
            && (magic.iter().any(|magic| start.starts_with(*magic)) || ForeignProfile::may_begin_with(&start))
    };
    word == "-" || is_file && File::open(word).is_ok_and(begins_like_one)
}

/// The bytes of a file that tell a recording from a program.
const TELLING_BYTES: u64 = 64 << 10;

/// Returns true if the reader of a pipe has closed it (`prof flame --folded | head`), which is not reported as an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_behind_flame_is_no_command() {
        let folder = tempfile::tempdir().unwrap();
        let [recording, program] = ["x.data", "x"].map(|name| folder.path().join(name).into_os_string());
        std::fs::write(&recording, b"PERFILE2 and so on").unwrap();
        let folded = folder.path().join("x.folded").into_os_string();
        std::fs::write(&folded, b"main;a 1\n").unwrap();
        std::fs::write(&program, b"#!/bin/sh").unwrap();
        let command_of = |words: &[&OsStr]| {
            let words = [&["prof", "flame", "--width", "900"].map(OsStr::new), words].concat();
            match arguments(words.into_iter().map(OsStr::to_owned).collect()).map(|parsed| parsed.command) {
                Ok(Command::Flame(Deferred(flame))) => Some(flame.command().len()),
                _ => None,
            }
        };
        let [output, svg, apart] = ["-o", "x.svg", "--"].map(OsStr::new);
        assert_eq!(command_of(&[&recording, output, svg]), Some(0));
        assert_eq!(command_of(&[OsStr::new("-"), output, svg]), Some(0));
        assert_eq!(command_of(&[&folded, output, svg]), Some(0));
        assert_eq!(command_of(&[&program, output, svg]), Some(3));
        assert_eq!(command_of(&[apart, &recording]), Some(1));
        assert_eq!(command_of(&[&recording, OsStr::new("--no-such-option")]), None);
    }

    /// Titles are made from the command line of the recorder. A value of an unknown option would be mistaken for the command.
    #[test]
    fn titles_know_which_options_of_commands_that_record_take_a_value() {
        let mut arguments = Arguments::command();
        arguments.build();
        let (mut seen, mut unknown) = (Vec::new(), Vec::new());
        for command in arguments.get_subcommands() {
            let records = command.get_positionals().any(|argument| argument.get_id() == "command");
            // It writes no recording.
            if !records || command.get_name() == "stat" {
                continue;
            }
            seen.push(command.get_name());
            for argument in command.get_opts() {
                let values = argument.get_num_args().map_or(1, |count| count.min_values());
                if !argument.get_action().takes_values() || values == 0 || argument.is_require_equals_set() {
                    continue;
                }
                let names = argument.get_long_and_visible_aliases().unwrap_or_default();
                let letters = argument.get_short().map(String::from);
                let names = names.into_iter().map(str::to_owned).chain(letters);
                unknown.extend(names.filter(|name| !analysis::is_known_to_take_a_value(name)));
            }
        }
        assert_eq!(seen, ["record", "flame", "view", "top"]);
        assert!(unknown.is_empty(), "analysis::report::caption does not know {unknown:?}");
    }
}
