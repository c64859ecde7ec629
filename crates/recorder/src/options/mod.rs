//! What to record: the target and its command, the events and their rate, and the conditions on which kept records are written.

mod branches;
mod dump_conditions;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use decoder::BranchSampleFormat;
use model::{CpuId, Pid, Tid};

use crate::event::{Catalogue, Event, Rate, default_events};
use crate::unwind::Mechanisms;

pub use crate::event::{CallChain, DEFAULT_STACK_COPY};
pub use branches::parse_branches;
pub use dump_conditions::{DumpCondition, ExitCondition};

/// The default rate in Hz: a prime, so that samples do not keep step with periodic work.
pub const DEFAULT_FREQUENCY: u64 = 997;

/// The processes, threads or CPUs to record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// The command that the recording starts ([`Options::workload`]), and the processes that it starts.
    Command,
    /// Running processes with all their threads, and the threads and processes that they start from now on.
    Processes(Vec<Pid>),
    /// Single threads, without those that they start. Mappings and names are recorded of their whole processes.
    Threads(Vec<Tid>),
    /// All processes that a user (by its number) has now, and the processes that these start.
    User(u32),
    /// Everything on all CPUs.
    System,
    /// The processes of a cgroup (a path below the hierarchy's root), on all CPUs.
    Cgroup(PathBuf),
}

/// A command that runs during the recording, which ends with it. It is the target, or only sets the duration for another target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Variables that its environment has in addition to ours.
    pub environment: Vec<(OsString, OsString)>,
    /// True to redirect its standard output to our standard error, because ours carries the recording.
    pub output_to_stderr: bool,
}

impl Target {
    /// Returns true if events are opened on CPUs rather than on threads.
    pub fn is_cpu_wide(&self) -> bool {
        matches!(self, Self::System | Self::Cgroup(_))
    }
}

/// The privilege levels to sample, or to have in call chains.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PrivilegeLevels {
    /// Both, unless modifiers of the event (`:u`, `:k`) say otherwise.
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
    /// The kernel's own clock (`sched_clock`). No process can read it, so it cannot be related to the wall clock.
    Perf,
    /// A clock of `clock_gettime(2)`, by its number (`CLOCK_*`).
    Posix(i32),
}

impl Clock {
    /// `CLOCK_MONOTONIC`, the default. Runtimes use it in jitdumps, the kernel can read it in any context (unlike the wall clock),
    /// and it can be related to the times of files.
    pub const MONOTONIC: Self = Self::Posix(1);

    /// Parses a clock's name in `clock_gettime(2)`, in any case and with or without `CLOCK_`, or perf's short name of it. `perf`
    /// is [`Clock::Perf`].
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

    /// Returns the `clockid` for the attr; `None` for [`Clock::Perf`].
    pub fn id(self) -> Option<i32> {
        match self {
            Self::Perf => None,
            Self::Posix(id) => Some(id),
        }
    }
}

/// Data that are recorded only on request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Extras {
    /// The data address of each sample, and mappings without code.
    pub data: bool,
    /// The physical data address of each sample.
    pub physical_data: bool,
    /// The registers at each sample.
    pub registers: bool,
    /// The cost of each sample (`PERF_SAMPLE_WEIGHT`), if the event has one.
    pub weight: bool,
    /// The kinds of last branches to record with each sample; empty for none.
    pub branches: BranchSampleFormat,
    /// A record of each switch of a thread in and out.
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

/// The moments at which Java virtual machines are asked to write perf maps with the names of their code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JvmMapTiming {
    /// At the end of the recording. A virtual machine that ends before writes a map by itself.
    AtEnd,
    /// Also once after a few samples, as a virtual machine may end before the recording does.
    OnceWarm,
    /// Repeatedly, for a view that names code while the recording runs.
    Repeatedly,
}

/// Everything that defines a recording.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The processes, threads or CPUs to record.
    pub target: Target,
    /// The command to start; [`Target::Command`] needs one.
    pub workload: Option<Workload>,
    /// The events to sample; empty for cycles, or the CPU clock where there is no PMU.
    pub events: Vec<Event>,
    /// Events of the command that are counted exactly beside the samples ([`crate::Summary::counts`]).
    pub counted: Vec<Event>,
    /// The rate of events without their own; `None` for [`DEFAULT_FREQUENCY`], and for every occurrence of tracepoints and
    /// breakpoints.
    pub rate: Option<Rate>,
    /// The call chains of events without their own.
    pub call_chain: CallChain,
    /// Size of the ring for samples per CPU, in bytes; `None` for a default that fits the machine.
    pub ring_size: Option<u64>,
    /// The recording stops after this time.
    pub duration: Option<Duration>,
    /// Sampling starts after this time.
    pub delay: Option<Duration>,
    /// The CPUs to sample on; `None` for all.
    pub cpus: Option<Vec<CpuId>>,
    /// True to follow the threads and processes that the target starts.
    pub inherit: bool,
    /// True to record the descendants that [`Target::Processes`] have already, too.
    pub with_children: bool,
    /// True for one ring per thread instead of one per CPU. Threads that are started later are not recorded then.
    pub per_thread: bool,
    /// Maximum number of addresses in a call chain; `None` for `kernel.perf_event_max_stack`.
    pub max_stack: Option<u16>,
    /// The privilege levels to sample.
    pub levels: PrivilegeLevels,
    /// The privilege levels that call chains have.
    pub chain_levels: PrivilegeLevels,
    /// True to follow the threads that the target starts, but no processes.
    pub threads_only: bool,
    /// The clock of the timestamps.
    pub clock: Clock,
    /// Additional data to record.
    pub extras: Extras,
    /// True for a view that stays open for hours: rings, rounds and caches then favour low memory over the last few complete
    /// stacks.
    pub low_memory: bool,
    /// The sources of stack frames, and the savings, to use. All, unless the effect of one is measured by leaving it out.
    pub mechanisms: Mechanisms,
    /// True if the frames of an interpreter stay in call chains beside the functions that it runs.
    pub interpreter_frames: bool,
    /// True if the recording goes into several files, or only its newest part is kept. Totals of the whole recording, such as the
    /// CPU time of each task, are then left out, because they are wrong for a part.
    pub in_parts: bool,
    /// True if the recording goes into a stream, which cannot say at its end when switches were held back: all are recorded.
    pub is_streamed: bool,
    /// The conditions on which kept records are written to a file.
    pub dump_conditions: Vec<DumpCondition>,
    /// The moments at which Java virtual machines are asked for the names of their code; `None` for never.
    pub jvm_maps: Option<JvmMapTiming>,
    /// True to note what processes say of their services: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` of their environments, and the
    /// contexts that they publish.
    pub services: bool,
    /// True to note the users of processes ([`crate::ProcessResources::user_of`]).
    pub users: bool,
    /// The time within which sampling begins on all CPUs, one after the other, so that their samples do not come at the same moments; `None`
    /// for at once.
    pub staggered: Option<Duration>,
    /// The command as advice names it (`prof record` in `sudo prof record -a`).
    pub invocation: &'static str,
}

impl Options {
    /// Returns the call chains of `event`: its own, or those of the recording.
    pub fn call_chain_of(&self, event: &Event) -> CallChain {
        match event.call_chain {
            Some(CallChain::Stacks { size, .. }) => CallChain::Stacks { size, keep: self.keeps_stacks() },
            Some(chain) => chain,
            None => self.call_chain,
        }
    }

    /// Selects the events that are recorded when none is named, if none is.
    pub(crate) fn choose_events(&mut self, catalogue: &dyn Catalogue) {
        if self.events.is_empty() {
            let cores: Vec<_> = catalogue.pmus().iter().filter(|pmu| pmu.core).cloned().collect();
            self.events = default_events(&cores);
        }
    }

    /// Returns true if the threads that the target starts inherit the events.
    pub fn inherits(&self) -> bool {
        let may = matches!(self.target, Target::Command | Target::Processes(_) | Target::User(_));
        // An inherited event on any CPU has no ring (checklist M18).
        may && self.inherit && !self.per_thread
    }

    /// Returns true if stack copies are kept in the recording.
    pub fn keeps_stacks(&self) -> bool {
        matches!(self.call_chain, CallChain::Stacks { keep: true, .. })
    }

    /// Returns true if some event copies stacks. The recording then needs [`crate::unwind::UnwindingStage`].
    pub fn copies_stacks(&self) -> bool {
        let copies = |chain| matches!(chain, CallChain::Stacks { .. });
        copies(self.call_chain) || self.events.iter().any(|event| copies(self.call_chain_of(event)))
    }

    /// Returns the defaults for `target`.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            workload: None,
            events: Vec::new(),
            counted: Vec::new(),
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
            interpreter_frames: false,
            in_parts: false,
            is_streamed: false,
            dump_conditions: Vec::new(),
            jvm_maps: None,
            services: true,
            users: false,
            staggered: None,
            invocation: "prof record",
        }
    }

    /// Returns the defaults for a command as the target.
    pub fn of_command(workload: Workload) -> Self {
        Self { workload: Some(workload), ..Self::new(Target::Command) }
    }
}
