//! `prof report`: functions, call trees and sums of a recording, as text or for other programs.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::events::weight_of;
use analysis::input::Input;
use analysis::{Notices, Request};
use anyhow::bail;
use clap::Args;
use decoder::{Attr, SampleFormat};
use export::report::{self, EventReport, Format, Key, Options, Order, Query};
use profile::{Detail, Pattern, Show, Weight};

use crate::arguments::numbers::percent;
use crate::arguments::{QueryArguments, RecordingArguments};
use crate::console::Console;
use crate::output::Output;
use crate::reading::{self, RecordingSource};

/// Arguments of `prof report`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  prof report                          functions by self weight
  prof report --children               functions by total weight, with what they call
  prof report --sort comm,module       modules of each thread name
  prof report --sort function,line     source lines
  prof report --tree                   calls from the outermost functions on
  prof report --callers malloc         who calls malloc
  prof report --callees parse --min 2  what parse calls, from 2 per cent on
  prof report --keep parse --hide mod:libc --json
A sample counts once in the total of a function, however often that is on its stack.")]
pub struct ReportArguments {
    #[command(flatten)]
    recording: RecordingArguments,
    /// Where the report goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What rows are told apart by, in this order: comm, pid, tid, cpu, container, cgroup, event, module, function, line; self or total says
    /// by what rows are sorted [default: self,module,function]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',', value_parser = column)]
    sort: Vec<Column>,
    /// Sorted by total weight, with what functions call
    #[arg(long, overrides_with = "no_children")]
    children: bool,
    /// Self weights alone
    #[arg(long)]
    no_children: bool,
    /// Calls as a tree, from the outermost functions on
    #[arg(long, group = "query")]
    tree: bool,
    /// The tree from the innermost functions on: who calls them?
    #[arg(long, requires = "tree")]
    reverse: bool,
    /// Who calls this function, as a tree
    #[arg(long, value_name = "FUNC", group = "query", value_parser = Pattern::parse)]
    callers: Option<Pattern>,
    /// What this function calls, as a tree
    #[arg(long, value_name = "FUNC", group = "query", value_parser = Pattern::parse)]
    callees: Option<Pattern>,
    /// The sums alone
    #[arg(long, group = "query")]
    total_only: bool,
    /// Leave out rows and calls below this many per cent [default: 0.1 for tables that people read, 0.5 for trees]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    min: Option<f64>,
    /// So many rows at most
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Threads apart
    #[arg(long)]
    per_thread: bool,
    /// JSON, as docs/schemas/report.json describes it
    #[arg(long, group = "format")]
    json: bool,
    /// Comma-separated values
    #[arg(long, group = "format")]
    csv: bool,
    /// A Markdown table
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
/// Where the recording cannot be read, has nothing of what is asked for, or the output cannot be written.
pub fn run(arguments: &ReportArguments, console: &Console) -> anyhow::Result<ExitCode> {
    let output = Output::open(arguments.output.as_deref(), console)?;
    let width = terminal_width(&output);
    let source = RecordingSource::File(arguments.recording.path());
    reading::produce(&source, &arguments.query.debuginfod, output, None, console, |input, output| {
        write(arguments, input, width, output, console)
    })
}

/// How long a line may be: what is read through a pipe has whole names.
fn terminal_width(output: &Output) -> Option<usize> {
    let on_terminal = output.is_stdout() && std::io::stdout().is_terminal();
    let size = crossterm::terminal::size().ok().filter(|_| on_terminal);
    size.map(|(columns, _)| usize::from(columns)).filter(|&columns| columns > 0)
}

fn write(
    arguments: &ReportArguments,
    input: Input,
    width: Option<usize>,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let keys = arguments.keys();
    let has = |key| keys.contains(&key);
    let (query, stacks) = (&arguments.query, &arguments.query.stacks);
    if has(Key::Cpu) && has(Key::Container) {
        bail!(
            "rows cannot be told apart by cpu and container at once; try --sort container,comm with --cpu LIST"
        );
    }
    if has(Key::Cgroup) {
        if has(Key::Cpu) || has(Key::Container) {
            bail!(
                "rows cannot be told apart by cgroup and cpu or container at once; try --sort cgroup,comm with --cpu LIST or \
                 --container NAME"
            );
        }
        if !input.reader.events().iter().any(|event| event.attr.sample_format.contains(SampleFormat::CGROUP))
        {
            bail!(
                "the samples of {} do not say their cgroups; try: prof record --all-cgroups, or --sort container",
                input.name
            );
        }
    }
    if let (Some(weight), true) = (stacks.time(), has(Key::Cgroup)) {
        bail!("waits do not say their cgroups; try: --weight {} --sort container", weight.name());
    }
    if let (Some(weight), true) = (stacks.time(), has(Key::Cpu)) {
        bail!("who waits is on no CPU: --sort cpu and --weight {} do not go together", weight.name());
    }
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
    let analysis = reading::analyse(input, &request, "report on", console)?;
    let show = Show { modules: true, lines: has(Key::Line), ..stacks.show() };
    let several = analysis.events.len() > 1;
    let weight = |attr: &Attr| match weight_of(attr) {
        // Side by side, events are counted in their own units, so that they can be divided.
        _ if several && !stacks.names_weight() && !attr.is_cpu_clock() => Weight::Period,
        _ => stacks.weight(attr),
    };
    let shape = stacks.shape();
    let shown = analysis.event_views(show, weight, &shape, console);
    let is_empty = shown.iter().all(|shown| shown.view.shown_total() == 0);
    if let (Some(root), true) = (&shape.root_at, is_empty) {
        bail!("no sample of {name} has a function that matches `{}`", root.typed());
    }
    if !shape.keep.is_empty() && is_empty {
        bail!("no sample of {name} has a frame that matches what --keep says");
    }
    let reports: Vec<EventReport<'_>> = shown
        .iter()
        .map(|shown| EventReport {
            view: &shown.view,
            summary: shown.summary(),
            hints: shown.hints.sentences().collect(),
        })
        .collect();
    if arguments.csv {
        for report in &reports {
            console.say(&export::summary::subtitle(&report.summary));
            report.hints.iter().for_each(|hint| console.say(hint));
        }
    }
    let title = analysis.events.first().map_or(name, |event| analysis.title(event, &query.description()));
    report::write(&reports, &arguments.options(keys, title, width), output)?;
    Ok(())
}

impl ReportArguments {
    /// What rows are told apart by.
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

    fn options(&self, keys: Vec<Key>, title: String, width: Option<usize>) -> Options {
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
            format: match self {
                Self { json: true, .. } => Format::Json,
                Self { csv: true, .. } => Format::Csv,
                Self { markdown: true, .. } => Format::Markdown,
                _ => Format::Text { width },
            },
            title,
        }
    }
}
