//! `prof explain`: one page that says what is hot, where from, when, and what to distrust.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::events::is_clock;
use analysis::input::{Input, is_of_this_host};
use analysis::{Analysis, Request};
use anyhow::{Context, bail};
use clap::Args;
use export::explain::{self, Facts};
use profile::{Columns, Detail, Show, Weight};

use crate::arguments::{RecordingArguments, SampleArguments, StackArguments, SymbolArguments};
use crate::confined;
use crate::console::Console;
use crate::input;
use crate::output::Output;

/// Arguments of `prof explain`.
#[derive(Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    /// Where the page goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON, with up to 100 rows of each list
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of --json, and do nothing else
    #[arg(long)]
    schema: bool,
    #[command(flatten)]
    samples: SampleArguments,
    #[command(flatten)]
    stacks: StackArguments,
    #[command(flatten)]
    symbols: SymbolArguments,
}

/// Explains a recording.
///
/// # Errors
/// Where the recording cannot be read or the page cannot be written.
pub fn run(arguments: &ExplainArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let mut output = Output::open(arguments.output.as_deref(), console)?;
    if arguments.schema {
        output.write_all(explain::SCHEMA.as_bytes())?;
        return output.finish().map(|()| ExitCode::SUCCESS);
    }
    let open = || input::open(arguments.recording.path(), console);
    let fetches = arguments.symbols.fetches(console)?;
    confined::produce(console, output, fetches, |output| write(arguments, open()?, output, console))
}

fn write(
    arguments: &ExplainArguments,
    input: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let settings =
        arguments.symbols.settings(arguments.stacks.inlines(), is_of_this_host(input.reader.features()));
    let request = Request {
        filter: arguments.samples.filter(),
        detail: Detail {
            pools: true,
            samples: Some(Columns { times: true, cpus: false }),
            ..Detail::default()
        },
        symbols: &settings,
        kernel: arguments.stacks.kernel(),
        debuginfod: arguments.symbols.debuginfod,
        event: arguments.samples.event.as_deref(),
        several_events: false,
    };
    let name = input.name.clone();
    let cannot_explain = || format!("cannot explain {name}");
    let time = arguments.stacks.time();
    let read = match time {
        Some(weight) => Analysis::read_time_of_work(input, &request, weight, console),
        None => Analysis::read(input, &request, console),
    };
    let analysis = match read {
        Err(error) if error.is_about_samples() => return Err(error).with_context(cannot_explain),
        read => read?,
    };
    let chosen = analysis.events.first().with_context(cannot_explain)?;
    let (event, profile) = (&chosen.event, &chosen.profile);
    let is_clock = time.is_none() && is_clock(&event.attr);
    let weight = arguments.stacks.weight(&event.attr);
    let event_name = event.name.to_string();
    let census = analysis.census(profile);
    let mut hints: Vec<String> = analysis.hints(chosen, &census, console).sentences().collect();
    if analysis.at_rest > 0 {
        hints.push(format!(
            "{:.3} s in which event loops were at rest (epoll, poll, select and the like) are left out; prof flame --off-cpu shows them",
            analysis.at_rest as f64 / 1e9
        ));
    }
    let show = Show { modules: true, ..arguments.stacks.show() };
    let view = analysis.shaped_view(profile, show, weight, &arguments.stacks.shape());
    if view.shown_total() == 0 {
        bail!("cannot explain {name}: no sample has a frame that matches what --keep or --root-at says");
    }
    let filters = [arguments.samples.in_words(), arguments.stacks.in_words()];
    let filters = filters.into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ");
    let features = analysis.recording.features();
    let facts = Facts {
        title: &analysis.title(chosen, &filters),
        event: &event_name,
        unit: match weight {
            Weight::Samples => "samples",
            Weight::Period if is_clock || time.is_some() => "ns",
            Weight::Period => &event_name,
        },
        weight,
        total: profile.total(),
        duration_ns: profile.span.map(|(first, last)| last.0.saturating_sub(first.0)),
        cpus: features.cpus.map(|cpus| u64::from(cpus.online)),
        is_clock,
        loss: &analysis.loss,
        census: &census,
        hints: &hints,
        frames: view.frames(),
        explanation: &profile::explain::explain(&view),
    };
    if arguments.json {
        explain::write_json(&facts, output)?;
    } else {
        output.write_all(explain::page(&facts).as_bytes())?;
    }
    Ok(())
}
