//! The conditions on which kept records are written to a file without being asked for.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use host::sys::spawn::ExitStatus;
use model::Name;

/// A condition on which the kept records are written to a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DumpCondition {
    /// A file with this name appears.
    File(PathBuf),
    /// The target's CPU use is above `percent` for `time`. 100 per cent is one CPU, or all CPUs if the target is the whole
    /// machine.
    CpuUse {
        /// The limit, in per cent.
        percent: u32,
        /// For how long the use has to be above the limit.
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

/// The exit status of the command on which the file at the end is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitCondition {
    /// This code, as a shell shows it: 128 plus the number of the signal, if one ended the command.
    Code(u8),
    /// Any code but 0.
    NotZero,
}

impl ExitCondition {
    /// Returns true if `status` meets the condition. A command that has not ended (`None`) does.
    pub(crate) fn is_met(self, status: Option<ExitStatus>) -> bool {
        let Some(code) = status.map(ExitStatus::shell_code) else { return true };
        match self {
            Self::Code(wanted) => code == wanted,
            Self::NotZero => code != 0,
        }
    }
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
