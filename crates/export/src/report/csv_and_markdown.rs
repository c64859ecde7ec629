//! Reports as CSV and as Markdown.

use std::io::{self, Write};

use profile::queries::Weights;

use super::figures::Figures;
use super::shares::percents;
use super::{EventReport, Options, ReportBody, events_of, heading, hints};
use crate::summary::counted;
use crate::table::{Cell, Table, escaped};

/// Writes a line of headings and a line for each row. Omits the heading and the hints of a report.
pub(super) fn csv(
    events: &[EventReport<'_>],
    body: &ReportBody,
    options: &Options,
    output: &mut dyn Write,
) -> io::Result<()> {
    let tables = tables(events, body, options);
    tables.iter().enumerate().try_for_each(|(number, (_, table))| table.csv(number == 0, output))
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
    for (name, table) in tables(events, body, options) {
        writeln!(output)?;
        if let Some(name) = name {
            writeln!(output, "**{}**\n", escaped(&name))?;
        }
        table.markdown(usize::MAX).try_for_each(|line| writeln!(output, "{line}"))?;
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

/// Returns the tables of a report, each with the name of its event if each event has one.
fn tables(events: &[EventReport<'_>], body: &ReportBody, options: &Options) -> Vec<(Option<String>, Table)> {
    match body {
        ReportBody::Totals => {
            let mut table = Table::new(&["event", "unit", "samples", "total"]);
            table.rows.extend(events.iter().map(|event| {
                let names = [event.summary.event, event.unit()].map(|name| Cell::Text(name.to_owned()));
                let counts = [event.summary.total.samples, event.view.shown_total()].map(Cell::Count);
                names.into_iter().chain(counts).collect()
            }));
            vec![(None, table)]
        }
        ReportBody::Tables(tables) => {
            let of_each = tables.len() > 1;
            let table = |(number, table): (usize, &super::Table)| {
                let shown = events_of(events, tables.len(), number);
                let name = shown.first().filter(|_| of_each).map(|event| event.summary.event.to_owned());
                let (figures, of_figures) = figures(shown, options, of_each);
                let event = name.iter().map(|_| "event");
                let headings = event.chain(table.keys.iter().map(|key| key.name())).map(str::to_owned);
                let headings = headings.chain(of_figures).collect();
                let row = |row: &super::table::Row| {
                    let fields = table.keys.iter().zip(&row.fields).map(|(key, field)| key.cell(field));
                    let event = name.iter().cloned().map(Cell::Text);
                    event.chain(fields).chain(cells(&figures, &row.weights, &table.totals)).collect()
                };
                let rows = table.rows.iter().map(row).collect();
                (name.clone(), Table { headings, rows })
            };
            tables.iter().enumerate().map(table).collect()
        }
        ReportBody::Tree(tree) => {
            let (figures, of_figures) = figures(events, options, false);
            let headings =
                ["depth", "module", "function"].map(str::to_owned).into_iter().chain(of_figures).collect();
            let row = |line: &super::tree::Line| {
                let names = [&line.module, &line.function].map(|name| Cell::Text(name.clone()));
                let depth = [Cell::Count(line.depth as u64)].into_iter();
                depth.chain(names).chain(cells(&figures, &line.weights, &tree.totals)).collect()
            };
            let rows = tree.lines.iter().map(row).collect();
            vec![(None, Table { headings, rows })]
        }
    }
}

/// Returns the figures, and the heading of each of their columns below those of the table.
fn figures(events: &[EventReport<'_>], options: &Options, is_one_of_several: bool) -> (Figures, Vec<String>) {
    let figures = Figures::new(events, options, true);
    let several = events.len() > 1 && !is_one_of_several;
    let mut headings = Vec::new();
    for event in events {
        let prefix = if several { format!("{} ", event.summary.event) } else { String::new() };
        for column in figures.columns {
            let name = column.heading();
            headings.extend([format!("{prefix}{name}"), format!("{prefix}{name}_percent")]);
        }
    }
    headings.extend(figures.ratios.iter().map(|ratio| ratio.name.clone()));
    (figures, headings)
}

fn cells<'f>(
    figures: &'f Figures,
    weights: &'f [Weights],
    wholes: &'f [u64],
) -> impl Iterator<Item = Cell> + 'f {
    let shares = figures.shares(weights, wholes);
    let shares = shares.flat_map(|(weight, share)| [Cell::Count(weight), Cell::Number(share * 100.0, 3)]);
    let ratios = figures.ratios(weights);
    shares.chain(ratios.map(|(_, ratio)| ratio.map_or(Cell::Nothing, |value| Cell::Number(value, 3))))
}
