//! A comparison as JSON, by the schema in `docs/schemas/diff.json`.

use std::io::{self, Write};

use profile::comparison::statistics::{CONFIDENCE, Estimate, LEVEL};
use profile::comparison::{Evidence, Presence, TotalKind, Verdict};
use serde_json::{Value, json};

use super::figures::total_name;
use super::{Difference, Unit};
use crate::figures::write_json_line;
use crate::names::printable;

/// The name and version of the schema. Increase the number with a change that breaks readers.
const SCHEMA: &str = "prof-diff-1";

pub(super) fn write(difference: &Difference<'_>, output: &mut dyn Write) -> io::Result<()> {
    let assessment = difference.assessment;
    let [runs_before, runs_after] = difference.runs();
    let side = |index: usize, runs: usize| {
        let side = &difference.sides[index];
        json!({ "name": printable(&side.name), "title": printable(&side.title), "runs": runs })
    };
    let (evidence, needed) = match assessment.evidence {
        Evidence::SingleRecordings => ("single-recordings", None),
        Evidence::TooFewRuns { needed } => ("too-few-runs", Some(needed)),
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
    let rows = assessment.rows.iter().map(|row| {
        let (function, module) = difference.name(row.frame);
        let (verdict, moved) = match row.verdict {
            Verdict::Unchanged => ("unchanged", None),
            Verdict::Grown => ("grown", None),
            Verdict::Shrunk => ("shrunk", None),
            Verdict::Moved(index) => ("moved", Some(index)),
        };
        let presence = match row.presence {
            Presence::Both => "both",
            Presence::New => "new",
            Presence::Gone => "gone",
        };
        json!({
            "function": function,
            "module": module,
            "before": row.means[0],
            "after": row.means[1],
            "difference": row.difference,
            "total_before": row.totals[0],
            "total_after": row.totals[1],
            "share": row.share,
            "presence": presence,
            "verdict": verdict,
            "move": moved,
            "change": row.estimate.as_ref().map(change),
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
        "before": side(0, runs_before),
        "after": side(1, runs_after),
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
        "rows": rows.collect::<Value>(),
        "moves": moves.collect::<Value>(),
        "paths": paths.collect::<Value>(),
        "libraries": libraries.collect::<Value>(),
        "notes": difference.notes.iter().map(|note| Value::from(&*printable(note))).collect::<Value>(),
        "threshold": threshold,
    });
    write_json_line(&document, output)
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
