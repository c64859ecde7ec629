//! The machines that a kernel is booted on.

/// A machine of the emulator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Machine {
    /// One CPU whose time is the number of its instructions: rates and shares are exact however busy the host is.
    Exact,
    /// The same, with Debian's C library, perf and Python beside the static programs.
    Full,
    /// Four CPUs in two nodes, on threads and by the clock of the host: an order of magnitude fewer ticks arrive.
    Smp,
}

/// The measure of the guest's clocks.
#[derive(Clone, Copy)]
pub(super) enum Time {
    /// Instructions of 2^`shift` ns each.
    Virtual {
        shift: u8,
    },
    Host,
}

impl Machine {
    pub(super) const ALL: [Self; 3] = [Self::Exact, Self::Full, Self::Smp];

    pub(super) fn time(self) -> Time {
        match self {
            // 8 ns: about the speed of the emulation, so that a second of the guest is about one of the host.
            Self::Exact | Self::Full => Time::Virtual { shift: 3 },
            Self::Smp => Time::Host,
        }
    }

    /// Returns arguments of QEMU for the CPUs and their nodes.
    pub(super) fn arguments(self) -> Vec<&'static str> {
        match self {
            Self::Exact | Self::Full => vec!["-smp", "1"],
            Self::Smp => vec![
                "-smp",
                "4",
                "-object",
                "memory-backend-ram,id=m0,size=768M",
                "-object",
                "memory-backend-ram,id=m1,size=768M",
                "-numa",
                "node,nodeid=0,memdev=m0,cpus=0-1",
                "-numa",
                "node,nodeid=1,memdev=m1,cpus=2-3",
            ],
        }
    }

    /// Returns how the table calls it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Exact => "small",
            Self::Full => "full",
            Self::Smp => "four CPUs",
        }
    }
}
