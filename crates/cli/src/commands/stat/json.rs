//! Writes counts as JSON (`docs/schemas/stat.json`).

use std::io::{self, Write};
use std::time::Duration;

use model::Name;
use recorder::counting::CountedEvent;
use serde_json::{Map, Value, json};

use super::RunSummary;
use super::count_table::{CountCell, CountTable, RowLabel};
use super::ratios::ratio;
use super::text::{in_unit, mean, subject};

/// The version of the schema.
const SCHEMA: &str = "prof-stat/1";

/// Writes the counts of all runs as one object.
pub fn write(
    events: &[CountedEvent],
    table: &CountTable,
    summary: &RunSummary<'_>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let elapsed = mean(&summary.elapsed);
    let mut object = Map::new();
    object.insert("schema".to_owned(), SCHEMA.into());
    object.insert("target".to_owned(), subject(summary).into());
    object.insert("runs".to_owned(), summary.elapsed.len().into());
    object.insert("elapsed_seconds".to_owned(), elapsed.as_secs_f64().into());
    if !summary.cpu_times.is_empty() {
        let user: Vec<Duration> = summary.cpu_times.iter().map(|time| time.user).collect();
        let kernel: Vec<Duration> = summary.cpu_times.iter().map(|time| time.kernel).collect();
        object.insert("user_seconds".to_owned(), mean(&user).as_secs_f64().into());
        object.insert("system_seconds".to_owned(), mean(&kernel).as_secs_f64().into());
    }
    object.insert("counts".to_owned(), counts(events, table, elapsed));
    writeln!(output, "{}", Value::Object(object))
}

/// Writes the counts of one interval as an object on one line.
pub fn write_interval(
    events: &[CountedEvent],
    table: &CountTable,
    (from, to): (Duration, Duration),
    output: &mut dyn Write,
) -> io::Result<()> {
    let interval = json!({"from_seconds": from.as_secs_f64(), "to_seconds": to.as_secs_f64()});
    let counts = counts(events, table, to.saturating_sub(from));
    writeln!(output, "{}", json!({"schema": SCHEMA, "interval": interval, "counts": counts}))
}

fn counts(events: &[CountedEvent], table: &CountTable, elapsed: Duration) -> Value {
    let cells = table.cells.iter();
    cells.filter_map(|cell| Some(count(events, table, cell, events.get(cell.event)?, elapsed))).collect()
}

fn count(
    events: &[CountedEvent],
    table: &CountTable,
    cell: &CountCell,
    event: &CountedEvent,
    elapsed: Duration,
) -> Value {
    let mut object = Map::new();
    let mut set = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    set("event", Name::from(event.name.as_str()).to_string().into());
    match &cell.label {
        RowLabel::All => {}
        RowLabel::Cpu(cpu) => set("cpu", (*cpu).into()),
        RowLabel::Core(socket, die, core) => {
            set("core", json!({"socket": socket, "die": die, "core": core, "cpus": cell.cpus}));
        }
        RowLabel::Socket(socket) => set("socket", json!({"socket": socket, "cpus": cell.cpus})),
    }
    let unit = in_unit(event, 0.0).1;
    let number = |count: Option<f64>| count.map_or(Value::Null, |count| to_json(in_unit(event, count).0));
    set("value", number(cell.mean()));
    set("unit", unit.into());
    set("enabled_ns", cell.reading.enabled_ns.into());
    set("running_ns", cell.reading.running_ns.into());
    let share = if cell.values.is_empty() { 0.0 } else { cell.reading.share() };
    set("running_share", share.into());
    if cell.values.len() > 1 {
        let extreme = |value: Option<&u64>| number(value.map(|value| *value as f64));
        set(
            "over_runs",
            json!({
                "mean": number(cell.mean()),
                "median": number(cell.median()),
                "deviation": number(cell.deviation()),
                "least": extreme(cell.values.iter().min()),
                "most": extreme(cell.values.iter().max()),
            }),
        );
    }
    if let Some(ratio) = ratio(events, table, cell, elapsed) {
        set("ratio", json!({"value": ratio.value, "unit": ratio.unit}));
    }
    if let Some(cause) = &cell.uncounted {
        set("not_counted", cause.to_string().into());
    }
    Value::Object(object)
}

/// Returns a JSON integer if the number has no fraction, else a float.
fn to_json(number: f64) -> Value {
    if number.fract() == 0.0 && (0.0..9e15).contains(&number) {
        (number as u64).into()
    } else {
        number.into()
    }
}
