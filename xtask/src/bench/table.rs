//! The result: one Markdown table.

use std::fmt;

/// Rows of figures, ours beside theirs.
#[derive(Default)]
pub(super) struct Table {
    rows: Vec<[String; 5]>,
}

impl Table {
    /// A row: what was measured, ours, theirs, the comparison, and what is demanded of it.
    pub(super) fn row(
        &mut self,
        what: impl Into<String>,
        ours: impl Into<String>,
        theirs: impl Into<String>,
        ratio: impl Into<String>,
        demanded: impl Into<String>,
    ) {
        let row = [what.into(), ours.into(), theirs.into(), ratio.into(), demanded.into()];
        eprintln!("   {}", row.join(" | "));
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | prof | perf | compared | wanted |\n|---|---|---|---|---|")?;
        for row in &self.rows {
            writeln!(f, "| {} |", row.join(" | "))?;
        }
        Ok(())
    }
}

/// `41 ms`, `3.20 s`.
pub(super) fn seconds(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// `12 MiB`.
pub(super) fn mebibytes(kib: u64) -> String {
    format!("{:.0} MiB", kib as f64 / 1024.0)
}
