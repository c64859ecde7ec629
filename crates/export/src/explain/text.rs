//! The explanation as one page of text.

use std::fmt::Write;

use profile::explain::{Cause, CostKind, HotFunction, Part, Phase, Step};
use profile::{FrameId, Weight};

use super::{ExplanationInput, module_name};
use crate::figures::{counted, fit, grouped, percent};
use crate::summary::losses;

/// Maximum number of characters of a page.
const MAX_PAGE_CHARACTERS: usize = 6_000;
/// Maximum width of a function's name, in columns.
const NAME_COLUMNS: usize = 40;
/// Maximum width of a thread's name, in columns.
const THREAD_COLUMNS: usize = 16;
/// Maximum number of frames of a path, and of its columns. Of longer ones, outer frames are omitted.
const MAX_PATH_FRAMES: usize = 8;
const MAX_PATH_COLUMNS: usize = 160;
/// Causes are listed until they have this share of the total together.
const CAUSES_SHARE: f64 = 0.8;
/// The least share that is listed by name. Smaller ones are counted.
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
    page.threads();
    page.causes();
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

    fn share(&self, weight: u64) -> f64 {
        weight as f64 / self.facts.explanation.total.max(1) as f64
    }

    fn percent(&self, weight: u64) -> String {
        format!("{:.1} %", percent(weight, self.facts.explanation.total))
    }

    fn head(&mut self) {
        let facts = self.facts;
        let explanation = facts.explanation;
        self.line(&fit(facts.title, 200));
        let mut line = format!("{} of {}", counted(facts.total.samples, "sample", "samples"), facts.event);
        if facts.unit == "ns" && !facts.is_clock {
            let _ = write!(line, ", {} of all threads together", seconds(facts.total.period));
        } else if facts.weight == Weight::Period && !facts.is_clock {
            let _ = write!(line, ", weighted by what they stand for ({})", grouped(facts.total.period));
        }
        if facts.is_clock {
            let _ = write!(line, ", {} of CPU time", seconds(facts.total.period));
        }
        if let Some(busy) = facts.busy_cpus() {
            let of = facts.cpus.map_or_else(String::new, |cpus| format!(" of {cpus}"));
            let _ = write!(line, ": {busy:.2}{of} CPUs busy on average");
        }
        self.line(&line);
        let all = facts.total.weight(facts.weight);
        if explanation.total < all {
            let left = percent(explanation.total, all);
            self.line(&format!("filters leave {left:.1} % of that: all shares below are of what they leave"));
        }
        if explanation.functions.is_empty() {
            // Threads were waiting.
            return;
        }
        let user = explanation.total.saturating_sub(explanation.kernel).saturating_sub(explanation.generated);
        let mut line = format!("kernel {}, user {}", self.percent(explanation.kernel), self.percent(user));
        if explanation.generated > 0 {
            let _ = write!(line, ", generated code {}", self.percent(explanation.generated));
        }
        self.line(&line);
    }

    fn threads(&mut self) {
        let threads = &self.facts.explanation.threads;
        if threads.len() < 2 {
            return;
        }
        let listed =
            self.listed(threads, self.rows, |page, &frame| page.facts.name(frame, Some(THREAD_COLUMNS)));
        self.heading("By thread name");
        self.line(&format!("  {listed}"));
    }

    fn modules(&mut self) {
        let modules = &self.facts.explanation.modules;
        if modules.len() < 2 || self.facts.explanation.functions.is_empty() {
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
        let told = parts.iter().take(most).take_while(|part| self.share(part.weight) >= MIN_SHARE).count();
        let mut words: Vec<String> = parts[..told]
            .iter()
            .map(|part| format!("{} {}", name(self, &part.what), self.percent(part.weight)))
            .collect();
        let others = &parts[told..];
        if !others.is_empty() {
            let rest = others.iter().map(|part| part.weight).fold(0, u64::saturating_add);
            words.push(format!("{} more {}", grouped(others.len() as u64), self.percent(rest)));
        }
        words.join(", ")
    }

    fn causes(&mut self) {
        let causes = &self.facts.explanation.causes;
        let mut told = 0_u64;
        let enough = causes.iter().position(|cause| {
            told = told.saturating_add(cause.weight);
            self.share(told) >= CAUSES_SHARE
        });
        let shown = enough.map_or(causes.len(), |last| last + 1).min(self.rows);
        let sum = causes[..shown].iter().map(|cause| cause.weight).fold(0, u64::saturating_add);
        if shown == 0 {
            self.heading("Where the time goes: no path has 2 % of it");
            return;
        }
        let paths = counted(shown as u64, "path", "paths");
        self.heading(&format!("Where the time goes: {} on {paths}", self.percent(sum)));
        for cause in &causes[..shown] {
            let line = format!("  {:>7}  {}", self.percent(cause.weight), self.path(cause));
            self.line(&line);
            let inside = self.inside(cause);
            if !inside.is_empty() {
                self.line(&format!("           {inside}"));
            }
        }
        let others = &causes[shown..];
        let rest = self.facts.explanation.total.saturating_sub(sum);
        if rest > 0 {
            let more = match others.len() {
                0 => String::from("paths below 2 % each"),
                count => {
                    format!("{} and what is below 2 %", counted(count as u64, "more path", "more paths"))
                }
            };
            self.line(&format!("  {:>7}  {more}", self.percent(rest)));
        }
    }

    /// Returns a path with its thread and its last frames. Frames without which it is no other path are omitted first.
    fn path(&self, cause: &Cause) -> String {
        let name = |(index, step): (usize, &Step)| {
            self.facts.name(step.frame, Some(if index == 0 { THREAD_COLUMNS } else { NAME_COLUMNS }))
        };
        let mut names: Vec<Option<String>> = cause.path.iter().enumerate().map(name).map(Some).collect();
        let is_long = |names: &[Option<String>]| {
            let columns = names.iter().flatten().map(|name| name.chars().count() + 3).sum::<usize>();
            names.iter().flatten().count() > MAX_PATH_FRAMES || columns > MAX_PATH_COLUMNS
        };
        let inner = cause.path.len().saturating_sub(1);
        let passed = (1..inner).filter(|&index| !cause.path[index].stands);
        for index in passed.chain((2..inner).filter(|&index| cause.path[index].stands)) {
            if !is_long(&names) {
                break;
            }
            names[index] = None;
        }
        let mut path = String::new();
        let mut omitted = 0;
        for (step, name) in cause.path.iter().zip(&names) {
            let Some(name) = name else {
                omitted += 1;
                continue;
            };
            if !path.is_empty() {
                path.push_str(" → ");
            }
            if omitted > 0 {
                let _ = write!(path, "… {omitted} … → ");
            }
            if step.ways > 0 {
                let _ = write!(path, "… {} … → ", counted(step.ways as u64, "way", "ways"));
            }
            path.push_str(name);
            omitted = 0;
        }
        path + if cause.is_rest { " (the rest of it)" } else { "" }
    }

    /// Describes the functions that have most of a cause's weight; empty if that is the last function of its path alone.
    fn inside(&self, cause: &Cause) -> String {
        let of_cause = |weight: u64| format!("{:.0} %", percent(weight, cause.weight));
        let function = cause.path.last().map(|step| &step.frame);
        match cause.inside.as_slice() {
            [only] if Some(&only.what) == function => String::new(),
            [first, ..]
                if Some(&first.what) == function && first.weight as f64 >= 0.9 * cause.weight as f64 =>
            {
                format!("{} of it in itself", of_cause(first.weight))
            }
            parts => {
                let is_told = |part: &&Part<FrameId>| percent(part.weight, cause.weight) >= 1.0;
                let told = parts.iter().take(3).take_while(is_told).map(|part| {
                    let name = if Some(&part.what) == function {
                        "itself".to_owned()
                    } else {
                        self.facts.name(part.what, Some(NAME_COLUMNS))
                    };
                    format!("{name} {}", of_cause(part.weight))
                });
                let mut words: Vec<String> = told.collect();
                if parts.len() > words.len() {
                    let others = (parts.len() - words.len()) as u64;
                    words.push(counted(others, "other function", "other functions"));
                }
                format!("in {}", words.join(", "))
            }
        }
    }

    fn functions(&mut self) {
        let functions = &self.facts.explanation.functions;
        let is_told = |function: &&HotFunction| self.share(function.own) >= 2.0 * MIN_SHARE;
        let shown: Vec<&HotFunction> = functions.iter().take(self.rows).take_while(is_told).collect();
        if functions.is_empty() {
            return;
        }
        if shown.is_empty() {
            let count = counted(functions.len() as u64, "function", "functions");
            self.heading(&format!("Hottest functions: none of {count} has 1 % of the time in itself"));
            return;
        }
        self.heading("Hottest functions (in themselves, and where most of that is called from)");
        for function in &shown {
            let module = self.facts.module(function.function);
            let module = module.map_or_else(String::new, |module| format!(" ({})", fit(&module, 24)));
            let name = self.facts.name(function.function, Some(NAME_COLUMNS));
            let caller = self.caller(function);
            self.line(&format!("  {:>7}  {name}{module}{caller}", self.percent(function.own)));
        }
        let others = functions.get(shown.len()..).unwrap_or_default();
        if !others.is_empty() {
            let rest = others.iter().map(|function| function.own).fold(0, u64::saturating_add);
            let more = counted(others.len() as u64, "other function", "other functions");
            self.line(&format!("  {:>7}  {more}", self.percent(rest)));
        }
    }

    fn caller(&self, function: &HotFunction) -> String {
        let Some(first) = function.callers.first() else { return String::new() };
        let share = percent(first.weight, function.own);
        let others = function.callers.len() - 1;
        let name = self.facts.name(first.what, Some(NAME_COLUMNS));
        match others {
            0 => format!(" ← {name}"),
            _ => format!(" ← {name} {share:.0} %, {} more", grouped(others as u64)),
        }
    }

    fn costs(&mut self) {
        let is_told = |weight: u64| self.share(weight) >= 2.0 * MIN_SHARE;
        let costs = self.facts.explanation.costs.iter().filter(|cost| is_told(cost.weight));
        let words: Vec<String> = costs
            .map(|cost| {
                let by = self.facts.name(cost.by, Some(NAME_COLUMNS));
                format!("{} {} (mostly {by})", kind(cost.kind), self.percent(cost.weight))
            })
            .collect();
        if !words.is_empty() {
            self.heading("Kinds of work that symbols tell");
            self.line(&format!("  {}", words.join(", ")));
        }
    }

    fn phases(&mut self) {
        let phases = &self.facts.explanation.phases;
        let Some(start) = phases.first().map(|phase| phase.start) else { return };
        self.heading("Phases");
        let shown = phases.len().min(self.rows);
        for phase in &phases[..shown] {
            let (from, to) = (phase.start.0 - start.0, phase.end.0 - start.0);
            let name = |frame: FrameId| self.facts.name(frame, Some(NAME_COLUMNS));
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
        if !self.facts.is_clock || length == 0 || self.facts.weight != Weight::Period {
            return format!(" ({})", self.percent(phase.weight));
        }
        format!(" ({}, {:.2} CPUs busy)", self.percent(phase.weight), phase.weight as f64 / length as f64)
    }

    fn distrust(&mut self) {
        let facts = self.facts;
        let mut lines = Vec::new();
        let margin = facts.margin();
        if facts.total.samples < MIN_RELIABLE_SAMPLES {
            lines.push(format!(
                "only {}: a share of 50 % may be off by {margin:.0} points; record for longer, or more often (-F 4999)",
                counted(facts.total.samples, "sample", "samples")
            ));
        }
        let losses = losses(facts.loss);
        if !losses.is_empty() {
            lines.push(losses);
        }
        let truncated = facts.explanation.truncated;
        if truncated > 0 {
            lines.push(format!("{} of the stacks end early", self.percent(truncated)));
        }
        let census = facts.census;
        if census.nameless > 0 {
            let share = percent(census.nameless, census.frames);
            lines.push(format!("{share:.1} % of the frames have no name"));
        }
        for hint in facts.hints {
            lines.push(fit(hint, 300));
        }
        self.heading("What to distrust");
        if lines.is_empty() {
            self.line("  nothing: no sample was lost, every stack is whole, every frame has a name");
        }
        for line in lines {
            self.line(&format!("  {line}"));
        }
        if facts.total.samples >= MIN_RELIABLE_SAMPLES {
            self.line(&format!("  shares are estimates: 50 % here is 50 ± {margin:.1} % (95 times of 100)"));
        }
    }
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

fn seconds(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000_000_000 => format!("{:.0} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.1} s", nanoseconds as f64 / 1e9),
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
}
