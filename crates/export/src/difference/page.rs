//! A comparison as a page, of text or of Markdown.

use std::io::{self, Write};

use profile::comparison::{Evidence, PathChange, Row, Verdict};

use super::Difference;
use super::figures::{change, factor, percent, signed, total_name, total_values, weight};
use crate::figures::{counted, fit};
use crate::names::printable;
use crate::table::{Cell, Table, escaped};

/// Number of functions without a change that the page lists.
const MAX_UNCHANGED: usize = 12;

/// Maximum number of functions with a change that the page lists.
const MAX_CHANGED: usize = 40;

/// The smallest growth that is given as a figure, as a factor: what is new or gone can show nothing smaller.
const MAX_SHOWN_FACTOR: f64 = 10.0;

/// Maximum size of Markdown: "at most 4 kB", of 1,000 bytes, less the line that says how much was left out.
const MAX_BYTES: usize = 4000 - 80;

/// Maximum number of characters of a cell and of a sentence in Markdown.
const CELL_COLUMNS: usize = 80;
const SENTENCE_COLUMNS: usize = 600;

/// A part of the page.
enum Part {
    Sentence(String),
    Table(String, Table),
}

/// Writes text, with names cut to `width` columns; whole names with `None`.
pub(super) fn text(
    difference: &Difference<'_>,
    width: Option<usize>,
    output: &mut dyn Write,
) -> io::Result<()> {
    for part in parts(difference) {
        match part {
            Part::Sentence(sentence) => writeln!(output, "{}", printable(&sentence))?,
            Part::Table(title, table) => {
                writeln!(output, "\n{title}")?;
                table.text(width, output)?;
            }
        }
    }
    Ok(())
}

/// Writes Markdown of at most 4,000 bytes.
pub(super) fn markdown(difference: &Difference<'_>, output: &mut dyn Write) -> io::Result<()> {
    let lines = parts(difference).into_iter().flat_map(|part| match part {
        Part::Sentence(sentence) => {
            vec![escaped(&fit(&printable(&sentence), SENTENCE_COLUMNS)), String::new()]
        }
        Part::Table(title, table) => [format!("\n**{title}**"), String::new()]
            .into_iter()
            .chain(table.markdown(CELL_COLUMNS))
            .collect(),
    });
    let (mut room, mut omitted) = (MAX_BYTES, 0);
    for line in lines {
        match room.checked_sub(line.len() + 1) {
            Some(left) if omitted == 0 => {
                room = left;
                writeln!(output, "{line}")?;
            }
            _ => omitted += 1,
        }
    }
    if omitted > 0 {
        writeln!(output, "\n{}", counted(omitted, "more line", "more lines"))?;
    }
    Ok(())
}

fn parts(difference: &Difference<'_>) -> Vec<Part> {
    let mut parts = vec![Part::Sentence(difference.headline())];
    parts.extend(difference.threshold_line().map(Part::Sentence));
    for (word, side) in ["before", "after "].iter().zip(&difference.sides) {
        let separator = if side.title.is_empty() { "" } else { ": " };
        parts.push(Part::Sentence(format!("{word}  {}{separator}{}", side.name, side.title)));
    }
    parts.extend(difference.notes.iter().map(|note| Part::Sentence(format!("note    {note}"))));
    parts.push(Part::Table(format!("Totals{}", difference.per_run()), totals(difference)));
    functions(difference, &mut parts);
    if !difference.libraries.is_empty() {
        parts.push(Part::Table("Libraries that are other builds".to_owned(), libraries(difference)));
    }
    if !difference.assessment.paths.is_empty() {
        let which = match difference.assessment.changed {
            0 => "that changed, to functions that did not",
            _ => "that explain them",
        };
        parts.push(Part::Table(format!("Paths {which}{}", difference.per_run()), paths(difference)));
    }
    parts
}

/// Returns the cells of weights before and after, and of their difference.
fn weights(difference: &Difference<'_>, means: [f64; 2], change: f64) -> [Cell; 3] {
    let [before, after] = means.map(|mean| weight(mean, difference.unit));
    [before, after, signed(change, difference.unit)].map(Cell::Figure)
}

fn totals(difference: &Difference<'_>) -> Table {
    let mut table = Table::new(&["", "before", "after", "factor (95 %)"]);
    table.rows.extend(difference.assessment.totals.iter().map(|total| {
        let mark = if total.estimate.is_some_and(|estimate| estimate.is_marked()) { " *" } else { "" };
        let [before, after] = total_values(difference.unit, total).map(Cell::Figure);
        let name = total_name(difference.unit, &total.kind);
        vec![Cell::Text(name), before, after, Cell::Text(factor(total) + mark)]
    }));
    table
}

fn functions(difference: &Difference<'_>, parts: &mut Vec<Part>) {
    let assessment = difference.assessment;
    let (changed, rest) = assessment.rows.split_at(assessment.changed.min(assessment.rows.len()));
    let rest: Vec<&Row> = rest.iter().filter(|row| row.means != [0.0; 2]).collect();
    let tests = assessment.evidence == Evidence::Runs;
    let mut table = Table::new(&["before", "after", "difference", "change (95 %)", "shows", "", "function"]);
    for row in changed.iter().take(MAX_CHANGED).chain(rest.iter().copied().take(MAX_UNCHANGED)) {
        // Only tests say what they could have shown.
        let smallest = row.estimate.and_then(|estimate| estimate.smallest).map(f64::exp);
        let smallest = smallest.map_or(String::new(), |factor| match factor {
            _ if factor > MAX_SHOWN_FACTOR => format!("> × {MAX_SHOWN_FACTOR}"),
            _ => percent(factor - 1.0),
        });
        let (name, (_, module)) = (difference.shown_name(row.frame), difference.name(row.frame));
        let name = if module.is_empty() { name } else { format!("{name}  {module}") };
        let beside = [Cell::Figure(change(row)), Cell::Figure(smallest), Cell::Text(mark(row))];
        let weights = weights(difference, row.means, row.difference);
        table.rows.push(weights.into_iter().chain(beside).chain([Cell::Text(name)]).collect());
    }
    parts.push(Part::Table(format!("Functions by self weight{}", difference.per_run()), table));
    let omitted = changed.len().saturating_sub(MAX_CHANGED) + rest.len().saturating_sub(MAX_UNCHANGED);
    if omitted > 0 {
        let functions = counted(omitted as u64, "more function", "more functions");
        parts.push(Part::Sentence(format!("{functions}: --csv or --json has all")));
    }
    if tests {
        parts.extend(
            [
                "* differs from everything else (less than 1 in 100 families of unchanged functions has a mark)",
                "shows: the smallest growth that these runs find in 8 of 10 cases",
            ]
            .map(|sentence| Part::Sentence(sentence.to_owned())),
        );
    }
}

/// The words beside a row: a mark, and whether it changed.
fn mark(row: &Row) -> String {
    match row.verdict {
        Verdict::Unchanged => String::new(),
        verdict if row.estimate.is_some_and(|estimate| estimate.is_marked()) => {
            format!("* {}", verdict.name())
        }
        verdict => verdict.name().to_owned(),
    }
}

fn libraries(difference: &Difference<'_>) -> Table {
    let mut table = Table::new(&["before", "after", "difference", "build ids", "library"]);
    table.rows.extend(difference.libraries.iter().map(|library| {
        let means = library.means.map(|mean| mean as f64);
        let names = [library.build_ids.join(" → "), printable(&library.module).into_owned()];
        weights(difference, means, means[1] - means[0]).into_iter().chain(names.map(Cell::Text)).collect()
    }));
    table
}

fn paths(difference: &Difference<'_>) -> Table {
    let mut table = Table::new(&["before", "after", "difference", "± 95 %", "path"]);
    table.rows.extend(difference.assessment.paths.iter().map(|path| {
        let interval = Cell::Figure(weight(path.half_width, difference.unit));
        let names = [interval, Cell::Text(named(difference, path))];
        weights(difference, path.means, path.difference).into_iter().chain(names).collect()
    }));
    table
}

/// The frames of a path, outermost first.
fn named(difference: &Difference<'_>, path: &PathChange) -> String {
    let names = path.frames.iter().map(|&frame| difference.shown_name(frame));
    let names = names.collect::<Vec<_>>().join(" › ");
    if path.is_cut { format!("… › {names}") } else { names }
}
