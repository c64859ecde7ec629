//! The sentences that come first: what changed, and how sure that is.

use profile::comparison::statistics::Estimate;
use profile::comparison::{Evidence, Exceeding, PathChange, Presence, Row, TotalKind, Verdict};

use super::Difference;
use super::figures::{change, growth, percent, signed, total_name};
use crate::figures::counted;

/// Share from which a function is large: most people ask for these first.
const LARGE_SHARE: f64 = 0.05;

/// Number of functions, or of calls, that the headline names.
const MAX_NAMED: usize = 2;

impl Difference<'_> {
    /// Says what changed and how sure that is, in one or two sentences.
    pub(super) fn headline(&self) -> String {
        let everything = self.everything();
        let changes = self.changes();
        match self.assessment.evidence {
            Evidence::SingleRecordings => {
                let what = match (changes, self.calls()) {
                    (Some(changes), _) => format!("{everything}{changes}"),
                    (None, None) => {
                        format!("{everything}no function differs by more than the chance of sampling")
                    }
                    (None, Some(calls)) => format!("{everything}no function differs by itself, but {calls}"),
                };
                format!(
                    "This recording only: {what}. Runs differ by more than these intervals; to learn by how much, try: \
                         prof record --runs 10 --against 'BEFORE CMD' -- CMD"
                )
            }
            Evidence::TooFewRuns { needed } => {
                let runs = self.described_runs();
                format!(
                    "{runs} are too few to tell changes from noise (a test needs {needed}): figures only."
                )
            }
            Evidence::Runs => match changes {
                Some(changes) => format!("{everything}{changes}. {}", sentence(&self.limits())),
                None => {
                    let limits = self.limits();
                    match (self.calls(), everything.is_empty()) {
                        (Some(calls), _) => {
                            format!(
                                "{everything}no function changed by itself, but {calls}. {}",
                                sentence(&limits)
                            )
                        }
                        (None, true) => {
                            format!(
                                "Nothing changed, as far as {} can tell: {limits}.",
                                self.described_runs()
                            )
                        }
                        (None, false) => format!("{everything}no function changed beyond that: {limits}."),
                    }
                }
            },
        }
    }

    /// The pairs or runs: `10 pairs`, `5 and 6 runs`.
    pub(super) fn described_runs(&self) -> String {
        let [before, after] = self.runs();
        match self.is_paired {
            true => counted(before as u64, "pair", "pairs"),
            false => format!("{before} and {} runs", after),
        }
    }

    fn everything(&self) -> String {
        let total = self.assessment.totals.iter().find(|total| total.kind == TotalKind::EverythingElse);
        let is_said = |estimate: &Estimate| {
            self.assessment.factor != 1.0
                && (self.assessment.evidence != Evidence::Runs || estimate.is_marked())
        };
        match total.and_then(|total| total.estimate).filter(is_said) {
            Some(estimate) => {
                let [factor, low, high] = estimate.factors();
                format!(
                    "everything × {factor:.2} ({low:.2} to {high:.2}), differences of functions are beyond that; "
                )
            }
            None => String::new(),
        }
    }

    fn changes(&self) -> Option<String> {
        let rows = &self.assessment.rows[..self.assessment.changed.min(self.assessment.rows.len())];
        let named = |row: &Row| {
            let (name, _) = self.name(row.frame);
            let how = match (row.presence, row.verdict) {
                (Presence::New, _) => format!("is new ({})", signed(row.difference, self.unit)),
                (Presence::Gone, _) => format!("is gone ({})", signed(row.difference, self.unit)),
                (_, Verdict::Shrunk) => format!("shrank: {}", change(row)),
                _ => format!("grew: {}", change(row)),
            };
            format!("{name} {how}")
        };
        let grown: Vec<&Row> = rows.iter().filter(|row| !matches!(row.verdict, Verdict::Moved(_))).collect();
        let mut parts: Vec<String> = grown.iter().take(MAX_NAMED).map(|row| named(row)).collect();
        if grown.len() > MAX_NAMED {
            let more = grown.len() - MAX_NAMED;
            parts.push(format!("{} changed", counted(more as u64, "more function", "more functions")));
        }
        for moved in &self.assessment.moves {
            let names: Vec<String> =
                moved.functions.iter().take(3).map(|&frame| self.name(frame).0).collect();
            let sum = moved.estimate.as_ref().map_or_else(|| signed(moved.difference, self.unit), growth);
            parts.push(format!("time moved between {}; their sum changed by {sum}", names.join(", ")));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The calls that changed, where no function did by itself.
    fn calls(&self) -> Option<String> {
        let named = |path: &PathChange| {
            let call = &path.frames[path.frames.len().saturating_sub(2)..];
            let names: Vec<String> = call.iter().map(|&frame| self.name(frame).0).collect();
            format!("{} {}", names.join(" › "), signed(path.difference, self.unit))
        };
        let named: Vec<String> = self.assessment.paths.iter().take(MAX_NAMED).map(named).collect();
        (!named.is_empty()).then(|| format!("calls changed: {}", named.join(", ")))
    }

    /// The largest changes that the runs could have missed.
    fn limits(&self) -> String {
        // A limit of more than twice the time says only that the runs scatter.
        let told = |limit: Option<f64>| limit.filter(|limit| *limit <= 1.0);
        let large = told(self.assessment.smallest_change(LARGE_SHARE));
        let all = self.assessment.smallest_change(profile::comparison::MIN_MARKED_SHARE);
        match (large, told(all)) {
            (None, None) if all.is_some() => "the runs scatter too much to say more".to_owned(),
            (Some(large), None) => {
                format!("no other function of 5 % or more grew by more than {}", percent(large))
            }
            (Some(large), Some(all)) if all > large => format!(
                "no other function of 5 % or more grew by more than {}, none of 0.5 % or more by more than {}",
                percent(large),
                percent(all)
            ),
            (_, Some(all)) => format!("no other function of 0.5 % or more grew by more than {}", percent(all)),
            _ => "no other function holds 0.5 %".to_owned(),
        }
        .replace("no other function", if self.assessment.changed == 0 { "no function" } else { "no other function" })
    }

    /// The parts that passed the threshold, in words.
    pub(super) fn exceeding(&self, exceeding: &Exceeding) -> String {
        let assessment = self.assessment;
        match *exceeding {
            Exceeding::Row(index) => assessment
                .rows
                .get(index)
                .map_or_else(String::new, |row| format!("{} {}", self.name(row.frame).0, change(row))),
            Exceeding::Move(index) => assessment.moves.get(index).map_or_else(String::new, |moved| {
                let names: Vec<String> = moved.functions.iter().map(|&frame| self.name(frame).0).collect();
                format!(
                    "{} together {}",
                    names.join(", "),
                    moved.estimate.as_ref().map_or(String::new(), growth)
                )
            }),
            Exceeding::Total(index) => assessment.totals.get(index).map_or_else(String::new, |total| {
                let growth = total.estimate.as_ref().map_or(String::new(), growth);
                format!("{} {growth}", total_name(self.unit, &total.kind))
            }),
        }
    }

    /// A sentence on the threshold, if one was asked for.
    pub(super) fn threshold_line(&self) -> Option<String> {
        let threshold = self.threshold.as_ref()?;
        let allowed = threshold.allowance.map_or(String::new(), |allowance| {
            format!(" (the program was built anew: layout alone may cause {allowance} %)")
        });
        let percent = threshold.percent;
        let wall = self.assessment.totals.iter().find(|total| total.kind == TotalKind::Wall);
        let wall = wall
            .and_then(|total| total.estimate)
            .filter(|estimate| estimate.is_marked() && estimate.log_ratio > (1.0 + percent / 100.0).ln());
        let allowed = match wall {
            Some(_) => format!("{allowed} (wall time does not decide: waits for a CPU are in it)"),
            None => allowed,
        };
        let names: Vec<String> = threshold.exceeding.iter().map(|part| self.exceeding(part)).collect();
        Some(match (self.assessment.evidence, names.is_empty()) {
            (Evidence::Runs, true) => format!("Nothing grew by more than {percent} %{allowed}."),
            (Evidence::Runs, false) => {
                format!("Grew by more than {percent} %{allowed}: {}.", names.join("; "))
            }
            _ => format!("The threshold of {percent} % is not judged: the runs are too few."),
        })
    }
}

fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}
