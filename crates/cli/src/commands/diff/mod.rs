//! `prof diff`: what changed between two recordings, two slices of one, or several runs, and how sure that is.

pub(super) mod facts;
mod sides;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::Request;
use analysis::comparable::{Basis, Common};
use anyhow::{Context, bail};
use clap::Args;
use export::difference::{self, Difference, Format, SideName, Threshold, Unit};
use export::report;
use profile::comparison::{AFTER, BEFORE, Comparison, Evidence, Experiment, Side};
use profile::{FrameId, Pattern, Show};

use crate::arguments::numbers::percent;
use crate::arguments::{QueryArguments, exit_with_usage_error};
use crate::console::{Console, terminal_size};
use crate::input;
use crate::output::Output;
use crate::sandbox;
use facts::Facts;
use sides::{SideInput, Sides};

/// The growth of functions, in per cent, that other builds of a program may have by their layout alone, if nothing else is said.
/// Of ten programs that were linked in eight layouts, eight changed by less (decision 16, "How changes are told from noise").
const LAYOUT_ALLOWANCE_PERCENT: f64 = 10.0;

/// Arguments of `prof diff`.
#[derive(Args)]
#[command(before_help = "\
Examples:
  prof diff old.data new.data                         two recordings
  prof diff prof.runs --threshold 3%                  runs of prof record --runs 10 --against 'OLD' -- NEW
  prof diff a1 a2 a3 a4 a5 -- b1 b2 b3 b4 b5          five runs of each side
  prof diff prof.data --before 'time=0,5' --after 'time=5,10'
  prof diff prof.data --before 'comm=old pid=41,42' --after 'comm=new'
  prof diff old.data new.data --keep parse --markdown
Exit code 3: something grew by more than --threshold. This needs five runs of each side.")]
pub struct DiffArguments {
    /// Two recordings or folders of runs; or one folder with the runs of both
    ///
    /// Or one recording with --before and --after; or, with -- between them, the runs of each side.
    #[arg(value_name = "BEFORE AFTER")]
    recordings: Vec<PathBuf>,
    /// The runs after the change
    #[arg(last = true, value_name = "AFTER")]
    runs_after: Vec<PathBuf>,
    /// The samples before, as filters: 'time=0,5 comm=worker'
    ///
    /// comm, pid, tid, cpu, container, cgroup, time or event, as the flags of these names.
    #[arg(long, value_name = "SLICE")]
    before: Option<String>,
    /// The samples after, in the same form
    #[arg(long, value_name = "SLICE")]
    after: Option<String>,
    /// Exit with 3 if a function or the total certainly grew by more than PERCENT
    ///
    /// Functions that hold 0.5 % are judged.
    #[arg(long, value_name = "PERCENT", value_parser = threshold)]
    threshold: Option<f64>,
    /// Functions that --threshold does not judge (may be repeated)
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse, requires = "threshold")]
    ignore: Vec<Pattern>,
    /// The growth that --threshold allows between other builds [default: 10%]
    ///
    /// Their code lies elsewhere, which changes its speed.
    #[arg(long, value_name = "PERCENT", value_parser = threshold, requires = "threshold")]
    layout_allowance: Option<f64>,
    /// Whole names of functions, with all template and generic arguments
    #[arg(long)]
    full_names: bool,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long, group = "format")]
    json: bool,
    /// Print Markdown of at most 4 kB, for a comment
    #[arg(long, group = "format")]
    markdown: bool,
    /// Print comma-separated values, a line for each function
    #[arg(long, group = "format")]
    csv: bool,
    #[command(flatten)]
    query: QueryArguments,
}

/// Parses a percentage with or without its sign: `3%`, `3`.
fn threshold(text: &str) -> Result<f64, String> {
    percent(text.trim().trim_end_matches('%').trim_end())
}

/// Compares the sides and writes what changed. The exit code is 3 if a threshold was passed.
///
/// # Errors
/// A recording cannot be read or has no matching samples, the sides cannot be compared, or the output cannot be written.
pub fn run(arguments: &DiffArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let slices = [arguments.before.as_deref(), arguments.after.as_deref()];
    let sides = Sides::new(&arguments.recordings, &arguments.runs_after, slices, &arguments.query.samples)
        .unwrap_or_else(|error| exit_with_usage_error(&error));
    if sides.are_single() && arguments.threshold.is_some() {
        exit_with_usage_error(
            "--threshold needs runs, because two recordings cannot tell a change from noise; try: prof record --runs 10 --against \
             'BEFORE CMD' -- CMD, then prof diff prof.runs --threshold 3%",
        );
    }
    let output = Output::open(arguments.output.as_deref(), console)?;
    let on_terminal = output.is_stdout() && std::io::stdout().is_terminal();
    let width = terminal_size(on_terminal).map(|(columns, _)| columns);
    let fetches = arguments.query.debuginfod.fetches(console)?;
    sandbox::judge(console, output, fetches, |output| arguments.compare(&sides, width, output, console))
}

/// A side that was read.
struct ReadSide {
    side: Side,
    facts: Facts,
    title: String,
    event: String,
    basis: Basis,
}

impl DiffArguments {
    /// Reads both sides and writes what changed. Returns true if the threshold was passed.
    fn compare(
        &self,
        sides: &Sides,
        width: Option<usize>,
        output: &mut Output,
        console: &Console,
    ) -> anyhow::Result<bool> {
        let common = sides.inputs.iter().fold(Common::default(), |common, side| side.narrow(common, console));
        // One recording at a time: each is dropped before the next is read.
        let [before, after] = sides.inputs.each_ref().map(|side| self.read(side, common, console));
        let (before, after) = (before?, after?);
        let names = sides.inputs.each_ref().map(|side| side.name.as_str());
        Basis::check((names[BEFORE], &before.basis), (names[AFTER], &after.basis))
            .map_err(anyhow::Error::msg)?;
        let facts = [before.facts, after.facts];
        let comparison = Comparison::new(before.side, after.side, |module| {
            facts[BEFORE].is_rebuilt(&facts[AFTER], module)
        });
        let assessment = comparison.assess(&Experiment {
            has_other_rates: facts[BEFORE].rates != facts[AFTER].rates,
            ..sides.experiment.clone()
        });
        let lies_elsewhere = facts[BEFORE].lies_elsewhere(&facts[AFTER]);
        let threshold = self.threshold.map(|percent| {
            let allowance = self.layout_allowance.unwrap_or(LAYOUT_ALLOWANCE_PERCENT);
            let allowance = Some(allowance).filter(|&allowance| lies_elsewhere && allowance > percent);
            let most = allowance.unwrap_or(percent) / 100.0;
            let exceeding = assessment.exceeding(most, |frame| self.ignores(&comparison, frame));
            Threshold { percent, allowance, exceeding }
        });
        let is_passed = threshold.as_ref().is_some_and(|threshold| !threshold.exceeding.is_empty());
        let mut notes = facts[BEFORE].notes(&facts[AFTER]);
        notes.extend(sides.notes.iter().cloned());
        if lies_elsewhere && assessment.evidence == Evidence::Runs {
            notes.push(
                "the builds differ: where code lies alone moves times in every run (see --layout-allowance)"
                    .to_owned(),
            );
        }
        let difference = Difference {
            comparison: &comparison,
            assessment: &assessment,
            sides: [(names[BEFORE], before.title), (names[AFTER], after.title)]
                .map(|(name, title)| SideName { name: name.to_owned(), title }),
            is_paired: sides.is_paired,
            event: &after.event,
            unit: match after.basis.unit() {
                "ns" => Unit::Time,
                "samples" => Unit::Samples,
                _ => Unit::Events(&after.event),
            },
            notes,
            libraries: facts[BEFORE].libraries(&facts[AFTER], &comparison),
            threshold,
            shown_names: difference::shown_names(&comparison, self.full_names),
        };
        difference::write(&difference, self.format(width), output)?;
        Ok(is_passed)
    }

    /// Adds up the runs of a side.
    fn read(&self, side: &SideInput, common: Common, console: &Console) -> anyhow::Result<ReadSide> {
        let mut read: Option<ReadSide> = None;
        for path in &side.recordings {
            let input = input::open(Some(path), console)?;
            let settings = self.query.settings(&input, false);
            let request = Request {
                filter: side.samples.filter(),
                event: side.samples.event.as_deref(),
                several_events: false,
                ..self.query.request(&settings)
            };
            let name = input.name.clone();
            let analysis = input::analyse(input, &request, "compare", console)?;
            let Some(event) = analysis.events.first() else { bail!("{name} has no samples") };
            let stacks = &self.query.stacks;
            let show = Show { modules: common.modules, ..stacks.show() };
            let weight = stacks.chosen_weight().unwrap_or(common.weight());
            let view = analysis.view(&event.profile, show, weight, &stacks.shape());
            let event_name = event.event.name.to_string();
            let read = read.get_or_insert_with(|| ReadSide {
                side: Side::new(false),
                facts: Facts::default(),
                title: analysis.title(event, &side.samples.description()),
                event: event_name.clone(),
                basis: Basis::new(event, weight),
            });
            if read.event != event_name {
                bail!("the runs have different events: {} and, in {name}, {event_name}", read.event);
            }
            read.side.add_run(&view);
            read.facts.add(&analysis, event);
        }
        read.with_context(|| format!("{} has no recordings", side.name))
    }

    fn format(&self, width: Option<usize>) -> Format {
        match self {
            Self { json: true, .. } => Format::Json,
            Self { csv: true, .. } => Format::Csv,
            Self { markdown: true, .. } => Format::Markdown,
            _ => Format::Text { width },
        }
    }

    /// Returns true for functions that do not decide whether the threshold was passed: those of --ignore, and the scheduler's.
    fn ignores(&self, comparison: &Comparison, frame: FrameId) -> bool {
        let Some(frame) = comparison.tree().frames().get(frame.index()) else { return false };
        if profile::explain::is_of_scheduler(frame) {
            return true;
        }
        let (name, module) = (report::function(frame), report::module(frame));
        let module = (!module.is_empty()).then_some(&*module);
        self.ignore.iter().any(|pattern| pattern.matches(&name, module))
    }
}
