//! `prof stat`: counts events of a command, processes or the whole system.

mod count_table;
mod json;
mod ratios;
mod text;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use analysis::Notices;
use clap::Args;
use host::sys::clock::CpuTime;
use model::Harm;
use recorder::counting::{self, Counted, IntervalCounts, Plan};
use recorder::{Control, Notice, Options, PrivilegeLevels, Target, Workload};

use super::recording::{exec_failure_code, exit_code, print_notice};
use crate::arguments::events::CountedLists;
use crate::arguments::numbers::{seconds, within};
use crate::arguments::{TargetArguments, exit_with_usage_error};
use crate::console::Console;
use crate::output::Output;

use anyhow::Context;
use count_table::{CountTable, Grouping};

/// The arguments of `prof stat`.
#[derive(Args)]
#[command(before_help = "\
Examples:
  prof stat -- make                             the default events of a command and its children
  prof stat -e page-faults,cs -r 5 -- ./a.out   two events, five runs
  sudo prof stat -a --per-cpu -I 1000           every CPU, every second, until Ctrl-C

Counts go to standard error, or to the file of -o, so that the output of the command is unchanged.")]
pub struct StatArguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    events: CountedLists,
    /// Count user space only
    #[arg(long, conflicts_with = "all_kernel")]
    all_user: bool,
    /// Count the kernel only
    #[arg(long)]
    all_kernel: bool,
    /// Run the command N times, and print mean, median and spread
    #[arg(short, long, value_name = "N", value_parser = within(1..=100_000_u32), requires = "command",
          conflicts_with = "interval")]
    repeat: Option<u32>,
    /// Print counts every MS milliseconds
    #[arg(short = 'I', long, value_name = "MS", value_parser = within(1..=1_u64 << 40))]
    interval: Option<u64>,
    /// Print one row per CPU
    #[arg(short = 'A', long, group = "by")]
    per_cpu: bool,
    /// Print one row per core
    #[arg(long, group = "by")]
    per_core: bool,
    /// Print one row per socket
    #[arg(long, group = "by")]
    per_socket: bool,
    /// Print JSON: one object, or with -I one per line and interval
    #[arg(short = 'j', long)]
    json: bool,
    /// Stop after SECS seconds
    #[arg(short, long, value_name = "SECS", value_parser = seconds)]
    duration: Option<Duration>,
    /// Start counting after MS milliseconds
    #[arg(short = 'D', long, value_name = "MS", value_parser = within(1..=1_u64 << 40))]
    delay: Option<u64>,
    /// Output file, or - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Command to count, with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// What was counted, and for how long.
struct RunSummary<'a> {
    options: &'a Options,
    /// The elapsed time of each run.
    elapsed: Vec<Duration>,
    /// The CPU time of each run whose command has ended.
    cpu_times: Vec<CpuTime>,
}

/// Counts, and returns the exit code of the command.
///
/// # Errors
/// Nothing can be counted, or the counts cannot be written.
pub fn run(arguments: &StatArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let mut options = options(arguments)?;
    let mut output = StatOutput::open(arguments.output.as_deref(), console)?;
    if let Some(workload) = &mut options.workload {
        workload.output_to_stderr = output.is_stdout();
    }
    let control = Control::with_signals().context("cannot wait for signals")?;
    let plan = Plan {
        by_cpu: arguments.per_cpu || arguments.per_core || arguments.per_socket,
        interval: arguments.interval.map(Duration::from_millis),
    };
    let grouping = Grouping::from_arguments(arguments);
    let mut notices = |notice: Notice| print_notice(&notice, console);
    let runs = arguments.repeat.unwrap_or(1);
    let (mut table, mut events) = (CountTable::default(), Vec::new());
    let mut summary = RunSummary { options: &options, elapsed: Vec::new(), cpu_times: Vec::new() };
    let mut code = 0;
    let mut failed = None;
    for _ in 0..runs {
        let mut first = true;
        let mut report = |sheet: &IntervalCounts<'_>| {
            let table = CountTable::from_interval(sheet, &grouping);
            let (events, writer) = (sheet.events, output.writer());
            let written = if arguments.json {
                json::write_interval(events, &table, (sheet.from, sheet.to), writer)
            } else {
                text::write_interval(events, &table, (sheet.from, sheet.to), first, writer)
            };
            first = false;
            if let Err(error) = written.and_then(|()| output.writer().flush()) {
                failed.get_or_insert(error);
                control.stop();
            }
        };
        let counted = match counting::count(&options, plan, &control, &mut report, &mut notices) {
            Ok(counted) => counted,
            Err(error) => {
                let Some(code) = exec_failure_code(&error) else { return Err(error.into()) };
                console.error(&error.into());
                return Ok(code.into());
            }
        };
        if let Some(missing) = counted.uncounted_cpu_time {
            console.warn(
                Harm::Samples,
                &uncounted(missing, counted.cpu_time.unwrap_or_default().total(), options.invocation),
            );
        }
        let Counted { counts, elapsed, cpu_time, command, interrupted, .. } = counted;
        table.add_run(&counted.events, counts, &grouping);
        events = counted.events;
        summary.elapsed.push(elapsed);
        summary.cpu_times.extend(cpu_time);
        code = exit_code(command.as_ref(), &control);
        if interrupted {
            break;
        }
    }
    if let Some(error) = failed {
        return Err(error).context("cannot write the counts");
    }
    // With intervals, the totals are not printed, as programs would count them twice.
    let has_totals = arguments.interval.is_none();
    let writer = output.writer();
    match (arguments.json, has_totals) {
        (true, true) => json::write(&events, &table, &summary, writer),
        (false, true) => text::write(&events, &table, &summary, writer),
        (_, false) => Ok(()),
    }
    .context("cannot write the counts")?;
    output.finish()?;
    // JSON and totals include the causes.
    if !arguments.json && !has_totals {
        table.causes(&events).iter().for_each(|cause| console.warn(Harm::Samples, cause));
    }
    Ok(code.into())
}

/// Returns a sentence on CPU time during which nothing was counted.
fn uncounted(missing: Duration, of: Duration, invocation: &str) -> String {
    format!(
        "{} of {} ms of CPU time were not counted, of programs with more rights (set-user-ID and the like); try: sudo {invocation} -a",
        missing.as_millis(),
        of.as_millis()
    )
}

fn options(arguments: &StatArguments) -> anyhow::Result<Options> {
    let has_command = !arguments.command.is_empty();
    let target = arguments.target.target(has_command)?;
    if target.is_none() && !has_command {
        exit_with_usage_error(
            "nothing to count; try: prof stat -- COMMAND, prof stat -p PID, or prof stat -a",
        );
    }
    let mut options = Options::new(target.unwrap_or(Target::Command));
    options.invocation = "prof stat";
    options.workload = has_command.then(|| Workload {
        words: arguments.command.clone(),
        environment: Vec::new(),
        output_to_stderr: false,
    });
    arguments.target.apply_limits(&mut options);
    options.events = arguments.events.0.select()?;
    if options.events.is_empty() {
        options.events = counting::default_events(&recorder::this_machine(), options.target.is_cpu_wide())?;
    }
    options.levels = match (arguments.all_user, arguments.all_kernel) {
        (true, _) => PrivilegeLevels::User,
        (_, true) => PrivilegeLevels::Kernel,
        _ => PrivilegeLevels::AsSelected,
    };
    options.duration = arguments.duration;
    options.delay = arguments.delay.map(Duration::from_millis);
    Ok(options)
}

/// The destination of counts.
enum StatOutput {
    StandardError(std::io::Stderr),
    Output(Box<Output>),
}

impl StatOutput {
    fn open(path: Option<&Path>, console: &Console) -> anyhow::Result<Self> {
        match path {
            Some(path) => Ok(Self::Output(Box::new(Output::open(Some(path), console)?))),
            None => Ok(Self::StandardError(std::io::stderr())),
        }
    }

    fn is_stdout(&self) -> bool {
        matches!(self, Self::Output(output) if output.is_stdout())
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::StandardError(stderr) => stderr,
            Self::Output(output) => output,
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::StandardError(_) => Ok(()),
            Self::Output(output) => output.finish(),
        }
    }
}
