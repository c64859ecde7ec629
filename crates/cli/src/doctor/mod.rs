//! The findings of `prof doctor`: pure functions of [`Facts`], so that tests can judge other machines.

mod checks;
mod text;
mod unit;

use host::procfs::Capability;
use host::survey::Survey;
use recorder::EventSupport;

pub use checks::findings;
pub use text::report;
pub use unit::{UnitKind, unit};

/// The facts that the checks judge: the survey of the machine, and what the kernel offers.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The settings and devices of the machine.
    pub survey: Survey,
    /// The offers of the kernel for trial events.
    pub offers: Offers,
}

/// The offers of the kernel for trial events.
#[derive(Clone, Copy, Debug)]
pub struct Offers {
    /// The CPU clock on this process.
    pub clock: EventSupport,
    /// Cycles on this process.
    pub cycles: EventSupport,
    /// The CPU clock on a whole CPU.
    pub whole_cpu: EventSupport,
    /// A tracepoint; `None` if tracefs lists none.
    pub tracepoint: Option<EventSupport>,
    /// A probe in a program; `None` if the kernel has no uprobes.
    pub uprobe: Option<EventSupport>,
}

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Nothing can be recorded.
    Broken,
    /// Most recordings lack something.
    Limited,
    /// A remark that only `-v` prints.
    Note,
    /// Nothing is missing.
    Good,
}

/// A remedy for a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// A command.
    Command(String),
    /// Capabilities for this program. Those of all findings are combined in one command.
    Capabilities(&'static [Capability]),
    /// Advice that is not a command.
    Advice(String),
}

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The severity of the finding.
    pub level: Level,
    /// The subject of the check.
    pub what: &'static str,
    /// The finding, in a sentence.
    pub text: String,
    /// Remedies, the least privileged first.
    pub remedies: Vec<Remedy>,
}

/// Returns true if a command can be recorded here.
pub fn can_record(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.level != Level::Broken)
}
