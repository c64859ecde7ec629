//! `prof flame`: draws a flame graph of a recording or a command.

pub mod change;

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
use profile::{Show, View, Weight};

use crate::arguments::drawing::{DrawingArguments, FrameArguments};
use crate::arguments::{QueryArguments, RuntimeArguments};
use crate::beside::{Kind, OutputArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::reading::{self, RecordingSource};

/// Arguments of `prof flame`.
#[derive(Args)]
#[command(before_help = "\
Examples:
  prof flame                         prof.data of this folder, drawn to prof.svg beside it
  prof flame -- ./program            record a program and draw it
  prof flame perf.data -o x.svg      a recording of perf
  prof flame --off-cpu -o waits.svg  where threads run and where they wait
  prof flame --diff old.data         what changed since old.data
  prof flame --folded | grep malloc  folded stacks, as text
Options stand before the command: what follows it belongs to it.")]
pub struct FlameArguments {
    /// The recording: a perf.data file, folded stacks or a profile of pprof, or `-` for standard input [default: prof.data, else perf.data]
    #[arg(hide_short_help = true, short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
    /// Write folded stacks (text) instead of a picture
    #[arg(long)]
    folded: bool,
    /// Draw what changed since the recording BEFORE
    ///
    /// Frames are as wide as in the recording, and coloured by change. With --folded: both counts.
    #[arg(long, value_name = "BEFORE")]
    diff: Option<PathBuf>,
    #[command(flatten)]
    runtimes: RuntimeArguments,
    /// Command to record and draw; or a recording [default: prof.data, else perf.data]
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

    /// Returns which frames are drawn or written, without their modules.
    fn show(&self) -> Show {
        let stacks = &self.query.stacks;
        let shown = if self.folded { stacks.show_for_others() } else { stacks.show_drawn() };
        Show { addresses: self.frames.addresses, ..shown }
    }
}

/// Draws a recording, or records a command first and returns its exit code.
///
/// # Errors
/// The recording cannot be read, or the picture cannot be written.
pub fn run(arguments: &FlameArguments, console: &Console) -> anyhow::Result<ExitCode> {
    if !arguments.output.is_named() && !arguments.folded {
        let misplaced = output_of_command(&arguments.command).map(|output| {
            let output = Name::from(output.as_encoded_bytes());
            format!("-o {output} went to the command; try: prof flame -o {output} -- COMMAND")
        });
        match misplaced {
            Some(misplaced) if std::io::stdout().is_terminal() => bail!(misplaced),
            // Some commands write pictures, too.
            Some(misplaced) if misplaced.contains(".svg") => console.warn(Harm::Nothing, &misplaced),
            _ => {}
        }
    }
    if let Some(before) = &arguments.diff {
        change::check(before, "flame", &arguments.command)?;
    }
    let source = RecordingSource::new(
        arguments.input.as_deref(),
        &arguments.command,
        &arguments.runtimes,
        arguments.query.stacks.time().is_some(),
    );
    let kind = if arguments.folded { Kind::Text } else { Kind::Marked("svg", flamegraph::MARK) };
    let (output, shown) = arguments.output.open(kind, source.file(), console)?;
    reading::produce(&source, &arguments.query.debuginfod, output, shown, console, |input, output| {
        match &arguments.diff {
            Some(before) => change::draw(arguments, before, input, output, console),
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
    let (query, frames) = (&arguments.query, &arguments.frames);
    // Other tools may search folded stacks for a thread name.
    let detail = frames.detail(frames.merge_threads || !arguments.folded);
    let settings = query.settings(&input, false);
    let request = Request {
        detail,
        several_events: false,
        unmapped_addresses: frames.addresses,
        ..query.request(&settings)
    };
    let analysis = input::analyse(input, &request, "draw", console)?;
    let name = &analysis.name;
    let cannot_draw = || format!("cannot draw {name}");
    let event = analysis.events.first().with_context(cannot_draw)?;
    let show = Show { modules: frames.modules, ..arguments.show() };
    let weight = query.stacks.weight(&event.event.attr);
    let drawing = &arguments.drawing;
    let tree = |view: &View<'_>| {
        let least = flamegraph::min_drawn_weight(view, drawing.min_width, drawing.reverse);
        (!arguments.folded).then(|| view.tree_of_all_time(least))
    };
    let (shown, tree) =
        EventView::new_with(&analysis, event, show, weight, &query.stacks.shape(), console, tree);
    shown.warn(console);
    let view = &shown.view;
    if view.total() > 0 && view.shown_total() == 0 {
        bail!("{}: no sample of {name} has a frame that matches --keep or --root-at", cannot_draw());
    }
    if let Some(tree) = tree {
        let facts = shown.summary();
        let figures = analysis.subtitle(event, &facts);
        let title = analysis.title(event, &query.description());
        let is_foreign = analysis.foreign_format().is_some();
        let unit = if is_foreign { shown.unit() } else { facts.event };
        let is_time = event.is_time || is_foreign && shown.unit() == "ns";
        let unit = if facts.weight == Weight::Samples { "samples" } else { unit };
        let options = drawing.options(title, figures, unit, is_time)?;
        flamegraph::write_tree(view, tree, &options, output)?;
    } else {
        export::folded::write(view, output)?;
    }
    Ok(())
}
