//! `prof flame --diff BEFORE AFTER`: one flame graph of what changed between two profiles.

use std::ffi::OsString;
use std::path::Path;

use analysis::input::Input;
use analysis::{Notices, Request};
use anyhow::{Context, bail};
use export::flamegraph::change::{self, Change};
use export::summary::grouped;
use profile::comparison::{AFTER, BEFORE, Comparison, Side};
use profile::queries::{CallTree, NodeId};
use profile::{Detail, Show, View, Weight};

use crate::arguments::QueryArguments;
use crate::arguments::drawing::{DrawingArguments, FrameArguments};
use crate::console::Console;
use crate::input;
use crate::output::Output;

/// Share of the weight after the change that must be of threads whose names there were before. Otherwise the threads are left out: the
/// program has another name now, and nothing would be as before.
const MIN_SHARE_OF_KNOWN_THREADS: f64 = 0.5;

/// The choice of what is drawn, and how.
pub struct ChangeArguments<'a> {
    pub before: &'a Path,
    pub folded: bool,
    pub query: &'a QueryArguments,
    pub frames: &'a FrameArguments,
    pub drawing: &'a DrawingArguments,
}

/// One of the two profiles.
struct ReadSide {
    name: String,
    title: String,
    /// By the sum of periods, and by the number of samples.
    by_weight: [Weighed; 2],
    event: String,
}

struct Weighed {
    side: Side,
    unit: String,
    total: u64,
    samples: u64,
}

/// Reads both profiles, one after the other, and draws their difference.
///
/// # Errors
/// One of them cannot be read or has no samples, they count different things, or the output cannot be written.
pub fn draw(
    arguments: &ChangeArguments<'_>,
    after: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    if arguments.drawing.flamechart {
        bail!(
            "--flamechart draws one recording in order of time, and --diff draws two; try without one of them"
        );
    }
    let before = input::open(Some(arguments.before), console)?;
    // Other tools do not say in which module a function is: one without is not the same as one with.
    let has_modules = before.foreign.is_none() && after.foreign.is_none();
    let [before, after] = [before, after].map(|side| read(arguments, side, has_modules, console));
    let [before, after] = [before?, after?];
    let (column, weight) = comparable(arguments, &before, &after)?;
    let facts = [&before, &after].map(|side| {
        let weighed = &side.by_weight[column];
        (side.title.clone(), weighed.total, weighed.samples, weighed.unit.clone())
    });
    let [before, after] = [before, after].map(|side| {
        let [by_period, by_samples] = side.by_weight;
        if column == 0 { by_period.side } else { by_samples.side }
    });
    let comparison = Comparison::new(before, after, |_| false);
    let tree = comparison.tree();
    let keeps_threads = known_threads(tree) >= MIN_SHARE_OF_KNOWN_THREADS;
    let merged;
    let tree = if keeps_threads {
        tree
    } else {
        console.say("the threads have other names after the change: they are not drawn");
        merged = tree.merged_threads();
        &merged
    };
    let mean = |(_, total, samples, _): &(String, u64, u64, String)| match weight {
        Weight::Samples => 1.0,
        Weight::Period => *total as f64 / (*samples).max(1) as f64,
    };
    let change = Change { tree, mean_weights: [mean(&facts[BEFORE]), mean(&facts[AFTER])] };
    if arguments.folded {
        change::write_folded(&change, output)?;
        return Ok(());
    }
    let [(title_before, all_before, ..), (title_after, all_after, _, unit)] = &facts;
    let title = format!("{title_before} → {title_after}");
    let gone = change::gone(tree);
    let is_time = unit == "ns";
    let figures = totals([*all_before, *all_after], gone, unit);
    change::write(&change, &arguments.drawing.options(title, figures, unit, is_time)?, output)?;
    Ok(())
}

fn read(
    arguments: &ChangeArguments<'_>,
    input: Input,
    has_modules: bool,
    console: &Console,
) -> anyhow::Result<ReadSide> {
    let (query, frames) = (arguments.query, arguments.frames);
    let detail = Detail {
        threads: frames.per_thread,
        pools: !frames.per_thread,
        processes: frames.by_process,
        containers: frames.by_container,
        ..Detail::default()
    };
    let settings = query.settings(&input, false);
    let request = Request { detail, several_events: false, ..query.request(&settings) };
    let name = input.name.clone();
    let cannot = format!("cannot compare {name}");
    let analysis = input::analyse(input, &request, "compare", console)?;
    let event = analysis.events.first().context(cannot.clone())?;
    let show = Show { modules: has_modules, addresses: frames.addresses, ..query.stacks.show() };
    let shape = query.stacks.shape();
    let shown = analysis.event_view(event, show, Weight::Period, &shape, console);
    shown.warn(console);
    if shown.view.total() > 0 && shown.view.shown_total() == 0 {
        bail!("{cannot}: no sample has a frame that matches --keep or --root-at");
    }
    let by_samples = analysis.view(&event.profile, show, Weight::Samples, &shape);
    let samples = event.profile.total().samples;
    let what = analysis.title_parts(event, &query.description());
    let what = what.first().cloned().unwrap_or_else(|| name.clone());
    let is_same = what == name || what.starts_with(&name);
    Ok(ReadSide {
        title: if is_same { what } else { format!("{name} ({what})") },
        by_weight: [
            weighed(&shown.view, shown.unit().to_owned(), samples),
            weighed(&by_samples, "samples".to_owned(), samples),
        ],
        event: shown.name,
        name,
    })
}

fn weighed(view: &View<'_>, unit: String, samples: u64) -> Weighed {
    let mut side = Side::new().with_threads();
    side.add_run(view);
    Weighed { side, unit, total: view.shown_total(), samples }
}

/// Chooses the weight that both profiles have: the one that is asked for, else time or events, else samples where one of them counts
/// only these. Returns its position in [`ReadSide::by_weight`], too.
fn comparable(
    arguments: &ChangeArguments<'_>,
    before: &ReadSide,
    after: &ReadSide,
) -> anyhow::Result<(usize, Weight)> {
    let [unit_before, unit_after] = [before, after].map(|side| side.by_weight[0].unit.as_str());
    let stacks = &arguments.query.stacks;
    if stacks.weighs_samples() {
        return Ok((1, Weight::Samples));
    }
    if unit_before == unit_after {
        return Ok((0, Weight::Period));
    }
    if !stacks.names_weight() && [unit_before, unit_after].contains(&"samples") {
        return Ok((1, Weight::Samples));
    }
    bail!(
        "{} counts {} and {} counts {}, which cannot be compared; try: --event NAME, or recording both alike",
        before.name,
        before.event,
        after.name,
        after.event
    );
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
fn totals([before, after]: [u64; 2], gone: u64, unit: &str) -> String {
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
            totals([1_000_000_000, 1_500_000_000], 0, "ns"),
            "before 1.000 s, after 1.500 s (× 1.50): widths are after"
        );
        assert_eq!(
            totals([2_000, 1_000], 30, "samples"),
            "before 2,000 samples, after 1,000 samples (× 0.50): widths are after; 30 samples of before is in stacks that are gone"
        );
    }
}
