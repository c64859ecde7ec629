//! The conditions on which kept records are written to a file without being asked for.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use host::sys::spawn::ExitStatus;
use model::Name;

use crate::event::Event;

/// Something at which what is kept is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DumpCondition {
    /// A file with this name is there, and was not before.
    File(PathBuf),
    /// The target has used more CPU time than this, in per cent, for so long: of one CPU, or of all where the target is the whole
    /// machine.
    CpuUse {
        /// Per cent.
        percent: u32,
        /// For so long.
        time: Duration,
    },
}

impl fmt::Display for DumpCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{} is there", Name::from(path.as_os_str().as_encoded_bytes())),
            Self::CpuUse { percent, time } => {
                write!(f, "CPU use was above {percent} % for {} s", time.as_secs_f64())
            }
        }
    }
}

/// The way a command has to end for a file to be written at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitCondition {
    /// With this code, as a shell shows it: 128 and the number of the signal that ended it.
    Code(u8),
    /// With any other than 0.
    NotZero,
}

impl ExitCondition {
    /// Returns true if a command that ended like this meets it; one that has not ended does.
    pub(crate) fn is_met(self, status: Option<ExitStatus>) -> bool {
        let Some(code) = status.map(ExitStatus::shell_code) else { return true };
        match self {
            Self::Code(wanted) => code == wanted,
            Self::NotZero => code != 0,
        }
    }
}

/// A function whose calls may not take long.
#[derive(Clone, PartialEq, Debug)]
pub struct SlowCall {
    /// As typed, for messages.
    pub name: String,
    /// Longer than this is too long.
    pub limit: Duration,
    /// The probes at its entry and at its return, with names that no other event has.
    pub probes: [Event; 2],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_by_their_codes() {
        let code = |code| Some(ExitStatus::Code(code));
        assert!(ExitCondition::NotZero.is_met(code(3)) && !ExitCondition::NotZero.is_met(code(0)));
        assert!(ExitCondition::Code(139).is_met(Some(ExitStatus::Signal(11))));
        assert!(!ExitCondition::Code(139).is_met(code(1)));
        assert!(ExitCondition::NotZero.is_met(None), "nobody knows");
    }
}
