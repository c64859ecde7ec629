//! Prints one interval as text, or as JSON for scripts.
//!
//! The help of `prof top` (`commands::top`) describes the JSON; a snapshot test fixes its shape.

use std::cmp::Reverse;
use std::fmt::Write as _;

use export::report::{function, module};
use export::summary::{self, Activity, counted};
use model::Loss;
use profile::{FrameKind, ViewFrame};
use serde_json::{Map, Value, json};

use live::snapshot::{Snapshot, container_of, ids_of, share};
use live::views::{FunctionRow, Scope, TaskOrder, TaskRow, TimeSpent, functions, tasks};

/// The name and version of the schema (`docs/schemas/top.json`). A change that breaks readers raises the version.
const SCHEMA: &str = "prof-top-2";
/// The fields of an event that have the same name and meaning in `report --json`.
const REPORT_FIELDS: [&str; 6] = ["event", "unit", "total", "lost", "rows", "rows_omitted"];

/// Maximum number of functions, of processes, and of stacks or threads per process that the JSON lists for an event.
const MAX_FUNCTIONS: usize = 100;
const MAX_PROCESSES: usize = 50;
const MAX_STACKS: usize = 20;
/// Maximum number of frames of a stack in the JSON. Deeper stacks lose their outermost frames.
const MAX_FRAMES: usize = 256;
/// Maximum number of functions and of processes that the text lists for an event.
const MAX_FUNCTION_LINES: usize = 30;
const MAX_PROCESS_LINES: usize = 10;

/// Formats a snapshot as one line of JSON, without the line break. The scope chooses the samples of each event.
pub(crate) fn json(snapshot: &Snapshot, scope: &Scope) -> String {
    let status = &snapshot.status;
    let events: Vec<Map<String, Value>> =
        (0..).zip(&status.events).map(|(number, _)| event(snapshot, number, scope)).collect();
    // As in `report --json`, a single event's fields are also fields of the outer object.
    let mut whole = match events.as_slice() {
        [only] => {
            let fields = only.iter().filter(|(name, _)| REPORT_FIELDS.contains(&name.as_str()));
            fields.map(|(name, value)| (name.clone(), value.clone())).collect()
        }
        _ => Map::new(),
    };
    let facts = json!({
        "schema": SCHEMA,
        "target": status.target,
        "seconds": rounded(status.covered.as_secs_f64()),
        "cpus": status.cpus,
        "samples": status.samples,
        "lost": (status.loss.unread == 0).then_some(status.loss.samples),
        "loss": loss(&status.loss),
        "complete": status.complete,
        "own": { "cpu_percent": rounded(status.own_cpu), "memory_bytes": status.own_memory },
        "ended": status.ended,
        "remarks": status.remarks,
        "remarks_omitted": status.remarks_omitted,
        "events": events,
    });
    if let Value::Object(facts) = facts {
        whole.extend(facts);
    }
    Value::Object(whole).to_string()
}

fn loss(loss: &Loss) -> Value {
    // Destructured so that the compiler reports a new field. The last three are only counted when a file is read.
    let Loss {
        samples,
        unread,
        sideband,
        throttles,
        undecodable,
        unattributed,
        cut_bytes,
        unknown_records: _,
        out_of_order: _,
        unfollowed: _,
    } = *loss;
    json!({
        "samples": samples,
        "unread_counts": unread,
        "sideband_records": sideband,
        "throttles": throttles,
        "undecodable_records": undecodable,
        "unattributed_records": unattributed,
        "cut_bytes": cut_bytes,
    })
}

fn event(snapshot: &Snapshot, number: u32, scope: &Scope) -> Map<String, Value> {
    let scope = Scope { event: number, ..scope.clone() };
    let total = scope.total(snapshot);
    let idle = Scope { idle: true, ..scope.clone() }.total(snapshot).saturating_sub(total);
    let (functions, functions_omitted) = bounded(by_self_weight(snapshot, &scope), MAX_FUNCTIONS);
    let rows = tasks(snapshot, &scope, TaskOrder::Weight);
    let processes: Vec<&[TaskRow]> = rows.chunk_by(|_, next| next.choice.tid.is_some()).collect();
    let (processes, processes_omitted) = bounded(processes, MAX_PROCESSES);
    let of_event = snapshot.status.events.get(number as usize);
    let is_time = of_event.is_some_and(|event| event.is_time);
    let spent = is_time.then(|| TimeSpent::of(snapshot, &scope));
    let process = |rows: &&[TaskRow]| {
        let (process, threads) = rows.split_first()?;
        let (threads, threads_omitted) = bounded(threads.to_vec(), MAX_STACKS);
        let thread = |row: &TaskRow| {
            let thread = json!({ "tid": row.choice.tid, "comm": row.comm.to_string(), "weight": row.weight });
            with_time(thread, spent.as_ref().map(|spent| spent.of_task(row.choice)))
        };
        let time = spent.as_ref().map(|spent| spent.of_task(process.choice));
        let process = json!({
            "pid": process.choice.pid,
            "comm": process.comm.to_string(),
            "container": process.container.as_ref().map(ToString::to_string),
            "weight": process.weight,
            "percent": rounded(share(process.weight, total)),
            "threads": threads.iter().map(thread).collect::<Vec<_>>(),
            "threads_omitted": threads_omitted,
        });
        Some(with_time(process, time))
    };
    let (stacks, stacks_omitted) = stacks(snapshot, &scope);
    let loss = &snapshot.status.loss;
    let facts = json!({
        "event": of_event.map(|event| &event.name),
        "lost": (loss.unread == 0).then_some(loss.samples),
        "rows": functions.iter().map(|row| function_row(row, total)).collect::<Value>(),
        "rows_omitted": functions_omitted,
        "unit": of_event.map(|event| &event.unit),
        "frequency": of_event.and_then(|event| event.frequency),
        "total": total,
        "idle": idle,
        "processes": processes.iter().filter_map(process).collect::<Vec<_>>(),
        "processes_omitted": processes_omitted,
        "stacks": stacks,
        "stacks_omitted": stacks_omitted,
    });
    match with_time(facts, spent.map(|spent| spent.all())) {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

/// Adds the field `time` to an object, if `spent` is known (with `--off-cpu`).
fn with_time(mut object: Value, spent: Option<Activity>) -> Value {
    if let (Value::Object(fields), Some(spent)) = (&mut object, spent) {
        let Activity { running, runnable, blocked, waiting, unknown } = spent;
        let time = json!({
            "running": running,
            "runnable": runnable,
            "blocked": blocked,
            "waiting": waiting,
            "unknown": unknown,
        });
        fields.insert("time".to_owned(), time);
    }
    object
}

/// Formats a function as a row of `report --json`.
fn function_row(row: &FunctionRow, total: u64) -> Value {
    json!({
        "function": function(&row.frame),
        "module": module_or_null(&row.frame),
        "kernel": row.in_kernel,
        "self": row.self_weight,
        "self_percent": rounded(share(row.self_weight, total)),
        "total": row.total,
        "total_percent": rounded(share(row.total, total)),
    })
}

fn module_or_null(frame: &ViewFrame) -> Option<String> {
    Some(module(frame)).filter(|module| !module.is_empty())
}

fn stacks(snapshot: &Snapshot, scope: &Scope) -> (Vec<Value>, usize) {
    let Some(profile) = snapshot.profiles.get(scope.event as usize) else { return (Vec::new(), 0) };
    let mut stacks: Vec<_> = scope.stacks(snapshot).collect();
    stacks.sort_by_key(|stack| (Reverse(stack.weight), ids_of(stack.thread), stack.stack));
    let (stacks, omitted) = bounded(stacks, MAX_STACKS);
    let view = scope.view(snapshot, profile, scope.show());
    let stacks = stacks.iter().map(|stack| {
        let mut frames = Vec::new();
        view.stack(stack.thread_id, stack.stack, &mut frames);
        let frames = frames.iter().map(|frame| &view.frames().frames()[frame.index()]);
        let frames: Vec<_> = frames.filter(|frame| !frame.label.is_thread()).collect();
        let skipped = frames.len().saturating_sub(MAX_FRAMES);
        let frames = frames.iter().skip(skipped).map(|frame| {
            json!({
                "name": function(frame),
                "module": module_or_null(frame),
                "kernel": frame.kind == FrameKind::Kernel,
                "inlined": frame.kind == FrameKind::Inlined,
            })
        });
        let (pid, tid) = ids_of(stack.thread);
        json!({
            "pid": pid,
            "tid": tid,
            "comm": stack.thread.comm.to_string(),
            "container": container_of(stack.thread).map(ToString::to_string),
            "weight": stack.weight,
            "frames_omitted": skipped,
            "frames": frames.collect::<Vec<_>>(),
        })
    });
    (stacks.collect(), omitted)
}

/// Formats a snapshot as text, with at most [`MAX_FUNCTION_LINES`] and [`MAX_PROCESS_LINES`] lines for each event.
pub(crate) fn text(snapshot: &Snapshot, scope: &Scope) -> String {
    let status = &snapshot.status;
    let mut text = String::new();
    // Writing into a string does not fail.
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{arguments}");
    };
    for (number, event) in (0..).zip(&status.events) {
        let scope = Scope { event: number, ..scope.clone() };
        let total = scope.total(snapshot);
        let rate = event.frequency.map_or(String::new(), |hertz| format!(" {hertz} Hz"));
        let complete = status.complete_share().map(|share| format!(", stacks {share:.1} % complete"));
        let complete = complete.unwrap_or_default();
        let rest = match event.is_time {
            true => format!(", {}", time_in_words(&TimeSpent::of(snapshot, &scope).all(), scope.at_rest)),
            false => format!(", idle {:.0} %", scope.idle_share(snapshot)),
        };
        line(format_args!(
            "{}, {}{rate}, {}, {:.1} s: {}, {}{complete}{rest}",
            status.target,
            event.name,
            counted(status.cpus.into(), "CPU", "CPUs"),
            status.covered.as_secs_f64(),
            counted(status.samples, "sample", "samples"),
            summary::lost(&status.loss),
        ));
        line(format_args!("{:>7} {:>7}  {:<24} function", "self", "total", "module"));
        let (rows, omitted) = bounded(by_self_weight(snapshot, &scope), MAX_FUNCTION_LINES);
        for row in rows {
            line(format_args!(
                "{:>6.2}% {:>6.2}%  {:<24} {}",
                share(row.self_weight, total),
                share(row.total, total),
                module(&row.frame),
                function(&row.frame)
            ));
        }
        if omitted > 0 {
            line(format_args!("{:>16}  {omitted} more functions", ""));
        }
        let rows = tasks(snapshot, &scope, TaskOrder::Weight);
        let width = container_width(&rows);
        let processes = rows.into_iter().filter(|row| row.choice.tid.is_none()).collect();
        let (rows, omitted) = bounded::<TaskRow>(processes, MAX_PROCESS_LINES);
        let container = |text: &str| width.map_or(String::new(), |width| format!("{text:<width$}  "));
        line(format_args!("{:>7} {:>9}  {}process", "share", "pid", container("container")));
        for row in rows {
            let container = container(&row.container.as_ref().map(ToString::to_string).unwrap_or_default());
            let TaskRow { choice, comm, weight, .. } = row;
            line(format_args!("{:>6.2}% {:>9}  {container}{comm}", share(weight, total), choice.pid));
        }
        if omitted > 0 {
            line(format_args!("{:>18} {omitted} more processes", ""));
        }
    }
    text
}

/// Describes how threads spent their time. Time of event loops at rest is marked as left out unless `rest_is_shown`.
pub(crate) fn time_in_words(spent: &Activity, rest_is_shown: bool) -> String {
    let Activity { running, runnable, blocked, waiting, unknown } = *spent;
    let parts = [("running", running), ("runnable", runnable), ("blocked", blocked), ("unknown", unknown)];
    let parts = parts.into_iter().filter(|(what, time)| *what == "running" || *time > 0);
    let parts: Vec<String> = parts.map(|(what, time)| format!("{what} {}", seconds(time))).collect();
    let at_rest = match (waiting, rest_is_shown) {
        (0, _) => String::new(),
        (_, true) => format!(" + at rest {}", seconds(waiting)),
        (_, false) => format!(" (at rest {}, left out)", seconds(waiting)),
    };
    format!("{}{at_rest}", parts.join(" + "))
}

fn seconds(nanoseconds: u64) -> String {
    format!("{:.2} s", nanoseconds as f64 / 1e9)
}

/// Returns the width in characters of the column for container names, or `None` if no process runs in a container.
pub(crate) fn container_width(rows: &[TaskRow]) -> Option<usize> {
    const MAX_WIDTH: usize = 32;
    let names = rows.iter().filter_map(|row| row.container.as_ref());
    names.map(|name| name.to_string().chars().count().clamp("container".len(), MAX_WIDTH)).max()
}

fn by_self_weight(snapshot: &Snapshot, scope: &Scope) -> Vec<FunctionRow> {
    let mut rows = functions(snapshot, scope);
    rows.sort_by(|a, b| {
        let text = |row: &FunctionRow| (function(&row.frame), module(&row.frame));
        (b.self_weight, b.total).cmp(&(a.self_weight, a.total)).then_with(|| text(a).cmp(&text(b)))
    });
    rows
}

/// Cuts a list to `max` items, and returns it with the number of items that it lost.
fn bounded<T>(mut list: Vec<T>, max: usize) -> (Vec<T>, usize) {
    let omitted = list.len().saturating_sub(max);
    list.truncate(max);
    (list, omitted)
}

/// Rounds to three decimal places.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use live::testing::SnapshotBuilder;

    fn load() -> Snapshot {
        let mut build = SnapshotBuilder::default();
        build
            .stack(100, 100, "app", "main;_i_parse;memchr@libc.so.6", 400)
            .stack(100, 101, "wor\"ker", "start;_k_read", 100)
            .stack(0, 0, "swapper/0", "_k_idle", 900)
            .stack(300, 300, "sh", "[unknown]@", 40);
        build.snapshot()
    }

    #[test]
    fn the_schema_stays() {
        let value: Value = serde_json::from_str(&json(&load(), &Scope::default())).unwrap();
        insta::assert_snapshot!("json", serde_json::to_string_pretty(&value).unwrap());
    }

    #[test]
    fn containers_have_a_column_where_there_are_some() {
        let mut build = SnapshotBuilder::default();
        build.stack(100, 100, "sh", "main", 3);
        assert!(!text(&build.snapshot(), &Scope::default()).contains("container"));
        build.stack_in(Some("docker:0123456789ab"), (200, 200, "app"), "main", 5);
        let snapshot = build.snapshot();
        let lines = text(&snapshot, &Scope::default());
        let lines: Vec<&str> = lines.lines().skip_while(|line| !line.contains("process")).collect();
        let expected = [
            "  share       pid  container            process",
            " 62.50%       200  docker:0123456789ab  app",
            " 37.50%       100                       sh",
        ];
        assert_eq!(lines, expected);
        let value: Value = serde_json::from_str(&json(&snapshot, &Scope::default())).unwrap();
        let processes = &value["events"][0]["processes"];
        assert_eq!(processes[0]["container"], "docker:0123456789ab");
        assert_eq!(processes[1]["container"], Value::Null);
    }

    #[test]
    fn text_of_one_interval() {
        insta::assert_snapshot!("text", text(&load(), &Scope::default()));
    }

    #[test]
    fn lists_are_bounded_and_say_so() {
        let mut build = SnapshotBuilder::default();
        for number in 0..300 {
            build.stack(number + 1, number + 1, "p", &format!("main;f{number}"), 1);
        }
        let snapshot = build.snapshot();
        let value: Value = serde_json::from_str(&json(&snapshot, &Scope::default())).unwrap();
        let event = &value["events"][0];
        assert_eq!(event["rows"].as_array().unwrap().len(), MAX_FUNCTIONS);
        assert_eq!(event["rows_omitted"], 301 - MAX_FUNCTIONS);
        assert_eq!(event["processes_omitted"], 300 - MAX_PROCESSES);
        assert_eq!(event["stacks_omitted"], 300 - MAX_STACKS);
        assert!(text(&snapshot, &Scope::default()).lines().count() < 50);
    }
}
