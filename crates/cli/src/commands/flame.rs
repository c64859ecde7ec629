//! `prof flame`: draws a flame graph of a recording or a command.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::input::Input;
use analysis::{EventView, Notices, Request};
use anyhow::{Context, bail};
use clap::Args;
use export::flamegraph;
use model::{Harm, Name};
use profile::{Columns, Detail, Show, View, Weight};

use super::flame_change::{self, ChangeArguments};
use crate::arguments::drawing::{DrawingArguments, FrameArguments};
use crate::arguments::{QueryArguments, RuntimeArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::reading::{self, RecordingSource};

/// Arguments of `prof flame`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  prof flame -o flame.svg                        prof.data of this folder
  prof flame -o flame.svg -- ./program           record a program and draw it
  prof flame -i perf.data -o flame.svg --open    a recording of perf, opened in the browser
  prof flame --off-cpu -o waits.svg              where threads run and where they wait
  prof flame --diff old.data -o change.svg       what changed since old.data
  prof flame --folded | grep malloc              folded stacks, as text
Options stand before the command: what follows it belongs to it.")]
pub struct FlameArguments {
    /// The recording: a perf.data file, folded stacks or a profile of pprof, or `-` for standard input [default: prof.data, else perf.data]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write folded stacks (text) instead of a picture
    #[arg(long)]
    folded: bool,
    /// Draw what changed since the recording BEFORE: as wide as in the recording, coloured by change. With --folded: both counts
    #[arg(long, value_name = "BEFORE")]
    diff: Option<PathBuf>,
    /// Open the picture in the browser
    #[arg(long, requires = "output", conflicts_with = "folded")]
    open: bool,
    #[command(flatten)]
    runtimes: RuntimeArguments,
    /// Command to record and draw, with its arguments; or a recording, as with -i
    #[arg(value_name = "COMMAND", trailing_var_arg = true, conflicts_with = "input")]
    command: Vec<OsString>,
    #[command(flatten)]
    query: QueryArguments,
    #[command(flatten)]
    frames: FrameArguments,
    #[command(flatten)]
    drawing: DrawingArguments,
}

impl FlameArguments {
    /// Returns the command to record with its arguments; empty without a command.
    pub fn command(&self) -> &[OsString] {
        &self.command
    }
}

/// Draws a recording, or records a command first and returns its exit code.
///
/// # Errors
/// The recording cannot be read, or the picture cannot be written.
pub fn run(arguments: &FlameArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let is_terminal = std::io::stdout().is_terminal();
    if arguments.output.is_none() && !arguments.folded {
        let misplaced = output_of_command(&arguments.command).map(|output| {
            let output = Name::from(output.as_encoded_bytes());
            format!("-o {output} went to the command; try: prof flame -o {output} -- COMMAND")
        });
        match misplaced {
            Some(misplaced) if is_terminal => bail!(misplaced),
            // Some commands write pictures, too.
            Some(misplaced) if misplaced.contains(".svg") => console.warn(Harm::Nothing, &misplaced),
            _ => {}
        }
    }
    if arguments.output.is_none() && !arguments.folded && is_terminal {
        bail!("the SVG cannot go to a terminal; try: prof flame > flame.svg, or prof flame -o flame.svg");
    }
    let time = arguments.query.stacks.time();
    if let (Some(weight), true) = (time, arguments.drawing.flamechart) {
        bail!(
            "--flamechart draws samples, and --weight {} is not a weight of samples; try without one of them",
            weight.name()
        );
    }
    if let Some(before) = &arguments.diff {
        flame_change::check(before, "flame", &arguments.command)?;
    }
    let output = Output::open(arguments.output.as_deref(), console)?;
    let source = RecordingSource::new(
        arguments.input.as_deref(),
        &arguments.command,
        &arguments.runtimes,
        time.is_some(),
    );
    let browser = arguments.output.as_deref().filter(|_| arguments.open);
    reading::produce(&source, &arguments.query.debuginfod, output, browser, console, |input, output| {
        match &arguments.diff {
            Some(before) => {
                let FlameArguments { folded, query, frames, drawing, .. } = arguments;
                let change = ChangeArguments { before, folded: *folded, query, frames, drawing };
                flame_change::draw(&change, input, output, console)
            }
            None => draw(arguments, input, output, console),
        }
    })
}

/// Returns the value of `-o` among the words of a command.
fn output_of_command(words: &[OsString]) -> Option<&OsString> {
    let place = words.iter().position(|word| word == "-o" || word == "--output")?;
    words.get(place + 1)
}

fn draw(
    arguments: &FlameArguments,
    input: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let detail = Detail {
        threads: arguments.frames.per_thread,
        // Other tools may search folded stacks for a thread name.
        pools: arguments.frames.merge_threads || !arguments.folded,
        processes: arguments.frames.by_process,
        containers: arguments.frames.by_container,
        cpus: false,
        cgroups: false,
        samples: arguments.drawing.flamechart.then(Columns::default),
    };
    let query = &arguments.query;
    let settings = query.settings(&input, false);
    let request = Request {
        detail,
        several_events: false,
        unmapped_addresses: arguments.frames.addresses,
        ..query.request(&settings)
    };
    let name = input.name.clone();
    let analysis = input::analyse(input, &request, "draw", console)?;
    if let (Some(format), true) = (analysis.foreign_format(), arguments.drawing.flamechart) {
        bail!("{name} is {format}: samples have no times, which --flamechart needs; try without it");
    }
    let cannot_draw = || format!("cannot draw {name}");
    let event = analysis.events.first().with_context(cannot_draw)?;
    let frames = &arguments.frames;
    let show = Show { addresses: frames.addresses, modules: frames.modules, ..query.stacks.show() };
    let weight = query.stacks.weight(&event.event.attr);
    let drawing = &arguments.drawing;
    let tree = |view: &View<'_>| {
        let least = flamegraph::min_drawn_weight(view, drawing.min_width, drawing.reverse);
        (!arguments.folded && !drawing.flamechart).then(|| view.tree_of_all_time(least))
    };
    let (shown, tree) =
        EventView::new_with(&analysis, event, show, weight, &query.stacks.shape(), console, tree);
    shown.warn(console);
    let view = &shown.view;
    if view.total() > 0 && view.shown_total() == 0 {
        bail!("{}: no sample of {name} has a frame that matches --keep or --root-at", cannot_draw());
    }
    if arguments.folded {
        export::folded::write(view, output)?;
    } else {
        let facts = shown.summary();
        let figures = analysis.subtitle(event, &facts);
        let title = analysis.title(event, &query.description());
        let is_foreign = analysis.foreign_format().is_some();
        let unit = if is_foreign { shown.unit() } else { facts.event };
        let is_time = event.is_time || is_foreign && shown.unit() == "ns";
        let unit = if facts.weight == Weight::Samples { "samples" } else { unit };
        let options = drawing.options(title, figures, unit, is_time)?;
        match tree {
            Some(tree) => flamegraph::write_tree(view, tree, &options, output)?,
            None => flamegraph::write(view, &options, output)?,
        }
    }
    Ok(())
}
