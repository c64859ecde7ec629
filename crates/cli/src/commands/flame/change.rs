//! `prof flame --diff BEFORE AFTER`: one flame graph of what changed between two profiles.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

use analysis::comparable::{Basis, Common};
use analysis::input::Input;
use analysis::{EventView, Notices, Request};
use anyhow::{Context, bail};
use export::flamegraph::change::{self, Change};
use export::summary::grouped;
use profile::Show;
use profile::comparison::{Comparison, Side};
use profile::queries::{CallTree, NodeId};

use super::FlameArguments;
use crate::console::Console;
use crate::input;
use crate::output::Output;

/// Share of the weight after the change that must be of threads whose names there were before. Otherwise the threads are left out: the
/// program has another name now, and nothing would be as before.
const MIN_SHARE_OF_KNOWN_THREADS: f64 = 0.5;

/// One of the two profiles.
struct ReadSide {
    name: String,
    title: String,
    side: Side,
    basis: Basis,
}

/// Reads both profiles, one after the other, and draws their difference.
///
/// # Errors
/// One of them cannot be read or has no samples, they count different things, or the output cannot be written.
pub fn draw(
    arguments: &FlameArguments,
    before: &Path,
    after: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let before = input::open(Some(before), console)?;
    let event = arguments.query.samples.event.as_deref();
    let common = Common::default().with(&before, event).with(&after, event);
    let [before, after] = [before, after].map(|side| read(arguments, side, common, console));
    let [before, after] = [before?, after?];
    Basis::check((&before.name, &before.basis), (&after.name, &after.basis)).map_err(anyhow::Error::msg)?;
    let title = format!("{} → {}", before.title, after.title);
    let unit = after.basis.unit().to_owned();
    let comparison = Comparison::new(before.side, after.side, |_| false);
    let mean_weights = comparison.mean_weights();
    let mut tree = Cow::Borrowed(comparison.tree());
    if known_threads(&tree) < MIN_SHARE_OF_KNOWN_THREADS {
        console.say("the threads have other names after the change: they are not drawn");
        tree = Cow::Owned(tree.merged_threads());
    }
    let tree = &tree;
    let change = Change { tree, mean_weights };
    if arguments.folded {
        change::write_folded(&change, output)?;
        return Ok(());
    }
    let figures = totals(tree.totals(NodeId::ROOT), change::gone(tree), &unit);
    change::write(&change, &arguments.drawing.options(title, figures, &unit, unit == "ns")?, output)?;
    Ok(())
}

fn read(
    arguments: &FlameArguments,
    input: Input,
    common: Common,
    console: &Console,
) -> anyhow::Result<ReadSide> {
    let (query, frames) = (&arguments.query, &arguments.frames);
    let detail = frames.detail(!frames.per_thread);
    let settings = query.settings(&input, false);
    let request = Request { detail, several_events: false, ..query.request(&settings) };
    let name = input.name.clone();
    let cannot = format!("cannot compare {name}");
    let analysis = input::analyse(input, &request, "compare", console)?;
    let event = analysis.events.first().context(cannot.clone())?;
    let show = Show { modules: common.modules, ..arguments.show() };
    let shape = query.stacks.shape();
    let weight = query.stacks.chosen_weight().unwrap_or(common.weight());
    let shown = EventView::new(&analysis, event, show, weight, &shape, console);
    shown.warn(console);
    if shown.view.total() > 0 && shown.view.shown_total() == 0 {
        bail!("{cannot}: no sample has a frame that matches --keep or --root-at");
    }
    let mut side = Side::new(true);
    side.add_run(&shown.view);
    let what = analysis.title_parts(event, &query.description());
    let what = what.first().cloned().unwrap_or_else(|| name.clone());
    let is_same = what == name || what.starts_with(&name);
    Ok(ReadSide {
        title: if is_same { what } else { format!("{name} ({what})") },
        name,
        side,
        basis: Basis::new(event, weight),
    })
}

/// Returns the share of the weight after the change that is of threads whose labels there were before.
fn known_threads(tree: &CallTree) -> f64 {
    let (mut known, mut all) = (0_u64, 0_u64);
    for thread in tree.children(NodeId::ROOT).filter(|&node| tree.is_thread(node)) {
        let &[before, after] = tree.totals(thread) else { continue };
        all = all.saturating_add(after);
        known = known.saturating_add(if before > 0 { after } else { 0 });
    }
    if all == 0 { 1.0 } else { known as f64 / all as f64 }
}

/// Says how much there was before and after, and what of it is gone.
fn totals(all: &[u64], gone: u64, unit: &str) -> String {
    let &[before, after] = all else { return String::new() };
    let amount = |weight: u64| match unit {
        "ns" => format!("{:.3} s", weight as f64 / 1e9),
        _ => format!("{} {unit}", grouped(weight)),
    };
    let factor =
        if before == 0 { String::new() } else { format!(" (× {:.2})", after as f64 / before as f64) };
    let gone = match gone {
        0 => String::new(),
        gone => format!("; {} of before is in stacks that are gone", amount(gone)),
    };
    format!("before {}, after {}{factor}: widths are after{gone}", amount(before), amount(after))
}

/// Checks that there is a recording to compare BEFORE of `--diff` with, in the command `name`.
///
/// # Errors
/// What follows is a command.
pub fn check(before: &Path, name: &str, command: &[OsString]) -> anyhow::Result<()> {
    if let Some(word) = command.first() {
        bail!(
            "`{}` is no recording, and --diff compares two: try: prof {name} --diff {} AFTER",
            Path::new(word).display(),
            before.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_told_with_their_factor() {
        assert_eq!(
            totals(&[1_000_000_000, 1_500_000_000], 0, "ns"),
            "before 1.000 s, after 1.500 s (× 1.50): widths are after"
        );
        assert_eq!(
            totals(&[2_000, 1_000], 30, "samples"),
            "before 2,000 samples, after 1,000 samples (× 0.50): widths are after; 30 samples of before is in stacks that are gone"
        );
    }
}
