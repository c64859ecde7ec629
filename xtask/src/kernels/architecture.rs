//! The architectures of guests, and what each is called by whom.

/// An architecture that a guest has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    pub(super) const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// Returns the name that Debian gives it.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// The kernel's name, as `uname -m` prints it.
    pub(super) fn machine(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Rust's name of the target.
    pub(super) fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }
}
