//! `prof record`: records a command, processes or the whole system into a perf.data file.

use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use analysis::Notices;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use host::files::{Destination, DestinationKind};
use host::sys::memory;
use model::{Harm, Loss, Name};
use recorder::unwind::{ChunkEncoder, PerArrival, StackTotals, UnwindingStage};
use recorder::{
    CallChain, Command, CommandSources, Control, Errno, Error, FileConsumer, Importance, NameSources, Notice,
    Options, Summary, Target, Workload,
};

use super::additional_data::AdditionalDataArguments;
use super::archive;
use super::file_helper;
use super::name_lookup::{NameLookup, record_retaining_files};
use super::record_runs::{self, RunsArguments};
use super::record_series;
use super::recording_output::RecordingOutput;
use super::summary;
#[cfg(feature = "push")]
use crate::arguments::ConnectionArguments;
use crate::arguments::numbers::within;
use crate::arguments::window::WindowArguments;
use crate::arguments::{RuntimeArguments, SamplingArguments, TargetArguments, exit_with_usage_error};
use crate::console::Console;
use crate::output;

/// The default of `--output`.
pub(super) const DEFAULT_OUTPUT: &str = "prof.data";

/// The last message when memory runs out while recording. We exit without waiting for the command, because waiting would keep
/// memory that the command may need.
static OUT_OF_MEMORY: &str = "prof: error: out of memory (limited by ulimit -v, or the machine has no more); what was \
                              recorded so far can be read, and the command goes on\n";

/// The arguments of `prof record`.
#[derive(Args)]
#[command(mut_arg("period", |period| period.alias("count")), after_help = "\
Examples:
  prof record -- cargo build            a command and its children
  prof record -p 1234 -d 10             a running process, for ten seconds
  prof record --off-cpu -- ./server     where its threads run, and where they wait
  sudo prof record -a -d 5              the whole system
  prof record --runs 10 --against './old' -- ./new    runs for prof diff")]
pub struct RecordArguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    sampling: SamplingArguments,
    /// Keep raw copies of user stacks in the file instead of unwinding them while recording
    #[arg(long, help_heading = "Stacks", hide_short_help = true)]
    keep_stacks: bool,
    #[command(flatten)]
    extras: AdditionalDataArguments,
    #[command(flatten)]
    pub(super) runtimes: RuntimeArguments,
    #[command(flatten)]
    pub(super) parts: WindowArguments,
    #[command(flatten)]
    pub(super) runs: RunsArguments,
    /// Output file, or - for standard output; an existing FILE becomes FILE.old
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_OUTPUT, help_heading = "Output")]
    pub(super) output: PathBuf,
    /// Compress the records with zstd [default level: 1]
    #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true,
          default_missing_value = "1", value_parser = within(1..=22), help_heading = "Output")]
    pub(super) compress: Option<i32>,
    /// Add the names of all sampled functions to the finished file, for another machine (see prof archive)
    #[arg(long, conflicts_with_all = ["overwrite", "switch_output"], help_heading = "Output")]
    pub(super) archive: bool,
    /// Do not add the names that may be gone when the file is read (generated code, programs in /tmp or in containers)
    #[arg(long, conflicts_with = "archive", help_heading = "Output", hide_short_help = true)]
    pub(super) no_names: bool,
    /// Do not note how processes name their services (OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES of their environments, and what
    /// OpenTelemetry's libraries publish)
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    no_service: bool,
    /// Exit with 1 if samples were lost or their number is unknown
    #[arg(long, help_heading = "Output")]
    pub(super) strict: bool,
    /// Send the finished recording to this engine, too (see prof push)
    #[cfg(feature = "push")]
    #[arg(long, value_name = "URL", conflicts_with_all = ["overwrite", "switch_output", "runs"], help_heading = "Output")]
    push: Option<String>,
    #[cfg(feature = "push")]
    #[command(flatten)]
    connection: ConnectionArguments,
    /// Disable these sources of stack frames or optimizations
    #[cfg(feature = "ablation")]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = mechanism)]
    without: Vec<recorder::unwind::Mechanisms>,
    /// The command to record, with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(super) command: Vec<OsString>,
}

/// Records, and returns the exit code of the command.
///
/// # Errors
/// The recording cannot start, or fails before its end.
pub fn run(arguments: &RecordArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let mut options = options(arguments, console)?;
    if options.delay == Some(Duration::MAX) && !arguments.parts.has_control() {
        exit_with_usage_error("-D -1 needs --control; try: --control fifo:PATH");
    }
    if let Some(runs) = arguments.runs.runs {
        return record_runs::record(arguments, runs, options, console);
    }
    if let Some(why) = arguments.parts.contradiction() {
        exit_with_usage_error(why);
    }
    let (window, switch) = (arguments.parts.window(), arguments.parts.switch());
    if window.is_some() || switch.is_some() {
        return record_series::record(arguments, options, console);
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
    let mut consumer = FileConsumer::new(destination, own_command_line());
    if let Some(level) = arguments.compress {
        consumer = consumer.compressed(level);
    }
    let commands = arguments.parts.commands(console)?;
    let (output, strict) = (&arguments.output, arguments.strict);
    let names = if is_file && !arguments.no_names { NameLookup::AtEnd } else { NameLookup::WhenRead };
    let appends_names = matches!(names, NameLookup::AtEnd);
    match record_into(consumer, Some(output), commands, &options, strict, names, console)? {
        Outcome::Recorded(code, sources) => {
            if arguments.archive {
                archive::write(output, output, &sources.files, &archive::NameArguments::default(), console)?;
            } else if appends_names {
                append_vanishing_names(output, &sources, console);
            }
            #[cfg(feature = "push")]
            if let Some(client) = client {
                return Ok(push_recorded(output, &client, code, strict, console));
            }
            Ok(code)
        }
        Outcome::NotStarted(code) => Ok(code),
    }
}

/// Sends a finished recording, and returns the exit code: that of the recording, or 1 with `strict` if it is 0 and the engine has not taken all.
#[cfg(feature = "push")]
fn push_recorded(
    recording: &Path,
    client: &push::Client,
    code: ExitCode,
    strict: bool,
    console: &Console,
) -> ExitCode {
    let pushed = super::push::send_whole(recording, client, console);
    let is_complete = matches!(&pushed, Ok(pushed) if *pushed == ExitCode::SUCCESS);
    if let Err(error) = pushed {
        if strict { console.error(&error) } else { console.warn(Harm::Nothing, &format!("{error:#}")) }
    }
    if strict && !is_complete && code == ExitCode::SUCCESS { ExitCode::FAILURE } else { code }
}

/// Appends the names that will soon be unavailable to a recording. A failure is a warning: the recording is complete without
/// them.
pub(super) fn append_vanishing_names(recording: &Path, sources: &NameSources, console: &Console) {
    if let Err(error) = archive::append_vanishing_names(recording, sources, console) {
        let what = "names that may be gone later could not be added to the recording";
        console.warn(Harm::Names, &format!("{what}: {error:#}"));
    }
}

/// Returns the name that messages use for a recording in a nameless file.
pub fn temporary_file() -> String {
    format!("a temporary file in {}", std::env::temp_dir().display())
}

/// The outcome of a recording, with its exit code.
pub enum Outcome {
    /// The recording was written.
    Recorded(ExitCode, NameSources),
    /// The command could not be started, and the error was printed.
    NotStarted(ExitCode),
}

/// Records into `file`, then prints the summary. `output` is the path at which the user finds the recording; `None` if it only
/// feeds another command.
///
/// # Errors
/// As [`run`].
pub fn record_into(
    mut file: impl RecordingOutput,
    output: Option<&Path>,
    commands: CommandSources,
    options: &Options,
    strict: bool,
    names: NameLookup,
    console: &Console,
) -> anyhow::Result<Outcome> {
    let control = if options.in_parts { Control::with_signals_and_dumps() } else { Control::with_signals() };
    let control = control.context("cannot wait for signals")?;
    control.accept_commands_from(commands);
    let mut notices = |notice: Notice| print_notice(&notice, console);
    let Sampled { recorded, stacks, sources } =
        sample(&mut file, options, names, &control, &mut notices, console);
    match recorded {
        Ok(mut summary) => {
            summary.loss.undecodable = file.undecodable();
            let kept = output.and_then(|output| file.written(output));
            summary::print(&summary, &stacks, options, kept, file.blocked_time(), console);
            let code = exit_code(summary.command.as_ref(), &control);
            let Loss { samples, unread, undecodable, .. } = summary.loss;
            let is_whole = samples == 0 && unread == 0 && undecodable == 0;
            if strict && !is_whole && code == 0 {
                let losses = export::summary::losses(&summary.loss);
                let error = anyhow!("missing in this recording (--strict): {losses}");
                console.error(&error);
                return Ok(Outcome::Recorded(ExitCode::FAILURE, sources));
            }
            Ok(Outcome::Recorded(code.into(), sources))
        }
        Err(error) => handle_error(error, output, console),
    }
}

/// The outcome of sampling, before it is printed.
pub struct Sampled {
    pub recorded: Result<Summary, Error>,
    pub stacks: (StackTotals, PerArrival<(u32, u32)>),
    pub sources: NameSources,
}

/// Records into `file`, and prints no summary.
pub fn sample(
    file: &mut impl RecordingOutput,
    options: &Options,
    names: NameLookup,
    control: &Control,
    notices: &mut dyn FnMut(Notice),
    console: &Console,
) -> Sampled {
    memory::exit_when_exhausted(&OUT_OF_MEMORY);
    file_helper::enable_while_recording();
    let mut stacks = (StackTotals::default(), PerArrival::default());
    let (recorded, sources) = if options.copies_stacks() {
        let mut unwinding =
            UnwindingStage::new(ChunkEncoder::new(&mut *file), options.keeps_stacks(), options.mechanisms)
                .with_interpreter_frames(options.interpreter_frames);
        if options.in_parts {
            unwinding = unwinding.for_overwrite_window();
        }
        let recorded = record_retaining_files(&mut unwinding, names, options, control, notices);
        stacks = (unwinding.totals(), unwinding.copy_sizes());
        unwinding.refused_tables().sentences().iter().for_each(|refused| console.warn(Harm::Stacks, refused));
        recorded
    } else {
        record_retaining_files(file, names, options, control, notices)
    };
    file_helper::warn_of_silence(console);
    Sampled { recorded, stacks, sources }
}

/// Returns the exit code that a shell uses for a command that cannot be started; `None` for other errors.
pub fn exec_failure_code(error: &Error) -> Option<u8> {
    match error {
        Error::CommandNotFound { .. } => Some(127),
        Error::NotExecutable { .. } | Error::NoInterpreter { .. } => Some(126),
        _ => None,
    }
}

/// Prints an error that has its own exit code, and returns every other error.
pub(super) fn handle_error(
    error: Error,
    output: Option<&Path>,
    console: &Console,
) -> anyhow::Result<Outcome> {
    let code = match &error {
        // The reader of the pipe has left, as `head` does.
        Error::Consumer { errno, .. } if errno.kind() == ErrorKind::BrokenPipe => {
            return Ok(Outcome::Recorded(ExitCode::SUCCESS, NameSources::default()));
        }
        Error::Consumer { errno, kept } => {
            let kept = *kept && output.is_some();
            let rest = if kept { "; what was written before can be read" } else { "" };
            let advice = retry_advice(errno.kind(), output);
            let name = output.map_or_else(temporary_file, |output| output.display().to_string());
            bail!("cannot write {name}: {}{rest}{advice}", Errno(errno));
        }
        _ => exec_failure_code(&error),
    };
    let Some(code) = code else { return Err(error.into()) };
    console.error(&error.into());
    Ok(Outcome::NotStarted(ExitCode::from(code)))
}

/// Returns the advice after an error of the output: another folder, or fewer bytes.
fn retry_advice(problem: ErrorKind, output: Option<&Path>) -> String {
    let Some(output) = output else { return "; try another folder: TMPDIR=/var/tmp".to_owned() };
    match (problem, output.file_name()) {
        (ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _) => {
            "; try a folder with more space (-o), or -z, which compresses".to_owned()
        }
        (ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem, Some(name)) => {
            format!("; try: -o {}", std::env::temp_dir().join(name).display())
        }
        _ => String::new(),
    }
}

#[cfg(feature = "ablation")]
fn mechanism(name: &str) -> Result<recorder::unwind::Mechanisms, String> {
    use recorder::unwind::Mechanisms;
    let names = || Mechanisms::all().iter_names().map(|(name, _)| name.to_lowercase().replace('_', "-"));
    Mechanisms::by_name(name).ok_or_else(|| format!("there are {}", names().collect::<Vec<_>>().join(", ")))
}

/// Builds the options of the recorder from the arguments. Exits with a usage error where they contradict each other.
fn options(arguments: &RecordArguments, console: &Console) -> anyhow::Result<Options> {
    let target = arguments.target.target(!arguments.command.is_empty())?;
    if target.is_none() && arguments.command.is_empty() {
        exit_with_usage_error(
            "nothing to record; try: prof record -- COMMAND, prof record -p PID, or prof record -a",
        );
    }
    let has_command = !arguments.command.is_empty();
    let jvms = arguments.runtimes.jvms(has_command, target.is_some());
    let mut options = Options::new(target.unwrap_or(Target::Command));
    options.jvm_maps = jvms;
    options.services = !arguments.no_service;
    options.workload = (!arguments.command.is_empty()).then(|| Workload {
        words: arguments.command.clone(),
        environment: arguments.runtimes.environment(&arguments.command, console),
        output_to_stderr: false,
    });
    arguments.target.apply_limits(&mut options);
    arguments.sampling.apply(&mut options, arguments.keep_stacks)?;
    options.extras = arguments.extras.extras();
    #[cfg(feature = "ablation")]
    arguments.without.iter().for_each(|without| options.mechanisms.remove(*without));
    if arguments.extras.off_cpu {
        recorder::observe_waits(&mut options, &recorder::this_machine())?;
    }
    if !options.extras.branches.is_empty() && options.call_chain == CallChain::LastBranches {
        exit_with_usage_error(
            "-b, -j and --call-graph lbr exclude each other, as all use last branch records; try one of them",
        );
    }
    Ok(options)
}

/// Prints a notice of the recorder, as its importance asks for.
pub fn print_notice(notice: &Notice, console: &Console) {
    match notice.importance() {
        Importance::Event => console.say(&notice.to_string()),
        Importance::Problem(harm) => console.warn(harm, &notice.to_string()),
        Importance::Detail => console.detail(&notice.to_string()),
        Importance::Attributes if console.verbosity() > 1 => console.detail(&notice.to_string()),
        Importance::Attributes => {}
    }
    // They are told when all is open.
    if matches!(notice, Notice::Rings { .. }) {
        console.print_worst();
    }
}

/// Returns the exit code of the command: waits for a command that still runs, unless a signal ends the wait. 0 without a command.
pub fn exit_code(command: Option<&Command>, control: &Control) -> u8 {
    let status = match command {
        None => return 0,
        Some(Command::Ended(status)) => *status,
        Some(Command::Running(command)) => match command.wait(control) {
            Ok(status) => status,
            Err(signal) => return 128_u8.saturating_add(u8::try_from(signal.signal).unwrap_or(0)),
        },
    };
    status.shell_code()
}

/// Returns the command line of this process, for the header of the recording.
pub fn own_command_line() -> Vec<Name> {
    std::env::args_os().map(|word| Name::from(word.as_encoded_bytes())).collect()
}
