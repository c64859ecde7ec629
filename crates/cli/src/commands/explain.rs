//! `prof explain`: summarizes a recording on one page.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::input::Input;
use analysis::runtimes::Runtime;
use analysis::user_modules::UserModules;
use analysis::{Measure, Request};
use anyhow::{Context, bail};
use clap::Args;
use export::explain::{self, ExplanationInput};
use profile::{Columns, Detail, Show};

use crate::arguments::{QueryArguments, RecordingArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::reading::{self, RecordingSource};

/// Arguments of `prof explain`.
#[derive(Args)]
pub struct ExplainArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON, with up to 100 rows of each list
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of --json
    #[arg(long)]
    schema: bool,
    #[command(flatten)]
    query: QueryArguments,
}

/// Summarizes a recording.
///
/// # Errors
/// The recording cannot be read, or the page cannot be written.
pub fn run(arguments: &ExplainArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let mut output = Output::open(arguments.output.as_deref(), console)?;
    if arguments.schema {
        output.write_all(explain::SCHEMA.as_bytes())?;
        return output.finish().map(|()| ExitCode::SUCCESS);
    }
    let source = RecordingSource::File(arguments.recording.path());
    reading::produce(&source, &arguments.query.debuginfod, output, None, console, |input, output| {
        write(arguments, input, output, console)
    })
}

fn write(
    arguments: &ExplainArguments,
    input: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let query = &arguments.query;
    let settings = query.settings(&input, false);
    let name = input.name.clone();
    let request = Request {
        detail: Detail {
            pools: true,
            samples: Some(Columns { times: true, cpus: false }),
            ..Detail::default()
        },
        measure: query.stacks.time().map_or(Measure::Samples, Measure::TimeOfWork),
        several_events: false,
        ..query.request(&settings)
    };
    let analysis = input::analyse(input, &request, "explain", console)?;
    let chosen = analysis.events.first().with_context(|| format!("cannot explain {name}"))?;
    let show = Show { modules: true, ..query.stacks.show() };
    let weight = query.stacks.weight(&chosen.event.attr);
    let shown = analysis.event_view(chosen, show, weight, &query.stacks.shape(), console);
    let mut hints: Vec<String> = shown.remarks().collect();
    if analysis.at_rest > 0 {
        hints.push(format!(
            "{:.3} s in which event loops were idle (epoll, poll, select and the like) are omitted; prof flame --off-cpu shows them",
            analysis.at_rest as f64 / 1e9
        ));
    }
    if shown.view.shown_total() == 0 {
        bail!("cannot explain {name}: no sample has a frame that matches --keep or --root-at");
    }
    let users = UserModules::new(&analysis.spaces);
    // The functions of an interpreter and of what compiles code are not those of the program that it runs.
    let is_users = |module: &str| users.contains(module) && Runtime::of_object(module.as_bytes()).is_none();
    let profile = &chosen.profile;
    let facts = ExplanationInput {
        title: &analysis.title(chosen, &query.description()),
        event: &shown.name,
        unit: shown.unit(),
        weight,
        total: profile.total(),
        duration_ns: profile.span.map(|(first, last)| last.0.saturating_sub(first.0)),
        cpus: analysis.recording.features().cpus.map(|cpus| u64::from(cpus.online)),
        is_clock: !chosen.is_time && chosen.event.attr.is_cpu_clock(),
        loss: &analysis.loss,
        census: &shown.census,
        hints: &hints,
        frames: shown.view.frames(),
        explanation: &profile::explain::explain(&shown.view, &is_users),
    };
    if arguments.json {
        explain::write_json(&facts, output)?;
    } else {
        output.write_all(explain::page(&facts).as_bytes())?;
    }
    Ok(())
}
