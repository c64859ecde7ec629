//! Makes a recording, prints what the recorder has to say of it, and its summary.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use analysis::Notices;
use anyhow::{Context, anyhow, bail};
use host::sys::memory;
use model::{Harm, Loss, Name};
use recorder::unwind::{ChunkEncoder, StackTotals, UnwindingStage};
use recorder::{
    Command, CommandSources, Control, Errno, Error, FileSink, Importance, NameSources, Notice, Options,
    Summary,
};

use super::archive;
use super::file_helper;
use super::name_lookup::{NameLookup, record_retaining_files};
use super::summary;
use crate::console::Console;

/// The last message when memory runs out while recording. We exit without waiting for the command, because waiting would keep
/// memory that the command may need.
static OUT_OF_MEMORY: &str = "prof: error: out of memory (limited by ulimit -v, or the machine has no more); what was \
                              recorded so far can be read, and the command goes on\n";

/// Appends the names that will soon be unavailable to a recording. A failure is a warning: the recording is complete without
/// them.
pub fn append_vanishing_names(recording: &Path, sources: &NameSources, console: &Console) {
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
    mut file: FileSink,
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
            let kept = output.zip(file.last()).map(|(output, last)| {
                (if options.in_parts { last.path.as_path() } else { output }, last.size)
            });
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
    pub stacks: (StackTotals, Option<(u32, u32)>),
    pub sources: NameSources,
}

/// Records into `file`, and prints no summary.
pub fn sample(
    file: &mut FileSink,
    options: &Options,
    names: NameLookup,
    control: &Control,
    notices: &mut dyn FnMut(Notice),
    console: &Console,
) -> Sampled {
    memory::exit_when_exhausted(&OUT_OF_MEMORY);
    file_helper::enable_while_recording();
    let mut stacks = (StackTotals::default(), None);
    let (recorded, sources) = if options.copies_stacks() {
        let mut unwinding =
            UnwindingStage::new(ChunkEncoder::new(&mut *file), options.keeps_stacks(), options.mechanisms)
                .with_interpreter_frames(options.interpreter_frames);
        if options.in_parts {
            unwinding = unwinding.with_low_memory();
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
pub fn handle_error(error: Error, output: Option<&Path>, console: &Console) -> anyhow::Result<Outcome> {
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
