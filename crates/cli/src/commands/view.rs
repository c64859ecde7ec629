//! `prof view`: a recording, or that of a command, as one HTML page.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::events::is_clock;
use analysis::input::{Input, is_of_this_host};
use analysis::own_code::OwnCode;
use analysis::{Analysis, Notices, Request};
use anyhow::{Context, bail};
use clap::Args;
use export::summary::{Summary, subtitle};
use export::view::{Page, PageEvent, PageWait};
use profile::{Columns, Detail, Show, View};

use super::flame::open_in_browser;
use super::record::{Outcome, record_command};
use crate::arguments::{
    RecordingArguments, RuntimeArguments, SampleArguments, StackArguments, SymbolArguments,
};
use crate::confined;
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::sources::{self, SourceFiles};

/// Arguments of `prof view`.
#[derive(Args)]
pub struct ViewArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    /// Where the page goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Open the page in the browser
    #[arg(long, requires = "output")]
    open: bool,
    #[command(flatten)]
    samples: SampleArguments,
    #[command(flatten)]
    stacks: StackArguments,
    #[command(flatten)]
    symbols: SymbolArguments,
    #[command(flatten)]
    runtimes: RuntimeArguments,
    /// Put source lines into the page: those that were sampled, with some around
    #[arg(long)]
    with_source: bool,
    /// Look for sources below TO where debug information says FROM (may be given several times)
    #[arg(long, value_name = "FROM=TO", value_parser = sources::folder, requires = "with_source")]
    source_dir: Vec<(String, PathBuf)>,
    /// Above the page [default: what was recorded]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// A command to record and look at, with its arguments, after `--`
    #[arg(value_name = "COMMAND", last = true, conflicts_with_all = ["file", "input"])]
    command: Vec<OsString>,
}

/// Writes the page of a recording, or records a command and writes that; returns the command's exit code then.
///
/// # Errors
/// Where the recording cannot be read or the page cannot be written.
pub fn run(arguments: &ViewArguments, console: &Console) -> anyhow::Result<ExitCode> {
    if arguments.output.is_none() && std::io::stdout().is_terminal() {
        bail!(
            "a page does not belong on a terminal; try: `prof view -o view.html` or `prof view -o view.html --open`"
        );
    }
    if arguments.stacks.time().is_some() {
        bail!(
            "the page is made of samples: its lanes show when threads waited, and not with which stacks; try: prof flame \
             --off-cpu, with the same recording"
        );
    }
    let fetches = arguments.symbols.fetches(console)?;
    let output = Output::open(arguments.output.as_deref(), console)?;
    let code = if arguments.command.is_empty() {
        produce(arguments, || input::open(arguments.recording.path(), console), output, fetches, console)?
    } else {
        match record_command(&arguments.command, &arguments.runtimes, output.is_stdout(), false, console)? {
            (Outcome::NotStarted(code), _) => return Ok(code),
            (Outcome::Recorded(code), recording) => {
                let open = || Ok(Input::from_file(recording, "what was recorded")?);
                match produce(arguments, open, output, fetches, console)? {
                    ExitCode::SUCCESS => code,
                    failure => failure,
                }
            }
        }
    };
    if let (true, Some(path)) = (arguments.open, &arguments.output) {
        open_in_browser(path)?;
    }
    Ok(code)
}

fn produce(
    arguments: &ViewArguments,
    open: impl FnOnce() -> anyhow::Result<Input>,
    output: Output,
    fetches: bool,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    confined::produce(console, output, fetches, |output| write(arguments, open()?, output, console))
}

fn write(
    arguments: &ViewArguments,
    input: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let stacks = &arguments.stacks;
    let mut settings = arguments.symbols.settings(stacks.inlines(), is_of_this_host(input.reader.features()));
    settings.options.locations = arguments.with_source;
    let request = Request {
        filter: arguments.samples.filter(),
        detail: Detail {
            threads: true,
            pools: true,
            processes: true,
            cpus: false,
            containers: false,
            samples: Some(Columns { times: true, cpus: true }),
        },
        symbols: &settings,
        kernel: stacks.kernel(),
        debuginfod: arguments.symbols.debuginfod,
        event: arguments.samples.event.as_deref(),
        several_events: true,
    };
    let name = input.name.clone();
    let cannot_show = || format!("cannot show {name}");
    let analysis = match Analysis::read_with_waits(input, &request, console) {
        Err(error) if error.is_about_samples() => return Err(error).with_context(cannot_show),
        read => read?,
    };
    let show = Show { modules: true, lines: arguments.with_source, ..stacks.show() };
    let shape = stacks.shape();
    let filters = [arguments.samples.in_words(), stacks.in_words()];
    let filters = filters.iter().filter(|words| !words.is_empty()).cloned().collect::<Vec<_>>().join(", ");
    let mut truth: Vec<String> = Vec::new();
    let mut views: Vec<View<'_>> = Vec::new();
    let mut hinted: Vec<String> = Vec::new();
    for chosen in &analysis.events {
        let census = analysis.census(&chosen.profile);
        let view = analysis.shaped_view(&chosen.profile, show, stacks.weight(&chosen.event.attr), &shape);
        let hints = analysis.hints(chosen, &census, console);
        truth.push(subtitle(&Summary {
            event: &chosen.event.name.to_string(),
            total: chosen.profile.total(),
            unsampled: view.unsampled_total(),
            weight: view.weight(),
            loss: &chosen.profile.loss,
            census: &census,
            remedies: &[],
        }));
        for hint in hints.sentences().filter(|hint| !hinted.contains(hint)).collect::<Vec<_>>() {
            console.say(&hint);
            hinted.push(hint);
        }
        views.push(view);
    }
    truth.extend(hinted);
    let most = analysis.events.iter().max_by_key(|event| event.profile.total().samples);
    let mut facts = analysis.title_parts(most.with_context(cannot_show)?, &filters);
    let recorded = if facts.is_empty() { name.clone() } else { facts.remove(0) };
    let own = OwnCode::new(&analysis.spaces);
    let event = |(chosen, view)| {
        let chosen: &analysis::EventProfile = chosen;
        PageEvent { name: chosen.event.name.to_string(), view, is_clock: is_clock(&chosen.event.attr) }
    };
    let wait = |span: &analysis::WaitSpan| PageWait {
        pid: span.pid,
        tid: span.tid,
        from: span.start.0,
        to: span.end.0,
        is_ready: span.is_ready,
    };
    let sources = SourceFiles::new(&arguments.source_dir);
    let page = Page {
        title: arguments.title.clone().unwrap_or(recorded),
        facts,
        truth,
        events: analysis.events.iter().zip(&views).map(event).collect(),
        gaps: analysis.gaps.iter().map(|gap| (gap.start.0, gap.end.0, gap.lost)).collect(),
        waits: analysis.waits.iter().map(wait).collect(),
        is_own: &|module| own.contains(module),
        source: if arguments.with_source { Some(&|path: &str| sources.lines(path)) } else { None },
    };
    Ok(export::view::write(&page, output)?)
}
