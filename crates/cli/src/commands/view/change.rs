//! `prof view --diff BEFORE AFTER`: a page of two profiles and what changed between them.

use std::path::Path;

use analysis::comparable::{Basis, Common};
use analysis::input::Input;
use analysis::user_modules::UserModules;
use analysis::{Analysis, EventView, Request};
use anyhow::{Context, bail};
use export::summary::Summary;
use export::view::{Page, PageSamples, PageSides, PageStacks};
use profile::comparison::{AFTER, BEFORE, Comparison, Experiment, Side};
use profile::{Columns, Detail, Show};

use super::ViewArguments;
use super::parts::{gaps, pack_blocks, page_event};
use crate::commands::diff::facts::Facts;
use crate::console::Console;
use crate::input;
use crate::output::Output;

/// Reads both profiles and writes the page.
///
/// # Errors
/// One of them cannot be read or has no samples, they count different things, or the output cannot be written.
pub fn write(
    arguments: &ViewArguments,
    before: &Path,
    after: Input,
    output: &mut Output,
    console: &Console,
) -> anyhow::Result<()> {
    let inputs = [input::open(Some(before), console)?, after];
    let names = inputs.each_ref().map(|input| input.name.clone());
    let typed = arguments.query.samples.event.as_deref();
    let common = inputs.iter().fold(Common::default(), |common, input| common.with(input, typed));
    let [before, after] = inputs.map(|input| read(arguments, input, console));
    let analyses = [before?, after?];
    let stacks = &arguments.query.stacks;
    let show = Show { modules: common.modules, ..stacks.show() };
    let (shape, mut events) = (stacks.shape(), Vec::new());
    for (analysis, name) in analyses.iter().zip(&names) {
        let event = analysis.events.first().with_context(|| format!("cannot compare {name}"))?;
        let weight = stacks.chosen_weight().unwrap_or(common.weight());
        events.push(EventView::new(analysis, event, show, weight, &shape, console));
    }
    let [one, other] = events.as_slice() else { bail!("two recordings are compared") };
    let basis = |shown: &EventView<'_>| Basis::new(shown.event, shown.view.weight());
    Basis::check((&names[BEFORE], &basis(one)), (&names[AFTER], &basis(other)))
        .map_err(anyhow::Error::msg)?;
    let (mut sides, mut facts) = ([false; 2].map(Side::new), <[Facts; 2]>::default());
    for (index, (shown, analysis)) in events.iter().zip(&analyses).enumerate() {
        sides[index].add_run(&shown.view);
        facts[index].add(analysis, shown.event);
    }
    let [before, after] = sides;
    let comparison = Comparison::new(before, after, |module| facts[BEFORE].is_rebuilt(&facts[AFTER], module));
    let assessment = comparison.assess(&Experiment::default());
    let mut caveats: Vec<String> = Vec::new();
    for (side, (shown, analysis)) in ["before", "after"].into_iter().zip(events.iter().zip(&analyses)) {
        let summary = Summary { remedies: &[], estimates: &[], ..shown.summary() };
        caveats.push(format!("{side}: {}", analysis.subtitle(shown.event, &summary)));
        caveats.extend(shown.remarks().map(|hint| format!("{side}: {hint}")));
    }
    caveats.extend(facts[BEFORE].notes(&facts[AFTER]));
    caveats.push("two recordings cannot tell a change from noise: intervals count samples only".to_owned());
    let titles = [BEFORE, AFTER].map(|side| {
        let parts = analyses[side].title_parts(events[side].event, &arguments.query.description());
        (names[side].clone(), parts.join(" · "))
    });
    let page_sides = PageSides {
        comparison: &comparison,
        assessment: &assessment,
        gaps: analyses.each_ref().map(gaps),
        mean_weights: comparison.mean_weights(),
        names: titles.clone(),
    };
    let own = analyses.each_ref().map(|analysis| UserModules::with_programs(&analysis.spaces));
    let title = arguments.title.clone();
    let title = title.unwrap_or_else(|| format!("{} → {}", names[BEFORE], names[AFTER]));
    let page = Page {
        title,
        facts: titles
            .iter()
            .zip(["before", "after"])
            .map(|((_, title), side)| format!("{side}: {title}"))
            .collect(),
        caveats,
        events: vec![page_event(one), page_event(other)],
        gaps: Vec::new(),
        waits: &[],
        waiting: None,
        wakers: None,
        switch_gaps: Vec::new(),
        is_own_code: &|module| own.iter().any(|own| own.contains(module)),
        package_of: &|_, _| None,
        folds_starts: stacks.show_drawn().fold_starts,
        source: None,
        has_lines: false,
        recording: names[AFTER].clone(),
        sides: Some(&page_sides),
        code: &[],
    };
    let views = || events.iter().map(|shown| &shown.view);
    let samples = PageSamples::of(views(), true);
    let stacks = PageStacks::of(views(), Some(&comparison));
    export::view::write(&page, samples, stacks, &pack_blocks, output)?;
    Ok(())
}

fn read(arguments: &ViewArguments, input: Input, console: &Console) -> anyhow::Result<Analysis> {
    let query = &arguments.query;
    let settings = query.settings(&input, false);
    let detail = Detail {
        threads: true,
        pools: true,
        processes: true,
        samples: Some(Columns { times: true, cpus: false }),
        ..Detail::default()
    };
    let request = Request { detail, several_events: false, ..query.request(&settings) };
    input::analyse(input, &request, "compare", console)
}
