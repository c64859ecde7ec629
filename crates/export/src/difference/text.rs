//! A comparison as a page of text.

use std::io::{self, Write};

use profile::comparison::{Evidence, PathChange, Row, Verdict};

use super::figures::{change, factor, percent, signed, total_name, total_values, weight};
use super::{Difference, SideName};
use crate::figures::{counted, fit};
use crate::names::printable;

/// Number of functions without a change that the page lists.
const MAX_UNCHANGED: usize = 12;

/// Maximum number of functions with a change that the page lists.
const MAX_CHANGED: usize = 40;

/// The smallest growth that is given as a figure, as a factor: what is new or gone can show nothing smaller.
const MAX_SHOWN_FACTOR: f64 = 10.0;

/// Smallest width for names.
const MIN_NAME_COLUMNS: usize = 24;

pub(super) fn write(
    difference: &Difference<'_>,
    width: Option<usize>,
    output: &mut dyn Write,
) -> io::Result<()> {
    writeln!(output, "{}", upper_first(&difference.headline()))?;
    if let Some(line) = difference.threshold_line() {
        writeln!(output, "{line}")?;
    }
    writeln!(output)?;
    for (word, SideName { name, title }) in ["before", "after "].iter().zip(&difference.sides) {
        writeln!(output, "{word}  {}", printable(&joined(name, title)))?;
    }
    for note in &difference.notes {
        writeln!(output, "note    {}", printable(note))?;
    }
    totals(difference, output)?;
    rows(difference, width, output)?;
    libraries(difference, output)?;
    paths(difference, width, output)
}

fn joined(name: &str, title: &str) -> String {
    if title.is_empty() { name.to_owned() } else { format!("{name}: {title}") }
}

fn upper_first(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    // Names of functions keep their letters.
    if text.starts_with("everything") || text.starts_with("no ") || text.starts_with("time ") {
        first + characters.as_str()
    } else {
        text.to_owned()
    }
}

fn totals(difference: &Difference<'_>, output: &mut dyn Write) -> io::Result<()> {
    let mut table = vec![["", "before", "after", "factor (95 %)"].map(str::to_owned)];
    for total in &difference.assessment.totals {
        let mark = if total.estimate.is_some_and(|estimate| estimate.is_marked()) { " *" } else { "" };
        let [before, after] = total_values(difference.unit, total);
        table.push([total_name(difference.unit, &total.kind), before, after, factor(total) + mark]);
    }
    writeln!(output)?;
    print(&table, [false, true, true, false], output)
}

/// Prints a table with columns as wide as their cells; `right` says which are aligned to the right.
fn print<const N: usize>(table: &[[String; N]], right: [bool; N], output: &mut dyn Write) -> io::Result<()> {
    let columns = |text: &str| text.chars().count();
    let widths: [usize; N] =
        std::array::from_fn(|column| table.iter().map(|row| columns(&row[column])).max().unwrap_or(0));
    for row in table {
        let cells = row.iter().zip(widths).zip(right).map(|((cell, width), right)| match right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        writeln!(output, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

fn rows(difference: &Difference<'_>, width: Option<usize>, output: &mut dyn Write) -> io::Result<()> {
    let assessment = difference.assessment;
    let (changed, rest) = assessment.rows.split_at(assessment.changed.min(assessment.rows.len()));
    let rest: Vec<&Row> = rest.iter().filter(|row| row.means.iter().any(|&mean| mean > 0.0)).collect();
    let shown: Vec<&Row> =
        changed.iter().take(MAX_CHANGED).chain(rest.iter().copied().take(MAX_UNCHANGED)).collect();
    let tests = assessment.evidence == Evidence::Runs;
    let mut table =
        vec![["before", "after", "difference", "change (95 %)", "shows", "", "function"].map(str::to_owned)];
    for row in &shown {
        let [before, after] = row.means.map(|mean| weight(mean, difference.unit));
        let smallest = row.estimate.and_then(|estimate| estimate.smallest);
        let smallest = smallest.map(f64::exp).map_or(String::new(), |factor| {
            if factor > MAX_SHOWN_FACTOR { format!("> × {MAX_SHOWN_FACTOR}") } else { percent(factor - 1.0) }
        });
        let (name, module) = difference.name(row.frame);
        let name = if module.is_empty() { name } else { format!("{name}  {module}") };
        let delta = signed(row.difference, difference.unit);
        table.push([before, after, delta, change(row), smallest, mark(row, tests), name]);
    }
    if !tests {
        // Only tests say what they could have shown.
        table.iter_mut().for_each(|row| row[4].clear());
    }
    if let Some(width) = width {
        let columns = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let figures: usize = (0..6).map(|column| columns(column) + 2).sum();
        let room = width.saturating_sub(figures).max(MIN_NAME_COLUMNS);
        table.iter_mut().for_each(|row| row[6] = fit(&row[6], room));
    }
    writeln!(output, "\nFunctions by self weight{}", difference.per_run())?;
    print(&table, [true, true, true, true, true, false, false], output)?;
    let omitted = changed.len().saturating_sub(MAX_CHANGED) + rest.len().saturating_sub(MAX_UNCHANGED);
    if omitted > 0 {
        writeln!(
            output,
            "{}: --csv or --json has all",
            counted(omitted as u64, "more function", "more functions")
        )?;
    }
    if tests {
        writeln!(
            output,
            "* differs from everything else (less than 1 in 100 families of unchanged functions has a mark)"
        )?;
        writeln!(output, "shows: the smallest growth that these runs find in 8 of 10 cases")?;
    }
    Ok(())
}

/// The words beside a row: a mark, and whether its weight moved.
fn mark(row: &Row, tests: bool) -> String {
    let star = row.estimate.is_some_and(|estimate| estimate.is_marked()) && row.verdict != Verdict::Unchanged;
    let word = match row.verdict {
        Verdict::Grown => "grown",
        Verdict::Shrunk => "shrunk",
        Verdict::Moved(_) => "moved",
        Verdict::Unchanged => "",
    };
    match (star && tests, word) {
        (true, word) => format!("* {word}"),
        (false, word) => word.to_owned(),
    }
}

fn libraries(difference: &Difference<'_>, output: &mut dyn Write) -> io::Result<()> {
    if difference.libraries.is_empty() {
        return Ok(());
    }
    writeln!(output, "\nLibraries that are other builds")?;
    let mut table = vec![["before", "after", "difference", "build ids", "library"].map(str::to_owned)];
    for library in &difference.libraries {
        let [before, after] = library.means;
        let delta = signed(after as f64 - before as f64, difference.unit);
        let [before, after] = library.means.map(|mean| weight(mean as f64, difference.unit));
        let ids = library.build_ids.join(" → ");
        table.push([before, after, delta, ids, printable(&library.module).into_owned()]);
    }
    print(&table, [true, true, true, false, false], output)
}

fn paths(difference: &Difference<'_>, width: Option<usize>, output: &mut dyn Write) -> io::Result<()> {
    if difference.assessment.paths.is_empty() {
        return Ok(());
    }
    let which = match difference.assessment.changed {
        0 => "that changed, to functions that did not",
        _ => "that explain them",
    };
    writeln!(output, "\nPaths {which}{}", difference.per_run())?;
    let mut table = vec![["before", "after", "difference", "± 95 %", "path"].map(str::to_owned)];
    for path in &difference.assessment.paths {
        let [before, after] = path.means.map(|mean| weight(mean, difference.unit));
        let interval = weight(path.half_width, difference.unit);
        let delta = signed(path.difference, difference.unit);
        table.push([before, after, delta, interval, named(difference, path)]);
    }
    if let Some(width) = width {
        let columns = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let figures: usize = (0..4).map(|column| columns(column) + 2).sum();
        let room = width.saturating_sub(figures).max(MIN_NAME_COLUMNS);
        table.iter_mut().for_each(|row| row[4] = fit(&row[4], room));
    }
    print(&table, [true, true, true, true, false], output)
}

/// The frames of a path, outermost first.
pub(super) fn named(difference: &Difference<'_>, path: &PathChange) -> String {
    let names = path.frames.iter().map(|&frame| difference.name(frame).0);
    let names = names.collect::<Vec<_>>().join(" › ");
    if path.is_cut { format!("… › {names}") } else { names }
}
