//! `prof explain`: summarizes a recording on one page.

use std::cell::RefCell;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use analysis::input::Input;
use analysis::notices::Progress;
use analysis::runtimes::Runtime;
use analysis::user_modules::UserModules;
use analysis::{EventView, Measure, Notices, Request, TimeWeight, rate_advice};
use anyhow::{Context, bail};
use clap::Args;
use export::explain::{self, ExplanationInput, Findings};
use export::summary::Summary;
use export::wait_chains::WaitingFindings;
use model::{Harm, Name};
use perfdata::sections;
use profile::{Columns, Detail, Show, View, Weight};

use crate::arguments::{QueryArguments, RecordingArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;
use crate::reading::{self, RecordingSource};

/// Arguments of `prof explain`.
#[derive(Args)]
#[command(before_help = "\
Examples:
  prof explain                      prof.data of this folder, on one page
  prof explain -i perf.data         a recording of perf
  prof explain --time 0.5,1.2       what happened then
  prof explain --notes              what is missing in the recording, and what to type
  prof explain --json | jq .causes")]
pub struct ExplainArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print only what is missing or estimated in the recording, why, and what to type
    #[arg(long, conflicts_with = "json")]
    notes: bool,
    /// Print JSON, with up to 100 rows of each list
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of --json
    #[arg(hide_short_help = true, long)]
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
        waiting: time.is_none(),
        ..query.request(&settings)
    };
    let notes = NoteList { console, notes: RefCell::default() };
    let notices: &dyn Notices = if arguments.notes { &notes } else { console };
    let analysis = input::analyse(input, &request, "explain", notices)?;
    let name = &analysis.name;
    let chosen = analysis.events.first().with_context(|| format!("cannot explain {name}"))?;
    let show = Show { modules: true, ..query.stacks.show_drawn() };
    let weight = if chosen.is_time { Weight::Period } else { query.stacks.weight(&chosen.event.attr) };
    let users = UserModules::new(&analysis.spaces);
    // The functions of an interpreter and of what compiles code are not those of the program that it runs.
    let is_users = |module: &str| users.contains(module) && Runtime::of_object(module.as_bytes()).is_none();
    let explain = |view: &View<'_>| profile::explain::explain(view, &is_users);
    let explain_if_asked = |view: &View<'_>| {
        (!arguments.notes).then(|| {
            thread::scope(|scope| {
                let phases = scope.spawn(|| profile::explain::phases(view));
                let explanation = explain(view);
                (explanation, phases.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            })
        })
    };
    let shape = query.stacks.shape();
    let (shown, explained) =
        EventView::new_with(&analysis, chosen, show, weight, &shape, notices, explain_if_asked);
    let time = analysis.thread_time.as_ref();
    let waits = time.map(|time| analysis.view(&time.profile, show, Weight::Period, &shape));
    let waits = waits.filter(|waits| waits.shown_total() > 0);
    let pieces = analysis.view_of_waiting();
    let waiting = pieces.as_ref().map(|pieces| analysis.waiting(pieces));
    let estimates = time.iter().flat_map(|time| time.estimates());
    let no_phases = analysis
        .foreign_format()
        .map(|format| format!("there are no phases: samples have no times, because this is {format}"));
    let beside = shown.blind_spot().map(str::to_owned).into_iter().chain(no_phases);
    let Some((explanation, phases)) = explained else {
        let cut = shown.cut_stacks(&analysis.spaces).into_iter().map(|note| (Harm::Stacks, note));
        let remarks = estimates.chain(shown.all_remarks()).chain(beside).map(|note| (Harm::Names, note));
        notes.notes.borrow_mut().extend(cut.chain(remarks));
        let title = analysis.title(chosen, &query.description());
        let figures = analysis.subtitle(chosen, &Summary { remedies: &[], ..shown.summary() });
        return notes.write(&title, &figures, output);
    };
    let hints: Vec<String> = estimates.chain(shown.remarks()).chain(beside).collect();
    if shown.view.shown_total() == 0 {
        bail!("cannot explain {name}: no sample has a frame that matches --keep or --root-at");
    }
    let explained_waits = waits.as_ref().map(explain);
    let is_recorded = !chosen.is_time && analysis.foreign_format().is_none();
    let more_often = rate_advice::more_often(&chosen.event.attr).filter(|_| is_recorded);
    let stack_totals = analysis.recording.features().section(sections::id::STACK_TOTALS);
    let looks = stack_totals.and_then(|totals| sections::looks(totals, analysis.recording.endian()));
    let facts = ExplanationInput {
        title: &analysis.title(chosen, &query.description()),
        summary: shown.summary(),
        unit: shown.unit(),
        looks: looks.filter(|&looks| looks > 0),
        duration_ns: chosen.span().map(|(first, last)| last.0.saturating_sub(first.0)),
        cpus: analysis.recording.features().cpus.map(|cpus| u64::from(cpus.online)),
        is_foreign: chosen.unit_of_quantity().is_some(),
        is_clock: !chosen.is_time && chosen.is_clock(),
        more_often: more_often.as_deref(),
        loss: &analysis.loss,
        hints: &hints,
        findings: Findings { frames: shown.view.frames(), explanation: &explanation },
        phases: &phases,
        waits: waits
            .as_ref()
            .zip(explained_waits.as_ref())
            .map(|(waits, explanation)| Findings { frames: waits.frames(), explanation }),
        waiting: pieces
            .as_ref()
            .zip(waiting.as_ref())
            .map(|(pieces, waiting)| WaitingFindings { frames: pieces.frames(), waiting }),
    };
    if arguments.json {
        explain::write_json(&facts, output)?;
    } else {
        output.write_all(explain::page(&facts).as_bytes())?;
    }
    Ok(())
}

/// The remarks on a recording, each with its harm.
struct NoteList<'c> {
    console: &'c Console,
    notes: RefCell<Vec<(Harm, String)>>,
}

impl NoteList<'_> {
    /// Writes what was recorded, its figures, and the notes, the worst first.
    fn write(self, title: &str, figures: &str, output: &mut Output) -> anyhow::Result<()> {
        let mut notes = self.notes.into_inner();
        notes.sort_by_key(|(harm, _)| std::cmp::Reverse(*harm));
        writeln!(output, "{title}\n{figures}\n")?;
        if notes.is_empty() {
            writeln!(output, "Nothing is missing.")?;
        }
        for (_, note) in notes {
            writeln!(output, "- {}", Name::from(note.as_str()))?;
        }
        Ok(())
    }
}

impl Notices for NoteList<'_> {
    fn warn(&self, harm: Harm, text: &str) {
        self.notes.borrow_mut().push((harm, text.to_owned()));
    }

    fn say(&self, text: &str) {
        self.console.say(text);
    }

    // What is a detail elsewhere is among the notes in another form.
    fn detail(&self, _text: &str) {}

    fn progress(&self, title: &str, total: Option<u64>) -> Box<dyn Progress> {
        self.console.progress(title, total)
    }
}
