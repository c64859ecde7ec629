//! Tables of typed cells, printed as text, as comma-separated values, as Markdown and as JSON.

use std::borrow::Cow;
use std::io::{self, Write};

use serde_json::Value;

use crate::figures::fit;

/// Smallest width of a last column that is cut, however narrow the terminal is.
pub(crate) const MIN_LAST_COLUMNS: usize = 16;

/// A cell of a table.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cell {
    /// Nothing is known.
    Nothing,
    /// Text, aligned to the left.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A number, with this many decimals.
    Number(f64, usize),
    /// A figure with its unit or its interval, for people.
    Figure(String),
}

impl Cell {
    fn is_figure(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Text(_))
    }

    /// Returns the cell as text, numbers without separators.
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Nothing => Cow::Borrowed(""),
            Self::Text(text) | Self::Figure(text) => Cow::Borrowed(text),
            Self::Count(count) => Cow::Owned(count.to_string()),
            Self::Number(number, decimals) => Cow::Owned(format!("{number:.decimals$}")),
        }
    }

    /// Returns the cell as JSON, with no more decimals than it has.
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Nothing => Value::Null,
            Self::Text(text) | Self::Figure(text) => text.as_str().into(),
            Self::Count(count) => (*count).into(),
            Self::Number(number, 0) => (number.round() as i64).into(),
            Self::Number(number, decimals) => {
                let scale = 10_f64.powi(i32::try_from(*decimals).unwrap_or_default());
                ((number * scale).round() / scale).into()
            }
        }
    }
}

/// A table: headings, and rows with a cell for each of them.
#[derive(Clone, Default, Debug)]
pub(crate) struct Table {
    pub(crate) headings: Vec<String>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { headings: headings.iter().map(|&heading| heading.to_owned()).collect(), rows: Vec::new() }
    }

    fn is_figure(&self, column: usize) -> bool {
        self.rows.iter().any(|row| row[column].is_figure())
    }

    /// Prints columns as wide as their cells, but for those that are empty. The last one is cut where a line would have more than `width`
    /// characters.
    pub(crate) fn text(&self, width: Option<usize>, output: &mut dyn Write) -> io::Result<()> {
        let shown: Vec<usize> = (0..self.headings.len())
            .filter(|&column| self.rows.iter().any(|row| !row[column].text().is_empty()))
            .collect();
        let Some((&last, others)) = shown.split_last() else { return Ok(()) };
        let headings: Vec<Cow<'_, str>> = self.headings.iter().map(|heading| heading.into()).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::text).collect());
        let lines: Vec<Vec<Cow<'_, str>>> = std::iter::once(headings).chain(rows).collect();
        let columns: Vec<(usize, usize, bool)> = others
            .iter()
            .map(|&column| {
                let widths = lines.iter().map(|cells| cells[column].chars().count());
                (column, widths.max().unwrap_or(0), self.is_figure(column))
            })
            .collect();
        let used: usize = columns.iter().map(|(_, width, _)| width + 2).sum();
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(used).max(MIN_LAST_COLUMNS));
        for cells in &lines {
            let mut line = String::new();
            for &(column, width, is_figure) in &columns {
                let cell = &cells[column];
                line += &if is_figure { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
            }
            writeln!(output, "{}", (line + &fit(&cells[last], room)).trim_end())?;
        }
        Ok(())
    }

    /// Returns the lines of a table in Markdown, in which texts have at most `columns` characters.
    pub(crate) fn markdown(&self, columns: usize) -> impl Iterator<Item = String> {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
        };
        let shown = move |text: &str| escaped(&fit(text, columns));
        let rules =
            (0..self.headings.len()).map(|column| if self.is_figure(column) { "---:" } else { "---" });
        let head = [
            line(&mut self.headings.iter().map(|heading| shown(heading))),
            line(&mut rules.map(str::to_owned)),
        ];
        head.into_iter()
            .chain(self.rows.iter().map(move |row| line(&mut row.iter().map(|cell| shown(&cell.text())))))
    }

    /// Prints a line for each row; `has_headings` puts those of the columns above.
    pub(crate) fn csv(&self, has_headings: bool, output: &mut dyn Write) -> io::Result<()> {
        let mut line = |cells: Vec<Cow<'_, str>>| {
            writeln!(output, "{}", cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(","))
        };
        if has_headings {
            line(self.headings.iter().map(|heading| heading.into()).collect())?;
        }
        self.rows.iter().try_for_each(|row| line(row.iter().map(Cell::text).collect()))
    }
}

/// Quotes a cell of CSV (RFC 4180). Prefixes text that a spreadsheet would take for a formula by an apostrophe, because
/// the profiled program chooses its names.
fn quoted(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '@', '-']) && cell.parse::<f64>().is_err();
    let cell = if is_formula { Cow::Owned(format!("'{cell}")) } else { Cow::Borrowed(cell) };
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.into_owned()
    }
}

/// Escapes text for Markdown.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' | '~' | '!' => {
                safe.push('\\');
                safe.push(character);
            }
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_hold_whatever_names_hold() {
        assert_eq!(quoted("f(int, char)"), "\"f(int, char)\"");
        assert_eq!(quoted("operator\"\"_s"), "\"operator\"\"\"\"_s\"");
        assert_eq!(quoted("=HYPERLINK()"), "'=HYPERLINK()");
        assert_eq!(quoted("-1.5"), "-1.5");
        assert_eq!(escaped("<b>|a_b|</b>"), "&lt;b&gt;\\|a\\_b\\|&lt;/b&gt;");
    }

    #[test]
    fn a_table_has_four_forms() {
        let mut table = Table::new(&["share", "none", "function"]);
        table.rows.push(vec![
            Cell::Number(1.23456, 3),
            Cell::Nothing,
            Cell::Text("alloc::vec::Vec::push".to_owned()),
        ]);
        table.rows.push(vec![Cell::Count(70_000), Cell::Nothing, Cell::Text("a,b".to_owned())]);
        let mut text = Vec::new();
        table.text(Some(31), &mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "share  function\n1.235  alloc::vec::Vec::push\n70000  a,b\n"
        );
        let mut csv = Vec::new();
        table.csv(true, &mut csv).unwrap();
        assert_eq!(
            String::from_utf8(csv).unwrap(),
            "share,none,function\n1.235,,alloc::vec::Vec::push\n70000,,\"a,b\"\n"
        );
        let lines: Vec<String> = table.markdown(9).collect();
        assert_eq!(
            lines,
            [
                "| share | none | function |",
                "| ---: | --- | --- |",
                "| 1.235 |  | allo…push |",
                "| 70000 |  | a,b |"
            ]
        );
        assert_eq!(table.rows[0][0].json(), 1.235);
    }
}
