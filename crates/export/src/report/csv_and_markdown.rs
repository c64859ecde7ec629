//! Reports as CSV and as Markdown.

use std::borrow::Cow;
use std::io::{self, Write};

use profile::queries::Weights;

use super::keys::Key;
use super::ratios::{Ratio, ratios};
use super::shares::{percents, share};
use super::{EventReport, Options, ReportBody, events_of, heading, hints};
use crate::summary::counted;

/// The headings and rows of a table, as text.
struct Cells {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Writes a line of headings and a line for each row. Omits the heading and the hints of a report.
pub(super) fn csv(
    events: &[EventReport<'_>],
    body: &ReportBody,
    options: &Options,
    output: &mut dyn Write,
) -> io::Result<()> {
    for (number, (_, cells)) in tables(events, body, options).into_iter().enumerate() {
        let line = |cells: &[String]| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",");
        if number == 0 {
            writeln!(output, "{}", line(&cells.headings))?;
        }
        for row in &cells.rows {
            writeln!(output, "{}", line(row))?;
        }
    }
    Ok(())
}

/// Quotes a cell of CSV (RFC 4180). Prefixes text that a spreadsheet would take for a formula by an apostrophe, because
/// the profiled program chooses its names.
pub(crate) fn quoted(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '@', '-']) && cell.parse::<f64>().is_err();
    let cell = if is_formula { Cow::Owned(format!("'{cell}")) } else { Cow::Borrowed(cell) };
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.into_owned()
    }
}

/// Writes the heading, the tables, and how much was omitted.
pub(super) fn markdown(
    events: &[EventReport<'_>],
    body: &ReportBody,
    options: &Options,
    output: &mut dyn Write,
) -> io::Result<()> {
    let heading = heading(events, options);
    for line in heading.iter().map(String::as_str).chain(hints(events)) {
        writeln!(output, "{}  ", escaped(line))?;
    }
    for (name, cells) in tables(events, body, options) {
        writeln!(output)?;
        if let Some(name) = name {
            writeln!(output, "**{}**\n", escaped(&name))?;
        }
        let line = |cells: &[String]| {
            let cells = cells.iter().map(|cell| escaped(cell));
            format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
        };
        writeln!(output, "{}", line(&cells.headings))?;
        let is_figure = |heading: &String| Key::TEXTS.iter().all(|name| name != heading);
        let rule = cells.headings.iter().map(|heading| if is_figure(heading) { "---:" } else { "---" });
        writeln!(output, "| {} |", rule.collect::<Vec<_>>().join(" | "))?;
        for row in &cells.rows {
            writeln!(output, "{}", line(row))?;
        }
    }
    let tables = match body {
        ReportBody::Tables(tables) => tables.as_slice(),
        _ => &[],
    };
    for table in tables.iter().filter(|table| table.omitted > 0) {
        let rows = counted(table.omitted as u64, "more row", "more rows");
        writeln!(output, "\n{rows}: {} self", percents(&table.omitted_self, &table.totals))?;
    }
    if let ReportBody::Tree(tree) = body {
        let lines = tree.lines.iter().map(|line| &line.omitted).chain([&tree.omitted]);
        let calls: usize = lines.map(|omitted| omitted.calls).sum();
        if calls > 0 {
            writeln!(output, "\n{}", counted(calls as u64, "more call", "more calls"))?;
        }
    }
    Ok(())
}

/// Escapes text for Markdown.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' | '!' => {
                safe.push('\\');
                safe.push(character);
            }
            other => safe.push(other),
        }
    }
    safe
}

/// Returns the tables of a report, each with the name of its event if each event has one.
fn tables(events: &[EventReport<'_>], body: &ReportBody, options: &Options) -> Vec<(Option<String>, Cells)> {
    match body {
        ReportBody::Totals => {
            let headings = ["event", "unit", "samples", "total"].map(str::to_owned).to_vec();
            let rows = events.iter().map(|event| {
                let (samples, total) = (event.summary.total.samples, event.view.shown_total());
                let (name, unit) = (event.summary.event.to_owned(), event.unit().to_owned());
                vec![name, unit, samples.to_string(), total.to_string()]
            });
            vec![(None, Cells { headings, rows: rows.collect() })]
        }
        ReportBody::Tables(tables) => {
            let of_each = tables.len() > 1;
            let table = |(number, table): (usize, &super::Table)| {
                let shown = events_of(events, tables.len(), number);
                let name = shown.first().filter(|_| of_each).map(|event| event.summary.event.to_owned());
                let figures = Figures::new(shown, options, of_each);
                let mut headings: Vec<String> = table.keys.iter().map(|key| key.name().to_owned()).collect();
                let event = if of_each { Some("event".to_owned()) } else { None };
                headings.splice(0..0, event);
                headings.extend(figures.headings());
                let row = |row: &super::table::Row| {
                    let fields = name.iter().chain(&row.fields).cloned();
                    fields.chain(figures.cells(&row.weights, &table.totals)).collect()
                };
                (name.clone(), Cells { headings, rows: table.rows.iter().map(row).collect() })
            };
            tables.iter().enumerate().map(table).collect()
        }
        ReportBody::Tree(tree) => {
            let figures = Figures::new(events, options, false);
            let mut headings: Vec<String> = ["depth", "module", "function"].map(str::to_owned).to_vec();
            headings.extend(figures.headings());
            let row = |line: &super::tree::Line| {
                let fields = [line.depth.to_string(), line.module.clone(), line.function.clone()];
                fields.into_iter().chain(figures.cells(&line.weights, &tree.totals)).collect()
            };
            vec![(None, Cells { headings, rows: tree.lines.iter().map(row).collect() })]
        }
    }
}

/// The columns of figures.
struct Figures {
    /// The prefix of each event's headings.
    prefixes: Vec<String>,
    self_weights: bool,
    totals: bool,
    ratios: Vec<Ratio>,
}

impl Figures {
    fn new(events: &[EventReport<'_>], options: &Options, is_one_of_several: bool) -> Self {
        let several = events.len() > 1 && !is_one_of_several;
        let prefix = |event: &EventReport<'_>| {
            if several { format!("{} ", event.summary.event) } else { String::new() }
        };
        let prefixes = events.iter().map(prefix).collect();
        let self_weights = options.query.has_self_weights();
        Self { prefixes, self_weights, totals: options.totals || !self_weights, ratios: ratios(events) }
    }

    fn headings(&self) -> impl Iterator<Item = String> {
        let of_event = |prefix: &String| {
            let own = ["self", "self_percent"].into_iter().filter(|_| self.self_weights);
            let all = own.chain(["total", "total_percent"].into_iter().filter(|_| self.totals));
            all.map(|heading| format!("{prefix}{heading}")).collect::<Vec<_>>()
        };
        let ratios = self.ratios.iter().map(|ratio| ratio.name.clone());
        self.prefixes.iter().flat_map(of_event).chain(ratios).collect::<Vec<_>>().into_iter()
    }

    fn cells(&self, weights: &[Weights], wholes: &[u64]) -> Vec<String> {
        let mut cells = Vec::new();
        for (weights, &whole) in weights.iter().zip(wholes) {
            let mut push = |weight: u64| {
                cells.push(weight.to_string());
                cells.push(format!("{:.3}", share(weight, whole) * 100.0));
            };
            if self.self_weights {
                push(weights.self_weight);
            }
            if self.totals {
                push(weights.total);
            }
        }
        for ratio in &self.ratios {
            let weight =
                |weights: &Weights| if self.self_weights { weights.self_weight } else { weights.total };
            let value = ratio.value(|column| weights.get(column).map_or(0, weight));
            cells.push(value.map_or_else(String::new, |value| format!("{value:.3}")));
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_whatever_names_hold() {
        assert_eq!(quoted("f(int, char)"), "\"f(int, char)\"");
        assert_eq!(quoted("operator\"\"_s"), "\"operator\"\"\"\"_s\"");
        assert_eq!(quoted("=HYPERLINK()"), "'=HYPERLINK()");
        assert_eq!(quoted("-1.5"), "-1.5");
        assert_eq!(escaped("<b>|a_b|</b>"), "&lt;b&gt;\\|a\\_b\\|&lt;/b&gt;");
    }
}
