//! Facts about profiles of other tools.

use export::exchange::SampleLabel;

use super::Format;

/// The facts about a profile of another tool that a recording has in its header.
pub(crate) struct ForeignFacts {
    pub(crate) format: Format,
    pub(super) started_unix_ns: Option<u64>,
    pub(super) duration_ns: Option<u64>,
    /// The labels of samples, by the numbers that threads of profiles have of them.
    pub(super) labels: Vec<Vec<SampleLabel>>,
}

impl ForeignFacts {
    /// Returns when the profile was begun, in nanoseconds since 1970, and how many nanoseconds it took, as far as it says.
    pub(crate) fn time(&self) -> (Option<u64>, u64) {
        (self.started_unix_ns, self.duration_ns.unwrap_or(0))
    }
}
