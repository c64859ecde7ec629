//! Reports as text.

use std::io::{self, Write};

use profile::queries::Weights;

use super::keys::Key;
use super::ratios::{Ratio, ratios};
use super::shares::{percent, percents, share};
use super::table::Table;
use super::tree::{Line, Omitted, Tree};
use super::{EventReport, Options, Query, ReportBody, events_of, heading, hints};
use crate::figures::fit;
use crate::summary::{counted, grouped};

/// The width of a figure with the space before it, in columns.
const FIGURE_COLUMNS: usize = 8;
/// Maximum width of a field other than the last, in columns.
const MAX_FIELD_COLUMNS: usize = 24;
/// Minimum width of the last field, in columns, however narrow the terminal is.
const MIN_LAST_COLUMNS: usize = 16;

pub(super) fn write(
    events: &[EventReport<'_>],
    body: &ReportBody,
    options: &Options,
    width: Option<usize>,
    output: &mut dyn Write,
) -> io::Result<()> {
    for line in heading(events, options) {
        writeln!(output, "# {line}")?;
    }
    for hint in hints(events) {
        writeln!(output, "# {hint}")?;
    }
    match body {
        ReportBody::Totals => {
            for event in events {
                let total = grouped(event.view.shown_total());
                writeln!(output, "{total} {}{}", event.unit(), of_event(event))?;
            }
        }
        ReportBody::Tables(tables) => {
            for (number, table) in tables.iter().enumerate() {
                writeln!(output, "#")?;
                let shown = events_of(events, tables.len(), number);
                if let ([event], true) = (shown, tables.len() > 1) {
                    writeln!(output, "# {}", event.summary.event)?;
                }
                write_table(shown, table, options, width, output)?;
            }
        }
        ReportBody::Tree(tree) => {
            writeln!(output, "#")?;
            write_tree(events, tree, options, width, output)?;
        }
    }
    Ok(())
}

/// Returns a field, or `-` for an empty one.
fn shown(field: &str) -> &str {
    if field.is_empty() { "-" } else { field }
}

fn of_event(event: &EventReport<'_>) -> String {
    if event.unit() == event.summary.event { String::new() } else { format!(" of {}", event.summary.event) }
}

/// A column of figures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    SelfWeight,
    Total,
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Self::SelfWeight => "self",
            Self::Total => "total",
        }
    }

    fn of(self, weights: &Weights) -> u64 {
        match self {
            Self::SelfWeight => weights.self_weight,
            Self::Total => weights.total,
        }
    }
}

/// The columns of figures.
struct Figures {
    /// Of each event.
    columns: &'static [Column],
    ratios: Vec<Ratio>,
}

impl Figures {
    fn new(events: &[EventReport<'_>], options: &Options) -> Self {
        let self_first =
            options.order == super::Order::SelfWeight && matches!(options.query, Query::Table(_));
        let columns: &[Column] = match (options.query.has_self_weights(), options.totals) {
            (false, _) => &[Column::Total],
            (true, false) => &[Column::SelfWeight],
            (true, true) if self_first => &[Column::SelfWeight, Column::Total],
            (true, true) => &[Column::Total, Column::SelfWeight],
        };
        Self { columns, ratios: ratios(events) }
    }

    fn columns_of_event(&self) -> usize {
        self.columns.len()
    }

    fn width(&self, events: usize) -> usize {
        let ratios: usize = self.ratios.iter().map(ratio_width).sum();
        events * self.columns_of_event() * FIGURE_COLUMNS + ratios
    }

    fn headings(&self) -> String {
        self.columns.iter().map(|column| format!("{:>FIGURE_COLUMNS$}", column.heading())).collect()
    }

    fn row(&self, weights: &[Weights], wholes: &[u64]) -> String {
        let mut text = String::new();
        for (weights, &whole) in weights.iter().zip(wholes) {
            for column in self.columns {
                text += &format!("{:>FIGURE_COLUMNS$}", percent(share(column.of(weights), whole)));
            }
        }
        for ratio in &self.ratios {
            let weight = |event: usize| {
                let weights = weights.get(event).copied().unwrap_or_default();
                self.columns.first().map_or(0, |column| column.of(&weights))
            };
            let value = ratio.value(weight).map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
            text += &format!("{value:>width$}", width = ratio_width(ratio));
        }
        text
    }
}

fn ratio_width(ratio: &Ratio) -> usize {
    ratio.heading.chars().count().max(FIGURE_COLUMNS - 1) + 1
}

fn write_headings(
    events: &[EventReport<'_>],
    figures: &Figures,
    fields: &str,
    output: &mut dyn Write,
) -> io::Result<()> {
    if let [_, _, ..] = events {
        let room = figures.columns_of_event() * FIGURE_COLUMNS;
        let names = events.iter().map(|event| format!("{:>room$}", fit(event.summary.event, room - 1)));
        writeln!(output, "{}", names.collect::<String>())?;
    }
    let ratios = figures.ratios.iter().map(|ratio| {
        let width = ratio_width(ratio);
        format!("{:>width$}", ratio.heading)
    });
    let headings = figures.headings().repeat(events.len());
    writeln!(output, "{headings}{}  {fields}", ratios.collect::<String>())
}

fn write_table(
    events: &[EventReport<'_>],
    table: &Table,
    options: &Options,
    width: Option<usize>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let figures = Figures::new(events, options);
    let (last, first) = match table.keys.split_last() {
        Some((last, first)) => (last.name(), first),
        None => ("all", &[][..]),
    };
    let longest = |at: usize, key: &Key| {
        let fields = table.rows.iter().filter_map(|row| row.fields.get(at));
        fields
            .map(|field| field.chars().count())
            .max()
            .unwrap_or(0)
            .clamp(key.name().len(), MAX_FIELD_COLUMNS)
    };
    let widths: Vec<usize> = first.iter().enumerate().map(|(at, key)| longest(at, key)).collect();
    let used = figures.width(events.len()) + 2 + widths.iter().map(|width| width + 2).sum::<usize>();
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(used).max(MIN_LAST_COLUMNS));
    let line = |fields: &[String]| {
        let mut text = String::new();
        for ((field, key), &width) in fields.iter().zip(first).zip(&widths) {
            let field = fit(shown(field), width);
            let pad = " ".repeat(width - field.chars().count());
            let (before, behind) = if key.is_number() { (&*pad, "") } else { ("", &*pad) };
            text += &format!("{before}{field}{behind}  ");
        }
        text + &fields.get(first.len()).map_or_else(String::new, |last| fit(shown(last), room))
    };
    let names: Vec<String> = table.keys.iter().map(|key| key.name().to_owned()).collect();
    let names = if names.is_empty() { last.to_owned() } else { line(&names) };
    write_headings(events, &figures, &names, output)?;
    for row in &table.rows {
        let fields = line(&row.fields_with_tiers(&table.keys));
        writeln!(output, "{}  {}", figures.row(&row.weights, &table.totals), fields.trim_end())?;
    }
    if table.omitted > 0 {
        let rows = counted(table.omitted as u64, "more row", "more rows");
        writeln!(output, "# {rows}: {} self", percents(&table.omitted_self, &table.totals))?;
    }
    Ok(())
}

fn write_tree(
    events: &[EventReport<'_>],
    tree: &Tree,
    options: &Options,
    width: Option<usize>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let figures = Figures::new(events, options);
    write_headings(events, &figures, "function (module)", output)?;
    let used = figures.width(events.len()) + 2;
    // The marks before each line. A call that is the only one of its caller gets none.
    let mut marks: Vec<String> = Vec::with_capacity(tree.lines.len());
    let mut shown_below: Vec<usize> = vec![0; tree.lines.len()];
    let blank = " ".repeat(used);
    let mut open: Vec<usize> = Vec::new();
    for (number, line) in tree.lines.iter().enumerate() {
        close(&mut open, tree, line.depth, &marks, &blank, output)?;
        let before = match line.parent {
            None => String::new(),
            Some(parent) => {
                shown_below[parent] += 1;
                let siblings = siblings(&tree.lines[parent]);
                let stem = stem(&marks[parent]);
                match siblings {
                    0 | 1 => stem,
                    siblings if shown_below[parent] < siblings => stem + "├ ",
                    _ => stem + "└ ",
                }
            }
        };
        let name = name(line);
        let room = width.map_or(usize::MAX, |width| {
            width.saturating_sub(used + before.chars().count()).max(MIN_LAST_COLUMNS)
        });
        let weights = figures.row(&line.weights, &tree.totals);
        writeln!(output, "{weights}  {before}{}", fit(&name, room))?;
        marks.push(before);
        open.push(number);
    }
    close(&mut open, tree, 0, &marks, &blank, output)?;
    if tree.omitted.calls > 0 {
        writeln!(output, "{blank}{}", omitted(&tree.omitted, &tree.totals))?;
    }
    Ok(())
}

/// Closes the lines down to `depth`, the innermost first: writes what was omitted below each.
fn close(
    open: &mut Vec<usize>,
    tree: &Tree,
    depth: usize,
    marks: &[String],
    blank: &str,
    output: &mut dyn Write,
) -> io::Result<()> {
    while open.len() > depth
        && let Some(line) = open.pop()
    {
        let left = &tree.lines[line].omitted;
        if left.calls > 0 {
            let branch = if siblings(&tree.lines[line]) > 1 { "└ " } else { "" };
            writeln!(output, "{blank}{}{branch}{}", stem(&marks[line]), omitted(left, &tree.totals))?;
        }
    }
    Ok(())
}

/// Returns the number of lines that are written directly below a line.
fn siblings(line: &Line) -> usize {
    line.children + usize::from(line.omitted.calls > 0)
}

/// Returns the marks of the lines below a line with these marks.
fn stem(marks: &str) -> String {
    marks.replace("├ ", "│ ").replace("└ ", "  ")
}

fn name(line: &Line) -> String {
    let module = if line.module.is_empty() || line.function == format!("[{}]", line.module) {
        String::new()
    } else {
        format!(" ({})", line.module)
    };
    let at = if line.line.is_empty() { String::new() } else { format!(" {}", line.line) };
    format!("{}{module}{at}", line.function)
}

fn omitted(omitted: &Omitted, totals: &[u64]) -> String {
    format!("… {}: {}", counted(omitted.calls as u64, "more", "more"), percents(&omitted.totals, totals))
}
