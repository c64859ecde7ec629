//! Names the estimates that a profile of time rests on.

use super::switches::Switches;

/// Something that is estimated, because the recording does not have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Estimate {
    /// In a few words, for a picture; empty if the picture shows it.
    pub(crate) brief: String,
    /// The sentence: what stands for it, and how far it is approximate.
    pub(crate) sentence: String,
}

/// Says that stacks of waits were read from outside.
const READ_FROM_OUTSIDE: &str =
    "stacks of waits were read from outside, up to 40 times a second: those of short waits are estimated";

/// Says how long threads waited for a CPU where the kernel's counts tell.
const WAKINGS_COUNTED: &str =
    "wakings are not recorded: waits for a CPU are the kernel's count, in equal parts after each wait";
/// Says how long threads waited for a CPU where nothing tells.
const WAKINGS_UNKNOWN: &str =
    "wakings are not recorded: waits for a CPU count as blocked; try: recording sched:sched_waking, too";

impl Switches {
    /// Returns true if stacks of waits are estimated from those that were read from outside.
    fn has_estimated_stacks(&self) -> bool {
        self.are_records_alone() && self.has_outside()
    }

    /// Returns what is estimated of a recording by prof that runs, in a sentence.
    pub(super) fn remark(&self) -> Option<&'static str> {
        if self.has_estimated_stacks() {
            return Some(READ_FROM_OUTSIDE);
        }
        (!self.has_wakings()).then_some(WAKINGS_COUNTED)
    }

    /// Returns what is estimated of a recording that has ended, where time in which switches were held back counts (`counts_held`), or is
    /// left out.
    pub(crate) fn estimates(&self, counts_held: bool) -> Vec<Estimate> {
        let stacks = self.has_estimated_stacks().then(|| Estimate {
            brief: "stacks of waits read from outside".to_owned(),
            sentence: READ_FROM_OUTSIDE.to_owned(),
        });
        let wakings = (!self.has_wakings()).then(|| Estimate {
            brief: "wakings not recorded".to_owned(),
            sentence: match self.sampling.threads.is_empty() {
                true => WAKINGS_UNKNOWN.to_owned(),
                false => WAKINGS_COUNTED.to_owned(),
            },
        });
        let held = self.sampling.held();
        let times = self.watched.filter(|_| held > 0).map(|watched| {
            let all = watched.end.saturating_sub(watched.begin).max(1);
            let percent = 100.0 * (1.0 - held as f64 / all as f64);
            let rest = match counts_held {
                true => "the rest is the kernel's time of each thread, in the shares of what is recorded",
                false => "the rest has no place in time and is left out",
            };
            Estimate {
                brief: format!("switches of {percent:.1} % of the time recorded"),
                sentence: format!(
                    "too many switches to record them all: those of {percent:.1} % of the time are; {rest}"
                ),
            }
        });
        stacks.into_iter().chain(wakings).chain(times).collect()
    }
}
