//! What `prof doctor` makes of a machine: pure functions of [`Facts`], so that machines which we do not have can be
//! judged in tests.

mod checks;
mod text;
mod unit;

use host::procfs::Capability;
use host::survey::Survey;
use recorder::Offer;

pub use checks::findings;
pub use text::report;
pub use unit::unit;

/// The survey of the machine and the kernel's answers, which the checks judge.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The settings and devices of the machine.
    pub survey: Survey,
    /// The answers of the kernel to trial events.
    pub offers: Offers,
}

/// The kernel's answers to requests for events.
#[derive(Clone, Copy, Debug)]
pub struct Offers {
    /// The CPU clock, on ourselves.
    pub clock: Offer,
    /// Cycles, on ourselves.
    pub cycles: Offer,
    /// The CPU clock, on a whole CPU.
    pub whole_cpu: Offer,
    /// A tracepoint, where one could be named.
    pub tracepoint: Option<Offer>,
    /// A probe in a program, where the kernel has such.
    pub uprobe: Option<Offer>,
}

/// The level of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Nothing can be recorded.
    Broken,
    /// Something is missing that most recordings would be better for.
    Limited,
    /// Good to know; for those who ask.
    Note,
    /// As it should be.
    Good,
}

/// The remedy that would help.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// Something to type.
    Command(String),
    /// Rights for our program; what all findings need is one command.
    Capabilities(&'static [Capability]),
    /// Not for a command: a sentence.
    Advice(String),
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The severity of the finding.
    pub level: Level,
    /// The subject that was looked at, in a few words.
    pub what: &'static str,
    /// The finding, in a sentence.
    pub text: String,
    /// Remedies that would help, the least of them first.
    pub remedies: Vec<Remedy>,
}

/// Returns true if a command can be recorded here.
pub fn can_record(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.level != Level::Broken)
}
