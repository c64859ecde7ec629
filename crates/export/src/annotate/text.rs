//! Annotated functions as text.

use std::io::{self, Write};

use model::Frame;
use profile::code::{CodeRange, Instruction};
use profile::short_name;

use super::arrows::Arrows;
use super::{AnnotatedFunction, Listing};
use crate::figures::{grouped, percent};
use crate::printable;

/// The number of instructions without samples that are shown before and after one with samples.
const CONTEXT_INSTRUCTIONS: usize = 6;
/// The shares of a function, in per cent, from which on a row is coloured.
const HOT_PERCENT: f64 = 10.0;
const WARM_PERCENT: f64 = 1.0;
/// The greatest width of a source path, in columns.
const MAX_PATH_COLUMNS: usize = 40;

/// Writes the listings of functions, one after the other.
///
/// # Errors
/// Those of `output`.
pub fn write(
    listing: &Listing<'_>,
    functions: &[AnnotatedFunction],
    output: &mut dyn Write,
) -> io::Result<()> {
    for (index, function) in functions.iter().enumerate() {
        if index > 0 {
            writeln!(output)?;
        }
        let (weight, unit) = (function.weight(), listing.unit);
        let share = percent(weight, listing.total);
        writeln!(
            output,
            "{}: {} {unit} of {} in it, {share:.1} % of all",
            printable(&short_name(&function.name)),
            grouped(weight),
            listing.event
        )?;
        for range in &function.ranges {
            write_range(listing, function, range, output)?;
        }
    }
    Ok(())
}

fn write_range(
    listing: &Listing<'_>,
    function: &AnnotatedFunction,
    range: &CodeRange,
    output: &mut dyn Write,
) -> io::Result<()> {
    let whole = function.weight();
    writeln!(output)?;
    writeln!(
        output,
        "{}{} in {}, {:.1} % of the function",
        if range.inlined.is_some() { "inlined into " } else { "" },
        printable(&short_name(&range.name)),
        range.module,
        percent(range.weight, whole)
    )?;
    if let Some(missing) = &range.missing {
        writeln!(output, "  without code: {}", printable(missing))?;
    }
    if range.elsewhere > 0 && range.missing.is_none() {
        let share = percent(range.elsewhere, range.weight);
        writeln!(
            output,
            "  {share:.1} % of it is at addresses that are no instruction of the file: it may have been replaced since"
        )?;
    }
    for hot in range.hot_loops() {
        let address = |index: usize| range.instructions.get(index).map_or(0, |one| one.address.0);
        writeln!(
            output,
            "  hot loop {:x} to {:x}: {:.1} % of the function{}",
            address(hot.first),
            address(hot.last),
            percent(hot.weight, whole),
            lines_of(&range.instructions[hot.first..=hot.last])
        )?;
    }
    let arrows = Arrows::new(range);
    let mut rows = Rows { listing, whole, last: None };
    let mut cold = 0;
    for (index, instruction) in range.instructions.iter().enumerate() {
        if !listing.full && !is_near_samples(range, index) {
            cold += 1;
            continue;
        }
        if std::mem::take(&mut cold) > 0 {
            writeln!(output, "{}", rows.gap(range, index))?;
        }
        if let Some(row) = rows.source(instruction) {
            writeln!(output, "{row}")?;
        }
        writeln!(output, "{}", rows.instruction(instruction, &arrows.row(index)))?;
    }
    if cold > 0 {
        writeln!(output, "{}", rows.gap(range, range.instructions.len()))?;
    }
    Ok(())
}

/// Returns true if the instruction or one nearby has samples.
fn is_near_samples(range: &CodeRange, index: usize) -> bool {
    let first = index.saturating_sub(CONTEXT_INSTRUCTIONS);
    let last = (index + CONTEXT_INSTRUCTIONS).min(range.instructions.len().saturating_sub(1));
    range.instructions[first..=last].iter().any(|instruction| instruction.weight > 0)
}

/// Describes the source lines of a loop, as far as they are in the file of the first.
fn lines_of(instructions: &[Instruction]) -> String {
    let locations = instructions.iter().filter_map(|one| one.frames.last()?.location.as_ref());
    let mut lines = locations.filter(|location| location.line > 0);
    let Some(first) = lines.next() else { return String::new() };
    let (mut low, mut high) = (first.line, first.line);
    for location in lines.filter(|location| location.file == first.file) {
        (low, high) = (low.min(location.line), high.max(location.line));
    }
    let file = shortened(&first.file);
    if low == high { format!(", {file}:{low}") } else { format!(", {file}:{low}-{high}") }
}

/// Returns the end of a long path, which tells more than its beginning.
fn shortened(path: &str) -> String {
    let path = printable(path);
    let letters = path.chars().count();
    if letters <= MAX_PATH_COLUMNS {
        return path.into_owned();
    }
    let end: String = path.chars().skip(letters - MAX_PATH_COLUMNS + 1).collect();
    format!("…{end}")
}

/// Returns a source line that is safe for a terminal, with tabs as four spaces.
fn source_text(line: &str) -> String {
    format!("  {}", printable(&line.trim_end().replace('\t', "    ")))
}

struct Rows<'l> {
    listing: &'l Listing<'l>,
    whole: u64,
    /// The file and line of the last source row.
    last: Option<(String, u32)>,
}

impl Rows<'_> {
    fn gap(&mut self, range: &CodeRange, end: usize) -> String {
        let before = range.instructions[..end].iter().rev();
        let is_hidden = |(offset, _): &(usize, &Instruction)| !is_near_samples(range, end - 1 - offset);
        let count = before.enumerate().take_while(is_hidden).count();
        self.last = None;
        let noun = if count == 1 { "instruction" } else { "instructions" };
        format!("        … {} {noun} without samples", grouped(count as u64))
    }

    /// Returns the row of an instruction's source line; `None` if it is that of the instruction before.
    fn source(&mut self, instruction: &Instruction) -> Option<String> {
        let Some(Frame { location: Some(location), .. }) = instruction.frames.first() else { return None };
        let line = (location.file.to_string(), location.line);
        if location.line == 0 || self.last.as_ref() == Some(&line) {
            return None;
        }
        let text = (self.listing.sources)(&location.file);
        let text = text.as_ref().and_then(|source| source.line(location.line));
        let text = text.map_or_else(String::new, |line| source_text(&line));
        let inlined = instruction.frames.split_last().map_or(&[][..], |(_, inlined)| inlined);
        let inlined: Vec<String> =
            inlined.iter().map(|frame| printable(&short_name(&frame.function)).into_owned()).collect();
        let inlined =
            if inlined.is_empty() { String::new() } else { format!(" (inlined {})", inlined.join(" ← ")) };
        self.last = Some(line);
        let place = format!("{}:{}", shortened(&location.file), location.line);
        Some(format!("        ┌ {place}{inlined}{text}"))
    }

    fn instruction(&self, instruction: &Instruction, arrows: &str) -> String {
        let share = percent(instruction.weight, self.whole);
        let shown = match instruction.weight {
            0 => String::new(),
            _ if share < 0.01 => "<0.01".to_owned(),
            _ => format!("{share:.2}"),
        };
        let callee = instruction.callee.as_ref();
        let callee =
            callee.map_or_else(String::new, |callee| format!(" <{}>", printable(&short_name(callee))));
        let text = format!("{shown:>7} {arrows} {:>8x}: {}{callee}", instruction.address.0, instruction.text);
        match share {
            _ if !self.listing.colour => text,
            _ if share >= HOT_PERCENT => format!("\x1b[1;31m{text}\x1b[0m"),
            _ if share >= WARM_PERCENT => format!("\x1b[33m{text}\x1b[0m"),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Name;

    use super::*;

    /// The listing of a function that was sampled at no instruction of the file.
    fn text(missing: Option<&str>) -> String {
        let range = CodeRange {
            name: Arc::from("f"),
            module: Name::from("m"),
            weight: 5,
            elsewhere: 5,
            instructions: Vec::new(),
            missing: missing.map(str::to_owned),
            inlined: None,
        };
        let function = AnnotatedFunction { name: "f".to_owned(), ranges: vec![range] };
        let listing = Listing {
            event: "cycles",
            unit: "samples",
            total: 5,
            lost: 0,
            sources: &|_| None,
            full: false,
            colour: false,
        };
        let mut output = Vec::new();
        write(&listing, &[function], &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn code_that_is_in_no_file_was_not_replaced() {
        assert!(text(None).contains("it may have been replaced since"));
        let without_code = text(Some("the kernel's code is in no file"));
        assert!(without_code.contains("the kernel's code is in no file"), "{without_code}");
        assert!(!without_code.contains("replaced"), "{without_code}");
    }
}
