//! The paths that make up most of the time or of the waits, as lines of the page.

use std::fmt::Write;

use profile::FrameId;
use profile::explain::{Cause, Part, Step};

use super::{Findings, NAME_COLUMNS, THREAD_COLUMNS, seconds};
use crate::figures::{counted, percent};

/// Maximum number of frames of a path. Of longer ones, outer frames are omitted.
const MAX_PATH_FRAMES: usize = 8;
/// Maximum number of columns of a path.
const MAX_PATH_COLUMNS: usize = 160;
/// Causes are listed until they have this share of the total together.
const CAUSES_SHARE: f64 = 0.8;

/// Returns the heading, which begins with `what`, and two lines for each of up to `rows` causes.
pub(super) fn lines(findings: &Findings<'_>, what: &str, rows: usize) -> Vec<String> {
    let causes = &findings.explanation.causes;
    let mut told = 0_u64;
    let enough = causes.iter().position(|cause| {
        told = told.saturating_add(cause.weight);
        findings.share(told) >= CAUSES_SHARE
    });
    let shown = enough.map_or(causes.len(), |last| last + 1).min(rows);
    let sum = causes[..shown].iter().map(|cause| cause.weight).fold(0, u64::saturating_add);
    let rest_lines = rest(findings);
    let rest_weight = findings.explanation.rest.first().map_or(0, |most| most.weight);
    // Like the others, it has its place by its weight: first or last.
    let (first, last) = match causes.first() {
        Some(cause) if cause.weight > rest_weight => (Vec::new(), rest_lines),
        _ => (rest_lines, Vec::new()),
    };
    let paths = counted(shown as u64, "path", "paths");
    let mut lines = match shown {
        0 => vec![format!("{what}: no path has 2 % of it")],
        _ => vec![format!("{what}: {} on {paths}", findings.percent(sum))],
    };
    lines.extend(first);
    for cause in &causes[..shown] {
        lines.push(format!("  {:>7}  {}", findings.percent(cause.weight), path(findings, cause)));
        let inside = inside(findings, cause);
        if !inside.is_empty() {
            lines.push(format!("           {inside}"));
        }
    }
    let rest = findings.explanation.total.saturating_sub(sum);
    if rest > 0 && shown > 0 {
        let more = match causes.len() - shown {
            0 => String::from("paths below 2 % each"),
            count => {
                format!("{}, and paths below 2 % each", counted(count as u64, "more path", "more paths"))
            }
        };
        lines.push(format!("  {:>7}  {more}", findings.percent(rest)));
    }
    lines.extend(last);
    lines
}

/// Returns how long event loops were idle, and where most of that was; empty if they were not.
fn rest(findings: &Findings<'_>) -> Vec<String> {
    let all = findings.explanation.at_rest;
    let Some(most) = findings.explanation.rest.first().filter(|_| all > 0) else { return Vec::new() };
    let (time, share) = (seconds(all), percent(most.weight, all));
    vec![
        format!("  {time:>7}  more, {share:.0} % of it in {}", path(findings, most)),
        "           idle, or waiting for others in a call of event loops: not in these shares, but in prof report --off-cpu"
            .to_owned(),
    ]
}

/// Returns a path with its thread and its last frames. Frames without which it is no other path are omitted first.
fn path(findings: &Findings<'_>, cause: &Cause) -> String {
    let name = |(index, step): (usize, &Step)| {
        Some(findings.name(step.frame, Some(if index == 0 { THREAD_COLUMNS } else { NAME_COLUMNS })))
    };
    let mut names: Vec<Option<String>> = cause.path.iter().enumerate().map(name).collect();
    let is_long = |names: &[Option<String>]| {
        let columns = names.iter().flatten().map(|name| name.chars().count() + 3).sum::<usize>();
        names.iter().flatten().count() > MAX_PATH_FRAMES || columns > MAX_PATH_COLUMNS
    };
    let inner = cause.path.len().saturating_sub(1);
    let passed = (1..inner).filter(|&index| !cause.path[index].stands);
    for index in passed.chain((2..inner).filter(|&index| cause.path[index].stands)) {
        if !is_long(&names) {
            break;
        }
        names[index] = None;
    }
    let mut path = String::new();
    let mut omitted = 0;
    for (step, name) in cause.path.iter().zip(&names) {
        let Some(name) = name else {
            omitted += 1;
            continue;
        };
        if !path.is_empty() {
            path.push_str(" → ");
        }
        // Writing to a string cannot fail.
        if omitted > 0 {
            let _ = write!(path, "… {omitted} … → ");
        }
        if step.ways > 0 {
            let _ = write!(path, "… {} … → ", counted(step.ways as u64, "way", "ways"));
        }
        path.push_str(name);
        omitted = 0;
    }
    path + if cause.is_rest { " (the rest of it)" } else { "" }
}

/// Describes the functions that have most of a cause's weight; empty if that is the last function of its path alone.
fn inside(findings: &Findings<'_>, cause: &Cause) -> String {
    let of_cause = |weight: u64| format!("{:.0} %", percent(weight, cause.weight));
    let function = cause.path.last().map(|step| &step.frame);
    match cause.inside.as_slice() {
        [only] if Some(&only.what) == function => String::new(),
        [first, ..] if Some(&first.what) == function && first.weight as f64 >= 0.9 * cause.weight as f64 => {
            format!("{} of it in itself", of_cause(first.weight))
        }
        parts => {
            let is_told = |part: &&Part<FrameId>| percent(part.weight, cause.weight) >= 1.0;
            let told = parts.iter().take(3).take_while(is_told).map(|part| {
                let name = if Some(&part.what) == function {
                    "itself".to_owned()
                } else {
                    findings.name(part.what, Some(NAME_COLUMNS))
                };
                format!("{name} {}", of_cause(part.weight))
            });
            let mut words: Vec<String> = told.collect();
            if parts.len() > words.len() {
                let others = (parts.len() - words.len()) as u64;
                words.push(counted(others, "other function", "other functions"));
            }
            format!("in {}", words.join(", "))
        }
    }
}
