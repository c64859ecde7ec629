//! The explanation as JSON, by the schema in `docs/schemas/explain.json`.

use std::io::{self, Write};

use profile::FrameId;
use profile::explain::{Cause, Part};
use serde_json::{Map, Value, json};

use super::{ExplanationInput, Findings, module_name};
use crate::figures::{self, write_json_line};

/// Maximum number of rows of each list. A count of all rows stands beside it.
const MAX_ROWS: usize = 100;

/// Returns the rows of functions with their weights.
fn rows(findings: &Findings<'_>, parts: &[Part<FrameId>]) -> Vec<Value> {
    let row = |part: &Part<FrameId>| {
        json!({
            "function": findings.name(part.what, None),
            "module": findings.module(part.what),
            "weight": part.weight,
            "percent": figures::percent(part.weight, findings.explanation.total),
        })
    };
    parts.iter().take(MAX_ROWS).map(row).collect()
}

/// Returns the rows of causes.
fn causes(findings: &Findings<'_>) -> Vec<Value> {
    let row = |cause: &Cause| {
        let path = cause.path.iter().map(|step| findings.name(step.frame, None));
        json!({
            "path": path.collect::<Vec<_>>(),
            "weight": cause.weight,
            "percent": figures::percent(cause.weight, findings.explanation.total),
            "is_rest": cause.is_rest,
            "inside": rows(findings, &cause.inside),
            "inside_count": cause.inside.len(),
        })
    };
    findings.explanation.causes.iter().take(MAX_ROWS).map(row).collect()
}

/// Writes the explanation as one JSON object.
///
/// # Errors
/// Those of `output`.
pub fn write(facts: &ExplanationInput<'_>, output: &mut dyn Write) -> io::Result<()> {
    let findings = &facts.findings;
    let explanation = findings.explanation;
    let percent = |weight: u64| figures::percent(weight, explanation.total);
    let functions = explanation.functions.iter().take(MAX_ROWS).map(|function| {
        let mut row = Map::new();
        row.insert("function".into(), findings.name(function.function, None).into());
        row.insert("module".into(), findings.module(function.function).into());
        row.insert("self".into(), function.own.into());
        row.insert("total".into(), function.total.into());
        row.insert("self_percent".into(), percent(function.own).into());
        row.insert("total_percent".into(), percent(function.total).into());
        row.insert("callers".into(), rows(findings, &function.callers).into());
        Value::Object(row)
    });
    let threads = explanation.threads.iter().take(MAX_ROWS).map(|thread| {
        json!({ "name": findings.name(thread.what, None), "weight": thread.weight, "percent": percent(thread.weight) })
    });
    let modules = explanation.modules.iter().take(MAX_ROWS).map(|module| {
        let name = module.what.as_ref().map(module_name);
        json!({ "module": name, "weight": module.weight, "percent": percent(module.weight) })
    });
    let costs = explanation.costs.iter().map(|cost| {
        json!({
            "kind": format!("{:?}", cost.kind),
            "weight": cost.weight,
            "percent": percent(cost.weight),
            "by": findings.name(cost.by, None),
        })
    });
    let phases = facts.phases.iter().map(|phase| {
        json!({
            "start_ns": phase.start.0,
            "end_ns": phase.end.0,
            "weight": phase.weight,
            "percent": percent(phase.weight),
            "functions": rows(findings, &phase.functions),
            "function_count": phase.functions.len(),
        })
    });
    let loss = facts.loss;
    let document = json!({
        "schema": "prof-explain-2",
        "title": facts.title,
        "event": facts.summary.event,
        "unit": facts.unit,
        "total": explanation.total,
        "samples": facts.summary.total.samples,
        "period": facts.summary.total.period,
        "lost": loss.samples,
        "lost_is_known": loss.unread == 0,
        "duration_ns": facts.duration_ns,
        "cpus": facts.cpus,
        "busy_cpus": facts.busy_cpus(),
        "kernel": explanation.kernel,
        "generated": explanation.generated,
        "truncated": explanation.truncated_total(),
        "frames": facts.summary.census.frames,
        "nameless_frames": facts.summary.census.nameless,
        "margin_points": facts.margin(),
        "python_callers_margin_points": facts.callers_margin(),
        "threads": threads.collect::<Vec<_>>(),
        "thread_count": explanation.threads.len(),
        "modules": modules.collect::<Vec<_>>(),
        "module_count": explanation.modules.len(),
        "causes": causes(findings),
        "cause_count": explanation.causes.len(),
        "functions": functions.collect::<Vec<_>>(),
        "function_count": explanation.functions.len(),
        "costs": costs.collect::<Vec<_>>(),
        "phases": phases.collect::<Vec<_>>(),
        "hints": facts.hints,
        "unsampled": facts.summary.unsampled,
        "at_rest": explanation.at_rest,
        "waits": facts.waits.map(|waits| json!({
            "total": waits.explanation.total,
            "at_rest": waits.explanation.at_rest,
            "causes": causes(&waits),
            "cause_count": waits.explanation.causes.len(),
        })),
        "waiting": facts.waiting.map(|waiting| waiting.json(facts.title, MAX_ROWS)),
    });
    write_json_line(&document, output)
}
