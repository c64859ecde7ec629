//! `prof top`: the live view.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use analysis::{Notices, TimeWeight};
use anyhow::{Context, bail};
use clap::Args;
use crossbeam_channel::unbounded;
use host::procfs::{self, Capability};
use host::sys::{memory, system};
use model::{Harm, Name, Tid};
use recorder::{Control, JvmMapTiming, Notice, Options, Target, Workload};
use symbolizer::NameStyle;

use super::{file_helper, recording};
use crate::arguments::numbers::{MIN_SPAN, seconds, within};
use crate::arguments::{
    NamelessArguments, RuntimeArguments, SamplingArguments, TargetArguments, exit_with_usage_error,
};
use crate::console::Console;
use crate::output::Output;
use crate::top::{event_loop, report};
use live::views::Scope;
use live::{Engine, EngineEvent, EngineSettings};

/// The examples of `prof top`.
const EXAMPLES: &str = "\
Examples:
  sudo prof top                      the whole system
  prof top -p 1234                   a running process
  prof top -- ./server               a command, whose output is not shown
  prof top --once                    one second as text
  prof top --json --intervals 5      five intervals, a line of JSON each
  prof top --off-cpu -p 1234         where its threads run and where they wait
Press ? for help while it runs. A command that still runs at the end is terminated.";

/// Arguments of `prof top`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct TopArguments {
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    sampling: SamplingArguments,
    /// Print one interval as text and leave
    #[arg(long)]
    once: bool,
    /// Print intervals as JSON, one object per line, and leave
    #[arg(long)]
    json: bool,
    /// Print this number of intervals and leave [default: 1]
    #[arg(long, value_name = "N", conflicts_with = "once", allow_negative_numbers = true,
          value_parser = within(1..=u64::MAX))]
    intervals: Option<u64>,
    /// The length of an interval, and the time between updates of the screen
    #[arg(long, value_name = "SECS", default_value = "1", value_parser = interval, allow_negative_numbers = true)]
    delay_secs: Duration,
    /// The length of the sliding window on the screen
    #[arg(long, value_name = "SECS", default_value = "10", value_parser = interval, allow_negative_numbers = true)]
    window: Duration,
    /// Show running and waiting time together, by stack
    ///
    /// On the CPU, ready to run, and blocked. Idle event loops are left out, with a note.
    #[arg(long, conflicts_with_all = ["all_user", "all_kernel"])]
    off_cpu: bool,
    /// With --off-cpu, the time of threads that counts: wall (all), cpu (running), offcpu (ready to run, or blocked), latency
    /// (running, divided by how many threads of the process ran at that moment) [default: wall]
    #[arg(hide_short_help = true, long, value_name = "KIND", value_parser = TimeWeight::NAMES, requires = "off_cpu")]
    weight: Option<String>,
    /// With --off-cpu, also event loops at rest
    #[arg(hide_short_help = true, long, requires = "off_cpu")]
    at_rest: bool,
    #[command(flatten)]
    nameless: NamelessArguments,
    #[command(flatten)]
    runtimes: RuntimeArguments,
    /// A command to start and watch, with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, help_heading = "Target")]
    command: Vec<OsString>,
}

/// Seconds between a tenth and a day.
fn interval(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    if (MIN_SPAN..=Duration::from_secs(86_400)).contains(&duration) {
        Ok(duration)
    } else {
        Err("a number of seconds from 0.1 to 86400".to_owned())
    }
}

/// Shows the live view, or prints intervals.
///
/// # Errors
/// Where nothing can be recorded, or there is no terminal for the view.
// In `main`, its 22 KiB would lie below the stacks of all commands, and those of recorders would be deeper than copies of stacks can be.
#[inline(never)]
pub fn run(arguments: &TopArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let printing = arguments.once || arguments.json || arguments.intervals.is_some();
    let (target, words) = choose_target(&arguments.target, &arguments.command)?;
    if let Target::Processes(pids) = &target
        && let Some(gone) = pids.iter().find(|pid| host::procfs::status(Tid(pid.0)).is_err())
    {
        bail!("process {gone} does not exist; try: pgrep -a NAME");
    }
    if !printing && !std::io::stdout().is_terminal() {
        bail!("the live view needs a terminal; try: prof top --once, or prof top --json");
    }
    if !printing && std::env::var_os("TERM").is_some_and(|term| term == "dumb") {
        bail!(
            "the live view needs a terminal that can move its cursor, and TERM is dumb; try: prof top --once"
        );
    }
    memory::map_large_blocks_separately();
    let mut options = Options::new(target);
    options.workload = (!arguments.command.is_empty()).then(|| {
        let words = arguments.command.clone();
        let environment = arguments.runtimes.environment(&words, console);
        // Its output would be written over the screen.
        let words = if printing { words } else { silenced(words) };
        Workload { words, environment, output_to_stderr: true }
    });
    let jvms = arguments.runtimes.jvms(!arguments.command.is_empty(), true);
    options.jvm_maps = jvms.map(|_| JvmMapTiming::Repeatedly);
    options.low_memory = true;
    arguments.target.apply_limits(&mut options);
    arguments.sampling.apply(&mut options, false)?;
    let time = arguments.time();
    if time.is_some() {
        if options.events.len() > 1 {
            exit_with_usage_error("--off-cpu: one event says what runs; try it with one -e");
        }
        recorder::observe_waits(&mut options, &recorder::this_machine())?;
    }
    let settings = EngineSettings {
        target: words,
        window: arguments.window.max(arguments.delay_secs),
        interval: arguments.delay_secs,
        intervals_apart: printing,
        max_symbol_wait: live::MAX_SYMBOL_WAIT,
        bounds_inlines: false,
        reads_resources: false,
        stacks_unwound: options.copies_stacks(),
        names: NameStyle::Demangled,
        time,
    };
    let (at_rest, modules_only) = (arguments.at_rest, arguments.nameless.modules_only);
    let scope = Scope { at_rest, modules_only, ..Scope::default() };
    file_helper::enable_while_recording();
    let result = if printing {
        print(arguments, options, settings, scope, console)
    } else {
        event_loop::run(options, settings, scope, console)
    };
    file_helper::warn_of_silence(console);
    result
}

impl TopArguments {
    /// The time of threads that is shown.
    fn time(&self) -> Option<TimeWeight> {
        let named = self.weight.as_deref().and_then(TimeWeight::by_name);
        self.off_cpu.then(|| named.unwrap_or(TimeWeight::Wall))
    }
}

/// Whom to watch, and how the header says it.
pub(super) fn choose_target(
    target: &TargetArguments,
    command: &[OsString],
) -> anyhow::Result<(Target, String)> {
    Ok(match target.target(!command.is_empty())? {
        Some(Target::Processes(pids)) => {
            let list: Vec<String> = pids.iter().map(ToString::to_string).collect();
            (Target::Processes(pids), format!("pid {}", list.join(",")))
        }
        Some(Target::Threads(tids)) => {
            let list: Vec<String> = tids.iter().map(ToString::to_string).collect();
            (Target::Threads(tids), format!("thread {}", list.join(",")))
        }
        Some(Target::User(user)) => (Target::User(user), format!("processes of user {user}")),
        Some(Target::Cgroup(path)) => {
            let words = format!("cgroup {}", Name::from(path.as_os_str().as_encoded_bytes()));
            (Target::Cgroup(path), words)
        }
        Some(Target::System) => (Target::System, "whole system".to_owned()),
        Some(Target::Command) | None => match command.first() {
            Some(program) => (Target::Command, format!("command {}", harmless(program))),
            None if may_watch_all() => (Target::System, "whole system".to_owned()),
            None => {
                let user = system::effective_user();
                (Target::User(user), format!("processes of user {user} (only those are allowed)"))
            }
        },
    })
}

fn harmless(word: &OsString) -> String {
    Name::from(Name::from(word.as_encoded_bytes()).base_name()).to_string()
}

/// The command with nothing to read and nowhere to write.
fn silenced(words: Vec<OsString>) -> Vec<OsString> {
    let shell = ["sh", "-c", "exec \"$@\" </dev/null >/dev/null 2>&1", "sh"];
    shell.into_iter().map(OsString::from).chain(words).collect()
}

/// Returns true if the kernel lets us watch other users' processes (perf_event_open(2): `perf_event_paranoid` below 1, or
/// `CAP_PERFMON`, before 5.8 `CAP_SYS_ADMIN`).
pub(super) fn may_watch_all() -> bool {
    let capable =
        procfs::own_status().is_ok_and(|own| own.has(Capability::Perfmon) || own.has(Capability::SysAdmin));
    capable || host::sysctl::perf_event_paranoid().is_none_or(|level| level < 1)
}

/// Prints intervals, until there are enough or the target has ended.
fn print(
    arguments: &TopArguments,
    options: Options,
    settings: EngineSettings,
    scope: Scope,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    let mut stdout = Output::stdout()?;
    let control = Control::with_signals().context("cannot wait for signals")?;
    let (news, snapshots) = unbounded();
    // The engine gets no orders: it makes intervals by itself.
    let (orders, ordered) = unbounded();
    let tell = move |item| {
        if let EngineEvent::Snapshot(snapshot) = item {
            // Sending fails when enough intervals were printed.
            let _ = news.send(snapshot);
        }
    };
    let mut engine = Engine::new(settings, ordered, tell).context("cannot start a thread")?;
    let wanted = if arguments.once { 1 } else { arguments.intervals.unwrap_or(1) };
    let (json, stop) = (arguments.json, control.clone());
    let printing = thread::Builder::new().name("printing".to_owned()).spawn(move || {
        let mut printed = Ok(());
        let mut remarks = Vec::new();
        for snapshot in snapshots.iter().take(usize::try_from(wanted).unwrap_or(usize::MAX)) {
            let text = if json {
                format!("{}\n", report::json(&snapshot, &scope))
            } else {
                report::text(&snapshot, &scope)
            };
            printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            remarks.clone_from(&snapshot.status.remarks);
            if printed.is_err() {
                break;
            }
        }
        drop(orders);
        stop.stop();
        printed.map(|()| remarks)
    });
    let printing = printing.context("cannot start a thread")?;
    let mut notices = |notice: Notice| recording::print_notice(&notice, console);
    let result = live::record(&options, &control, &mut engine, &mut notices);
    // With the engine its end of the channel goes, and the printer knows that nothing more comes.
    drop(engine);
    match printing.join() {
        Ok(remarks) => remarks?.iter().for_each(|remark| console.warn(Harm::Names, remark)),
        Err(_) => bail!("an internal error ended the printing"),
    }
    result?;
    Ok(ExitCode::SUCCESS)
}
