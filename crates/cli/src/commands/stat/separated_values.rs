//! Writes counts as separated values, one line each, in the field order of `perf stat -x` (`perf-stat(1)`, "CSV FORMAT").

use std::io::{self, Write};
use std::time::Duration;

use recorder::counting::CountedEvent;

use super::RunSummary;
use super::count_table::{CountCell, CountTable, RowLabel};
use super::ratios::{is_clock, ratio};
use super::text::{in_unit, mean, state};

/// Writes the counts of all runs.
pub fn write(
    events: &[CountedEvent],
    table: &CountTable,
    summary: &RunSummary<'_>,
    separator: &str,
    output: &mut dyn Write,
) -> io::Result<()> {
    lines(events, table, (None, mean(&summary.elapsed)), separator, output)
}

/// Writes the counts of one interval, given by the time of its end and its length.
pub fn write_interval(
    events: &[CountedEvent],
    table: &CountTable,
    (time, elapsed): (Duration, Duration),
    separator: &str,
    output: &mut dyn Write,
) -> io::Result<()> {
    lines(events, table, (Some(time), elapsed), separator, output)
}

fn lines(
    events: &[CountedEvent],
    table: &CountTable,
    (time, elapsed): (Option<Duration>, Duration),
    separator: &str,
    output: &mut dyn Write,
) -> io::Result<()> {
    for cell in &table.cells {
        let Some(event) = events.get(cell.event) else { continue };
        let mut fields = Vec::new();
        fields.extend(time.map(|time| format!("{:.9}", time.as_secs_f64())));
        match &cell.label {
            RowLabel::All => {}
            label @ (RowLabel::Core(..) | RowLabel::Socket(_)) => {
                fields.extend([label.text(), cell.cpus.to_string()])
            }
            label => fields.push(label.text()),
        }
        fields.extend(count(event, cell));
        fields.push(event.name.clone());
        if cell.values.len() > 1 {
            fields.push(format!("{:.2}%", 100.0 * cell.spread().unwrap_or(0.0)));
        }
        // Without a count, the event was never running.
        let share = if cell.values.is_empty() { 0.0 } else { 100.0 * cell.reading.share() };
        // The mean over all runs, like the count.
        let running_ns = cell.reading.running_ns / cell.values.len().max(1) as u64;
        fields.extend([running_ns.to_string(), format!("{share:.2}")]);
        match ratio(events, table, cell, elapsed) {
            Some(ratio) => fields.extend([format!("{:.3}", ratio.value), ratio.unit]),
            // perf leaves these fields empty; ours has the cause.
            None => fields.extend([
                String::new(),
                cell.uncounted.as_ref().map_or_else(String::new, ToString::to_string),
            ]),
        }
        let fields: Vec<String> = fields.iter().map(|field| quoted(field, separator)).collect();
        writeln!(output, "{}", fields.join(separator))?;
    }
    Ok(())
}

/// Formats the count, and returns it with its unit.
fn count(event: &CountedEvent, cell: &CountCell) -> [String; 2] {
    let Some(mean) = cell.mean() else { return [state(cell), String::new()] };
    let (value, unit) = in_unit(event, mean);
    let text = if is_clock(event) || event.measure.scale != 1.0 {
        format!("{value:.2}")
    } else {
        format!("{:.0}", value)
    };
    [text, unit]
}

/// Quotes a field that contains the separator, a quote or a line break (RFC 4180).
fn quoted(field: &str, separator: &str) -> String {
    if field.contains(separator) || field.contains(['"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_field_with_the_separator_is_quoted() {
        assert_eq!(quoted("cpu/event=1,umask=2/", ","), "\"cpu/event=1,umask=2/\"");
        assert_eq!(quoted("cpu/event=1,umask=2/", ";"), "cpu/event=1,umask=2/");
        assert_eq!(quoted("a\"b", ";"), "\"a\"\"b\"");
    }
}
