//! `prof report`: prints functions, call trees and totals of a recording, as text or for other programs.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::events::weight_of;
use analysis::input::Input;
use analysis::{EventView, Notices, Request};
use anyhow::bail;
use clap::Args;
use decoder::{Attr, SampleFormat};
use export::report::{self, EventReport, Format, Key, Options, Order, Query, ReportError};
use export::wait_chains::WaitingFindings;
use profile::{Detail, Pattern, Show, Weight};

use crate::arguments::numbers::percent;
use crate::arguments::{QueryArguments, RecordingArguments, StackArguments};
use crate::console::{Console, terminal_size};
use crate::input;
use crate::output::Output;
use crate::reading::{self, RecordingSource};

/// Arguments of `prof report`.
#[derive(Args)]
#[command(before_help = "\
Examples:
  prof report                          functions by self weight
  prof report --children               functions by total weight, including callees
  prof report --sort comm,module       modules by thread name
  prof report --sort function,line     source lines
  prof report --tree                   call tree, from the outermost functions
  prof report --callers malloc         callers of malloc
  prof report --callees parse --min 2  callees of parse with at least 2 %
  prof report --keep parse --hide mod:libc --json
A recursive function counts once per sample in its total.")]
pub struct ReportArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Columns that separate rows [default: self,module,function]
    ///
    /// comm, pid, tid, cpu, container, cgroup, event, module, function, line; self or total sets the order of rows.
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = column)]
    sort: Vec<Column>,
    /// Sort by total weight, which includes callees
    #[arg(hide_short_help = true, long, overrides_with = "no_children")]
    children: bool,
    /// Omit total weights
    #[arg(hide_short_help = true, long)]
    no_children: bool,
    /// Print the call tree, from the outermost functions
    #[arg(long, group = "query")]
    tree: bool,
    /// With --tree: start at the innermost functions, to show their callers
    #[arg(long, requires = "tree")]
    reverse: bool,
    /// Print the callers of FUNC as a tree
    #[arg(long, value_name = "FUNC", group = "query", value_parser = Pattern::parse)]
    callers: Option<Pattern>,
    /// Print the callees of FUNC as a tree
    #[arg(long, value_name = "FUNC", group = "query", value_parser = Pattern::parse)]
    callees: Option<Pattern>,
    /// Print who made threads wait, for what, and how much of it is on the critical path of the command
    #[arg(long, group = "query")]
    waits: bool,
    /// Print totals only
    #[arg(hide_short_help = true, long, group = "query")]
    total_only: bool,
    /// Omit rows and calls below PERCENT [default: 0.1 in tables, 0.5 in trees]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    min: Option<f64>,
    /// Maximum number of rows, 0 for all [default: as many as the terminal has]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Whole names of functions, with all template and generic arguments
    #[arg(long)]
    full_names: bool,
    /// Separate threads
    #[arg(hide_short_help = true, long)]
    per_thread: bool,
    /// Print JSON
    #[arg(long, group = "format")]
    json: bool,
    /// Print comma-separated values
    #[arg(long, group = "format")]
    csv: bool,
    /// Print a Markdown table
    #[arg(long, group = "format")]
    markdown: bool,
    #[command(flatten)]
    query: QueryArguments,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Column {
    Order(Order),
    Key(Key),
}

fn column(text: &str) -> Result<Column, String> {
    match text {
        "self" | "overhead" => Ok(Column::Order(Order::SelfWeight)),
        "total" => Ok(Column::Order(Order::Total)),
        key => key.parse().map(Column::Key).map_err(|error: report::UnknownKey| error.to_string()),
    }
}

/// Reads a recording and writes the report.
///
/// # Errors
/// The recording cannot be read or has no matching samples, or the output cannot be written.
pub fn run(arguments: &ReportArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let output = Output::open(arguments.output.as_deref(), console)?;
    let screen = screen(&output);
    let source = RecordingSource::File(arguments.recording.path());
    reading::produce(&source, &arguments.query.debuginfod, output, None, console, |input, output| {
        write(arguments, input, screen, output, console)
    })
}

/// Returns the columns and rows of the terminal; `None` if the output is no terminal, so that nothing is cut.
fn screen(output: &Output) -> Option<(usize, usize)> {
    terminal_size(output.is_stdout() && std::io::stdout().is_terminal())
}

/// Checks that the columns that separate rows can be combined, and that the recording has them.
fn check_keys(keys: &[Key], stacks: &StackArguments, input: &Input) -> anyhow::Result<()> {
    let has = |key| keys.contains(&key);
    if [Key::Cpu, Key::Container, Key::Cgroup].into_iter().filter(|&key| has(key)).count() > 1 {
        bail!(
            "--sort cannot combine cpu, container and cgroup; try: --sort container,comm --cpu LIST, or --sort cgroup,comm --container NAME"
        );
    }
    if has(Key::Cgroup)
        && !input.reader.events().iter().any(|event| event.attr.sample_format.contains(SampleFormat::CGROUP))
    {
        bail!(
            "the samples of {} have no cgroups; try: prof record --all-cgroups, or --sort container",
            input.name
        );
    }
    if let (Some(weight), true) = (stacks.time(), has(Key::Cgroup)) {
        bail!("waits have no cgroups; try: --weight {} --sort container", weight.name());
    }
    if let (Some(weight), true) = (stacks.time(), has(Key::Cpu)) {
        bail!("--sort cpu and --weight {} exclude each other: a waiting thread is on no CPU", weight.name());
    }
    Ok(())
}

fn write(
    arguments: &ReportArguments,
    input: Input,
    screen: Option<(usize, usize)>,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    if arguments.waits {
        return write_waits(arguments, input, screen, output, console);
    }
    let keys = arguments.keys();
    let has = |key| keys.contains(&key);
    let (query, stacks) = (&arguments.query, &arguments.query.stacks);
    check_keys(&keys, stacks, &input)?;
    let settings = query.settings(&input, has(Key::Line));
    let request = Request {
        detail: Detail {
            threads: arguments.per_thread || has(Key::Pid) || has(Key::Tid),
            cpus: has(Key::Cpu),
            containers: has(Key::Container),
            cgroups: has(Key::Cgroup),
            ..Detail::default()
        },
        ..query.request(&settings)
    };
    let name = input.name.clone();
    let analysis = input::analyse(input, &request, "report on", console)?;
    let shown = if arguments.tree { stacks.show_drawn() } else { stacks.show() };
    let show = Show { modules: true, lines: has(Key::Line), ..shown };
    let several = analysis.events.len() > 1;
    let weight = |attr: &Attr| match weight_of(attr) {
        // Events side by side are counted in their own units, so that they can be compared.
        _ if several && stacks.chosen_weight().is_none() && !attr.is_cpu_clock() => Weight::Period,
        _ => stacks.weight(attr),
    };
    let shape = stacks.shape();
    let shown = EventView::of_all(&analysis, show, weight, &shape, console);
    let is_empty = shown.iter().all(|shown| shown.view.shown_total() == 0);
    if let (Some(root), true) = (&shape.root_at, is_empty) {
        bail!("no sample of {name} has a function that matches `{}`", root.typed());
    }
    if !shape.keep.is_empty() && is_empty {
        bail!("no sample of {name} has a frame that matches --keep");
    }
    let reports: Vec<EventReport<'_>> = shown
        .iter()
        .map(|shown| EventReport {
            view: &shown.view,
            summary: shown.summary(),
            hints: shown.remarks().collect(),
        })
        .collect();
    if arguments.csv {
        shown.iter().for_each(|shown| shown.warn(console));
        for report in &reports {
            console.say(&export::summary::subtitle(&report.summary));
        }
    }
    let title = analysis.events.first().map_or(name, |event| analysis.title(event, &query.description()));
    report::write(&reports, &arguments.options(keys, title, screen), output).map_err(|error| match error {
        // As it is, so that a reader who has left is noticed.
        ReportError::Write(error) => error.into(),
        error => error.into(),
    })
}

/// Writes who made threads wait.
fn write_waits(
    arguments: &ReportArguments,
    input: Input,
    screen: Option<(usize, usize)>,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let query = &arguments.query;
    let settings = query.settings(&input, false);
    let request = Request { waiting: true, several_events: true, ..query.request(&settings) };
    let analysis = input::analyse(input, &request, "report on", console)?;
    let Some(pieces) = analysis.view_of_waiting() else {
        bail!("{} has no waits; try: prof record --off-cpu -- COMMAND", analysis.name);
    };
    let waiting = analysis.waiting(&pieces);
    let title = analysis
        .events
        .first()
        .map_or_else(|| analysis.name.clone(), |event| analysis.title(event, &query.description()));
    let Options { format, limit, screen_rows, .. } = arguments.options(Vec::new(), String::new(), screen);
    let limit = match (limit, screen_rows) {
        (Some(0), _) | (None, None) => usize::MAX,
        (Some(limit), _) => limit,
        (None, Some(rows)) => rows,
    };
    WaitingFindings { frames: pieces.frames(), waiting: &waiting }.write(&title, format, limit, output)?;
    Ok(())
}

impl ReportArguments {
    /// Returns the columns that separate rows.
    fn keys(&self) -> Vec<Key> {
        let named = self.sort.iter().filter_map(|column| match column {
            Column::Key(key) => Some(*key),
            Column::Order(_) => None,
        });
        let mut keys: Vec<Key> = Vec::new();
        let of_threads = [Key::Comm, Key::Pid, Key::Tid].into_iter().filter(|_| self.per_thread);
        for key in of_threads.chain(named) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if !self.sort.iter().any(|column| matches!(column, Column::Key(_))) {
            keys.extend([Key::Module, Key::Function]);
        }
        keys
    }

    fn options(&self, keys: Vec<Key>, title: String, screen: Option<(usize, usize)>) -> Options {
        let query = match (&self.callers, &self.callees) {
            (Some(function), _) => Query::Callers(function.clone()),
            (_, Some(function)) => Query::Callees(function.clone()),
            _ if self.total_only => Query::Totals,
            _ if self.tree && self.reverse => Query::FromLeaves,
            _ if self.tree => Query::FromRoots,
            _ => Query::Table(keys),
        };
        let named = self.sort.iter().find_map(|column| match column {
            Column::Order(order) => Some(*order),
            Column::Key(_) => None,
        });
        let usual = if self.children { Order::Total } else { Order::SelfWeight };
        Options {
            query,
            order: named.unwrap_or(usual),
            totals: !self.no_children,
            per_thread: self.per_thread,
            min_share: self.min.map(|percent| percent / 100.0),
            limit: self.limit,
            screen_rows: screen.map(|(_, rows)| rows),
            all_frames: self.query.stacks.all_frames,
            full_names: self.full_names,
            format: match self {
                Self { json: true, .. } => Format::Json,
                Self { csv: true, .. } => Format::Csv,
                Self { markdown: true, .. } => Format::Markdown,
                _ => Format::Text { width: screen.map(|(columns, _)| columns) },
            },
            title,
        }
    }
}
