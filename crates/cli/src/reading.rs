//! The way from a recording to a result: made or opened, read in a confined process, written, and shown.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use analysis::input::Input;
use analysis::{Analysis, Request};
use anyhow::Context;
use host::files::NewFile;
use recorder::{CommandSources, FileConsumer, Options, Workload};

use crate::arguments::{DebuginfodArguments, RuntimeArguments, exit_with_usage_error};
use crate::commands::name_lookup::NameLookup;
use crate::commands::record::{Outcome, own_command_line, record_into, temporary_file};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::sandbox;

/// The recording that a result is made of.
pub enum RecordingSource<'a> {
    /// The file at this path, or the one that is meant where none is named.
    File(Option<&'a Path>),
    /// One that is made of this command now.
    Command {
        words: &'a [OsString],
        runtimes: &'a RuntimeArguments,
        /// Records where threads wait, too.
        off_cpu: bool,
    },
}

impl<'a> RecordingSource<'a> {
    /// The command, if there is one; else the file.
    pub fn new(
        path: Option<&'a Path>,
        words: &'a [OsString],
        runtimes: &'a RuntimeArguments,
        off_cpu: bool,
    ) -> Self {
        if words.is_empty() && runtimes.are_given() {
            exit_with_usage_error(
                "--runtimes asks the runtimes of a command while it is recorded; try: prof flame --runtimes -- COMMAND",
            );
        }
        if words.is_empty() { Self::File(path) } else { Self::Command { words, runtimes, off_cpu } }
    }
}

/// Lets `write` make a result of a recording, in a confined process, and opens it at the path `browser`, if there is one.
/// Returns the exit code of the command that was recorded, where there was one and all went well.
///
/// # Errors
/// Where the command cannot be recorded or the recording cannot be opened, and those of `write` and of the output.
pub fn produce(
    source: &RecordingSource<'_>,
    servers: &DebuginfodArguments,
    output: Output,
    browser: Option<&Path>,
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
    browser.map_or(Ok(()), open_in_browser)?;
    Ok(code)
}

/// Records a command with the usual settings into a file without a name, and with `off_cpu` also where it waits. Returns that
/// file, too.
///
/// # Errors
/// Where the command or the machine does not allow it, and where no temporary file can be made.
fn record_command(
    words: &[OsString],
    runtimes: &RuntimeArguments,
    output_to_stderr: bool,
    off_cpu: bool,
    console: &Console,
) -> anyhow::Result<(Outcome, File)> {
    let environment = runtimes.environment(words, console);
    let mut options = Options::of_command(Workload { words: words.to_vec(), environment, output_to_stderr });
    options.jvms = runtimes.jvms(true, false);
    if off_cpu {
        recorder::observe_waits(&mut options, &recorder::this_machine())?;
    }
    let no_file = || format!("cannot make {}", temporary_file());
    let file = NewFile::create_nameless(&std::env::temp_dir()).with_context(no_file)?;
    let recording = file.file().try_clone().with_context(no_file)?;
    let consumer = FileConsumer::unseen(file, own_command_line());
    let commands = CommandSources::default();
    Ok((record_into(consumer, None, commands, &options, false, NameLookup::AtEnd, console)?, recording))
}

/// Reads a recording. `act` says for which purpose, in the message that there is nothing to read: `draw`.
///
/// # Errors
/// As [`Analysis::read`].
pub fn analyse(
    input: Input,
    request: &Request<'_>,
    act: &str,
    console: &Console,
) -> anyhow::Result<Analysis> {
    let cannot = format!("cannot {act} {}", input.name);
    match Analysis::read(input, request, console) {
        Err(error) if error.is_about_samples() => Err(error).context(cannot),
        read => Ok(read?),
    }
}

/// Hands a picture or a page to whatever the desktop opens such files with.
///
/// # Errors
/// Where nothing can be started.
fn open_in_browser(path: &Path) -> anyhow::Result<()> {
    let opened = Command::new("xdg-open").arg(path).stdin(Stdio::null()).spawn();
    opened.map(|_| ()).with_context(|| {
        format!("cannot open {} (xdg-open is missing?); open it in a browser yourself", path.display())
    })
}
