//! `prof explain`: summarizes a recording on one page.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::input::Input;
use analysis::runtimes::Runtime;
use analysis::user_modules::UserModules;
use analysis::{Measure, Request, TimeWeight};
use anyhow::{Context, bail};
use clap::Args;
use decoder::Attr;
use export::explain::{self, ExplanationInput, Findings};
use profile::{Columns, Detail, Show, View, Weight};

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
    let time = query.stacks.time();
    let request = Request {
        detail: Detail {
            pools: true,
            // Neither time is told by phases, nor samples that have no times.
            samples: (time.is_none() && input.foreign.is_none())
                .then_some(Columns { times: true, cpus: false }),
            ..Detail::default()
        },
        measure: time.map_or(Measure::SamplesAndTime(TimeWeight::OffCpu), Measure::Time),
        several_events: false,
        ..query.request(&settings)
    };
    let analysis = input::analyse(input, &request, "explain", console)?;
    let chosen = analysis.events.first().with_context(|| format!("cannot explain {name}"))?;
    let show = Show { modules: true, ..query.stacks.show() };
    let weight = if chosen.is_time { Weight::Period } else { query.stacks.weight(&chosen.event.attr) };
    let shown = analysis.event_view(chosen, show, weight, &query.stacks.shape(), console);
    let time = analysis.thread_time.as_ref();
    let waits = time.map(|time| analysis.view(&time.profile, show, Weight::Period, &query.stacks.shape()));
    let waits = waits.filter(|waits| waits.shown_total() > 0);
    let estimates = time.iter().flat_map(|time| time.estimates());
    let no_phases = analysis
        .foreign_format()
        .map(|format| format!("there are no phases: samples have no times, because this is {format}"));
    let hints: Vec<String> = estimates
        .chain(shown.remarks())
        .chain(shown.blind_spot().map(str::to_owned))
        .chain(no_phases)
        .collect();
    if shown.view.shown_total() == 0 {
        bail!("cannot explain {name}: no sample has a frame that matches --keep or --root-at");
    }
    let users = UserModules::new(&analysis.spaces);
    // The functions of an interpreter and of what compiles code are not those of the program that it runs.
    let is_users = |module: &str| users.contains(module) && Runtime::of_object(module.as_bytes()).is_none();
    let explain = |view: &View<'_>| profile::explain::explain(view, &is_users);
    let explained_waits = waits.as_ref().map(explain);
    let is_recorded = !chosen.is_time && analysis.foreign_format().is_none();
    let more_often = more_often(&chosen.event.attr).filter(|_| is_recorded);
    let profile = &chosen.profile;
    let facts = ExplanationInput {
        title: &analysis.title(chosen, &query.description()),
        event: &shown.name,
        unit: shown.unit(),
        weight,
        total: profile.total(),
        duration_ns: profile.span.map(|(first, last)| last.0.saturating_sub(first.0)),
        cpus: analysis.recording.features().cpus.map(|cpus| u64::from(cpus.online)),
        is_clock: !chosen.is_time && chosen.is_clock(),
        more_often: more_often.as_deref(),
        loss: &analysis.loss,
        census: &shown.census,
        hints: &hints,
        unsampled: shown.view.unsampled_total(),
        findings: Findings { frames: shown.view.frames(), explanation: &explain(&shown.view) },
        waits: waits
            .as_ref()
            .zip(explained_waits.as_ref())
            .map(|(waits, explanation)| Findings { frames: waits.frames(), explanation }),
    };
    if arguments.json {
        explain::write_json(&facts, output)?;
    } else {
        output.write_all(explain::page(&facts).as_bytes())?;
    }
    Ok(())
}

/// The rate that is advised where samples are few, in Hz: five times the default of 997, and a prime like that.
const MORE_OFTEN_HZ: u64 = 4_999;

/// Returns what to type for more samples of an event; `None` if it is sampled at a high rate, or at each occurrence.
fn more_often(attr: &Attr) -> Option<String> {
    match (attr.is_frequency(), attr.sample_period) {
        (true, hertz) => (hertz < MORE_OFTEN_HZ).then(|| format!("-F {MORE_OFTEN_HZ}")),
        (false, period) => (period >= 10).then(|| format!("-c {}", period / 10)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::AttrFlags;

    #[test]
    fn a_rate_is_advised_that_is_higher_than_the_one_that_was() {
        let of = |sample_period, flags| more_often(&Attr { sample_period, flags, ..Attr::default() });
        assert_eq!(of(997, AttrFlags::FREQ).as_deref(), Some("-F 4999"));
        assert_eq!(of(9_973, AttrFlags::FREQ), None);
        assert_eq!(of(1_000, AttrFlags::empty()).as_deref(), Some("-c 100"));
        assert_eq!(of(1, AttrFlags::empty()), None);
    }
}
