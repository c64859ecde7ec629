//! What decides which events are opened: the machine, the rights of the user, the target, and what the kernel has said so far.

use decoder::Attr;
use host::survey::Settings;
use model::{CpuId, Pid, Tid};

use super::{Scope, Stop};
use crate::event::Pmu;

/// The facts that decide what is opened. What is not known yet is a [`Question`]; each refusal is a new fact.
#[derive(Clone, Default, Debug)]
pub(crate) struct Facts {
    /// The CPUs that are online.
    pub(crate) online_cpus: Vec<CpuId>,
    /// The CPUs that this process may run on, and so a command.
    pub(crate) allowed_cpus: Vec<CpuId>,
    /// The PMUs of the kinds of cores, where there are several.
    pub(crate) core_pmus: Vec<Pmu>,
    /// The name of a PMU of the cores, where counts are planned.
    pub(crate) core_pmu: Option<String>,
    /// The settings of the kernel.
    pub(crate) settings: Settings,
    /// True if this process has CAP_PERFMON or CAP_SYS_ADMIN.
    pub(crate) is_capable: bool,
    /// Size of main memory, in KiB.
    pub(crate) memory_kb: Option<u64>,
    /// The threads on which events are opened; for a command, the child that becomes it. None where the target consists of CPUs.
    pub(crate) threads: Vec<Tid>,
    /// The other threads of their processes, where the target consists of threads.
    pub(crate) siblings: Vec<Tid>,
    /// The processes that are attached to.
    pub(crate) processes: Vec<Pid>,
    /// The largest ring that was permitted, in bytes, where a larger one was refused.
    pub(crate) largest_ring: Option<u64>,
    /// The ways of opening the events that have failed.
    pub(crate) refused_scopes: Vec<Scope>,
    /// Of more threads than there are descriptors for, which were found while attaching: the number of descriptors that they need, the
    /// number for each purpose in words, and the limit.
    pub(crate) too_many_threads: Option<(u64, String, u64)>,
    /// What the kernel has said so far.
    pub(crate) answers: Vec<(Question, Answer)>,
}

impl Facts {
    /// Returns the answer to a question.
    ///
    /// # Errors
    /// [`Stop::Ask`] where it was not asked yet.
    pub(crate) fn answer_to(&self, question: Question) -> Result<Answer, Stop> {
        let known = self.answers.iter().find(|(known, _)| *known == question).map(|(_, answer)| *answer);
        known.ok_or_else(|| Stop::Ask(vec![question]))
    }
}

/// What has to be known before there is a plan.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Question {
    /// Does an event open there?
    Opens(Attr, Site),
    /// How many descriptors may this process have, if so many are asked for?
    Descriptors(u64),
    /// How often do the CPUs switch between threads within [`SWITCH_RATE_INTERVAL`](crate::waits::SWITCH_RATE_INTERVAL)?
    Switches,
}

/// What the kernel says: a number, 0 for an event that opens, or an errno.
pub(crate) type Answer = Result<u64, i32>;

/// The kind of place where an event is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Site {
    /// A thread of the target, on a CPU or on any.
    Thread(Option<CpuId>),
    /// All that runs on a CPU.
    Cpu(CpuId),
    /// The cgroup of the target, on a CPU.
    Cgroup(CpuId),
}
