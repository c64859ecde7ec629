//! `prof record --overwrite` and `--switch-output`: a recording that writes a series of files.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use host::objects::RetainedFiles;
use host::sys::memory;
use recorder::{FileCompletion, FileSink, JvmMapTiming, NextFileWhen, Options, Place, WindowFiles};

use super::arguments::RecordArguments;
use crate::arguments::exit_with_usage_error;
use crate::commands::dump_names::DumpNames;
use crate::commands::name_lookup::NameLookup;
use crate::commands::recording::{Outcome, own_command_line, record_into};
use crate::console::Console;

/// Records with a window, or into a series of files, and returns the exit code of the command.
///
/// # Errors
/// The recording cannot start, or fails before its end.
pub fn record(
    arguments: &RecordArguments,
    mut options: Options,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let (parts, output) = (&arguments.parts, &arguments.output);
    if output == Path::new("-") {
        exit_with_usage_error("--overwrite and --switch-output need an output file; try: -o prof.data");
    }
    if arguments.archive {
        exit_with_usage_error("--archive works on a single file; try: prof archive FILE");
    }
    options.in_parts = true;
    options.jvm_maps = options.jvm_maps.map(|_| JvmMapTiming::Repeatedly);
    // The recording may run for weeks, so fragmentation matters.
    memory::map_large_blocks_separately();
    options.dump_conditions = parts.conditions();
    let series = parts.series(output).with_context(|| format!("cannot write to {}", output.display()))?;
    let commands = parts.commands(console)?;
    let (compress, command_line, strict) = (arguments.compress, own_command_line(), arguments.strict);
    let (names, completion) = match arguments.no_names {
        true => (NameLookup::WhenRead, None),
        false => {
            let held = Arc::new(Mutex::new(RetainedFiles::newest_only()));
            let completion: Box<dyn FileCompletion> = Box::new(DumpNames::new(Arc::clone(&held)));
            (NameLookup::DuringRecording(held), Some(completion))
        }
    };
    let when = parts.switch().unwrap_or(NextFileWhen::OnRequest);
    let place = match parts.window() {
        Some(window) => {
            let every = match when {
                NextFileWhen::Age(age) => Some(age),
                NextFileWhen::OnRequest | NextFileWhen::Bytes(_) => None,
            };
            Place::Window(series, WindowFiles { window, every, exit: parts.exit() })
        }
        None => Place::Series(series, when),
    };
    let sink = FileSink::new(place, compress, command_line).with_completion(completion);
    match record_into(sink, Some(output), commands, &options, strict, names, console)? {
        Outcome::Recorded(code, _) | Outcome::NotStarted(code) => Ok(code),
    }
}
