//! `prof view`: writes an interactive HTML page of a recording or a command.

mod change;
mod parts;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use analysis::annotate::{
    Annotator, HAS_DISASSEMBLY, SampledFunction, Syntax, hottest_functions, sampled_functions,
};
use analysis::input::Input;
use analysis::packages::packages;
use analysis::user_modules::UserModules;
use analysis::{Analysis, EventView, Measure, Notices, Request, TimeWeight, archive};
use anyhow::{Context, anyhow};
use clap::Args;
use export::SourceReader;
use export::summary::Summary;
use export::view::{Page, PageRange, PageSamples, PageStacks, PageWaker};
use export::wait_chains::WaitingFindings;
use model::{Harm, Waker};
use profile::{Columns, Detail, Show, View, Weight};

use super::flame;
use crate::arguments::{QueryArguments, RecordingArguments, RuntimeArguments};
use crate::beside::{Kind, OutputArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::reading::{self, RecordingSource};
use crate::source_files::{self, SourceFiles};
use parts::{gaps, pack_blocks, page_event};

/// Arguments of `prof view`.
#[derive(Args)]
#[command(before_help = "\
Examples:
  prof view                          prof.data of this folder, to prof.html beside it, in the browser
  prof view -- ./program             record a program and show it
  prof view perf.data -o page.html   a recording of perf
  prof view --with-source            with the sampled lines and instructions")]
pub struct ViewArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    runtimes: RuntimeArguments,
    /// Include all sampled source lines, and the instructions of 200 functions [default: both of the hottest functions, where small]
    #[arg(hide_short_help = true, long)]
    with_source: bool,
    /// Include no source lines, and instructions only from an archive
    #[arg(hide_short_help = true, long, conflicts_with_all = ["with_source", "source_dir"])]
    no_source: bool,
    /// Search sources below TO if debug information says FROM (may be repeated)
    #[arg(long, value_name = "FROM=TO", value_parser = source_files::parse_replacement)]
    source_dir: Vec<(String, PathBuf)>,
    /// Title of the page [default: what was recorded]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Show what changed since the recording BEFORE
    #[arg(long, value_name = "BEFORE", conflicts_with_all = ["with_source", "no_source", "source_dir"])]
    diff: Option<PathBuf>,
    /// Command to record and show, with its arguments, after `--`
    #[arg(value_name = "COMMAND", last = true, conflicts_with_all = ["file", "input"])]
    command: Vec<OsString>,
    #[command(flatten)]
    query: QueryArguments,
}

impl ViewArguments {
    /// Returns the words that name what was shown, for the command line; empty for the default recording.
    fn recorded(&self) -> String {
        let path = self.recording.path().map(|path| path.to_string_lossy());
        let quoted = path
            .map(|path| shlex::try_quote(&path).map_or_else(|_| "FILE".to_owned(), |path| path.into_owned()));
        match quoted {
            Some(path) => path,
            None if self.command.is_empty() => String::new(),
            None => "-- COMMAND".to_owned(),
        }
    }
}

/// Writes the page of a recording, or records a command first and returns its exit code.
///
/// # Errors
/// The recording cannot be read, or the page cannot be written.
pub fn run(arguments: &ViewArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let time = arguments.query.stacks.time();
    if let Some(before) = &arguments.diff {
        flame::change::check(before, "view", &arguments.command)?;
    }
    let source = RecordingSource::new(
        arguments.recording.path(),
        &arguments.command,
        &arguments.runtimes,
        time.is_some(),
    );
    let (output, shown) =
        arguments.output.open(Kind::Marked("html", export::view::MARK), source.file(), console)?;
    let sources =
        (!arguments.no_source && arguments.diff.is_none()).then(|| SourceFiles::new(&arguments.source_dir));
    reading::produce(&source, &arguments.query.debuginfod, output, shown, console, |input, output| {
        match &arguments.diff {
            Some(before) => change::write(arguments, before, input, output, console),
            None => write(arguments, input, sources.as_ref(), output, console),
        }
    })
}

fn write(
    arguments: &ViewArguments,
    input: Input,
    sources: Option<&SourceFiles<'_>>,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let query = &arguments.query;
    let time = query.stacks.time();
    let mut settings = query.settings(&input, arguments.with_source);
    settings.reads_sources = sources.is_some();
    let request = Request {
        detail: Detail {
            threads: true,
            pools: true,
            processes: true,
            // A thread that waits is on no CPU.
            samples: Some(Columns {
                times: true,
                cpus: !matches!(time, Some(TimeWeight::Wall | TimeWeight::OffCpu)),
            }),
            ..Detail::default()
        },
        measure: time.map_or(Measure::SamplesAndWaits, Measure::Time),
        ..query.request(&settings)
    };
    let name = input.name.clone();
    let (carried, damage) = archive::code(&input.reader, settings.options.names);
    if let Some(damage) = damage {
        console.warn(Harm::Names, &format!("the code in {name} is damaged: {damage}"));
    }
    let analysis = input::analyse(input, &request, "show", console)?;
    let show = Show { modules: true, lines: arguments.with_source, ..query.stacks.show() };
    let shape = query.stacks.shape();
    let mut shown = EventView::of_all(&analysis, show, |attr| query.stacks.weight(attr), &shape, console);
    let time_of_threads = analysis.thread_time.iter();
    shown.extend(
        time_of_threads.map(|time| EventView::new(&analysis, time, show, Weight::Period, &shape, console)),
    );
    for number in 1..shown.len() {
        let (earlier, later) = shown.split_at_mut(number);
        earlier.iter().for_each(|earlier| later[0].leave_out_hints_of(earlier));
    }
    // The page shows hints and estimates as whole sentences.
    let figures = |shown: &EventView<'_>| {
        analysis.subtitle(shown.event, &Summary { remedies: &[], estimates: &[], ..shown.summary() })
    };
    let mut truth: Vec<String> = shown.iter().map(figures).collect();
    shown.iter().for_each(|shown| shown.warn(console));
    let mut hinted: Vec<String> = Vec::new();
    for hint in shown.iter().flat_map(|shown| shown.remarks()) {
        if !hinted.contains(&hint) {
            hinted.push(hint);
        }
    }
    truth.extend(hinted);
    let most = analysis.events.iter().max_by_key(|event| event.profile.total().samples);
    let most = most.with_context(|| format!("cannot show {name}"))?;
    let mut facts = analysis.title_parts(most, &query.description());
    let recorded = if facts.is_empty() { name } else { facts.remove(0) };
    let own = UserModules::with_programs(&analysis.spaces);
    let waker = |waker: &analysis::SpanWaker| PageWaker {
        name: match &waker.waker {
            Waker::Thread(name) => name.clone(),
            Waker::DeferredInterrupt(name) => format!("softirq in {name}"),
            Waker::Interrupt => "interrupt".to_owned(),
            Waker::Outside => "thread not recorded".to_owned(),
        },
        thread: waker.thread.filter(|_| matches!(waker.waker, Waker::Thread(_) | Waker::Outside)),
    };
    let has_code = HAS_DISASSEMBLY && (sources.is_some() || !carried.is_empty());
    let annotator = Annotator::new(&analysis, &settings, Syntax::default(), carried);
    let choice = match (arguments.with_source, sources) {
        (true, _) => CodeChoice::All,
        (false, Some(_)) => CodeChoice::Hottest,
        (false, None) => CodeChoice::Carried,
    };
    let views: Vec<&View<'_>> = shown.iter().map(|shown| &shown.view).collect();
    // Files are read meanwhile.
    let (stacks, samples, (code, packages)) = thread::scope(|threads| {
        let stacks = threads.spawn(|| PageStacks::of(views.iter().copied(), None));
        let samples = threads.spawn(|| PageSamples::of(views.iter().copied(), false));
        let code = if has_code { code(&analysis, &shown, &annotator, choice) } else { Vec::new() };
        let packages = packages(&analysis, &own, &annotator);
        (stacks.join(), samples.join(), (code, packages))
    });
    let ended = |_| anyhow!("an internal error ended a thread that counts stacks");
    let (stacks, samples) = (stacks.map_err(ended)?, samples.map_err(ended)?);
    let mut owners = annotator.source_owners();
    owners.extend(&analysis.symbols.source_owners);
    let read = sources.map(|sources| |path: &str| sources.text(path, &owners));
    let pieces = analysis.view_of_waiting();
    let waiting = pieces.as_ref().map(|pieces| analysis.waiting(pieces));
    let page = Page {
        waiting: pieces
            .as_ref()
            .zip(waiting.as_ref())
            .map(|(pieces, waiting)| WaitingFindings { frames: pieces.frames(), waiting }),
        title: arguments.title.clone().unwrap_or(recorded),
        facts,
        caveats: truth,
        events: shown.iter().map(page_event).collect(),
        gaps: gaps(&analysis),
        waits: &analysis.waits.spans,
        wakers: analysis.waits.has_wakings.then(|| analysis.waits.wakers.iter().map(waker).collect()),
        switch_gaps: analysis.switch_gaps.clone(),
        is_own_code: &|module| own.contains(module),
        package_of: &|module, function| packages.get(&(module.to_owned(), function.to_owned())).cloned(),
        folds_starts: query.stacks.show_drawn().fold_starts,
        source: read.as_ref().map(|read| read as &SourceReader<'_>),
        has_lines: arguments.with_source,
        recording: arguments.recorded(),
        sides: None,
        code: &code,
    };
    export::view::write(&page, samples, stacks, &pack_blocks, output)?;
    let asked = sources.filter(|_| arguments.with_source);
    asked.iter().flat_map(|sources| sources.remarks()).for_each(|remark| console.warn(Harm::Names, &remark));
    Ok(())
}

/// The functions whose code is included.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CodeChoice {
    /// All sampled ones, up to [`MAX_FUNCTIONS`].
    All,
    /// The hottest, as far as their code is small.
    Hottest,
    /// Those whose code is in the recording.
    Carried,
}

/// Maximum number of functions whose instructions are included.
const MAX_FUNCTIONS: usize = 200;

/// Maximum number of functions whose instructions are included if nobody asks for them. They hold nine tenths of the time of programs
/// with a hot loop, and add at most 150 kB to a page.
const MAX_HOTTEST: usize = 12;

/// Maximum distance in bytes from the start of a function to a sample in it, if nobody asks for its instructions.
const MAX_SMALL_BYTES: u64 = 8 << 10;

/// Maximum size in bytes of a file whose functions are included if nobody asks for them. Reading twelve functions of rustc, with 150 MB,
/// took a quarter of the time of all else.
const MAX_SMALL_FILE: u64 = 32 << 20;

/// Returns true for functions whose samples lie close to their starts, so that few instructions show them, in files that are read quickly.
fn is_small(function: &SampledFunction, annotator: &Annotator<'_>) -> bool {
    let last = function.offsets.last_key_value();
    last.is_some_and(|(&last, _)| last.saturating_sub(function.start) <= MAX_SMALL_BYTES)
        && (annotator.has_embedded_code(function)
            || annotator.file_size(function).is_some_and(|size| size <= MAX_SMALL_FILE))
}

/// Reads the code of the hottest functions of all events.
fn code(
    analysis: &Analysis,
    shown: &[EventView<'_>],
    annotator: &Annotator<'_>,
    choice: CodeChoice,
) -> Vec<PageRange> {
    let mut hottest: Vec<(f64, SampledFunction)> = Vec::new();
    for EventView { view, .. } in shown {
        let total = view.shown_total().max(1) as f64;
        let functions = match choice {
            // The view has frames for each line of a function.
            CodeChoice::All => sampled_functions(analysis, view),
            CodeChoice::Hottest | CodeChoice::Carried => hottest_functions(analysis, view, MAX_FUNCTIONS),
        };
        for function in functions.into_iter().take(MAX_FUNCTIONS) {
            let share = function.weight as f64 / total;
            let of_it = |(_, known): &&mut (f64, SampledFunction)| {
                (known.space, known.start, &known.name) == (function.space, function.start, &function.name)
            };
            match hottest.iter_mut().find(of_it) {
                Some((known, _)) => *known = known.max(share),
                None => hottest.push((share, function)),
            }
        }
    }
    hottest.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let functions = hottest.into_iter().map(|(_, function)| function).filter(|function| match choice {
        CodeChoice::All => true,
        CodeChoice::Hottest => is_small(function, annotator),
        CodeChoice::Carried => annotator.has_embedded_code(function),
    });
    let most = if choice == CodeChoice::Hottest { MAX_HOTTEST } else { MAX_FUNCTIONS };
    let (mut functions, mut pieces) = (functions.take(MAX_FUNCTIONS), Vec::new());
    while pieces.len() < most {
        let next: Vec<SampledFunction> = functions.by_ref().take(most - pieces.len()).collect();
        if next.is_empty() {
            break;
        }
        let ranges = next.iter().zip(annotator.annotate_all(&next));
        // The kernel's functions, for example, have no code in a file.
        let found = ranges.filter(|(_, range)| !range.instructions.is_empty());
        pieces.extend(found.map(|(function, range)| PageRange {
            range,
            space: function.space,
            start: function.start,
        }));
    }
    pieces
}
