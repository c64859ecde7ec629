//! A comparison as comma-separated values: a line for each function.

use std::io::{self, Write};

use profile::comparison::{Presence, Verdict};

use super::Difference;
use crate::report::quoted;

pub(super) fn write(difference: &Difference<'_>, output: &mut dyn Write) -> io::Result<()> {
    writeln!(
        output,
        "function,module,before,after,difference,total_before,total_after,presence,verdict,factor,low,high,marked,\
         smallest_growth_percent"
    )?;
    for row in &difference.assessment.rows {
        let (function, module) = difference.name(row.frame);
        let presence = match row.presence {
            Presence::Both => "both",
            Presence::New => "new",
            Presence::Gone => "gone",
        };
        let verdict = match row.verdict {
            Verdict::Unchanged => "unchanged",
            Verdict::Grown => "grown",
            Verdict::Shrunk => "shrunk",
            Verdict::Moved(_) => "moved",
        };
        let figures = [row.means[0], row.means[1], row.difference, row.totals[0], row.totals[1]];
        let figures = figures.map(|figure| format!("{figure:.0}"));
        let factors = row.estimate.map_or_else(Default::default, |estimate| {
            estimate.factors().map(|factor| format!("{factor:.5}"))
        });
        let marked = row.estimate.map_or("", |estimate| if estimate.is_marked() { "yes" } else { "no" });
        let smallest = row.estimate.and_then(|estimate| estimate.smallest);
        let smallest = smallest.map_or(String::new(), |log| format!("{:.2}", 100.0 * (log.exp() - 1.0)));
        let cells =
            [function, module].into_iter().chain(figures).chain([presence, verdict].map(str::to_owned));
        let cells = cells.chain(factors).chain([marked.to_owned(), smallest]);
        let line: Vec<String> = cells.map(|cell| quoted(&cell)).collect();
        writeln!(output, "{}", line.join(","))?;
    }
    Ok(())
}
