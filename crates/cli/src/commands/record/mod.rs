//! `prof record`: records a command, processes or the whole system into a perf.data file.

mod arguments;
mod runs;
mod series;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use host::files::{Destination, DestinationKind};
#[cfg(feature = "push")]
use model::Name;
use recorder::{FileSink, Place};

use super::archive;
use super::name_lookup::NameLookup;
use super::recording::{Outcome, append_vanishing_names, own_command_line, record_into};
use crate::arguments::exit_with_usage_error;
use crate::console::Console;
use crate::output;

pub use arguments::{DEFAULT_OUTPUT, RecordArguments};

/// Records, and returns the exit code of the command.
///
/// # Errors
/// The recording cannot start, or fails before its end.
pub fn run(arguments: &RecordArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let mut options = arguments.options(console)?;
    if options.delay == Some(Duration::MAX) && !arguments.parts.has_control() {
        exit_with_usage_error("-D -1 needs --control; try: --control fifo:PATH");
    }
    if let Some(runs) = arguments.runs.runs {
        return runs::record(arguments, runs, options, console);
    }
    if let Some(why) = arguments.parts.contradiction() {
        exit_with_usage_error(why);
    }
    let (window, switch) = (arguments.parts.window(), arguments.parts.switch());
    if window.is_some() || switch.is_some() {
        return series::record(arguments, options, console);
    }
    let destination = if arguments.output == Path::new("-") {
        Destination::standard_output().context("cannot write to standard output")?
    } else {
        output::find(&arguments.output, console)?
    };
    if destination.is_standard_output() && io::stdout().is_terminal() {
        bail!("a recording is binary and cannot go to a terminal; try: prof record -o FILE");
    }
    if let Some(workload) = &mut options.workload {
        workload.output_to_stderr = destination.is_standard_output();
    }
    let destination = destination.into_kind();
    let is_file = matches!(&destination, DestinationKind::Name(_));
    options.is_streamed = !is_file;
    if arguments.archive && !is_file {
        exit_with_usage_error("--archive needs an output file, not a stream; try: -o prof.data");
    }
    #[cfg(feature = "push")]
    let client = arguments.push.as_deref().map(|url| arguments.connection.client(Some(url))).transpose()?;
    #[cfg(feature = "push")]
    if client.is_some() && !is_file {
        exit_with_usage_error("--push needs an output file, not a stream; try: -o prof.data");
    }
    let sink = FileSink::new(Place::Destination(destination), arguments.compress, own_command_line());
    let commands = arguments.parts.commands(console)?;
    let (output, strict) = (&arguments.output, arguments.strict);
    let names = if is_file && !arguments.no_names { NameLookup::AtEnd } else { NameLookup::WhenRead };
    let appends_names = matches!(names, NameLookup::AtEnd);
    match record_into(sink, Some(output), commands, &options, strict, names, console)? {
        Outcome::Recorded(code, sources) => {
            if arguments.archive {
                archive::write(output, output, &sources.files, &archive::NameArguments::default(), console)?;
            } else if appends_names {
                append_vanishing_names(output, &sources, console);
            }
            #[cfg(feature = "push")]
            if let (Some(client), Some(url)) = (client, &arguments.push) {
                return Ok(push_recorded(output, &client, url, code, console));
            }
            Ok(code)
        }
        Outcome::NotStarted(code) => Ok(code),
    }
}

/// Sends a finished recording, and returns the exit code: that of the recording, or 1 if it is 0 and the engine has not taken all. Says
/// then how to send it later, whatever is not to be said.
#[cfg(feature = "push")]
fn push_recorded(
    recording: &Path,
    client: &push::Client,
    url: &str,
    code: ExitCode,
    console: &Console,
) -> ExitCode {
    match super::push::send_whole(recording, client, console) {
        Ok(ExitCode::SUCCESS) => return code,
        // What there was to say has been said.
        Ok(_) => {}
        Err(error) => {
            let file = Name::from(recording.as_os_str().as_encoded_bytes());
            console.error(&anyhow::anyhow!("{error:#}; try: prof push {file} {url}"));
        }
    }
    if code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
}
