//! Produces a result from a recording: records or opens it, reads it in a sandboxed process, writes the result, and opens it in a
//! browser.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use analysis::input::Input;
use anyhow::Context;
use host::files::NewFile;
use recorder::{CommandSources, FileSink, Options, Place, Workload};

use crate::arguments::{DebuginfodArguments, RuntimeArguments, exit_with_usage_error};
use crate::beside::Shown;
use crate::commands::name_lookup::NameLookup;
use crate::commands::recording::{Outcome, own_command_line, record_into, temporary_file};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::sandbox;

/// The recording from which a result is made.
pub enum RecordingSource<'a> {
    /// The recording at this path, or the default one.
    File(Option<&'a Path>),
    /// A recording of this command, made now.
    Command {
        words: &'a [OsString],
        runtimes: &'a RuntimeArguments,
        /// True if waits are recorded, too.
        off_cpu: bool,
    },
}

impl<'a> RecordingSource<'a> {
    /// Returns the command if `words` has one, else the file. Exits with a usage error if `--runtimes` is given without a command.
    pub fn new(
        path: Option<&'a Path>,
        words: &'a [OsString],
        runtimes: &'a RuntimeArguments,
        off_cpu: bool,
    ) -> Self {
        if words.is_empty() && runtimes.are_given() {
            exit_with_usage_error(
                "--runtimes needs a command to record; try: prof flame --runtimes -- COMMAND",
            );
        }
        if words.is_empty() { Self::File(path) } else { Self::Command { words, runtimes, off_cpu } }
    }

    /// Returns the path of the recording, `Some(None)` for the usual one; `None` for a command.
    pub fn file(&self) -> Option<Option<&'a Path>> {
        match self {
            Self::File(path) => Some(*path),
            Self::Command { .. } => None,
        }
    }
}

/// Runs `write` in a sandboxed process to make a result from a recording, then names or opens what is to be `shown`.
/// Returns the exit code of the recorded command, or that of a failure.
///
/// # Errors
/// The command cannot be recorded, the recording cannot be opened, or `write` or the output fails.
pub fn produce(
    source: &RecordingSource<'_>,
    servers: &DebuginfodArguments,
    output: Output,
    shown: Option<Shown>,
    console: &Console,
    write: impl FnOnce(Input, &mut Output) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let fetches = servers.fetches(console)?;
    let (code, input): (_, Box<dyn FnOnce() -> anyhow::Result<Input>>) = match *source {
        RecordingSource::File(path) => (ExitCode::SUCCESS, Box::new(move || input::open(path, console))),
        RecordingSource::Command { words, runtimes, off_cpu } => {
            match record_command(words, runtimes, output.is_stdout(), off_cpu, console)? {
                (Outcome::NotStarted(code), _) => return Ok(code),
                (Outcome::Recorded(code, sources), recording) => {
                    let open = move || {
                        Ok(Input::from_file(recording, "what was recorded")?.with_held(&sources.files))
                    };
                    (code, Box::new(open))
                }
            }
        }
    };
    let produced = sandbox::produce(console, output, fetches, |output| write(input()?, output))?;
    if produced != ExitCode::SUCCESS {
        return Ok(produced);
    }
    shown.map_or(Ok(()), |shown| shown.show(console))?;
    Ok(code)
}

/// Records a command with default settings into a nameless file, and with `off_cpu` also its waits. Returns the file, too.
///
/// # Errors
/// The command cannot be recorded, or the temporary file cannot be created.
fn record_command(
    words: &[OsString],
    runtimes: &RuntimeArguments,
    output_to_stderr: bool,
    off_cpu: bool,
    console: &Console,
) -> anyhow::Result<(Outcome, File)> {
    let environment = runtimes.environment(words, console);
    let mut options = Options::of_command(Workload { words: words.to_vec(), environment, output_to_stderr });
    options.jvm_maps = runtimes.jvms(true, false);
    if off_cpu {
        recorder::observe_waits(&mut options, &recorder::this_machine())?;
    }
    let no_file = || format!("cannot create {}", temporary_file());
    let file = NewFile::create_nameless(&std::env::temp_dir()).with_context(no_file)?;
    let recording = file.file().try_clone().with_context(no_file)?;
    let sink = FileSink::new(Place::Unnamed(file), None, own_command_line());
    let commands = CommandSources::default();
    Ok((record_into(sink, None, commands, &options, false, NameLookup::AtEnd, console)?, recording))
}
