//! docs/perf_event_open.md has a row for each item of the manual, and each place that it names exists.

use std::collections::BTreeSet;

use super::Breach;
use super::tree::Tree;

const PAGE: &str = "docs/perf_event_open.md";

/// The numbers of the manual's items: a letter, the first and the last.
const ITEMS: [(&str, u32, u32); 16] = [
    ("C", 0, 16),
    ("A", 1, 16),
    ("F", 0, 37),
    ("E", 1, 13),
    ("P", 0, 24),
    ("R", 1, 7),
    ("B", 1, 6),
    ("M", 1, 18),
    ("H", 1, 6),
    ("T", 1, 18),
    ("O", 1, 5),
    ("I", 1, 12),
    ("S", 1, 7),
    ("N", 1, 17),
    ("K", 1, 21),
    ("Q", 1, 6),
];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, line) in tree.text(PAGE).lines().enumerate() {
        let Some(row) = Row::parse(line) else { continue };
        let mut breach = |what: String| breaches.push(Breach::new(PAGE, index + 1, what));
        if row.places.is_empty() && row.reason.is_empty() {
            breach(format!("{} has neither a place nor a reason", row.numbers));
        }
        for place in row.places {
            if !exists(tree, place) {
                breach(format!("{}: there is no {place}", row.numbers));
            }
        }
        for number in expand(row.numbers) {
            if !seen.insert(number.clone()) {
                breach(format!("{number} has two rows"));
            }
        }
    }
    let wanted =
        ITEMS.iter().flat_map(|(letter, first, last)| (*first..=*last).map(move |n| format!("{letter}{n}")));
    let missing = wanted.filter(|number| !seen.contains(number));
    breaches.extend(missing.map(|number| Breach::new(PAGE, 0, format!("has no row for {number}"))));
    Ok(breaches)
}

/// `| F4-6 | what | places | reason |`
struct Row<'a> {
    numbers: &'a str,
    /// `FILE::ITEM`, or a folder in place of the file.
    places: Vec<&'a str>,
    reason: &'a str,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
        let (numbers, _, places, reason) = (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
        let is_number = numbers.starts_with(|letter: char| letter.is_ascii_uppercase());
        let places = places.split('`').map(str::trim).filter(|place| !place.is_empty()).collect();
        is_number.then_some(Self { numbers, places, reason })
    }
}

/// `F4-6` is F4, F5 and F6.
fn expand(numbers: &str) -> Vec<String> {
    let (letter, digits) = numbers.split_at(1);
    let (first, last) = digits.split_once('-').unwrap_or((digits, digits));
    match (first.parse::<u32>(), last.parse::<u32>()) {
        (Ok(first), Ok(last)) => (first..=last).map(|number| format!("{letter}{number}")).collect(),
        _ => vec![numbers.to_owned()],
    }
}

/// Returns true if the file, or one in the folder, has the item's name as a word.
fn exists(tree: &Tree, place: &str) -> bool {
    let Some((path, item)) = place.split_once("::") else { return false };
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let has_item = |text: &str| {
        text.match_indices(item).any(|(at, _)| {
            let (before, behind) = (text.get(..at).unwrap_or(""), text.get(at + item.len()..).unwrap_or(""));
            !before.ends_with(is_part) && !behind.starts_with(is_part)
        })
    };
    tree.texts.iter().filter(|file| file.path.starts_with(path)).any(|file| has_item(&file.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_numbers_places_and_a_reason() {
        let row = Row::parse("| F4-6 | levels | `a/b.rs::c` `d.rs::e` | why |").unwrap();
        assert_eq!((row.numbers, row.places, row.reason), ("F4-6", vec!["a/b.rs::c", "d.rs::e"], "why"));
        assert!(Row::parse("| | item | where | |").is_none() && Row::parse("|---|---|---|---|").is_none());
        assert_eq!(expand("F4-6"), ["F4", "F5", "F6"]);
        assert_eq!(expand("L"), ["L"]);
    }
}
