//! Reports: tables of samples by function or by other keys, and call trees, as text, JSON, CSV or Markdown.

mod csv_and_markdown;
mod figures;
mod function_match;
mod json;
mod keys;
mod ratios;
mod shares;
mod table;
mod text;
mod tree;

use std::io::{self, Write};

use profile::queries::CallTree;
use profile::{Pattern, View, Weight};
use thiserror::Error;

use crate::summary::{Summary, subtitle};
use function_match::choose;
pub use function_match::nearest_names;
pub use keys::{Key, UnknownKey, function, module};
use table::Table;
use tree::{Direction, Tree};

/// A report about one event.
pub struct EventReport<'a> {
    /// Its samples.
    pub view: &'a View<'a>,
    /// The counts and losses that tell how far the report can be trusted.
    pub summary: Summary<'a>,
    /// Hints that would make the next report more trustworthy, each a sentence.
    pub hints: Vec<String>,
}

impl EventReport<'_> {
    /// Returns the unit of weights: `samples`, or the event's name if weights are sums of periods.
    fn unit(&self) -> &str {
        match self.summary.weight {
            Weight::Samples => "samples",
            Weight::Period => self.summary.event,
        }
    }
}

/// A question that a report answers.
#[derive(Clone, Debug)]
pub enum Query {
    /// A table with a row for each combination of these keys.
    Table(Vec<Key>),
    /// The call tree from the outermost functions on.
    FromRoots,
    /// The tree of callers of the innermost functions.
    FromLeaves,
    /// The tree of callers of a function.
    Callers(Pattern),
    /// The tree of callees of a function.
    Callees(Pattern),
    /// The sums alone.
    Totals,
}

impl Query {
    /// Returns true if rows have a weight of their own. In a tree of callers, a row is a call on the way to the functions at
    /// its top, and no sample is its own.
    fn has_self_weights(&self) -> bool {
        !matches!(self, Self::FromLeaves | Self::Callers(_))
    }
}

/// The weight that rows are sorted by, the heaviest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The samples whose innermost frame is of the row.
    SelfWeight,
    /// The samples with a frame of the row anywhere on their stack.
    Total,
}

/// The format in which a report is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Text. Names are cut in the middle if a line would be longer than `width` columns.
    Text {
        /// The greatest width of a line; `None` for no limit.
        width: Option<usize>,
    },
    /// One object; `docs/schemas/report.json` describes it.
    Json,
    /// Comma-separated values with a line of headings.
    Csv,
    /// A table in Markdown.
    Markdown,
}

/// The choice of contents and format of a report.
#[derive(Clone, Debug)]
pub struct Options {
    /// The question that the report answers.
    pub query: Query,
    /// The weight that rows are sorted by.
    pub order: Order,
    /// True to show totals beside self weights.
    pub totals: bool,
    /// True to keep threads apart in trees.
    pub per_thread: bool,
    /// Rows and calls below this share, from 0 to 1, are omitted; `None` for the default of the format.
    pub min_share: Option<f64>,
    /// Maximum number of rows; 0 for all, also those of small shares. `None` for as many as the screen has in a table, else for no limit.
    pub limit: Option<usize>,
    /// The rows of the screen that the report is printed to; `None` if there is none.
    pub screen_rows: Option<usize>,
    /// True if no frames are folded, as with `--all-frames`; for JSON, which says so.
    pub all_frames: bool,
    /// True for whole names of functions in text, and not short ones ([`crate::ShownNames`]). Other formats always have whole ones.
    pub full_names: bool,
    /// The format of the output.
    pub format: Format,
    /// The recorded target, in one line.
    pub title: String,
}

/// The reason why a report could not be written.
#[derive(Error, Debug)]
pub enum ReportError {
    /// No function matches the name.
    #[error("no function of these samples matches `{wanted}`{}", offered(.nearest))]
    NoSuchFunction {
        /// The text that was typed.
        wanted: String,
        /// Functions whose names are most like it.
        nearest: Vec<String>,
    },
    /// The output could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

fn offered(names: &[String]) -> String {
    let named = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if named.is_empty() { "; try: prof report".to_owned() } else { format!("; nearest: {named}") }
}

impl Options {
    /// Returns the least share that is shown.
    fn min_share(&self) -> f64 {
        let for_people = matches!(self.format, Format::Text { .. } | Format::Markdown);
        let fitting = match self.query {
            _ if self.limit == Some(0) => 0.0,
            _ if !for_people && matches!(self.query, Query::Table(_)) => 0.0,
            Query::Table(_) => 0.001,
            _ => 0.005,
        };
        self.min_share.unwrap_or(fitting)
    }

    /// Returns the maximum number of rows.
    fn most_rows(&self) -> usize {
        self.limit.filter(|&limit| limit > 0).unwrap_or(usize::MAX)
    }

    /// Returns the maximum number of rows of a table below a heading of so many lines.
    fn most_table_rows(&self, heading: usize) -> usize {
        let rows =
            self.screen_rows.filter(|_| self.limit.is_none() && matches!(self.format, Format::Text { .. }));
        rows.map_or(self.most_rows(), |rows| rows.saturating_sub(heading + LINES_BESIDE).max(1))
    }
}

/// Lines beside the rows of a table on a screen: an empty one and the names of columns above, what is left out and the prompt below.
const LINES_BESIDE: usize = 4;

/// The contents of a report, without its heading.
enum ReportBody {
    Tables(Vec<Table>),
    Tree(Tree),
    Totals,
}

/// Writes a report of events side by side.
///
/// # Errors
/// If no function matches the query, and those of `output`.
pub fn write(
    events: &[EventReport<'_>],
    options: &Options,
    output: &mut dyn Write,
) -> Result<(), ReportError> {
    let views: Vec<&View<'_>> = events.iter().map(|event| event.view).collect();
    let most = options.most_table_rows(text::heading_lines(events, options));
    let body = match &options.query {
        Query::Totals => ReportBody::Totals,
        Query::Table(keys) if keys.contains(&Key::Event) => {
            let keys: Vec<Key> = keys.iter().copied().filter(|key| *key != Key::Event).collect();
            let table = |view| Table::new(&[view], &keys, options, most);
            ReportBody::Tables(views.into_iter().map(table).collect())
        }
        Query::Table(keys) => ReportBody::Tables(vec![Table::new(&views, keys, options, most)]),
        Query::FromRoots => ReportBody::Tree(Tree::new(&CallTree::of(&views), Direction::Roots, options)),
        Query::FromLeaves => ReportBody::Tree(Tree::new(&CallTree::of(&views), Direction::Leaves, options)),
        Query::Callers(function) | Query::Callees(function) => {
            let tree = CallTree::of(&views);
            let chosen = choose(tree.frames(), function)?;
            let direction = match options.query {
                Query::Callers(_) => Direction::Callers(chosen),
                _ => Direction::Callees(chosen),
            };
            ReportBody::Tree(Tree::new(&tree, direction, options))
        }
    };
    match options.format {
        Format::Text { width } => text::write(events, &body, options, width, output)?,
        Format::Json => json::write(events, &body, options, output)?,
        Format::Csv => csv_and_markdown::csv(events, &body, options, output)?,
        Format::Markdown => csv_and_markdown::markdown(events, &body, options, output)?,
    }
    Ok(())
}

/// Returns the events of one of several tables: all of them if there is one table, else the event of that number.
fn events_of<'e, 'a>(events: &'e [EventReport<'a>], tables: usize, table: usize) -> &'e [EventReport<'a>] {
    if tables == 1 { events } else { events.get(table..table + 1).unwrap_or_default() }
}

/// Returns the lines above a report: the title, and for each event how far it can be trusted.
fn heading(events: &[EventReport<'_>], options: &Options) -> Vec<String> {
    let caveats = events.iter().map(|event| match share_after_filters(event) {
        Some(share) => format!("{}; filters leave {}", subtitle(&event.summary), shares::percent(share)),
        None => subtitle(&event.summary),
    });
    std::iter::once(options.title.clone()).chain(caveats).collect()
}

/// Returns the hints of all events, without those that differ in the share alone.
fn hints<'e>(events: &'e [EventReport<'_>]) -> Vec<&'e str> {
    // A hint is `PLACE: SHARE of ADVICE`.
    fn advice(hint: &str) -> (&str, &str) {
        let (place, rest) = hint.split_once(": ").unwrap_or((hint, ""));
        (place, rest.split_once(" of ").map_or(rest, |(_, advice)| advice))
    }
    let mut told: Vec<&str> = Vec::new();
    for hint in events.iter().flat_map(|event| &event.hints) {
        if told.iter().all(|known| advice(known) != advice(hint)) {
            told.push(hint);
        }
    }
    told
}

/// Returns the share of an event's samples that filters on stacks leave; `None` if they leave all.
fn share_after_filters(event: &EventReport<'_>) -> Option<f64> {
    let (shown, all) = (event.view.shown_total(), event.view.total());
    (shown < all).then(|| shown as f64 / all as f64)
}
