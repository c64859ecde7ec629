//! The explanation as one page of text.

use std::fmt::Write;

use perfdata::sections::TASKS;
use profile::explain::{CostKind, Explanation, HotFunction, Part, Phase};
use profile::{FrameId, Weight};

use super::{ExplanationInput, Findings, NAME_COLUMNS, THREAD_COLUMNS, causes, module_name, seconds};
use crate::figures::{counted, fit, grouped, percent};
use crate::summary::{losses, task_seconds};

/// Maximum number of characters of a page.
const MAX_PAGE_CHARACTERS: usize = 6_000;
/// Maximum number of causes of waits.
const MAX_WAITS: usize = 5;
/// Least time without any thread on a CPU, in nanoseconds, of which the page says how to record what threads waited for: less of it, as
/// that of `true`, nobody notices.
const MIN_IDLE_NS: u64 = 100_000_000;
/// The least share that is listed by name, of 1: half a percent, which the shares of 10,000 samples may be off by themselves (±1 %).
/// Smaller ones are counted, and what is incomplete to a smaller share is not mentioned.
const MIN_SHARE: f64 = 0.005;
/// With fewer samples the page warns that shares are inexact.
const MIN_RELIABLE_SAMPLES: u64 = 200;

/// Writes the page, of at most 6,000 characters. If even the shortest form is longer, cuts it and counts the rest.
pub fn page(facts: &ExplanationInput<'_>) -> String {
    // The longest lists that fit.
    let lengths = (1..=10).rev().map(|rows| write(facts, rows));
    let mut fitting = lengths.filter(|page| page.chars().count() <= MAX_PAGE_CHARACTERS);
    fitting.next().unwrap_or_else(|| {
        let mut page = write(facts, 1);
        let cut = page.chars().count().saturating_sub(MAX_PAGE_CHARACTERS - 60);
        let end = page.char_indices().nth(MAX_PAGE_CHARACTERS - 60).map_or(page.len(), |(at, _)| at);
        page.truncate(end);
        page.push_str(&format!("\n… {} more\n", counted(cut as u64, "letter", "letters")));
        page
    })
}

fn write(facts: &ExplanationInput<'_>, rows: usize) -> String {
    let mut page = Page { facts, rows, text: String::new() };
    page.head();
    page.waiting();
    page.threads();
    let waiting = facts.waits.map_or(0, |waits| waits.explanation.total);
    if waiting > facts.summary.total.period {
        page.waits();
        page.causes();
    } else {
        page.causes();
        page.waits();
    }
    page.functions();
    page.costs();
    page.modules();
    page.phases();
    page.distrust();
    page.text
}

struct Page<'a, 'f> {
    facts: &'a ExplanationInput<'f>,
    /// Maximum number of rows of each list.
    rows: usize,
    text: String,
}

impl Page<'_, '_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn heading(&mut self, heading: &str) {
        self.text.push('\n');
        self.line(heading);
    }

    fn head(&mut self) {
        let facts = self.facts;
        let explanation = facts.findings.explanation;
        let shown = facts.summary.total.weight(facts.summary.weight).saturating_sub(explanation.at_rest);
        self.line(&fit(facts.title, 200));
        let mut line = format!(
            "{} of {}",
            counted(facts.summary.total.samples, "sample", "samples"),
            facts.summary.event
        );
        if facts.unit == "ns" && !facts.is_clock {
            let of = if facts.is_foreign { facts.summary.event } else { "all threads together" };
            let _ = write!(line, ", {} of {of}", seconds(shown));
        } else if facts.summary.event == TASKS {
            let tasks = facts.summary.total.period / facts.duration_ns.unwrap_or(0).max(1);
            let tasks = counted(tasks, "task", "tasks");
            let _ = write!(line, ", {}: {tasks} on average", task_seconds(facts.summary.total));
        } else if facts.summary.weight == Weight::Period && !facts.is_clock {
            let _ =
                write!(line, ", weighted by what they stand for ({})", grouped(facts.summary.total.period));
        }
        if facts.is_clock {
            let _ = write!(line, ", {} of CPU time", seconds(facts.summary.total.period));
        }
        if let Some(busy) = facts.busy_cpus() {
            let of = facts.cpus.map_or_else(String::new, |cpus| format!(" of {cpus}"));
            let _ = write!(line, ": {busy:.2}{of} CPUs busy on average");
        }
        self.line(&line);
        let idle = facts
            .duration_ns
            .filter(|_| facts.is_clock)
            .unwrap_or(0)
            .saturating_sub(facts.summary.total.period);
        if facts.waits.is_none() && idle > facts.summary.total.period.max(MIN_IDLE_NS) {
            self.line(
                "waits were not recorded, neither those for a CPU nor others; try: prof record --off-cpu",
            );
        }
        if explanation.total < shown {
            let left = percent(explanation.total, shown);
            self.line(&format!("filters leave {left:.1} % of that: all shares below are of what they leave"));
        }
        if facts.findings.is_of_waits() || facts.summary.event == TASKS {
            return;
        }
        let user = explanation.total.saturating_sub(explanation.kernel).saturating_sub(explanation.generated);
        let mut line = format!(
            "kernel {}, user {}",
            self.facts.findings.percent(explanation.kernel),
            self.facts.findings.percent(user)
        );
        if explanation.generated > 0 {
            let _ = write!(line, ", generated code {}", self.facts.findings.percent(explanation.generated));
        }
        self.line(&line);
    }

    fn waiting(&mut self) {
        if let Some(waiting) = &self.facts.waiting {
            let lines = waiting.lines(self.rows.min(MAX_WAITS));
            self.text.extend((!lines.is_empty()).then_some('\n'));
            lines.iter().for_each(|line| self.line(line));
        }
    }

    fn threads(&mut self) {
        let threads = &self.facts.findings.explanation.threads;
        if threads.len() < 2 {
            return;
        }
        let listed = self
            .listed(threads, self.rows, |page, &frame| page.facts.findings.name(frame, Some(THREAD_COLUMNS)));
        self.heading("By thread name");
        self.line(&format!("  {listed}"));
    }

    fn modules(&mut self) {
        let modules = &self.facts.findings.explanation.modules;
        if modules.len() < 2 || self.facts.findings.is_of_waits() {
            return;
        }
        let name = |_: &Self, module: &Option<model::Name>| {
            module.as_ref().map_or_else(|| "[unknown]".to_owned(), |module| fit(&module_name(module), 30))
        };
        let listed = self.listed(modules, self.rows, name);
        self.heading("By module");
        self.line(&format!("  {listed}"));
    }

    /// Lists the heaviest parts in one line: `name 31.0 %, name 12.0 %, 7 more 3.0 %`.
    fn listed<T>(&self, parts: &[Part<T>], most: usize, name: impl Fn(&Self, &T) -> String) -> String {
        let told = parts
            .iter()
            .take(most)
            .take_while(|part| self.facts.findings.share(part.weight) >= MIN_SHARE)
            .count();
        let mut words: Vec<String> = parts[..told]
            .iter()
            .map(|part| format!("{} {}", name(self, &part.what), self.facts.findings.percent(part.weight)))
            .collect();
        let others = &parts[told..];
        if !others.is_empty() {
            let rest = others.iter().map(|part| part.weight).fold(0, u64::saturating_add);
            words.push(format!(
                "{} more {}",
                grouped(others.len() as u64),
                self.facts.findings.percent(rest)
            ));
        }
        words.join(", ")
    }

    fn causes(&mut self) {
        let findings = &self.facts.findings;
        let what = if findings.is_of_waits() { "Where threads wait" } else { "Where the time goes" };
        self.list(findings, what, self.rows);
    }

    fn waits(&mut self) {
        if let Some(waits) = &self.facts.waits {
            let what = format!("Where threads wait, {} of all together", seconds(waits.explanation.total));
            self.list(waits, &what, self.rows.min(MAX_WAITS));
        }
    }

    fn list(&mut self, findings: &Findings<'_>, what: &str, rows: usize) {
        self.text.push('\n');
        causes::lines(findings, what, rows).iter().for_each(|line| self.line(line));
    }

    fn functions(&mut self) {
        let functions = &self.facts.findings.explanation.functions;
        let is_told = |function: &&HotFunction| self.facts.findings.share(function.own) >= 2.0 * MIN_SHARE;
        let shown: Vec<&HotFunction> = functions.iter().take(self.rows).take_while(is_told).collect();
        if self.facts.findings.is_of_waits() {
            return;
        }
        if shown.is_empty() {
            let count = counted(functions.len() as u64, "function", "functions");
            self.heading(&format!("Hottest functions: none of {count} has 1 % of the time in itself"));
            return;
        }
        self.heading("Hottest functions (in themselves, and where most of that is called from)");
        for function in &shown {
            let module = self.facts.findings.module(function.function);
            let module = module.map_or_else(String::new, |module| format!(" ({})", fit(&module, 24)));
            let name = self.facts.findings.name(function.function, Some(NAME_COLUMNS));
            let caller = self.caller(function);
            self.line(&format!("  {:>7}  {name}{module}{caller}", self.facts.findings.percent(function.own)));
        }
        let others = functions.get(shown.len()..).unwrap_or_default();
        if !others.is_empty() {
            let rest = others.iter().map(|function| function.own).fold(0, u64::saturating_add);
            let more = counted(others.len() as u64, "other function", "other functions");
            self.line(&format!("  {:>7}  {more}", self.facts.findings.percent(rest)));
        }
    }

    fn caller(&self, function: &HotFunction) -> String {
        let Some(first) = function.callers.first() else { return String::new() };
        let share = percent(first.weight, function.own);
        let others = function.callers.len() - 1;
        let name = self.facts.findings.name(first.what, Some(NAME_COLUMNS));
        match others {
            0 => format!(" ← {name}"),
            _ => format!(" ← {name} {share:.0} %, {} more", grouped(others as u64)),
        }
    }

    fn costs(&mut self) {
        let is_told = |weight: u64| self.facts.findings.share(weight) >= 2.0 * MIN_SHARE;
        let costs = self.facts.findings.explanation.costs.iter().filter(|cost| is_told(cost.weight));
        let words: Vec<String> = costs
            .map(|cost| {
                let by = self.facts.findings.name(cost.by, Some(NAME_COLUMNS));
                format!("{} {} (mostly {by})", kind(cost.kind), self.facts.findings.percent(cost.weight))
            })
            .collect();
        if !words.is_empty() {
            self.heading("Kinds of work, by the names of functions");
            self.line(&format!("  {}", words.join(", ")));
        }
    }

    fn phases(&mut self) {
        let phases = self.facts.phases;
        let Some(start) = phases.first().map(|phase| phase.start) else { return };
        self.heading("Phases");
        let shown = phases.len().min(self.rows);
        for phase in &phases[..shown] {
            let (from, to) = (phase.start.0 - start.0, phase.end.0 - start.0);
            let name = |frame: FrameId| self.facts.findings.name(frame, Some(NAME_COLUMNS));
            let of_phase = |weight: u64| percent(weight, phase.weight);
            let told = phase.functions.iter().take(3);
            let told: Vec<String> =
                told.map(|part| format!("{} {:.0} %", name(part.what), of_phase(part.weight))).collect();
            let busy = self.busy(phase);
            let line = format!("  {} to {}{busy}: {}", seconds(from), seconds(to), told.join(", "));
            self.line(&line);
        }
        if phases.len() > shown {
            self.line(&format!("  {}", counted((phases.len() - shown) as u64, "more phase", "more phases")));
        }
    }

    fn busy(&self, phase: &Phase) -> String {
        let length = phase.end.0.saturating_sub(phase.start.0);
        if !self.facts.is_clock || length == 0 || self.facts.summary.weight != Weight::Period {
            return format!(" ({})", self.facts.findings.percent(phase.weight));
        }
        format!(
            " ({}, {:.2} CPUs busy)",
            self.facts.findings.percent(phase.weight),
            phase.weight as f64 / length as f64
        )
    }

    fn distrust(&mut self) {
        let facts = self.facts;
        let mut lines = Vec::new();
        let margin = facts.margin();
        if facts.summary.total.samples < MIN_RELIABLE_SAMPLES {
            let more_often = facts.more_often.map(|typed| format!(", or more often ({typed})"));
            lines.push(format!(
                "only {}: a share of 50 % may be off by {margin:.0} points; record for longer{}",
                counted(facts.summary.total.samples, "sample", "samples"),
                more_often.unwrap_or_default()
            ));
        }
        let losses = losses(facts.loss);
        if !losses.is_empty() {
            lines.push(losses);
        }
        let explanation = facts.findings.explanation;
        lines.extend(ends_early(explanation, "the stacks"));
        lines.extend(facts.waits.and_then(|waits| ends_early(waits.explanation, "the stacks of waits")));
        let census = facts.summary.census;
        if let Some(share) = notable_share(census.nameless, census.frames) {
            lines.push(format!("{share} of the frames have no name"));
        }
        for hint in facts.hints {
            lines.push(fit(hint, 300));
        }
        self.heading("What to distrust");
        if lines.is_empty() {
            let few = match explanation.truncated_total() + census.nameless {
                0 => "every stack is whole, every frame has a name",
                _ => "nearly every stack is whole, nearly every frame has a name",
            };
            self.line(&format!("  nothing: no sample was lost, {few}"));
        }
        for line in lines {
            self.line(&format!("  {line}"));
        }
        // Tasks of one snapshot are not chosen apart from each other.
        if facts.summary.total.samples >= MIN_RELIABLE_SAMPLES && facts.summary.event != TASKS {
            self.line(&format!("  shares are estimates: 50 % here is 50 ± {margin:.1} % (95 times of 100)"));
            if let (Some(looks), Some(margin)) = (facts.looks, facts.callers_margin()) {
                self.line(&format!(
                    "  which function called a Python function is known by {looks} looks: 50 % is 50 ± {margin:.1} %"
                ));
            }
        }
    }
}

/// Says which share of stacks ends early, and why most of them do; `None` if no row of the page changes by that much.
fn ends_early(explanation: &Explanation, stacks: &str) -> Option<String> {
    let share = notable_share(explanation.truncated_total(), explanation.total)?;
    let [first, others @ ..] = explanation.truncated.as_slice() else { return None };
    let mostly = if others.is_empty() { "" } else { "mostly: " };
    Some(format!("{share} of {stacks} end early ({mostly}{})", first.what))
}

/// Returns the share of what is incomplete, such as `1.5 %`; `None` if no row of the page changes by that much.
fn notable_share(part: u64, whole: u64) -> Option<String> {
    let share = percent(part, whole);
    (share >= 100.0 * MIN_SHARE).then(|| format!("{share:.1} %"))
}

fn kind(kind: CostKind) -> &'static str {
    match kind {
        CostKind::Locks => "locks",
        CostKind::PageFaults => "page faults",
        CostKind::Copies => "copying and clearing memory",
        CostKind::Allocation => "allocation",
        CostKind::GarbageCollection => "garbage collection",
        CostKind::Processes => "starting and ending processes",
        CostKind::Scheduling => "scheduling",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_keep_both_ends() {
        assert_eq!(fit("abcdefghij", 10), "abcdefghij");
        assert_eq!(fit("abcdefghijk", 6), "abc…jk");
        assert_eq!(fit("äöüäöüäöü", 4), "äö…ü");
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        assert_eq!(seconds(12_300_000), "12 ms");
        assert_eq!(seconds(12_340_000_000), "12.3 s");
    }

    #[test]
    fn what_is_incomplete_is_mentioned_where_it_can_change_a_row() {
        let shares = [(1, 10_000), (4, 1_000), (5, 1_000), (1, 2)].map(|(part, of)| notable_share(part, of));
        assert_eq!(shares, [None, None, Some("0.5 %".to_owned()), Some("50.0 %".to_owned())]);
        assert_eq!(notable_share(0, 0), None);
    }
}
