//! `prof view`: writes an interactive HTML page of a recording or a command.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::annotate::{Annotator, HAS_DISASSEMBLY, SampledFunction, Syntax, sampled_functions};
use analysis::input::Input;
use analysis::user_modules::UserModules;
use analysis::{Analysis, EventView, Measure, Notices, Request, TimeWeight, archive};
use anyhow::{Context, bail};
use clap::Args;
use export::SourceReader;
use export::summary::Summary;
use export::view::{Page, PageEvent, PageRange, PageWait};
use profile::{Columns, Detail, Show};

use crate::arguments::{QueryArguments, RecordingArguments, RuntimeArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::reading::{self, RecordingSource};
use crate::source_files::{self, SourceFiles};

/// Arguments of `prof view`.
#[derive(Args)]
pub struct ViewArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open the page in the browser
    #[arg(long, requires = "output")]
    open: bool,
    #[command(flatten)]
    runtimes: RuntimeArguments,
    /// Include sampled source lines and instructions with their surroundings; the code in an archive is included anyway
    #[arg(long)]
    with_source: bool,
    /// Search sources below TO if debug information says FROM (may be repeated)
    #[arg(long, value_name = "FROM=TO", value_parser = source_files::parse_replacement, requires = "with_source")]
    source_dir: Vec<(String, PathBuf)>,
    /// Title of the page [default: what was recorded]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Command to record and show, with its arguments, after `--`
    #[arg(value_name = "COMMAND", last = true, conflicts_with_all = ["file", "input"])]
    command: Vec<OsString>,
    #[command(flatten)]
    query: QueryArguments,
}

/// Writes the page of a recording, or records a command first and returns its exit code.
///
/// # Errors
/// The recording cannot be read, or the page cannot be written.
pub fn run(arguments: &ViewArguments, console: &Console) -> anyhow::Result<ExitCode> {
    if arguments.output.is_none() && std::io::stdout().is_terminal() {
        bail!(
            "the page cannot go to a terminal; try: prof view -o view.html, or prof view -o view.html --open"
        );
    }
    let time = arguments.query.stacks.time();
    let output = Output::open(arguments.output.as_deref(), console)?;
    let source = RecordingSource::new(
        arguments.recording.path(),
        &arguments.command,
        &arguments.runtimes,
        time.is_some(),
    );
    let browser = arguments.output.as_deref().filter(|_| arguments.open);
    let sources = arguments.with_source.then(|| SourceFiles::new(&arguments.source_dir));
    reading::produce(&source, &arguments.query.debuginfod, output, browser, console, |input, output| {
        write(arguments, input, sources.as_ref(), output, console)
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
    settings.reads_sources = arguments.with_source;
    let request = Request {
        detail: Detail {
            threads: true,
            pools: true,
            processes: true,
            cpus: false,
            containers: false,
            cgroups: false,
            // A thread that waits is on no CPU.
            samples: Some(Columns {
                times: true,
                cpus: !matches!(time, Some(TimeWeight::Wall | TimeWeight::OffCpu)),
            }),
        },
        measure: time.map_or(Measure::SamplesAndWaits, Measure::Time),
        ..query.request(&settings)
    };
    let name = input.name.clone();
    let (carried, damage) = archive::code(&input.reader, settings.options.names);
    if let Some(damage) = damage {
        console.warn(&format!("the code in {name} is damaged: {damage}"));
    }
    let analysis = input::analyse(input, &request, "show", console)?;
    let show = Show { modules: true, lines: arguments.with_source, ..query.stacks.show() };
    let shown = analysis.event_views(show, |attr| query.stacks.weight(attr), &query.stacks.shape(), console);
    // The page shows hints and estimates as whole sentences.
    let figures = |shown: &EventView<'_>| {
        analysis.subtitle(shown.event, &Summary { remedies: &[], estimates: &[], ..shown.summary() })
    };
    let mut truth: Vec<String> = shown.iter().map(figures).collect();
    let mut hinted: Vec<String> = Vec::new();
    for hint in shown.iter().flat_map(|shown| shown.remarks()) {
        if !hinted.contains(&hint) {
            console.say(&hint);
            hinted.push(hint);
        }
    }
    truth.extend(hinted);
    let most = analysis.events.iter().max_by_key(|event| event.profile.total().samples);
    let most = most.with_context(|| format!("cannot show {name}"))?;
    let mut facts = analysis.title_parts(most, &query.description());
    let recorded = if facts.is_empty() { name } else { facts.remove(0) };
    let own = UserModules::new(&analysis.spaces);
    let event = |shown| {
        let EventView { event, name, view, .. }: &EventView<'_> = shown;
        let is_clock = event.is_clock();
        PageEvent { name: name.clone(), view, is_clock, is_time: event.is_time }
    };
    let wait = |span: &analysis::WaitSpan| PageWait {
        pid: span.pid,
        tid: span.tid,
        from: span.start.0,
        to: span.end.0,
        is_ready: span.is_ready,
    };
    let has_code = HAS_DISASSEMBLY && (arguments.with_source || !carried.is_empty());
    let annotator = Annotator::new(&analysis, &settings, Syntax::default(), carried);
    let code = if has_code { code(&analysis, &shown, &annotator, arguments.with_source) } else { Vec::new() };
    let mut owners = annotator.source_owners();
    owners.extend(&analysis.symbols.source_owners);
    let read = sources.map(|sources| |path: &str| sources.text(path, &owners));
    let page = Page {
        title: arguments.title.clone().unwrap_or(recorded),
        facts,
        caveats: truth,
        events: shown.iter().map(event).collect(),
        gaps: analysis.gaps.iter().map(|gap| (gap.start.0, gap.end.0, gap.lost)).collect(),
        waits: analysis.waits.iter().map(wait).collect(),
        switch_gaps: analysis.switch_gaps.clone(),
        is_own_code: &|module| own.contains(module),
        source: read.as_ref().map(|read| read as &SourceReader<'_>),
        code: &code,
    };
    export::view::write(&page, output)?;
    sources.iter().flat_map(|sources| sources.remarks()).for_each(|remark| console.warn(&remark));
    Ok(())
}

/// Maximum number of functions whose instructions are included.
const MAX_FUNCTIONS: usize = 200;

/// Reads the code of the hottest functions of all events: from the recording, and with `from_files` also from files.
fn code(
    analysis: &Analysis,
    shown: &[EventView<'_>],
    annotator: &Annotator<'_>,
    from_files: bool,
) -> Vec<PageRange> {
    let mut hottest: Vec<(f64, SampledFunction)> = Vec::new();
    for EventView { view, .. } in shown {
        let total = view.shown_total().max(1) as f64;
        for function in sampled_functions(analysis, view).into_iter().take(MAX_FUNCTIONS) {
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
    let pieces = hottest
        .into_iter()
        .map(|(_, function)| function)
        .filter(|function| from_files || annotator.has_embedded_code(function));
    let ranges = pieces.take(MAX_FUNCTIONS).map(|function| PageRange {
        range: annotator.annotate(&function),
        space: function.space,
        start: function.start,
    });
    ranges.filter(|piece| !piece.range.instructions.is_empty()).collect()
}
