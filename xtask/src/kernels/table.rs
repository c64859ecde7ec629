//! The table: rights and checks by kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::architecture::Architecture;
use super::checks::{Check, Rights};
use super::kernel::Kernel;

/// A check on a kernel.
pub(super) struct Cell<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) check: &'a Check,
    pub(super) outcome: Outcome<'a>,
}

pub(super) enum Outcome<'a> {
    Passed,
    /// A success where the catalogue lists a fault, and why it is there.
    Mended(&'a str),
    /// A fault that the catalogue lists, and why it is there.
    Known(&'a str),
    /// A check that found something else than it expects, and what.
    Failed(String),
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} · {}", self.kernel.name(), self.check.title())?;
        match &self.outcome {
            Outcome::Passed => Ok(()),
            Outcome::Mended(why) => write!(f, "\n  mended, and still listed in kernels.toml: {why}"),
            Outcome::Known(why) => write!(f, "\n  known: {why}"),
            Outcome::Failed(reason) => write!(f, "\n  expected: {}\n  but: {reason}", self.check.expects),
        }
    }
}

/// Returns a Markdown table for each architecture, with a row per check and a column per kernel. A cell is empty where a check does
/// not run.
pub(super) fn markdown(cells: &[Cell]) -> String {
    let tables = Architecture::ALL.map(|architecture| {
        let cells: Vec<&Cell> =
            cells.iter().filter(|cell| cell.kernel.architecture == architecture).collect();
        if cells.is_empty() { String::new() } else { table(architecture, &cells) }
    });
    tables.concat()
}

fn table(architecture: Architecture, cells: &[&Cell]) -> String {
    let columns: BTreeSet<_> =
        cells.iter().map(|cell| (cell.kernel.numbers(), cell.kernel.short_version())).collect();
    let mut rows: BTreeMap<(&Rights, &str), BTreeMap<&str, &str>> = BTreeMap::new();
    for cell in cells {
        let row = rows.entry((&cell.check.rights, &cell.check.name)).or_default();
        let outcome = match cell.outcome {
            Outcome::Passed | Outcome::Mended(_) => "ok",
            Outcome::Known(_) => "known",
            Outcome::Failed(_) => "FAILED",
        };
        row.insert(cell.kernel.short_version(), outcome);
    }
    let mut table = format!("| rights | check, {} |", architecture.machine());
    for (_, version) in &columns {
        table.push_str(&format!(" {version} |"));
    }
    table.push_str(&format!("\n|---|---|{}\n", "---|".repeat(columns.len())));
    for ((rights, check), row) in &rows {
        table.push_str(&format!("| {} | {check} |", rights.label()));
        for (_, version) in &columns {
            table.push_str(&format!(" {} |", row.get(version).unwrap_or(&"")));
        }
        table.push('\n');
    }
    table.push('\n');
    table
}
