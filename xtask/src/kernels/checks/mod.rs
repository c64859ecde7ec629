//! The checks: what runs in a guest with which rights, what is expected, and how it is judged.

mod counters;
mod four_cpus;
mod full;
mod kernel_names;
mod probes;
mod recordings;
mod shares;
mod tools;
mod unwinding;
mod users;

use super::answer::Answer;
use super::architecture::Architecture;
use super::kernel::Kernel;
use super::machine::Machine;

/// The user that runs a check.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Rights {
    Root,
    /// An ordinary user, with `kernel.perf_event_paranoid` at this level.
    User {
        paranoid: i8,
    },
    /// A user with one capability.
    Capability {
        name: &'static str,
        paranoid: i8,
    },
}

/// A check of one thing in one kind of guest.
pub(super) struct Check {
    /// The thing that is tried.
    pub(super) name: String,
    pub(super) rights: Rights,
    /// The outcome that must be, as a message says it.
    pub(super) expects: String,
    pub(super) machine: Machine,
    /// The kernels where the answer may differ.
    pub(super) on: On,
    /// True if it needs a recording that was made on the host.
    pub(super) reads_host_recording: bool,
    /// The part that runs in the guest, for the shell of busybox; `$as` runs a command with the rights.
    script: String,
    pub(super) judge: Judge,
}

/// Decides where a check runs.
type On = fn(&Kernel) -> bool;

/// Decides whether an answer is as expected; the error says what is not.
type Judge = Box<dyn Fn(&Kernel, &Answer) -> anyhow::Result<()> + Send + Sync>;

impl Check {
    /// Returns a check of root's on every kernel, on one CPU with exact time.
    fn new(
        name: impl Into<String>,
        expects: impl Into<String>,
        script: impl Into<String>,
        judge: impl Fn(&Kernel, &Answer) -> anyhow::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            rights: Rights::Root,
            expects: expects.into(),
            machine: Machine::Exact,
            on: |_| true,
            reads_host_recording: false,
            script: script.into(),
            judge: Box::new(judge),
        }
    }

    fn with_rights(self, rights: Rights) -> Self {
        Self { rights, ..self }
    }

    fn in_machine(self, machine: Machine) -> Self {
        Self { machine, ..self }
    }

    fn on(self, on: On) -> Self {
        Self { on, ..self }
    }

    /// Returns rights and name: `user, paranoid 2 · cycles, fp`.
    pub(super) fn title(&self) -> String {
        format!("{} · {}", self.rights.label(), self.name)
    }

    /// Returns the script with the rights.
    pub(super) fn guest_script(&self) -> String {
        format!("{}{}", self.rights.prelude(), self.script)
    }
}

impl Rights {
    /// Returns how the table calls it.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Root => "root".to_owned(),
            Self::User { paranoid } => format!("user, paranoid {paranoid}"),
            Self::Capability { name, paranoid } => format!("{name}, paranoid {paranoid}"),
        }
    }

    fn prelude(&self) -> String {
        match self {
            Self::Root => "as=\n".to_owned(),
            Self::User { paranoid } => format!("paranoid {paranoid}\nas='as_user none'\n"),
            Self::Capability { name, paranoid } => format!("paranoid {paranoid}\nas='as_user {name}'\n"),
        }
    }
}

/// Returns all checks.
pub(super) fn all() -> Vec<Check> {
    let groups = [
        shares::checks(),
        users::checks(),
        kernel_names::checks(),
        tools::checks(),
        counters::checks(),
        unwinding::checks(),
        probes::checks(),
        recordings::checks(),
        full::checks(),
        four_cpus::checks(),
    ];
    groups.into_iter().flatten().collect()
}

fn is_aarch64(kernel: &Kernel) -> bool {
    kernel.architecture == Architecture::Aarch64
}

/// Returns true if the emulated machine has a PMU: QEMU's for Arm counts cycles and instructions.
fn has_pmu(kernel: &Kernel) -> bool {
    is_aarch64(kernel)
}
