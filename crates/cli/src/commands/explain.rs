//! `prof explain`: one page that says what is hot, where from, when, and what to distrust.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::events::{is_clock, weight_of};
use analysis::input::{Input, is_of_this_host};
use analysis::{Analysis, Request};
use anyhow::Context;
use clap::Args;
use export::explain::{self, Facts};
use profile::{Columns, Detail, Show, Weight};

use crate::arguments::{SampleArguments, SymbolArguments};
use crate::confined;
use crate::console::Console;
use crate::input;
use crate::output::Output;

/// Arguments of `prof explain`.
#[derive(Args)]
pub struct ExplainArguments {
    /// The recording: a perf.data file by anyone, or `-` for a stream [default: prof.data, else perf.data]
    #[arg(value_name = "FILE", conflicts_with = "input")]
    file: Option<PathBuf>,
    /// The same
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Where the page goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON, with up to 100 rows of each list
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of --json, and do nothing else
    #[arg(long)]
    schema: bool,
    /// What makes a stack heavy: the number of its samples, or the sum of their periods [default: what fits the event]
    #[arg(long, value_name = "KIND", value_parser = ["samples", "period"])]
    weight: Option<String>,
    #[command(flatten)]
    samples: SampleArguments,
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
    let file = arguments.file.as_deref().or(arguments.input.as_deref());
    confined::produce(console, output, |output| {
        write(arguments, input::open(file, console)?, output, console)
    })
}

fn write(
    arguments: &ExplainArguments,
    input: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let settings = arguments.symbols.settings(true, is_of_this_host(input.reader.features()));
    let request = Request {
        filter: arguments.samples.filter(),
        detail: Detail {
            pools: true,
            samples: Some(Columns { times: true, cpus: false }),
            ..Detail::default()
        },
        symbols: &settings,
        kernel: true,
        debuginfod: false,
        event: arguments.samples.event.as_deref(),
        several_events: false,
    };
    let name = input.name.clone();
    let cannot_explain = || format!("cannot explain {name}");
    let analysis = match Analysis::read(input, &request, console) {
        Err(error) if error.is_about_samples() => return Err(error).with_context(cannot_explain),
        read => read?,
    };
    let chosen = analysis.events.first().with_context(cannot_explain)?;
    let (event, profile) = (&chosen.event, &chosen.profile);
    let is_clock = is_clock(&event.attr);
    let weight = match arguments.weight.as_deref() {
        Some("samples") => Weight::Samples,
        Some(_) => Weight::Period,
        None => weight_of(&event.attr),
    };
    let event_name = event.name.to_string();
    let census = analysis.census(profile);
    let hints: Vec<String> = analysis.hints(chosen, &census, console).sentences().collect();
    let view = analysis.view(profile, Show { modules: true, ..Show::default() }, weight);
    let features = analysis.recording.features();
    let facts = Facts {
        title: &analysis.title(chosen, &arguments.samples.in_words()),
        event: &event_name,
        unit: match weight {
            Weight::Samples => "samples",
            Weight::Period if is_clock => "ns",
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
