//! The kinds of time by which `--weight` weighs stacks.

/// The kind of time of threads that a profile has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeWeight {
    /// Time on the CPU.
    Cpu,
    /// Wall-clock time: a thread that exists for a second has a second.
    Wall,
    /// Time off the CPU: runnable, or blocked.
    OffCpu,
    /// Time on the CPU, divided by the number of threads of the process that ran at that moment: serial phases weigh most.
    Latency,
}

impl TimeWeight {
    /// The names that `--weight` takes.
    pub const NAMES: [&'static str; 4] = ["cpu", "wall", "offcpu", "latency"];

    /// Returns the weight with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Cpu, Self::Wall, Self::OffCpu, Self::Latency].into_iter().find(|weight| weight.name() == name)
    }

    /// Returns its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Wall => "wall",
            Self::OffCpu => "offcpu",
            Self::Latency => "latency",
        }
    }

    /// Describes the subject of its profiles in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time",
            Self::Wall => "wall-clock time",
            Self::OffCpu => "time off the CPU",
            Self::Latency => "CPU time by latency",
        }
    }
}
