//! Annotated functions as JSON, by the schema in `docs/schemas/annotate.json`.

use std::fmt::Write as _;
use std::io::{self, Write};

use profile::code::{CodeRange, Instruction};
use serde_json::{Value, json};

use super::{AnnotatedFunction, Listing};
use crate::figures::{percent, write_json_line};
use crate::printable;

/// Writes functions as one JSON object.
///
/// # Errors
/// Those of `output`.
pub fn write(
    listing: &Listing<'_>,
    functions: &[AnnotatedFunction],
    output: &mut dyn Write,
) -> io::Result<()> {
    let functions = functions.iter().map(|function| {
        json!({
            "function": printable(&function.name),
            "weight": function.weight(),
            "percent": percent(function.weight(), listing.total),
            "ranges": function.ranges.iter().map(range).collect::<Vec<_>>(),
        })
    });
    let document = json!({
        "schema": "prof-annotate-1",
        "event": listing.event,
        "unit": listing.unit,
        "total": listing.total,
        "lost": listing.lost,
        "functions": functions.collect::<Vec<_>>(),
    });
    write_json_line(&document, output)
}

fn range(range: &CodeRange) -> Value {
    let loops = range.hot_loops().into_iter().map(|hot| {
        let address = |index: usize| range.instructions.get(index).map(|one| one.address.0);
        json!({ "first": address(hot.first), "last": address(hot.last), "weight": hot.weight })
    });
    json!({
        "name": printable(&range.name),
        "inlined": range.inlined.as_deref().map(printable),
        "module": range.module.to_string(),
        "weight": range.weight,
        "elsewhere": range.elsewhere,
        "missing": range.missing.as_deref().map(printable),
        "hot_loops": loops.collect::<Vec<_>>(),
        "instructions": range.instructions.iter().map(instruction).collect::<Vec<_>>(),
    })
}

fn instruction(instruction: &Instruction) -> Value {
    let frames = instruction.frames.iter().map(|frame| {
        let location = frame.location.as_ref();
        json!({
            "function": printable(&frame.function),
            "file": location.map(|location| printable(&location.file)),
            "line": location.map(|location| location.line).filter(|&line| line > 0),
        })
    });
    let mut bytes = String::new();
    for byte in &instruction.bytes {
        // Writing to a string does not fail.
        let _ = write!(bytes, "{byte:02x}");
    }
    json!({
        "address": instruction.address.0,
        "bytes": bytes,
        "text": instruction.text,
        "target": instruction.target.map(|target| target.0),
        "callee": instruction.callee.as_deref().map(printable),
        "weight": instruction.weight,
        "frames": frames.collect::<Vec<_>>(),
    })
}
