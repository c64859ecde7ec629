//! Reports as JSON, by the schema in `docs/schemas/report.json`.

use std::io::{self, Write};

use profile::queries::Weights;
use serde_json::{Map, Value, json};

use super::keys::Key;
use super::ratios::ratios;
use super::shares::share;
use super::table::Table;
use super::tree::{Omitted, Tree};
use super::{EventReport, Options, ReportBody, events_of};
use crate::figures::write_json_line;
use crate::table::Cell;

/// The name and version of the schema. Increase the number with a change that breaks readers.
const SCHEMA: &str = "prof-report-2";

pub(super) fn write(
    events: &[EventReport<'_>],
    body: &ReportBody,
    options: &Options,
    output: &mut dyn Write,
) -> io::Result<()> {
    let mut whole = Map::new();
    whole.insert("schema".to_owned(), SCHEMA.into());
    whole.insert("title".to_owned(), options.title.as_str().into());
    whole.insert("all_frames".to_owned(), options.all_frames.into());
    let of_event = |(column, event): (usize, &EventReport<'_>)| {
        let mut object = facts(event);
        match body {
            ReportBody::Totals => {}
            ReportBody::Tables(tables) => {
                let (table, column) = if tables.len() == 1 { (0, column) } else { (column, 0) };
                if let Some(table) = tables.get(table) {
                    object.insert("rows".to_owned(), rows(table, column, options));
                    object.insert("rows_omitted".to_owned(), table.omitted.into());
                    let omitted = table.omitted_self.get(column).copied().unwrap_or_default();
                    object.insert("self_omitted".to_owned(), omitted.into());
                }
            }
            ReportBody::Tree(tree) => {
                object.insert("calls".to_owned(), calls(tree, column));
                object.insert("calls_omitted".to_owned(), tree.omitted.calls.into());
                object.insert("total_omitted".to_owned(), total_of(&tree.omitted, column).into());
            }
        }
        object
    };
    let mut objects: Vec<Map<String, Value>> = events.iter().enumerate().map(of_event).collect();
    match objects.as_mut_slice() {
        [only] => whole.append(only),
        _ => {
            whole.insert("events".to_owned(), objects.into());
            if let ReportBody::Tables(tables) = body
                && let [table] = tables.as_slice()
            {
                whole.insert("ratios".to_owned(), quotients(events_of(events, 1, 0), table));
            }
        }
    }
    write_json_line(&Value::Object(whole), output)
}

/// Returns the counts, losses and hints of an event.
fn facts(event: &EventReport<'_>) -> Map<String, Value> {
    let summary = &event.summary;
    let loss = summary.loss;
    let facts = json!({
        "event": summary.event,
        "unit": event.unit(),
        "total": event.view.shown_total(),
        "total_unfiltered": event.view.total(),
        "samples": summary.total.samples,
        "lost": (loss.unread == 0).then_some(loss.samples),
        "not_sampled": summary.unsampled,
        "cut_stacks": summary.census.truncated,
        "frames": summary.census.frames,
        "frames_without_name": summary.census.nameless,
        "losses": crate::summary::losses(loss),
        "hints": event.hints,
    });
    match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

fn rows(table: &Table, column: usize, options: &Options) -> Value {
    let total = table.totals.get(column).copied().unwrap_or_default();
    let row = |row: &super::table::Row| {
        let mut object = keyed(&table.keys, &row.fields);
        if !row.tiers.is_empty() {
            object.insert("tiers".to_owned(), row.tiers.signs().into());
        }
        let weights = row.weights.get(column).copied().unwrap_or_default();
        add_weights(&mut object, weights, total, options.totals);
        Value::Object(object)
    };
    table.rows.iter().map(row).collect()
}

/// Returns the fields of a row by the names of their keys.
fn keyed(keys: &[Key], fields: &[String]) -> Map<String, Value> {
    let value = |(key, field): (&Key, &String)| (key.name().to_owned(), key.cell(field).json());
    keys.iter().zip(fields).map(value).collect()
}

fn add_weights(object: &mut Map<String, Value>, weights: Weights, whole: u64, totals: bool) {
    let percent = |weight: u64| Cell::Number(share(weight, whole) * 100.0, 3).json();
    object.insert("self".to_owned(), weights.self_weight.into());
    object.insert("self_percent".to_owned(), percent(weights.self_weight));
    if totals {
        object.insert("total".to_owned(), weights.total.into());
        object.insert("total_percent".to_owned(), percent(weights.total));
    }
}

/// Returns calls as a list, in which each has the index of its parent: nested lists would be deeper than JSON readers
/// accept.
fn calls(tree: &Tree, column: usize) -> Value {
    let whole = tree.totals.get(column).copied().unwrap_or_default();
    let call = |line: &super::tree::Line| {
        let fields = [&line.function, &line.module, &line.line].map(Clone::clone);
        let mut object = keyed(&[Key::Function, Key::Module, Key::Line], &fields);
        if line.line.is_empty() {
            object.remove("line");
        }
        object.insert("parent".to_owned(), line.parent.map_or(Value::Null, Value::from));
        add_weights(&mut object, line.weights.get(column).copied().unwrap_or_default(), whole, true);
        object.insert("calls_omitted".to_owned(), line.omitted.calls.into());
        object.insert("total_omitted".to_owned(), total_of(&line.omitted, column).into());
        Value::Object(object)
    };
    tree.lines.iter().map(call).collect()
}

fn total_of(omitted: &Omitted, column: usize) -> u64 {
    omitted.totals.get(column).copied().unwrap_or_default()
}

/// Returns the ratios of events: each for all samples, and for the rows that have one.
fn quotients(events: &[EventReport<'_>], table: &Table) -> Value {
    let of_ratio = |ratio: &super::ratios::Ratio| {
        let rows = table.rows.iter().filter_map(|row| {
            let value =
                ratio.value(|column| row.weights.get(column).map_or(0, |weights| weights.self_weight))?;
            let mut object = keyed(&table.keys, &row.fields);
            object.insert("value".to_owned(), value.into());
            Some(Value::Object(object))
        });
        let all = ratio.value(|column| table.totals.get(column).copied().unwrap_or_default());
        json!({ "name": ratio.name, "value": all, "rows": rows.collect::<Vec<_>>() })
    };
    ratios(events).iter().map(of_ratio).collect()
}
