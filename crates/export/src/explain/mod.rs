//! An explanation of a profile, as one page of text or as JSON.

mod causes;
mod json;
mod text;

use model::{Loss, Name};
use profile::explain::{Explanation, Phase};
use profile::{FrameId, FrameTable, Label, short_name};

use crate::figures::percent;
use crate::names::{fit_name, plain_name};
use crate::summary::Summary;
use crate::wait_chains::WaitingFindings;

pub use json::write as write_json;
pub use text::page;

/// The JSON Schema of what [`write_json`] writes.
pub const SCHEMA: &str = include_str!("../../../../docs/schemas/explain.json");

/// Maximum width of a function's name, in columns.
const NAME_COLUMNS: usize = 40;
/// Maximum width of a thread's name, in columns.
const THREAD_COLUMNS: usize = 16;

/// All that an explanation is written from: title, event, totals, loss, frames and findings.
pub struct ExplanationInput<'a> {
    /// The target, machine, time and rate of the recording, in one line.
    pub title: &'a str,
    /// The event, its totals, weight, loss and frames without names.
    pub summary: Summary<'a>,
    /// The unit of weights: `samples`, or what the event counts (`ns` for a clock).
    pub unit: &'a str,
    /// The number of looks by which the callers of Python functions are known; `None` where there were none.
    pub looks: Option<u64>,
    /// For how long it was recorded, in nanoseconds.
    pub duration_ns: Option<u64>,
    /// The number of CPUs of the machine.
    pub cpus: Option<u64>,
    /// True if the event is a quantity of another tool.
    pub is_foreign: bool,
    /// True if the event is a clock: periods are CPU time in nanoseconds.
    pub is_clock: bool,
    /// The flag to type for more samples, such as `-F 4999`; `None` if they are frequent.
    pub more_often: Option<&'a str>,
    /// The loss of the recording.
    pub loss: &'a Loss,
    /// The reasons why the profile is incomplete, each a sentence with a remedy.
    pub hints: &'a [String],
    /// The findings about the samples.
    pub findings: Findings<'a>,
    /// The stretches of time that differ in what ran.
    pub phases: &'a [Phase],
    /// The findings about the time that threads waited, in nanoseconds, where that was recorded beside samples.
    pub waits: Option<Findings<'a>>,
    /// Who made threads wait, where that is known.
    pub waiting: Option<WaitingFindings<'a>>,
}

/// Findings with the frames that they refer to.
#[derive(Clone, Copy)]
pub struct Findings<'a> {
    /// The frames.
    pub frames: &'a FrameTable,
    /// The findings.
    pub explanation: &'a Explanation,
}

/// Returns the name of a module: `kernel` for what perf names `kernel.kallsyms`.
fn module_name(module: &Name) -> String {
    match module.as_bytes() {
        b"kernel.kallsyms" => "kernel".to_owned(),
        _ => module.to_string(),
    }
}

impl Findings<'_> {
    fn label(&self, frame: FrameId) -> Option<&Label> {
        self.frames.frames().get(frame.index()).map(|frame| &frame.label)
    }

    /// Returns the name of a frame without its module, safe for a terminal, shortened to `columns` if given.
    fn name(&self, frame: FrameId, columns: Option<usize>) -> String {
        let name = plain_name(self.label(frame));
        match columns {
            Some(columns) => fit_name(&short_name(&name), columns).into_owned(),
            None => name,
        }
    }

    /// Returns the module of a frame; `None` if it has none.
    fn module(&self, frame: FrameId) -> Option<String> {
        match self.label(frame) {
            Some(Label::Function(_, Some(module)) | Label::Module(module, _)) => Some(module_name(module)),
            _ => None,
        }
    }

    /// Returns true if threads did nothing but wait: no sample was taken in a function.
    fn is_of_waits(&self) -> bool {
        self.explanation.functions.is_empty()
    }

    /// Returns the share of a weight in the total, from 0 to 1.
    fn share(&self, weight: u64) -> f64 {
        weight as f64 / self.explanation.total.max(1) as f64
    }

    /// Returns the share of a weight in the total as text, such as `12.5 %`.
    fn percent(&self, weight: u64) -> String {
        format!("{:.1} %", percent(weight, self.explanation.total))
    }
}

impl ExplanationInput<'_> {
    /// Returns how many CPUs were busy on average; `None` if the event is no clock or the duration is unknown.
    fn busy_cpus(&self) -> Option<f64> {
        let duration = self.duration_ns.filter(|&duration| duration > 0 && self.is_clock)?;
        Some(self.summary.total.period as f64 / duration as f64)
    }

    /// Returns the half width of the 95 % confidence interval of a share of 50 %, in percentage points.
    fn margin(&self) -> f64 {
        98.0 / (self.summary.total.samples.max(1) as f64).sqrt()
    }

    /// Returns the same of the share that a caller of a Python function has: samples tell that it ran, looks who had called it.
    fn callers_margin(&self) -> Option<f64> {
        let margin = 98.0 / (self.looks?.max(1) as f64).sqrt();
        Some(margin.hypot(self.margin()))
    }
}

fn seconds(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000_000_000 => format!("{:.0} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.1} s", nanoseconds as f64 / 1e9),
    }
}
