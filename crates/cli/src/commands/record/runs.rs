//! `prof record --runs N`: records a command several times, or two commands in turns, into a folder that `prof diff` compares.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use analysis::Notices;
use analysis::runs::{MANIFEST, Manifest, RecordedRun, RunSide};
use anyhow::{Context, bail};
use host::files::{NameInFolder, NewFile, make_new_folder};
use model::Name;
use recorder::{
    Command, CommandSources, Control, FileSink, Notice, Options, Place, Summary, Target, Workload,
};

use super::arguments::{DEFAULT_OUTPUT, RecordArguments};
use crate::arguments::exit_with_usage_error;
use crate::commands::name_lookup::NameLookup;
use crate::commands::recording::{self, Outcome, Sampled};
use crate::console::Console;
use crate::output;

/// The default folder of runs.
const DEFAULT_FOLDER: &str = "prof.runs";

/// The events that are counted exactly in each run, where the machine counts them. They vary from run to run far less than samples.
const COUNTED: &str = "task-clock,page-faults,context-switches,instructions";

/// The commands and the folder of a series of runs.
struct Series<'a> {
    arguments: &'a RecordArguments,
    options: Options,
    before: Option<Vec<OsString>>,
    folder: PathBuf,
    console: &'a Console,
    started: Instant,
    /// The number of finished runs, and that of all, those to warm up included.
    done: u32,
    all: u32,
}

/// A run that has ended: what was recorded, and how it ended.
struct FinishedRun {
    summary: Summary,
    code: u8,
    stops: bool,
}

/// Records `runs` runs of the command, or pairs of runs of both commands, and returns the first exit code that is not 0.
///
/// # Errors
/// The commands cannot be recorded, or the folder or a file in it cannot be written.
pub fn record(
    arguments: &RecordArguments,
    runs: u32,
    mut options: Options,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    if options.target != Target::Command {
        exit_with_usage_error(
            "--runs records a command, and no running processes; try it without -p, -t, -a, -u, -G",
        );
    }
    if arguments.output == Path::new("-") {
        exit_with_usage_error("--runs records into a folder, not a stream; try: -o prof.runs");
    }
    let before = arguments.runs.against.as_deref().map(words).transpose()?;
    options.counted = recorder::event::select(COUNTED, &recorder::this_machine())?
        .into_iter()
        .map(|event| recorder::event::Event { is_default: true, ..event })
        .collect();
    let folder = match &arguments.output {
        output if output == Path::new(DEFAULT_OUTPUT) => PathBuf::from(DEFAULT_FOLDER),
        output => output.clone(),
    };
    make_new_folder(&folder, is_of_a_series)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let sides = if before.is_some() { 2 } else { 1 };
    let all = (runs + 1) * sides;
    let mut series =
        Series { arguments, options, before, folder, console, started: Instant::now(), done: 0, all };
    series.record(runs)
}

/// Returns true if a file of this name in a folder of runs is ours: such a folder may be replaced by a new one.
fn is_of_a_series(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let recording = name.strip_suffix(".old").unwrap_or(&name);
    let is_run = |name: &str| {
        let (number, side) = name.split_once('-')?;
        let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
        (is_number && matches!(side, "before.data" | "after.data")).then_some(())
    };
    name == MANIFEST || is_run(recording).is_some()
}

/// Splits a command into words as a shell does, without running one.
fn words(command: &str) -> anyhow::Result<Vec<OsString>> {
    match shlex::split(command) {
        Some(words) if !words.is_empty() => Ok(words.into_iter().map(OsString::from).collect()),
        Some(_) => bail!("--against names no command; try: --against './old ARGS'"),
        None => bail!("--against '{command}' has a quote that does not end, or ends in a backslash"),
    }
}

/// Returns the sides of pair `number`, counted from 0, in the order in which they run: A B, then B A. A machine that gets slower with
/// time then favours neither.
fn order(number: u32) -> [RunSide; 2] {
    if number.is_multiple_of(2) {
        [RunSide::Before, RunSide::After]
    } else {
        [RunSide::After, RunSide::Before]
    }
}

impl Series<'_> {
    fn record(&mut self, runs: u32) -> anyhow::Result<ExitCode> {
        let mut manifest = Manifest {
            interleaved: self.before.is_some(),
            before: self.before.as_deref().map(in_text),
            after: in_text(&self.arguments.command),
            runs: Vec::new(),
        };
        let digits = runs.to_string().len().max(2);
        let mut code = 0;
        let has_both = self.before.is_some();
        // The first pair warms up, in the order of the one behind it.
        for number in 0..=runs {
            let sides = order(number.saturating_sub(1)).into_iter();
            for side in sides.filter(|side| has_both || *side == RunSide::After) {
                let file = PathBuf::from(format!("{number:0digits$}-{}.data", side.name()));
                let is_warm_up = number == 0;
                let run = match self.record_one(side, (!is_warm_up).then_some(&*file))? {
                    Ok(run) => run,
                    Err(code) => return Ok(code),
                };
                code = if code == 0 { run.code } else { code };
                if run.stops {
                    let kept = format!("{} are in {}", counted(&manifest), self.folder.display());
                    self.console.say(&format!("stopped in run {} of {}: {kept}", self.done, self.all));
                    return Ok(ExitCode::from(run.code.max(1)));
                }
                if is_warm_up {
                    continue;
                }
                let counts = run.summary.counts.iter().map(|exact| (exact.event.clone(), exact.count));
                manifest.runs.push(RecordedRun {
                    side,
                    file,
                    wall: run.summary.duration,
                    exit_status: run.code.into(),
                    counts: counts.collect(),
                });
                // After each run: what is there can be compared whenever the series ends.
                self.write(&manifest)?;
            }
        }
        let took = duration(self.started.elapsed());
        let folder = self.folder.display();
        let counted = counted(&manifest);
        self.console.say(&format!("{counted} → {folder} ({took}); to compare them: prof diff {folder}"));
        Ok(ExitCode::from(code))
    }

    /// Records one run into a file of the folder, or into none to warm up. Returns an exit code if the command cannot be started.
    fn record_one(
        &mut self,
        side: RunSide,
        file: Option<&Path>,
    ) -> anyhow::Result<Result<FinishedRun, ExitCode>> {
        let words = match side {
            RunSide::Before => self.before.clone().unwrap_or_default(),
            RunSide::After => self.arguments.command.clone(),
        };
        // As if this side were recorded alone: readers take the command from the end of the line.
        let mut command_line = recording::own_command_line();
        command_line.truncate(command_line.len().saturating_sub(self.arguments.command.len()));
        command_line.extend(words.iter().map(|word| Name::from(word.as_encoded_bytes())));
        let environment = self.arguments.runtimes.environment(&words, self.console);
        let workload = Workload { words, environment, output_to_stderr: false };
        let options = Options { workload: Some(workload), ..self.options.clone() };
        let control = Control::with_signals().context("cannot wait for signals")?;
        control.accept_commands_from(CommandSources::default());
        let names = match file {
            Some(_) if !self.arguments.no_names => NameLookup::AtEnd,
            _ => NameLookup::WhenRead,
        };
        let path = file.map(|file| self.folder.join(file));
        let place = match &path {
            Some(path) => Place::Destination(output::find(path, self.console)?.into_kind()),
            None => {
                let nameless = NewFile::create_nameless(&self.folder)
                    .with_context(|| format!("cannot create a file in {}", self.folder.display()))?;
                Place::Unnamed(nameless)
            }
        };
        let mut sink = FileSink::new(place, self.arguments.compress, command_line);
        // What the recorder has to say of one run, it says of all.
        let is_first = self.done == 0;
        let console = self.console;
        let mut notices = |notice: Notice| {
            if is_first {
                recording::print_notice(&notice, console);
            }
        };
        let Sampled { recorded, sources, .. } =
            recording::sample(&mut sink, &options, names, &control, &mut notices, console);
        let summary = match recorded {
            Ok(summary) => summary,
            Err(error) => {
                return match recording::handle_error(error, path.as_deref(), self.console)? {
                    Outcome::NotStarted(code) | Outcome::Recorded(code, _) => Ok(Err(code)),
                };
            }
        };
        if let Some(path) = path.as_deref().filter(|_| !self.arguments.no_names) {
            recording::append_vanishing_names(path, &sources, self.console);
        }
        let still_runs = matches!(summary.command, Some(Command::Running(_)));
        let code = recording::exit_code(summary.command.as_ref(), &control);
        self.done += 1;
        self.say_progress(side, file.is_none(), &summary, code);
        Ok(Ok(FinishedRun { stops: still_runs || is_stopped(code), code, summary }))
    }

    /// Says how the last run went, and how long the others will take.
    fn say_progress(&self, side: RunSide, is_warm_up: bool, summary: &Summary, code: u8) {
        let (done, all) = (self.done, self.all);
        let left = self.started.elapsed().mul_f64(f64::from(all - done) / f64::from(done.max(1)));
        let side = if self.before.is_some() { format!(", {}", side.name()) } else { String::new() };
        let warms_up = if is_warm_up { " to warm up" } else { "" };
        let exited = if code == 0 { String::new() } else { format!(", exit code {code}") };
        let rest = if done == all { String::new() } else { format!("; {} left", duration(left)) };
        let samples = export::summary::counted(summary.samples, "sample", "samples");
        let took = duration(summary.duration);
        self.console.say(&format!("run {done} of {all}{side}{warms_up}: {took}, {samples}{exited}{rest}"));
    }

    fn write(&self, manifest: &Manifest) -> anyhow::Result<()> {
        let path = self.folder.join(MANIFEST);
        let write = || {
            let file = NewFile::create(NameInFolder::find(&path)?, 0o600)?;
            file.file().write_all(manifest.to_json().as_bytes())?;
            file.persist()
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Returns true if an exit code says that the user has stopped the command, by SIGINT or SIGTERM.
fn is_stopped(code: u8) -> bool {
    matches!(code, 130 | 143)
}

fn counted(manifest: &Manifest) -> String {
    let runs = manifest.runs.len() as u64;
    match manifest.interleaved {
        true => export::summary::counted(runs / 2, "pair of runs", "pairs of runs"),
        false => export::summary::counted(runs, "run", "runs"),
    }
}

fn in_text(words: &[OsString]) -> Vec<String> {
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Formats a time for messages: `0.21 s`, `12 s`, `3 min 5 s`.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.2} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_run_in_turns() {
        use RunSide::{After, Before};
        let all: Vec<RunSide> = (0..3).flat_map(order).collect();
        assert_eq!(all, [Before, After, After, Before, Before, After]);
    }

    #[test]
    fn a_command_is_split_as_a_shell_does_and_nothing_else_is_done() {
        let split = |command| words(command).map(|words| in_text(&words));
        assert_eq!(split(r#"./a 'b c' "$HOME" d\ e > f"#).unwrap(), ["./a", "b c", "$HOME", "d e", ">", "f"]);
        assert!(split("a 'b").unwrap_err().to_string().contains("quote"));
        assert!(split("  ").is_err());
    }

    #[test]
    fn only_files_of_a_series_are_replaced() {
        for ours in ["runs.json", "01-before.data", "113-after.data", "01-after.data.old"] {
            assert!(is_of_a_series(OsStr::new(ours)), "{ours}");
        }
        for other in ["notes.txt", "after.data", "-after.data", "01-after.svg", "x1-after.data"] {
            assert!(!is_of_a_series(OsStr::new(other)), "{other}");
        }
    }
}
