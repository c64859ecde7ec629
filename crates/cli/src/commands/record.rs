//! `prof record`: a command, processes or the whole system into a perf.data file.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use analysis::Notices;
use anyhow::Context;
use clap::Args;
use host::files::{Destination, Place};
use host::sys::memory;
use model::{CpuId, Loss, Name, Pid, Tid};
use recorder::event::Rate;
use recorder::unwind::{Encoding, InOrder, StackTotals};
use recorder::{
    CallChain, Clock, Command, CommandSources, Control, Errno, Error, FileConsumer, Importance, Levels,
    NameSources, Notice, Options, Target, Workload,
};

use super::archive;
use super::call_graph::{self, CallGraph};
use super::extras::ExtraArguments;
use super::hold::{Names, record_holding};
use super::in_parts;
use super::sink::Sink;
use super::summary;
use crate::arguments::RuntimeArguments;
use crate::arguments::events::EventLists;
use crate::arguments::numbers::{process_number, within};
use crate::arguments::window::WindowArguments;
use crate::console::Console;
use crate::output;

/// Where a recording goes where nothing else is said.
const DEFAULT_OUTPUT: &str = "prof.data";

/// The command, if there is one, is left to itself: waiting for it would keep the memory that others may need.
static OUT_OF_MEMORY: &str = "prof: error: there is no memory left (ulimit -v, or the machine's own); a recording that had \
                              begun can be read up to there, and its command goes on\n";

/// The arguments of `prof record`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  prof record -- cargo build          a command, with all that it starts
  prof record -p 1234 -d 10           a running process, for ten seconds
  sudo prof record -a -d 5            everything on this machine")]
pub struct RecordArguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    sampling: SamplingArguments,
    #[command(flatten)]
    extras: ExtraArguments,
    /// One sample per so many events (nanoseconds, for the clocks)
    #[arg(short, long, value_name = "N", allow_negative_numbers = true,
          value_parser = within(1..=u64::MAX >> 1))]
    count: Option<u64>,
    /// Keep raw copies of the user stacks in the file, instead of unwinding them while recording
    #[arg(long)]
    keep_stacks: bool,
    #[command(flatten)]
    pub(super) parts: WindowArguments,
    /// Compress the records with zstd [default level: 1]
    #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true,
          default_missing_value = "1", value_parser = within(1..=22))]
    pub(super) compress: Option<i32>,
    /// Put the names of all that was sampled into the file when it is finished, for another machine (see prof archive)
    #[arg(long, conflicts_with_all = ["overwrite", "switch_output"])]
    pub(super) archive: bool,
    /// Leave out of the file the names that will be gone soon (generated code, programs below /tmp or in containers), to be
    /// looked for when it is read
    #[arg(long, conflicts_with = "archive")]
    pub(super) no_names: bool,
    /// Exit with 1 when samples were lost, or it is not known whether any were
    #[arg(long)]
    pub(super) strict: bool,
    /// Write to this file, - for standard output; one that exists becomes FILE.old
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_OUTPUT)]
    pub(super) output: PathBuf,
    #[command(flatten)]
    runtimes: RuntimeArguments,
    /// Leave out these sources of stack frames, or savings, to see what they bring
    #[cfg(feature = "ablation")]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = mechanism)]
    without: Vec<recorder::unwind::Mechanisms>,
    /// The command to record, with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Whom to observe.
#[derive(Args)]
pub struct TargetArguments {
    /// Attach to these processes: all their threads, and what they start
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "all_cpus",
          allow_negative_numbers = true, value_parser = process_number)]
    pid: Vec<i32>,
    /// With -p: also the processes that these have started before, and so on
    #[arg(long, requires = "pid", conflicts_with = "no_inherit")]
    with_children: bool,
    /// Attach to these single threads
    #[arg(short, long, value_name = "TID", value_delimiter = ',', conflicts_with_all = ["pid", "all_cpus"],
          allow_negative_numbers = true, value_parser = process_number)]
    tid: Vec<i32>,
    /// Attach to all processes of this user
    #[arg(short, long, value_name = "USER", conflicts_with_all = ["pid", "tid", "all_cpus"])]
    uid: Option<String>,
    /// Everything on all CPUs
    #[arg(short, long)]
    all_cpus: bool,
    /// Only on these CPUs (0-3,5); without another target, everything there
    #[arg(short = 'C', long, value_name = "LIST", value_parser = cpu_list)]
    cpu: Option<CpuList>,
    /// Only this cgroup (with -a)
    #[arg(short = 'G', long, value_name = "PATH", requires = "all_cpus")]
    cgroup: Option<PathBuf>,
    /// Do not follow the threads and processes that are started
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// What to follow of what is started: processes with their threads, or the threads of the target's processes alone
    #[arg(long, value_name = "WHAT", value_parser = ["process", "thread"], conflicts_with = "no_inherit")]
    inherit: Option<String>,
}

/// What to sample, and how often.
#[derive(Args)]
pub struct SamplingArguments {
    /// A ring for each thread instead of each CPU; threads that are started later are not followed
    #[arg(long, conflicts_with_all = ["all_cpus", "cpu"])]
    per_thread: bool,
    #[command(flatten)]
    events: EventLists,
    /// Samples per second, or max [default: 997]
    #[arg(short = 'F', long, value_name = "HZ", value_parser = frequency, conflicts_with = "count",
          allow_negative_numbers = true)]
    freq: Option<u64>,
    /// How to take call chains: auto (complete stacks, with or without frame pointers), dwarf[,SIZE] (the same with
    /// stack copies of SIZE bytes), fp (the kernel's walk over frame pointers), lbr (the calls that an Intel processor
    /// remembers), no
    #[arg(long, value_name = "HOW", value_parser = call_graph::parse, default_value = "auto")]
    call_graph: CallGraph,
    /// Call chains of user space only
    #[arg(long, conflicts_with = "kernel_callchains")]
    user_callchains: bool,
    /// Call chains of the kernel only
    #[arg(long)]
    kernel_callchains: bool,
    /// Take call chains (as is the default)
    #[arg(short = 'g', conflicts_with = "call_graph")]
    chains: bool,
    /// Stop after so many seconds
    #[arg(short, long, value_name = "SECS", value_parser = seconds, allow_negative_numbers = true)]
    duration: Option<Duration>,
    /// Start sampling after so many milliseconds; -1: when --control says so
    #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true, value_parser = delay)]
    delay: Option<Duration>,
    /// Keep at most so many addresses of each call chain
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = within(1..=u16::MAX))]
    max_stack: Option<u16>,
    /// User space only
    #[arg(long, conflicts_with = "all_kernel")]
    all_user: bool,
    /// The kernel only
    #[arg(long)]
    all_kernel: bool,
    /// Clock of the timestamps: monotonic, monotonic_raw, realtime, boottime, tai, or perf for the kernel's own
    #[arg(short = 'k', long, value_name = "NAME", value_parser = clock, default_value = "monotonic")]
    clockid: Clock,
    /// Ring per CPU: so many pages, or a size such as 512K or 8M [default: up to 4M per CPU]
    #[arg(short, long, value_name = "N|SIZE", value_parser = ring_size, allow_negative_numbers = true)]
    mmap_pages: Option<u64>,
}

/// Records, and returns the command's exit code.
///
/// # Errors
/// Where nothing could be recorded, or not to its end.
pub fn run(arguments: &RecordArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let mut options = options(arguments, console)?;
    if options.delay == Some(Duration::MAX) && !arguments.parts.has_control() {
        wrong_usage("-D -1 waits for a command; try: --control fifo:PATH");
    }
    if let Some(why) = arguments.parts.contradiction() {
        wrong_usage(why);
    }
    let (window, switch) = (arguments.parts.window(), arguments.parts.switch());
    if window.is_some() || switch.is_some() {
        return in_parts::record(arguments, options, console);
    }
    let destination = if arguments.output == Path::new("-") {
        Destination::standard_output().context("cannot write to standard output")?
    } else {
        output::find(&arguments.output, console)?
    };
    if let Some(workload) = &mut options.workload {
        workload.output_to_stderr = destination.is_standard_output();
    }
    let place = destination.into_place();
    let is_file = matches!(&place, Place::Name(_));
    if arguments.archive && !is_file {
        wrong_usage("--archive adds to a file, and the recording goes to a stream; try: -o prof.data");
    }
    let mut consumer = FileConsumer::new(place, own_command_line());
    if let Some(level) = arguments.compress {
        consumer = consumer.compressed(level);
    }
    let commands = arguments.parts.commands(console)?;
    let (output, strict) = (&arguments.output, arguments.strict);
    let names = if is_file && !arguments.no_names { Names::Soon } else { Names::Later };
    let carries = matches!(names, Names::Soon);
    match record_into(consumer, Some(output), commands, &options, strict, names, console)? {
        Outcome::Recorded(code, sources) => {
            if arguments.archive {
                archive::make(output, output, &sources.files, &archive::NameArguments::default(), console)?;
            } else if carries {
                carry(output, &sources, console);
            }
            Ok(code)
        }
        Outcome::NotStarted(code) => Ok(code),
    }
}

/// Adds the names that will be gone soon to a recording, which is whole without them.
fn carry(recording: &Path, sources: &NameSources, console: &Console) {
    if let Err(error) = archive::carry(recording, sources, console) {
        let what = "names that will be gone soon are not in the recording";
        console.warn(&format!("{what}: {error:#}"));
    }
}

/// Returns the name that messages use for a recording without one.
pub fn temporary_file() -> String {
    format!("a temporary file in {}", std::env::temp_dir().display())
}

/// The outcome of a recording, with its exit code.
pub enum Outcome {
    /// It was written.
    Recorded(ExitCode, NameSources),
    /// The command could not be started; that has been said.
    NotStarted(ExitCode),
}

/// `output` is the path of what the user has when all is over, if anything.
pub fn record_into(
    mut file: impl Sink,
    output: Option<&Path>,
    commands: CommandSources,
    options: &Options,
    strict: bool,
    names: Names,
    console: &Console,
) -> anyhow::Result<Outcome> {
    memory::end_when_exhausted(&OUT_OF_MEMORY);
    let control = if options.in_parts { Control::with_signals_and_dumps() } else { Control::with_signals() };
    let control = control.context("cannot wait for signals")?;
    control.listen_to(commands);
    let mut notices = |notice: Notice| tell(&notice, console);
    let mut stacks = (StackTotals::default(), (0, 0));
    let (recorded, sources) = if options.copies_stacks() {
        let mut unwinding =
            InOrder::new(Encoding::new(&mut file), options.keeps_stacks(), options.mechanisms);
        if options.in_parts {
            unwinding = unwinding.lasting();
        }
        let recorded = record_holding(&mut unwinding, names, options, &control, &mut notices);
        stacks = (unwinding.totals(), unwinding.copy_sizes());
        unwinding.refused_tables().sentences().iter().for_each(|refused| console.warn(refused));
        recorded
    } else {
        record_holding(&mut file, names, options, &control, &mut notices)
    };
    match recorded {
        Ok(mut summary) => {
            summary.loss.undecodable = file.undecodable();
            let kept = output.and_then(|output| file.written(output));
            summary::tell(&summary, &stacks, options, kept, file.held_up(), console);
            let code = exit_code(summary.command.as_ref(), &control);
            let Loss { samples, unread, undecodable, .. } = summary.loss;
            let is_whole = samples == 0 && unread == 0 && undecodable == 0;
            let code = if strict && !is_whole && code == 0 { 1 } else { code };
            Ok(Outcome::Recorded(code.into(), sources))
        }
        Err(error) => failure(error, output, console),
    }
}

/// The exit code that a shell has for a command that could not be started; `None` for other errors.
pub fn code_of_no_start(error: &Error) -> Option<u8> {
    match error {
        Error::CommandNotFound { .. } => Some(127),
        Error::NotExecutable { .. } | Error::NoInterpreter { .. } => Some(126),
        _ => None,
    }
}

/// Shows an error that has an exit code of its own; passes the others on.
fn failure(error: Error, output: Option<&Path>, console: &Console) -> anyhow::Result<Outcome> {
    let code = match &error {
        // Who read it has seen enough.
        Error::Consumer { errno, .. } if errno.kind() == ErrorKind::BrokenPipe => {
            return Ok(Outcome::Recorded(ExitCode::SUCCESS, NameSources::default()));
        }
        Error::Consumer { errno, kept } => {
            let kept = *kept && output.is_some();
            let rest = if kept { "; what was written before can be read" } else { "" };
            let advice = elsewhere(errno.kind(), output);
            let name = output.map_or_else(temporary_file, |output| output.display().to_string());
            anyhow::bail!("cannot write {name}: {}{rest}{advice}", Errno(errno));
        }
        _ => code_of_no_start(&error),
    };
    let Some(code) = code else { return Err(error.into()) };
    console.error(&error.into());
    Ok(Outcome::NotStarted(ExitCode::from(code)))
}

/// Where else to write, or how.
fn elsewhere(problem: ErrorKind, output: Option<&Path>) -> String {
    let Some(output) = output else { return "; try another folder: TMPDIR=/var/tmp".to_owned() };
    match (problem, output.file_name()) {
        (ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _) => {
            "; try a folder with more room (-o), or -z, which writes less".to_owned()
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

fn options(arguments: &RecordArguments, console: &Console) -> anyhow::Result<Options> {
    let target = arguments.target.target(!arguments.command.is_empty())?;
    if target.is_none() && arguments.command.is_empty() {
        wrong_usage(
            "whom shall I record? try: prof record -- COMMAND, prof record -p PID, or prof record -a",
        );
    }
    let has_command = !arguments.command.is_empty();
    let jvms = arguments.runtimes.jvms(has_command, target.is_some());
    let mut options = Options::new(target.unwrap_or(Target::Command));
    options.jvms = jvms;
    options.workload = (!arguments.command.is_empty()).then(|| Workload {
        words: arguments.command.clone(),
        environment: arguments.runtimes.environment(&arguments.command, console),
        output_to_stderr: false,
    });
    arguments.target.limit(&mut options);
    arguments.sampling.choose(&mut options, arguments.count, arguments.keep_stacks)?;
    options.extras = arguments.extras.extras();
    #[cfg(feature = "ablation")]
    arguments.without.iter().for_each(|without| options.mechanisms.remove(*without));
    if arguments.extras.off_cpu {
        recorder::observe_waits(&mut options, &recorder::this_machine())?;
    }
    if !options.extras.branches.is_empty() && options.call_chain == CallChain::LastBranches {
        wrong_usage("-b, -j and --call-graph lbr all take the processor's last branches; try one of them");
    }
    Ok(options)
}

impl TargetArguments {
    /// The target; `None` where none was named. With a command, `-C` alone limits where that is seen.
    ///
    /// # Errors
    /// Where there is no such user.
    pub fn target(&self, has_command: bool) -> anyhow::Result<Option<Target>> {
        Ok(Some(if !self.pid.is_empty() {
            Target::Processes(self.pid.iter().copied().map(Pid).collect())
        } else if !self.tid.is_empty() {
            Target::Threads(self.tid.iter().copied().map(Tid).collect())
        } else if let Some(user) = &self.uid {
            Target::User(user_number(user)?)
        } else if let Some(path) = &self.cgroup {
            Target::Cgroup(path.clone())
        } else if self.all_cpus || (self.cpu.is_some() && !has_command) {
            Target::System
        } else {
            return Ok(None);
        }))
    }

    /// Sets the limits of the target.
    pub fn limit(&self, options: &mut Options) {
        options.cpus = self.cpu.as_ref().map(|list| list.0.clone());
        options.inherit = !self.no_inherit;
        options.with_children = self.with_children;
        options.threads_only = self.inherit.as_deref() == Some("thread");
    }
}

impl SamplingArguments {
    /// Sets the events to sample, and the rate; `period` is that of a fixed one.
    ///
    /// # Errors
    /// Where an event is not known, or cannot be filtered.
    pub fn choose(
        &self,
        options: &mut Options,
        period: Option<u64>,
        keep_stacks: bool,
    ) -> anyhow::Result<()> {
        options.events = self.events.select()?;
        options.rate = self.freq.map(Rate::Frequency).or(period.map(Rate::Period));
        options.call_chain = match self.call_graph.chain(keep_stacks) {
            Some(chain) => chain,
            None => wrong_usage("--keep-stacks needs stacks; try: --call-graph auto --keep-stacks"),
        };
        options.delay = self.delay;
        options.per_thread = self.per_thread;
        options.max_stack = self.max_stack;
        options.levels = match (self.all_user, self.all_kernel) {
            (true, _) => Levels::User,
            (_, true) => Levels::Kernel,
            _ => Levels::AsSelected,
        };
        options.chain_levels = match (self.user_callchains, self.kernel_callchains) {
            (true, _) => Levels::User,
            (_, true) => Levels::Kernel,
            _ => Levels::AsSelected,
        };
        options.clock = self.clockid;
        options.ring_size = self.mmap_pages;
        options.duration = self.duration;
        Ok(())
    }
}

/// A user by number or name.
fn user_number(user: &str) -> anyhow::Result<u32> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    // The file only: who is kept elsewhere can be given by number.
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = users.lines().find_map(|line| line.strip_prefix(user)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split(':').nth(1)?.parse().ok());
    number.with_context(|| {
        format!("there is no user {user:?} in /etc/passwd; try the number that `id -u {user}` prints")
    })
}

/// Ends as clap does for arguments that it understands and that make no sense together.
pub fn wrong_usage(text: &str) -> ! {
    use clap::CommandFactory;
    let mut command = crate::Arguments::command();
    command.error(clap::error::ErrorKind::MissingRequiredArgument, text).exit()
}

/// Says what happened while recording, if it is wanted that exactly.
pub fn tell(notice: &Notice, console: &Console) {
    let wanted = match notice.importance() {
        Importance::Normal => 0,
        Importance::Detail => 1,
        Importance::Attributes => 2,
    };
    if console.verbosity() >= wanted {
        console.say(&notice.to_string());
    }
}

/// The command's own code; for one that still runs, after it has ended, or 0 where we do not wait any longer.
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

pub fn own_command_line() -> Vec<Name> {
    std::env::args_os().map(|word| Name::from(word.as_encoded_bytes())).collect()
}

/// Milliseconds; -1 stands for longer than anything takes.
fn delay(text: &str) -> Result<Duration, String> {
    match text {
        "-1" => Ok(Duration::MAX),
        _ => within(1..=1_u64 << 40)(text).map(Duration::from_millis),
    }
}

fn frequency(text: &str) -> Result<u64, String> {
    if text == "max" {
        return Ok(u64::MAX);
    }
    match text.parse() {
        Ok(hertz) if (1..=1_000_000_000).contains(&hertz) => Ok(hertz),
        _ => Err("a number of samples per second, or max".to_owned()),
    }
}

/// CPUs, as the kernel lists them.
#[derive(Clone, Debug)]
struct CpuList(Vec<CpuId>);

fn cpu_list(text: &str) -> Result<CpuList, String> {
    let cpus = host::cpus::parse(text).filter(|cpus| !cpus.is_empty());
    cpus.map(CpuList).ok_or_else(|| "a list of CPUs such as 0-3,5".to_owned())
}

fn clock(text: &str) -> Result<Clock, String> {
    Clock::by_name(text)
        .ok_or_else(|| "one of monotonic, monotonic_raw, realtime, boottime, tai, perf".to_owned())
}

/// A number of seconds above 0.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    seconds
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "a number of seconds above 0".to_owned())
}

/// Pages, or bytes with a unit; a power of two is made of it later.
fn ring_size(text: &str) -> Result<u64, String> {
    let wrong = || "a number of pages, or a size such as 512K or 8M, below 1T".to_owned();
    let unit = |suffix: char, factor: u64| {
        text.strip_suffix([suffix, suffix.to_ascii_lowercase()]).map(|number| (number, factor))
    };
    let (number, factor) = unit('K', 1 << 10)
        .or_else(|| unit('M', 1 << 20))
        .or_else(|| unit('G', 1 << 30))
        .or_else(|| unit('B', 1))
        .unwrap_or((text, host::sys::system::page_size() as u64));
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    size.filter(|size| (1..1 << 40).contains(size)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rates_and_times() {
        assert_eq!(ring_size("512K"), Ok(524_288));
        assert_eq!(ring_size("8m"), Ok(8 << 20));
        assert_eq!(ring_size("2"), Ok(2 * host::sys::system::page_size() as u64));
        for bad in ["", "0", "K", "-1", "1T", "99999999999999999999"] {
            assert!(ring_size(bad).is_err(), "{bad}");
        }
        assert_eq!(frequency("max"), Ok(u64::MAX));
        assert!(frequency("0").is_err() && frequency("1e3").is_err());
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert!(seconds("0").is_err() && seconds("inf").is_err() && seconds("nan").is_err());
    }
}
