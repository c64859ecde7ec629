//! A comparison as Markdown, short enough for a comment on a pull request.

use std::io::{self, Write};

use profile::comparison::Row;

use super::Difference;
use super::figures::{change, factor, signed, total_name, total_values, weight};
use crate::figures::fit;
use crate::report::escaped;

/// Maximum size: "at most 4 kB", of 1,000 bytes.
const MAX_BYTES: usize = 4000;

/// Room that is left for the line that says how much was left out.
const LAST_LINE_BYTES: usize = 80;

/// Maximum number of characters of a name.
const NAME_COLUMNS: usize = 80;

/// Maximum number of characters of a sentence.
const SENTENCE_COLUMNS: usize = 600;

/// Number of functions without a change.
const MAX_UNCHANGED: usize = 5;

/// Maximum number of notes and of libraries.
const MAX_NOTES: usize = 4;

pub(super) fn write(difference: &Difference<'_>, output: &mut dyn Write) -> io::Result<()> {
    let assessment = difference.assessment;
    let mut page = Page::default();
    let said = |text: &str| escaped(&fit(text, SENTENCE_COLUMNS));
    page.push(&format!("**{}**", said(&difference.headline())));
    if let Some(line) = difference.threshold_line() {
        page.push(&format!("\n{}", said(&line)));
    }
    let [before, after] = &difference.sides;
    let side = |name: &str| escaped(&fit(name, NAME_COLUMNS));
    page.push(&format!("\n{} → {}, {}", side(&before.name), side(&after.name), escaped(difference.event)));
    page.push("\n| | before | after | factor (95 %) |\n| --- | ---: | ---: | --- |");
    for total in &assessment.totals {
        let [before, after] = total_values(difference.unit, total);
        let mark =
            if total.estimate.is_some_and(|estimate| estimate.is_marked()) { " **changed**" } else { "" };
        let name = escaped(&fit(&total_name(difference.unit, &total.kind), NAME_COLUMNS));
        page.push(&format!("| {name} | {before} | {after} | {}{mark} |", factor(total)));
    }
    let (changed, rest) = assessment.rows.split_at(assessment.changed.min(assessment.rows.len()));
    page.push(
        "\n| before | after | difference | change (95 %) | function |\n| ---: | ---: | ---: | --- | --- |",
    );
    let line = |row: &Row, is_changed: bool| {
        let [before, after] = row.means.map(|mean| weight(mean, difference.unit));
        let name = escaped(&fit(&difference.name(row.frame).0, NAME_COLUMNS));
        let name = if is_changed { format!("**{name}**") } else { name };
        let delta = signed(row.difference, difference.unit);
        format!("| {before} | {after} | {delta} | {} | {name} |", change(row))
    };
    let rest = rest.iter().take(MAX_UNCHANGED).map(|row| (row, false));
    let mut omitted = 0;
    for (row, is_changed) in changed.iter().map(|row| (row, true)).chain(rest) {
        if !page.push(&line(row, is_changed)) && is_changed {
            omitted += 1;
        }
    }
    for note in difference.notes.iter().take(MAX_NOTES) {
        page.push(&format!("\n{}", said(note)));
    }
    for library in difference.libraries.iter().take(MAX_NOTES) {
        let ids = library.build_ids.join(" → ");
        page.push(&format!("\n{} is another build ({ids})", escaped(&fit(&library.module, NAME_COLUMNS))));
    }
    output.write_all(page.text.as_bytes())?;
    if omitted > 0 {
        writeln!(output, "\n{omitted} more functions changed")?;
    }
    Ok(())
}

/// Lines that fit.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// Adds a line if there is room for it. Returns false if there is none.
    fn push(&mut self, line: &str) -> bool {
        let fits = self.text.len() + line.len() < MAX_BYTES - LAST_LINE_BYTES;
        if fits {
            self.text.push_str(line);
            self.text.push('\n');
        }
        fits
    }
}
