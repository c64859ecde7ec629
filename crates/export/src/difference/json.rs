//! A comparison as JSON, by the schema in `docs/schemas/diff.json`, and its functions as comma-separated values.

use std::io::{self, Write};

use profile::comparison::statistics::{CONFIDENCE, Estimate, LEVEL, NEEDED_RUNS};
use profile::comparison::{Evidence, Row, TotalKind, Verdict};
use serde_json::{Value, json};

use super::figures::total_name;
use super::{Difference, Unit};
use crate::figures::write_json_line;
use crate::names::printable;
use crate::table::{Cell, Table};

/// The name and version of the schema. Increase the number with a change that breaks readers.
const SCHEMA: &str = "prof-diff-2";

/// The fields of a function that are columns of CSV, those of its change last.
const COLUMNS: &str = "function module before after difference total_before total_after presence verdict \
                       factor low high marked smallest_growth_percent";

/// Weights from this on have no decimals in CSV.
const WHOLE: f64 = 1000.0;

pub(super) fn csv(difference: &Difference<'_>, output: &mut dyn Write) -> io::Result<()> {
    let columns: Vec<&str> = COLUMNS.split_whitespace().collect();
    let mut table = Table::new(&columns);
    for row in &difference.assessment.rows {
        let row = self::row(difference, row);
        let field = |name: &str| row.get(name).or_else(|| row["change"].get(name));
        let cell = |name| match field(name) {
            Some(Value::Bool(is_so)) => Cell::Text(if *is_so { "yes" } else { "no" }.to_owned()),
            Some(Value::Number(number)) => {
                let number = number.as_f64().unwrap_or_default();
                let is_whole = number.fract() == 0.0 || number.abs() >= WHOLE;
                Cell::Number(number, if is_whole { 0 } else { 5 })
            }
            field => field.and_then(Value::as_str).map_or(Cell::Nothing, |text| Cell::Text(text.to_owned())),
        };
        table.rows.push(columns.iter().copied().map(cell).collect());
    }
    table.csv(true, output)
}

pub(super) fn write(difference: &Difference<'_>, output: &mut dyn Write) -> io::Result<()> {
    let assessment = difference.assessment;
    let side = |index: usize| {
        let (side, runs) = (&difference.sides[index], difference.runs()[index]);
        json!({ "name": printable(&side.name), "title": printable(&side.title), "runs": runs })
    };
    let (evidence, needed) = match assessment.evidence {
        Evidence::SingleRecordings => ("single-recordings", None),
        Evidence::TooFewRuns => ("too-few-runs", Some(NEEDED_RUNS)),
        Evidence::Runs => ("runs", None),
    };
    let totals = assessment.totals.iter().map(|total| {
        let kind = match &total.kind {
            TotalKind::Weight => "weight",
            TotalKind::Wall => "wall",
            TotalKind::Samples => "samples",
            TotalKind::EverythingElse => "everything-else",
            TotalKind::Count(_) => "count",
        };
        json!({
            "kind": kind,
            "name": total_name(difference.unit, &total.kind),
            "before": total.means.map(|means| means[0]),
            "after": total.means.map(|means| means[1]),
            "change": total.estimate.as_ref().map(change),
        })
    });
    let names = |frames: &[profile::FrameId]| -> Value {
        frames.iter().map(|&frame| Value::from(difference.name(frame).0)).collect()
    };
    let moves = assessment.moves.iter().map(|moved| {
        json!({
            "functions": names(&moved.functions),
            "difference": moved.difference,
            "change": moved.estimate.as_ref().map(change),
        })
    });
    let paths = assessment.paths.iter().map(|path| {
        json!({
            "frames": names(&path.frames),
            "cut": path.is_cut,
            "before": path.means[0],
            "after": path.means[1],
            "difference": path.difference,
            "half_width": path.half_width,
        })
    });
    let libraries = difference.libraries.iter().map(|library| {
        json!({
            "module": printable(&library.module),
            "build_ids": library.build_ids,
            "before": library.means[0],
            "after": library.means[1],
        })
    });
    let threshold = difference.threshold.as_ref().map(|threshold| {
        let by: Vec<String> = threshold.exceeding.iter().map(|part| difference.exceeding(part)).collect();
        json!({
            "percent": threshold.percent,
            "layout_allowance_percent": threshold.allowance,
            "judged": assessment.evidence == Evidence::Runs,
            "exceeded": !by.is_empty(),
            "by": by,
        })
    });
    let document = json!({
        "schema": SCHEMA,
        "headline": difference.headline(),
        "before": side(0),
        "after": side(1),
        "event": printable(difference.event),
        "unit": match difference.unit {
            Unit::Time => "ns",
            Unit::Samples => "samples",
            Unit::Events(_) => "events",
        },
        "evidence": evidence,
        "paired": difference.is_paired,
        "runs_needed": needed,
        "level": LEVEL,
        "confidence": CONFIDENCE,
        "factor": assessment.factor,
        "totals": totals.collect::<Value>(),
        "rows": assessment.rows.iter().map(|row| self::row(difference, row)).collect::<Value>(),
        "moves": moves.collect::<Value>(),
        "paths": paths.collect::<Value>(),
        "libraries": libraries.collect::<Value>(),
        "notes": difference.notes.iter().map(|note| Value::from(&*printable(note))).collect::<Value>(),
        "threshold": threshold,
    });
    write_json_line(&document, output)
}

fn row(difference: &Difference<'_>, row: &Row) -> Value {
    let (function, module) = difference.name(row.frame);
    let moved = if let Verdict::Moved(index) = row.verdict { Some(index) } else { None };
    json!({
        "function": function,
        "module": module,
        "before": row.means[0],
        "after": row.means[1],
        "difference": row.difference,
        "total_before": row.totals[0],
        "total_after": row.totals[1],
        "share": row.share,
        "presence": row.presence.name(),
        "verdict": row.verdict.name(),
        "move": moved,
        "change": row.estimate.as_ref().map(change),
    })
}

fn change(estimate: &Estimate) -> Value {
    let [factor, low, high] = estimate.factors();
    json!({
        "factor": factor,
        "low": low,
        "high": high,
        "distance": estimate.distance,
        "probability": estimate.probability,
        "marked": estimate.is_marked(),
        "smallest_growth_percent": estimate.smallest.map(|log| 100.0 * (log.exp() - 1.0)),
    })
}
