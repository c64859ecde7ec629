//! The sentences that come first: what changed, and how sure that is.

use profile::comparison::statistics::NEEDED_RUNS;
use profile::comparison::{Evidence, Exceeding, MIN_MARKED_SHARE, Presence, Row, TotalKind, Verdict};

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
        let (everything, changes) = (self.everything(), self.changes());
        let nothing = everything.is_empty() && changes.is_none();
        let changed = everything + changes.as_deref().unwrap_or("no function changed by itself");
        match self.assessment.evidence {
            Evidence::SingleRecordings => format!(
                "This recording only: {changed}. Runs differ by more than these intervals; to learn by how much, try: prof record \
                 --runs 10 --against 'BEFORE CMD' -- CMD"
            ),
            Evidence::TooFewRuns => format!(
                "{} are too few to tell changes from noise (a test needs {NEEDED_RUNS} of each side): figures only.",
                self.described_runs()
            ),
            Evidence::Runs if nothing => {
                format!("Nothing changed, as far as {} can tell: {}.", self.described_runs(), self.limits())
            }
            Evidence::Runs => format!("In {}, {changed}; {}.", self.described_runs(), self.limits()),
        }
    }

    /// The pairs or runs: `10 pairs`, `5 and 6 runs`.
    fn described_runs(&self) -> String {
        let [before, after] = self.runs();
        match self.is_paired && before == after {
            true => counted(before as u64, "pair", "pairs"),
            false => format!("{before} and {after} runs"),
        }
    }

    /// Says by how much everything changed, if it did.
    fn everything(&self) -> String {
        let total = self.assessment.totals.iter().find(|total| total.kind == TotalKind::EverythingElse);
        let estimate = total.and_then(|total| total.estimate).filter(|_| self.assessment.factor != 1.0);
        estimate.map_or(String::new(), |estimate| {
            let [factor, low, high] = estimate.factors();
            format!(
                "everything × {factor:.2} ({low:.2} to {high:.2}), differences of functions are beyond that; "
            )
        })
    }

    /// Names the functions that changed; where none did, the calls.
    fn changes(&self) -> Option<String> {
        let assessment = self.assessment;
        let named = |row: &&Row| {
            let name = self.shown_name(row.frame);
            match (row.presence, row.verdict) {
                (Presence::New, _) => format!("{name} is new ({})", signed(row.difference, self.unit)),
                (Presence::Gone, _) => format!("{name} is gone ({})", signed(row.difference, self.unit)),
                (_, Verdict::Shrunk) => format!("{name} shrank: {}", change(row)),
                _ => format!("{name} grew: {}", change(row)),
            }
        };
        let changed = assessment.rows.iter().take(assessment.changed);
        let changed: Vec<&Row> = changed.filter(|row| !matches!(row.verdict, Verdict::Moved(_))).collect();
        let mut parts: Vec<String> = changed.iter().take(MAX_NAMED).map(named).collect();
        if changed.len() > MAX_NAMED {
            let more = counted((changed.len() - MAX_NAMED) as u64, "more function", "more functions");
            parts.push(format!("{more} changed"));
        }
        parts.extend(assessment.moves.iter().map(|moved| {
            let names: Vec<String> =
                moved.functions.iter().take(3).map(|&frame| self.shown_name(frame)).collect();
            let sum = moved.estimate.as_ref().map_or_else(|| signed(moved.difference, self.unit), growth);
            format!("time moved between {}; their sum changed by {sum}", names.join(", "))
        }));
        if parts.is_empty() {
            parts.extend(assessment.paths.iter().take(MAX_NAMED).map(|path| {
                let call = &path.frames[path.frames.len().saturating_sub(2)..];
                let names: Vec<String> = call.iter().map(|&frame| self.shown_name(frame)).collect();
                format!("calls changed: {} {}", names.join(" › "), signed(path.difference, self.unit))
            }));
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// The largest changes that the runs could have missed.
    fn limits(&self) -> String {
        let other = if self.assessment.changed == 0 { "" } else { "other " };
        let limit = |share: f64| {
            // A limit of more than twice the time says only that the runs scatter.
            let limit = self.assessment.smallest_change(share).filter(|limit| *limit <= 1.0)?;
            Some(format!(
                "no {other}function of {} or more grew by more than {}",
                percent(share),
                percent(limit)
            ))
        };
        let limits: Vec<String> = [LARGE_SHARE, MIN_MARKED_SHARE].into_iter().filter_map(limit).collect();
        match limits.is_empty() {
            true => "no other function can be told from noise".to_owned(),
            false => limits.join(", "),
        }
    }

    /// The parts that passed the threshold, in words.
    pub(super) fn exceeding(&self, exceeding: &Exceeding) -> String {
        let assessment = self.assessment;
        let (name, estimate) = match *exceeding {
            Exceeding::Row(index) => {
                let row = &assessment.rows[index];
                return format!("{} {}", self.shown_name(row.frame), change(row));
            }
            Exceeding::Move(index) => {
                let moved = &assessment.moves[index];
                let names: Vec<String> =
                    moved.functions.iter().map(|&frame| self.shown_name(frame)).collect();
                (format!("{} together", names.join(", ")), &moved.estimate)
            }
            Exceeding::Total(index) => {
                let total = &assessment.totals[index];
                (total_name(self.unit, &total.kind), &total.estimate)
            }
        };
        format!("{name} {}", estimate.as_ref().map_or(String::new(), growth))
    }

    /// A sentence on the threshold, if one was asked for.
    pub(super) fn threshold_line(&self) -> Option<String> {
        let threshold = self.threshold.as_ref()?;
        let percent = threshold.percent;
        let allowed = threshold.allowance.map_or(String::new(), |allowance| {
            format!(" (the program was built anew: layout alone may cause {allowance} %)")
        });
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
