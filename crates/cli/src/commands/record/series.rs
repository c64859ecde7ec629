//! `prof record --overwrite` and `--switch-output`: a recording that writes a series of files.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use anyhow::Context;
use host::objects::RetainedFiles;
use host::sys::memory;
use recorder::{JvmMapTiming, NextFileWhen, Options, SeriesConsumer, WindowConsumer};

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
            (NameLookup::DuringRecording(Arc::clone(&held)), Some(Box::new(DumpNames::new(held))))
        }
    };
    let outcome = match (parts.window(), parts.switch()) {
        (Some(window), switch) => {
            let every = switch.and_then(|when| match when {
                NextFileWhen::Age(age) => Some(age),
                NextFileWhen::OnRequest | NextFileWhen::Bytes(_) => None,
            });
            let mut sink = WindowConsumer::new(series, window, compress, command_line);
            sink = sink.with_interval(every).with_exit_condition(parts.exit());
            if let Some(completion) = completion {
                sink = sink.with_completion(completion);
            }
            record_into(sink, Some(output), commands, &options, strict, names, console)?
        }
        (None, when) => {
            let when = when.unwrap_or(NextFileWhen::OnRequest);
            let mut sink = SeriesConsumer::new(series, when, compress, command_line);
            if let Some(completion) = completion {
                sink = sink.with_completion(completion);
            }
            record_into(sink, Some(output), commands, &options, strict, names, console)?
        }
    };
    match outcome {
        Outcome::Recorded(code, _) | Outcome::NotStarted(code) => Ok(code),
    }
}
