//! What to record: the target and its command, the events, the rate, call chains, and on what conditions kept records are written.

mod branches;
mod dump_conditions;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use decoder::BranchSampleFormat;
use model::{CpuId, Pid, Tid};

use crate::event::{Event, Rate};
use crate::unwind::Mechanisms;

pub use crate::event::{CallChain, DEFAULT_STACK_COPY};
pub use branches::parse_branches;
pub use dump_conditions::{DumpCondition, ExitCondition, SlowCall};

/// The rate where none is asked for, in Hz: a prime, so as not to beat in time with what is profiled.
pub const DEFAULT_FREQUENCY: u64 = 997;

/// Whom to observe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The command that we start ([`Options::workload`]), with all that it starts.
    Command,
    /// Running processes with all their threads, and what they start from now on.
    Processes(Vec<Pid>),
    /// Single threads, without what they start. Mappings and names are followed for their whole processes.
    Threads(Vec<Tid>),
    /// All processes that a user has now, and what they start.
    User(u32),
    /// Everything on all CPUs.
    System,
    /// The processes of a cgroup (a path below the hierarchy's root), on all CPUs.
    Cgroup(PathBuf),
}

/// A command that runs while we record: the recording ends when it does. It may be the target, or what other targets
/// are observed for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Variables of its environment, beside our own ones.
    pub environment: Vec<(OsString, OsString)>,
    /// Its standard output goes to our standard error, because ours carries the recording.
    pub output_to_stderr: bool,
}

impl Target {
    /// Returns true if events are opened on CPUs rather than on threads.
    pub fn is_cpu_wide(&self) -> bool {
        matches!(self, Self::System | Self::Cgroup(_))
    }
}

/// The side of a system call to see.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PrivilegeLevels {
    /// Both, or what the events' modifiers say.
    #[default]
    AsSelected,
    /// User space only.
    User,
    /// The kernel only.
    Kernel,
}

/// The clock of the timestamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// The kernel's own (`sched_clock`), which no process can read and nothing relates to the wall clock.
    Perf,
    /// One of `clock_gettime(2)`, by its number (`CLOCK_*`).
    Posix(i32),
}

impl Clock {
    /// `CLOCK_MONOTONIC`: the default. Runtimes write it into jitdumps, the kernel can read it in any context (unlike the
    /// wall clock), and it can be related to the times of files.
    pub const MONOTONIC: Self = Self::Posix(1);

    /// A clock by its name in `clock_gettime(2)`, in any case, with or without `CLOCK_`; perf's short names too. `perf` is
    /// [`Clock::Perf`].
    pub fn by_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        Some(match name.strip_prefix("clock_").unwrap_or(&name) {
            "perf" => Self::Perf,
            "realtime" | "real" => Self::Posix(0),
            "monotonic" | "mono" => Self::MONOTONIC,
            "monotonic_raw" | "raw" => Self::Posix(4),
            "boottime" | "boot" => Self::Posix(7),
            "tai" => Self::Posix(11),
            _ => return None,
        })
    }

    /// Returns the clock id for the attr: the number, where it is not the kernel's own.
    pub fn id(self) -> Option<i32> {
        match self {
            Self::Perf => None,
            Self::Posix(id) => Some(id),
        }
    }
}

/// Data that are recorded only where they are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Extras {
    /// The data address of each sample, and mappings without code.
    pub data: bool,
    /// The physical data address of each sample.
    pub physical_data: bool,
    /// The registers at each sample.
    pub registers: bool,
    /// The cost of each sample, where the event knows.
    pub weight: bool,
    /// The branches that the processor remembers at each sample; empty for none.
    pub branches: BranchSampleFormat,
    /// True to record the times at which threads are switched in and out.
    pub switches: bool,
    /// The namespaces of processes.
    pub namespaces: bool,
    /// The cgroup of each sample, and the cgroups' paths.
    pub cgroups: bool,
    /// The size of the page of each sample's data address.
    pub data_page_sizes: bool,
    /// The size of the page of each sample's instruction.
    pub code_page_sizes: bool,
}

/// The moments at which virtual machines are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JvmMapTiming {
    /// At the end, those that still live: others write a map when they end.
    AtEnd,
    /// Also as soon as they have run for a moment: they may end before the recording does.
    OnceWarm,
    /// Again and again, for a view that names code while it runs.
    Repeatedly,
}

/// The description of a recording: the events, the target, the rate, the rings.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Whom to observe.
    pub target: Target,
    /// The command to start; [`Target::Command`] needs one.
    pub workload: Option<Workload>,
    /// The events to sample; empty for cycles, or the CPU clock where there is no PMU.
    pub events: Vec<Event>,
    /// The rate of samples; `None` for [`DEFAULT_FREQUENCY`], and each occurrence of tracepoints and breakpoints.
    pub rate: Option<Rate>,
    /// Call chains.
    pub call_chain: CallChain,
    /// Bytes of ring per CPU; `None` for a default that fits the machine.
    pub ring_size: Option<u64>,
    /// Stop after this time.
    pub duration: Option<Duration>,
    /// Start sampling after this time.
    pub delay: Option<Duration>,
    /// Sample on these CPUs only.
    pub cpus: Option<Vec<CpuId>>,
    /// Follow the threads and processes that the target starts.
    pub inherit: bool,
    /// Of [`Target::Processes`], also what these have started before, and so on.
    pub with_children: bool,
    /// One ring per thread instead of one per CPU: for threads that exist, without what they start.
    pub per_thread: bool,
    /// Addresses in a call chain; `None` for `kernel.perf_event_max_stack`.
    pub max_stack: Option<u16>,
    /// User space, the kernel, or both.
    pub levels: PrivilegeLevels,
    /// Of which side call chains are: both, user space, or the kernel.
    pub chain_levels: PrivilegeLevels,
    /// Of what the target starts, only threads are followed, and no processes.
    pub threads_only: bool,
    /// The clock of the timestamps.
    pub clock: Clock,
    /// The data to record beside the usual.
    pub extras: Extras,
    /// True if this is for a view that stays open for hours: one that is light is worth more than one that has the last
    /// few complete stacks. Less memory is kept ready then.
    pub low_memory: bool,
    /// The sources of stack frames, and the savings, that are used: all but where one of them is measured.
    pub mechanisms: Mechanisms,
    /// True if a part of what comes is kept, or goes into several files: what stands for a whole recording, as the CPU time
    /// of each task, would be wrong in a part.
    pub in_parts: bool,
    /// The conditions under which kept records are written without being asked for.
    pub dump_conditions: Vec<DumpCondition>,
    /// Functions at whose slow calls what is kept is written. Their probes are recorded beside [`Options::events`], or the
    /// default ones.
    pub slow_calls: Vec<SlowCall>,
    /// The moments at which Java virtual machines are asked for the names of their code, if at all.
    pub jvm_maps: Option<JvmMapTiming>,
    /// The words before the flags in advice such as `sudo prof record -a`.
    pub invocation: &'static str,
}

impl Options {
    /// The call chains of `event`: what it says itself, or what holds for all.
    pub fn call_chain_of(&self, event: &Event) -> CallChain {
        match event.call_chain {
            Some(CallChain::Stacks { size, .. }) => CallChain::Stacks { size, keep: self.keeps_stacks() },
            Some(chain) => chain,
            None => self.call_chain,
        }
    }

    /// Returns true if the events are taken over by the threads that the target starts.
    pub fn inherits(&self) -> bool {
        let may = matches!(self.target, Target::Command | Target::Processes(_) | Target::User(_));
        // An inherited event on any CPU has no ring (checklist M18).
        may && self.inherit && !self.per_thread
    }

    /// Returns true if stack copies are kept in the recording.
    pub fn keeps_stacks(&self) -> bool {
        matches!(self.call_chain, CallChain::Stacks { keep: true, .. })
    }

    /// Returns true if some event copies stacks, so that the recording has to go through [`crate::unwind::UnwindingStage`].
    pub fn copies_stacks(&self) -> bool {
        let copies = |chain| matches!(chain, CallChain::Stacks { .. });
        copies(self.call_chain) || self.events.iter().any(|event| copies(self.call_chain_of(event)))
    }

    /// The defaults for `target`.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            workload: None,
            events: Vec::new(),
            rate: None,
            call_chain: CallChain::default(),
            ring_size: None,
            duration: None,
            delay: None,
            cpus: None,
            inherit: true,
            with_children: false,
            per_thread: false,
            max_stack: None,
            levels: PrivilegeLevels::default(),
            chain_levels: PrivilegeLevels::default(),
            threads_only: false,
            clock: Clock::MONOTONIC,
            extras: Extras::default(),
            low_memory: false,
            mechanisms: Mechanisms::all(),
            in_parts: false,
            dump_conditions: Vec::new(),
            slow_calls: Vec::new(),
            jvm_maps: None,
            invocation: "prof record",
        }
    }

    /// A command with all that it starts, with the usual settings.
    pub fn of_command(workload: Workload) -> Self {
        Self { workload: Some(workload), ..Self::new(Target::Command) }
    }
}
