//! Numbers, shares and cut texts, as all outputs for people show them.

use std::io::{self, Write};

use serde_json::Value;

/// Returns a number with the form of its noun that goes with it: `1 sample`, `12,345 samples`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// Returns a number with a comma between thousands: `12,345`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a part in per cent of the whole; 0 if the whole is 0.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Returns a part in per cent of the whole as text, which is 0 or 100 only if the part is nothing or the whole.
pub(crate) fn percent_text(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    let percent = percent(part, whole);
    match percent {
        _ if part == whole => "100 %".to_owned(),
        _ if percent < 0.1 => "< 0.1 %".to_owned(),
        _ if percent > 99.9 => "> 99.9 %".to_owned(),
        _ => format!("{percent:.1} %"),
    }
}

/// Cuts a text to at most `columns` characters: in the middle, because names differ at both ends.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let length = text.chars().count();
    if length <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let (before, after) = (room - room / 2, room / 2);
    let mut cut: String = text.chars().take(before).collect();
    cut.push('…');
    cut.extend(text.chars().skip(length - after));
    cut
}

/// Writes a JSON document and a line break.
pub(crate) fn write_json_line(document: &Value, output: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *output, document)?;
    output.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_in_the_middle() {
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("alloc::vec::Vec::push", 9), "allo…push");
        assert_eq!(fit("größer", 4), "gr…r");
        assert_eq!((fit("name", 1), fit("name", 0)), ("…".to_owned(), "…".to_owned()));
    }
}
