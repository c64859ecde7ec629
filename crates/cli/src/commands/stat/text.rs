//! Writes counts as text, in the layout of `perf stat`.

use std::io::{self, Write};
use std::time::Duration;

use export::summary::grouped;
use model::Name;
use recorder::Target;
use recorder::counting::{CountedEvent, Uncounted};

use super::RunSummary;
use super::count_table::{CountCell, CountTable, RowLabel, deviation};
use super::ratios::{is_clock, ratio};

/// Writes the counts of all runs.
pub fn write(
    events: &[CountedEvent],
    table: &CountTable,
    summary: &RunSummary<'_>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let elapsed = mean(&summary.elapsed);
    let runs = summary.elapsed.len();
    let mut text = format!("\n Performance counter stats for {}", subject(summary));
    if runs > 1 {
        text.push_str(&format!(" ({runs} runs)"));
    }
    text.push_str(":\n\n");
    for cell in &table.cells {
        text.push_str(&row(events, table, cell, elapsed));
    }
    let seconds = |duration: Duration| format!("{:.9}", duration.as_secs_f64());
    text.push_str(&format!("\n       {} seconds time elapsed", seconds(elapsed)));
    if let Some(deviation) = deviation(summary.elapsed.iter().map(Duration::as_secs_f64)) {
        let spread = 100.0 * deviation / (runs as f64).sqrt() / elapsed.as_secs_f64().max(1e-9);
        text.push_str(&format!("  ( +- {spread:5.2}% )"));
    }
    text.push('\n');
    if !summary.cpu_times.is_empty() {
        let user: Vec<Duration> = summary.cpu_times.iter().map(|time| time.user).collect();
        let kernel: Vec<Duration> = summary.cpu_times.iter().map(|time| time.kernel).collect();
        text.push_str(&format!("\n       {} seconds user\n", seconds(mean(&user))));
        text.push_str(&format!("       {} seconds sys\n", seconds(mean(&kernel))));
    }
    let causes = table.causes(events);
    if !causes.is_empty() {
        text.push('\n');
    }
    causes.iter().for_each(|cause| text.push_str(&format!(" {cause}\n")));
    text.push('\n');
    output.write_all(text.as_bytes())
}

/// Writes the counts of one interval.
pub fn write_interval(
    events: &[CountedEvent],
    table: &CountTable,
    (from, to): (Duration, Duration),
    first: bool,
    output: &mut dyn Write,
) -> io::Result<()> {
    let mut text = String::new();
    if first {
        text.push_str("#           time             counts unit events\n");
    }
    for cell in &table.cells {
        let row = row(events, table, cell, to.saturating_sub(from));
        // The causes at the end are about the whole time, in which the target may have run.
        let idle = matches!((&cell.uncounted, &cell.label), (Some(Uncounted::NeverRan), RowLabel::All));
        let cause = if idle { "  nothing ran" } else { "" };
        text.push_str(&format!("{:16.9} {}{cause}\n", to.as_secs_f64(), row.trim_end()));
    }
    output.write_all(text.as_bytes())
}

fn row(events: &[CountedEvent], table: &CountTable, cell: &CountCell, elapsed: Duration) -> String {
    let Some(event) = events.get(cell.event) else { return String::new() };
    let mut row = match &cell.label {
        RowLabel::All => String::new(),
        label @ (RowLabel::Core(..) | RowLabel::Socket(_)) => {
            format!("{:<12} {:>4} ", label.text(), cell.cpus)
        }
        label @ RowLabel::Cpu(_) => format!("{:<8} ", label.text()),
    };
    let (number, unit) = match cell.mean() {
        Some(mean) => number(event, mean),
        None => (state(cell), String::new()),
    };
    let name = Name::from(event.name.as_str()).to_string();
    row.push_str(&format!("{number:>18} {unit:<6} {name:<24}"));
    match ratio(events, table, cell, elapsed) {
        Some(ratio) => row.push_str(&format!(" # {:>9.3} {:<18}", ratio.value, ratio.unit)),
        None => row.push_str(&" ".repeat(31)),
    }
    if cell.values.len() > 1 {
        let (median, _) = number_of(event, cell.median());
        let spread = 100.0 * cell.spread().unwrap_or(0.0);
        row.push_str(&format!("  median {median}  ( +- {spread:5.2}% )"));
    }
    if cell.uncounted.is_none() && cell.reading.share() < 0.9995 {
        row.push_str(&format!("  ({:.2}%)", 100.0 * cell.reading.share()));
    }
    if let (Some(Uncounted::NeverRan), false) = (&cell.uncounted, cell.label == RowLabel::All) {
        row.push_str("  nothing ran there");
    }
    row.truncate(row.trim_end().len());
    row.push('\n');
    row
}

fn number_of(event: &CountedEvent, value: Option<f64>) -> (String, String) {
    value.map_or_else(Default::default, |value| number(event, value))
}

/// Formats a count in its unit: clocks in milliseconds, others with their scale.
fn number(event: &CountedEvent, count: f64) -> (String, String) {
    let (value, unit) = in_unit(event, count);
    let text = if is_clock(event) || event.measure.scale != 1.0 {
        let whole = value.trunc();
        format!("{}{}", grouped(whole as u64), format!("{:.2}", value - whole).trim_start_matches('0'))
    } else {
        grouped(count.round() as u64)
    };
    // If the fraction rounds up to 1.00, the integer part increases, too.
    let text = if text.ends_with("1.00") && value.fract() >= 0.995 { format!("{value:.2}") } else { text };
    (text, unit)
}

/// Converts a count to its unit.
pub fn in_unit(event: &CountedEvent, count: f64) -> (f64, String) {
    if is_clock(event) {
        return (count / 1e6, "msec".to_owned());
    }
    (count * event.measure.scale, Name::from(event.measure.unit.as_str()).to_string())
}

/// Returns the text in place of a missing count, as perf words it.
pub fn state(cell: &CountCell) -> String {
    match &cell.uncounted {
        Some(Uncounted::NotHere { .. } | Uncounted::Refused(_)) => "<not supported>".to_owned(),
        _ => "<not counted>".to_owned(),
    }
}

/// Returns the mean of several durations.
pub fn mean(durations: &[Duration]) -> Duration {
    let sum: Duration = durations.iter().sum();
    u32::try_from(durations.len()).ok().and_then(|count| sum.checked_div(count)).unwrap_or(sum)
}

/// Describes the target of the counts, as perf does.
pub fn subject(summary: &RunSummary<'_>) -> String {
    let list = |numbers: Vec<String>| numbers.join(",");
    match (&summary.options.target, &summary.options.workload) {
        (Target::Command, Some(workload)) => {
            let words: Vec<String> =
                workload.words.iter().map(|word| Name::from(word.as_encoded_bytes()).to_string()).collect();
            format!("'{}'", words.join(" "))
        }
        (Target::Processes(pids), _) => {
            format!("process id '{}'", list(pids.iter().map(|pid| pid.0.to_string()).collect()))
        }
        (Target::Threads(tids), _) => {
            format!("thread id '{}'", list(tids.iter().map(|tid| tid.0.to_string()).collect()))
        }
        (Target::User(user), _) => format!("user '{user}'"),
        (Target::Cgroup(path), _) => {
            format!("cgroup '{}'", Name::from(path.as_os_str().as_encoded_bytes()))
        }
        _ => match &summary.options.cpus {
            Some(cpus) => format!("CPU(s) '{}'", host::cpus::format(cpus)),
            None => "'system wide'".to_owned(),
        },
    }
}
