//! `prof flame`: a flame graph of a recording, or of a command.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use analysis::input::{Input, is_of_this_host};
use analysis::{Analysis, Notices, Request};
use anyhow::{Context, bail};
use clap::Args;
use export::flamegraph::{Colors, Options};
use export::summary::{Summary, subtitle, subtitle_of_time};
use profile::{Columns, Detail, Show, Weight};

use super::record::{Outcome, record_command};
use crate::arguments::numbers::{percent, within};
use crate::arguments::{RuntimeArguments, SampleArguments, StackArguments, SymbolArguments};
use crate::confined;
use crate::console::Console;
use crate::input;
use crate::output::Output;

/// Pictures of time say microseconds.
const NANOSECONDS_PER_UNIT: u64 = 1_000;

/// Arguments of `prof flame`.
#[derive(Args)]
pub struct FlameArguments {
    /// The recording: a perf.data file by anyone, or `-` for a stream [default: prof.data, else perf.data]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Where the picture goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Folded stacks (text) instead of a picture
    #[arg(long)]
    folded: bool,
    /// Open the picture in the browser
    #[arg(long, requires = "output", conflicts_with = "folded")]
    open: bool,
    #[command(flatten)]
    samples: SampleArguments,
    #[command(flatten)]
    stacks: StackArguments,
    #[command(flatten)]
    frames: FrameArguments,
    #[command(flatten)]
    symbols: SymbolArguments,
    #[command(flatten)]
    drawing: DrawingArguments,
    #[command(flatten)]
    runtimes: RuntimeArguments,
    /// A command to record and draw, with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, conflicts_with = "input")]
    command: Vec<OsString>,
}

/// Which frames, beside those that all views are asked for.
#[derive(Args)]
#[command(next_help_heading = "Which frames")]
struct FrameArguments {
    /// Threads of one process whose names differ in digits alone as one: worker-* [default for pictures]
    #[arg(long)]
    merge_threads: bool,
    /// A stack of its own for each thread, not only for each thread name
    #[arg(long, conflicts_with = "merge_threads")]
    per_thread: bool,
    /// A frame for each process, below its threads
    #[arg(long)]
    by_process: bool,
    /// A frame for each container (docker:0123456789ab, k8s:POD/ID, host), below its threads
    #[arg(long, conflicts_with = "by_process")]
    by_container: bool,
    /// The offsets of frames without a name
    #[arg(long, conflicts_with = "modules_only")]
    addresses: bool,
    /// The module of each function
    #[arg(long)]
    modules: bool,
}

/// How it is drawn.
#[derive(Args)]
#[command(next_help_heading = "How it is drawn")]
struct DrawingArguments {
    /// Stacks upside down: who calls a function?
    #[arg(long)]
    reverse: bool,
    /// Grow downwards
    #[arg(long)]
    inverted: bool,
    /// In the order of time, instead of merged
    #[arg(long)]
    flamechart: bool,
    /// Above the picture [default: what was recorded, where, when, for how long, how often]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Below the title, before the figures
    #[arg(long, value_name = "TEXT")]
    subtitle: Option<String>,
    /// The palette
    #[arg(long, value_name = "NAME", default_value = "kinds", value_parser = Colors::NAMES)]
    colors: String,
    /// Leave out frames narrower than this many per cent of the picture
    #[arg(long, value_name = "PERCENT", default_value_t = 0.01, value_parser = percent)]
    min_width: f64,
    /// Width of the picture in pixels [default: that of the window]
    #[arg(long, value_name = "PIXELS", value_parser = within(100..=100_000_u32))]
    width: Option<u32>,
}

/// Draws a recording, or records a command and draws that; returns the command's exit code then.
///
/// # Errors
/// Where the recording cannot be read or the picture cannot be written.
pub fn run(arguments: &FlameArguments, console: &Console) -> anyhow::Result<ExitCode> {
    if arguments.output.is_none() && !arguments.folded && std::io::stdout().is_terminal() {
        bail!(
            "an SVG does not belong on a terminal; try: `prof flame > flame.svg` or `prof flame -o flame.svg`"
        );
    }
    let fetches = arguments.symbols.fetches(console)?;
    let time = arguments.stacks.time();
    if let (Some(weight), true) = (time, arguments.drawing.flamechart) {
        bail!(
            "--flamechart draws samples, and --weight {} is no sum of samples; try it without one of them",
            weight.name()
        );
    }
    let output = Output::open(arguments.output.as_deref(), console)?;
    let code = if arguments.command.is_empty() {
        produce(arguments, || input::open(arguments.input.as_deref(), console), output, fetches, console)?
    } else {
        let (runtimes, is_time) = (&arguments.runtimes, time.is_some());
        match record_command(&arguments.command, runtimes, output.is_stdout(), is_time, console)? {
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

/// Hands a picture or a page to whatever the desktop opens such files with.
///
/// # Errors
/// Where nothing can be started.
pub(super) fn open_in_browser(path: &Path) -> anyhow::Result<()> {
    let opened = process::Command::new("xdg-open").arg(path).stdin(process::Stdio::null()).spawn();
    opened.map(|_| ()).with_context(|| {
        format!("cannot open {} (xdg-open is missing?); open it in a browser yourself", path.display())
    })
}

fn produce(
    arguments: &FlameArguments,
    open: impl FnOnce() -> anyhow::Result<Input>,
    output: Output,
    fetches: bool,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    confined::produce(console, output, fetches, |output| draw(arguments, open()?, output, console))
}

fn draw(
    arguments: &FlameArguments,
    input: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let detail = Detail {
        threads: arguments.frames.per_thread,
        // Folded stacks are for other tools, which may look for a thread by its name.
        pools: arguments.frames.merge_threads || !arguments.folded,
        processes: arguments.frames.by_process,
        containers: arguments.frames.by_container,
        cpus: false,
        samples: arguments.drawing.flamechart.then(Columns::default),
    };
    let settings =
        arguments.symbols.settings(arguments.stacks.inlines(), is_of_this_host(input.reader.features()));
    let request = Request {
        filter: arguments.samples.filter(),
        detail,
        symbols: &settings,
        kernel: arguments.stacks.kernel(),
        debuginfod: arguments.symbols.debuginfod,
        event: arguments.samples.event.as_deref(),
        several_events: false,
    };
    let name = input.name.clone();
    let cannot_draw = || format!("cannot draw {name}");
    let time = arguments.stacks.time();
    let read = match time {
        Some(weight) => Analysis::read_time(input, &request, weight, console),
        None => Analysis::read(input, &request, console),
    };
    let analysis = match read {
        Err(error) if error.is_about_samples() => return Err(error).with_context(cannot_draw),
        read => read?,
    };
    let chosen = analysis.events.first().with_context(cannot_draw)?;
    let (event, profile) = (&chosen.event, &chosen.profile);
    let weight = arguments.stacks.weight(&event.attr);
    let census = analysis.census(profile);
    let hints = analysis.hints(chosen, &census, console);
    for hint in hints.sentences() {
        console.say(&hint);
    }
    let (shape, frames) = (arguments.stacks.shape(), &arguments.frames);
    let show = Show { addresses: frames.addresses, modules: frames.modules, ..arguments.stacks.show() };
    let view = analysis.shaped_view(profile, show, weight, &shape);
    if view.total() > 0 && view.shown_total() == 0 {
        bail!(
            "{}: no sample of {name} has a frame that matches what --keep or --root-at says",
            cannot_draw()
        );
    }
    if arguments.folded {
        export::folded::write(&view, output)?;
    } else {
        let facts = Summary {
            event: &event.name.to_string(),
            total: profile.total(),
            unsampled: view.unsampled_total(),
            weight,
            loss: &profile.loss,
            census: &census,
            remedies: &hints.in_picture(),
        };
        let words = [arguments.samples.in_words(), arguments.stacks.in_words()];
        let words = words.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ");
        let title = analysis.title(chosen, &words);
        let figures = match time {
            Some(_) => subtitle_of_time(&facts, &analysis.activity(profile)),
            None => subtitle(&facts),
        };
        let options = arguments.drawing.options(title, &facts, figures, time.is_some())?;
        export::flamegraph::write(&view, &options, output)?;
    }
    Ok(())
}

impl DrawingArguments {
    fn options(
        &self,
        title: String,
        facts: &Summary<'_>,
        figures: String,
        is_time: bool,
    ) -> anyhow::Result<Options> {
        Ok(Options {
            title: self.title.clone().unwrap_or(title),
            subtitle: match &self.subtitle {
                Some(text) => format!("{text} – {figures}"),
                None => figures,
            },
            colors: self.colors.parse().map_err(anyhow::Error::msg)?,
            width: self.width.map(|width| width as usize),
            min_width: self.min_width,
            inverted: self.inverted,
            reverse: self.reverse,
            chart: self.flamechart,
            per_unit: if is_time { NANOSECONDS_PER_UNIT } else { 1 },
            unit: match facts.weight {
                _ if is_time => "µs".to_owned(),
                Weight::Samples => "samples".to_owned(),
                Weight::Period => facts.event.to_owned(),
            },
        })
    }
}
