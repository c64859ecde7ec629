//! Reports as text.

use std::io::{self, Write};

use profile::queries::Weights;

use super::figures::Figures;
use super::keys::Key;
use super::ratios::Ratio;
use super::shares::{percent, percents};
use super::table::Table;
use super::tree::{Line, Omitted, Tree};
use super::{EventReport, Format, Options, Query, ReportBody, events_of, heading, hints};
use crate::figures::fit;
use crate::names::{ShownNames, fit_name};
use crate::summary::{counted, grouped};
use crate::table::MIN_LAST_COLUMNS;

/// The width of a figure with the space before it, in columns.
const FIGURE_COLUMNS: usize = 8;
/// Maximum width of a field other than the last, in columns.
const MAX_FIELD_COLUMNS: usize = 24;

pub(super) fn write(
    events: &[EventReport<'_>],
    body: &ReportBody,
    options: &Options,
    width: Option<usize>,
    output: &mut dyn Write,
) -> io::Result<()> {
    for line in above(events, options) {
        writeln!(output, "{line}")?;
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

/// Returns the lines above a report.
fn above(events: &[EventReport<'_>], options: &Options) -> Vec<String> {
    let hints = hints(events).into_iter().map(str::to_owned);
    heading(events, options).into_iter().chain(hints).map(|line| format!("# {line}")).collect()
}

/// Returns how many lines of the screen the lines above a report take.
pub(super) fn heading_lines(events: &[EventReport<'_>], options: &Options) -> usize {
    let Format::Text { width: Some(width) } = options.format else { return 0 };
    above(events, options).iter().map(|line| line.chars().count().div_ceil(width.max(1))).sum()
}

/// Returns a field, or `-` for an empty one.
fn shown(field: &str) -> &str {
    if field.is_empty() { "-" } else { field }
}

fn of_event(event: &EventReport<'_>) -> String {
    if event.unit() == event.summary.event { String::new() } else { format!(" of {}", event.summary.event) }
}

/// Returns the figures of a table or a tree.
fn figures(events: &[EventReport<'_>], options: &Options) -> Figures {
    let self_first = options.order == super::Order::SelfWeight && matches!(options.query, Query::Table(_));
    Figures::new(events, options, self_first)
}

fn figures_width(figures: &Figures, events: usize) -> usize {
    let ratios: usize = figures.ratios.iter().map(ratio_width).sum();
    events * figures.columns.len() * FIGURE_COLUMNS + ratios
}

/// Returns the figures of a row as text.
fn row(figures: &Figures, weights: &[Weights], wholes: &[u64]) -> String {
    let shares = figures.shares(weights, wholes);
    let shares = shares.map(|(_, share)| format!("{:>FIGURE_COLUMNS$}", percent(share)));
    let ratios = figures.ratios(weights).map(|(ratio, value)| {
        let value = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        format!("{value:>width$}", width = ratio_width(ratio))
    });
    shares.chain(ratios).collect()
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
        let room = figures.columns.len() * FIGURE_COLUMNS;
        let names = events.iter().map(|event| format!("{:>room$}", fit(event.summary.event, room - 1)));
        writeln!(output, "{}", names.collect::<String>())?;
    }
    let ratios = figures.ratios.iter().map(|ratio| {
        let width = ratio_width(ratio);
        format!("{:>width$}", ratio.heading)
    });
    let headings = figures.columns.iter().map(|column| format!("{:>FIGURE_COLUMNS$}", column.heading()));
    let headings = headings.collect::<String>().repeat(events.len());
    writeln!(output, "{headings}{}  {fields}", ratios.collect::<String>())
}

fn write_table(
    events: &[EventReport<'_>],
    table: &Table,
    options: &Options,
    width: Option<usize>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let figures = figures(events, options);
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
    let used =
        figures_width(&figures, events.len()) + 2 + widths.iter().map(|width| width + 2).sum::<usize>();
    let room = width.map_or(usize::MAX, |width| width.saturating_sub(used).max(MIN_LAST_COLUMNS));
    let function = table.keys.iter().position(|key| *key == Key::Function);
    let functions = table.rows.iter().filter_map(|row| Some(row.fields.get(function?)?.as_str()));
    let names_of_functions = ShownNames::new(functions, options.full_names);
    let cut = if function == Some(first.len()) {
        |text: &str, room| fit_name(text, room).into_owned()
    } else {
        fit
    };
    let line = |fields: &[String]| {
        let mut text = String::new();
        for ((field, key), &width) in fields.iter().zip(first).zip(&widths) {
            let field = fit(shown(field), width);
            let pad = " ".repeat(width - field.chars().count());
            let (before, behind) = if key.is_number() { (&*pad, "") } else { ("", &*pad) };
            text += &format!("{before}{field}{behind}  ");
        }
        text + &fields.get(first.len()).map_or_else(String::new, |last| cut(shown(last), room))
    };
    let names: Vec<String> = table.keys.iter().map(|key| key.name().to_owned()).collect();
    let names = if names.is_empty() { last.to_owned() } else { line(&names) };
    write_headings(events, &figures, &names, output)?;
    for row in &table.rows {
        let fields = line(&row.fields_with_tiers(&table.keys, &names_of_functions));
        writeln!(output, "{}  {}", self::row(&figures, &row.weights, &table.totals), fields.trim_end())?;
    }
    if table.omitted > 0 {
        let rows = counted(table.omitted as u64, "more row", "more rows");
        let all = if options.screen_rows.is_some() { "; try: --limit 0" } else { "" };
        writeln!(output, "# {rows}: {} self{all}", percents(&table.omitted_self, &table.totals))?;
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
    let figures = figures(events, options);
    write_headings(events, &figures, "function (module)", output)?;
    let used = figures_width(&figures, events.len()) + 2;
    let names = ShownNames::new(tree.lines.iter().map(|line| line.function.as_str()), options.full_names);
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
        let name = name(line, &names);
        let room = width.map_or(usize::MAX, |width| {
            width.saturating_sub(used + before.chars().count()).max(MIN_LAST_COLUMNS)
        });
        let weights = row(&figures, &line.weights, &tree.totals);
        writeln!(output, "{weights}  {before}{}", fit_name(&name, room))?;
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

fn name(line: &Line, names: &ShownNames) -> String {
    let module = if line.module.is_empty() || line.function == format!("[{}]", line.module) {
        String::new()
    } else {
        format!(" ({})", line.module)
    };
    let at = if line.line.is_empty() { String::new() } else { format!(" {}", line.line) };
    format!("{}{module}{at}", names.of(&line.function))
}

fn omitted(omitted: &Omitted, totals: &[u64]) -> String {
    format!("… {}: {}", counted(omitted.calls as u64, "more", "more"), percents(&omitted.totals, totals))
}
