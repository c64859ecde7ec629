//! Notices to the user while a recording or count runs.

use std::fmt;

use decoder::Attr;

use model::{Harm, Name, Pid};
use tasks::Counts;

use crate::consumer::dump_report::{Dump, DumpFailure};
use crate::counting::uncounted::Uncounted;
use crate::error::{EINVAL, ENOMEM, MOUNT_PROC};
use crate::plan::limits::mlock_kb_for;

/// A fact that the user should know: usually that something is done otherwise than requested. `Display` gives the message.
#[derive(Clone, PartialEq, Debug)]
pub enum Notice {
    /// There is no PMU, so the CPU clock samples instead of cycles.
    ClockInstead,
    /// The processor records no last branches, so the kernel walks frame pointers instead.
    FramePointersInstead {
        /// The event's name.
        event: String,
    },
    /// This user is not permitted a part of the request, which is left out.
    NotPermitted {
        /// The part that is left out.
        what: &'static str,
    },
    /// Only user space is sampled, because this user is not permitted to profile the kernel.
    UserSpaceOnly {
        /// `kernel.perf_event_paranoid`.
        paranoid: Option<i32>,
    },
    /// An event occurs in the kernel only, which is not sampled.
    NothingToCount {
        /// Its name.
        event: String,
    },
    /// The kernel limits the rate.
    RateLimited {
        /// The requested rate, in Hz.
        asked: u64,
        /// The rate that is used instead, in Hz.
        allowed: u64,
    },
    /// The kernel limits the length of call chains.
    StackLimited {
        /// The requested number of addresses.
        asked: u16,
        /// `kernel.perf_event_max_stack`.
        allowed: u16,
    },
    /// An event was enabled and has never counted.
    NeverRan {
        /// Its name.
        event: String,
        /// The reason.
        why: Uncounted,
    },
    /// The rings are smaller than wanted.
    RingsShrunk {
        /// The wanted size per CPU, in bytes.
        wanted: u64,
        /// The size per CPU in bytes.
        given: u64,
        /// The errno with which the kernel refused larger ones.
        errno: Option<i32>,
    },
    /// The requested stack copies are too large for the rings, or for a sample with its other fields.
    CopiesShrunk {
        /// The requested size of each copy, in bytes.
        asked: u32,
        /// The size of each copy in bytes.
        given: u32,
        /// The size of a ring in bytes, if that is the limit; `None` if the limit is the 16 bits of a record's size.
        ring: Option<u64>,
    },
    /// The kernel does not know a feature, which is left out.
    MissingFeature {
        /// The event's name.
        event: String,
        /// The missing feature, in the kernel's words.
        feature: &'static str,
    },
    /// The kernel cannot inherit the event, so threads and processes that the target starts are not sampled.
    NotInherited {
        /// Its name.
        event: String,
    },
    /// `/proc` is that of another pid namespace, so nothing is read of processes there.
    ForeignProc,
    /// There are too many threads to open events on each: whole CPUs are sampled, and records of other processes dropped.
    WholeCpus {
        /// File descriptors that the threads would need.
        needed: u64,
        /// `RLIMIT_NOFILE`.
        limit: u64,
    },
    /// The CPUs that the target may run on are sampled whole, and records of other processes dropped.
    WholeCpusForShortLives,
    /// Whole CPUs are sampled, and records of other processes dropped, because probes cannot be inherited.
    WholeCpusForProbes,
    /// There are too many switches between threads: they are recorded for a part of the time.
    SwitchesSampled {
        /// The name of the thread that switched most often, if it is still there.
        busiest: Option<Vec<u8>>,
    },
    /// This user is not permitted to read the stacks of blocked threads.
    StacksRefused {
        /// `kernel.yama.ptrace_scope`.
        ptrace_scope: Option<i32>,
    },
    /// The tasks that were read; none where no program of Go ran whose memory may be read.
    TasksRead {
        /// The numbers of tasks in all snapshots together.
        counts: Counts,
        /// The number of snapshots.
        snapshots: u64,
        /// Seconds between snapshots for which none stands.
        unobserved: f64,
    },
    /// A process of the target had ended when the recording began.
    ProcessGone {
        /// Its pid.
        pid: i32,
    },
    /// Java virtual machines were asked for the names of their code, and have written perf maps.
    JvmsAsked {
        /// The processes.
        pids: Vec<Pid>,
    },
    /// A Java virtual machine could not be asked for the names of its code, or has written no perf map.
    JvmNotAsked {
        /// The process.
        pid: Pid,
        /// The reason, in words.
        why: String,
    },
    /// Processes that the target had started before the recording are not recorded.
    ChildrenNotRecorded {
        /// The number of children.
        children: usize,
    },
    /// A recorded CPU went offline.
    CpuOffline {
        /// Its number.
        cpu: u32,
    },
    /// A CPU went offline while it was counted.
    CountedCpuOffline {
        /// Its number.
        cpu: u32,
    },
    /// A CPU came online after the events were opened on the other CPUs, so nothing is sampled there.
    CpuNotSampled {
        /// Its number.
        cpu: u32,
    },
    /// An event as it was opened (shown with `-vv`).
    Opened {
        /// Its name.
        name: String,
        /// The kernel's attr.
        attr: Box<Attr>,
    },
    /// An event that could not be opened, as it was refused first (shown with `-vv`).
    Refused {
        /// Its name.
        name: String,
        /// The kernel's attr.
        attr: Box<Attr>,
    },
    /// The recording is over and SIGTERM was sent to the command, which still runs.
    CommandTerminated,
    /// The recording has failed, and waits for the command, which still runs.
    CommandGoesOn {
        /// The reason why the recording has failed.
        because: String,
    },
    /// A condition is met (in words), so the kept records are being written.
    ConditionMet(String),
    /// Names could not be added to the last file; the reason in words.
    LastFileIncomplete(String),
    /// A file of kept records was written, or could not be.
    Dump(Result<Dump, DumpFailure>),
    /// The memory of the rings.
    Rings {
        /// The number of CPUs.
        cpus: usize,
        /// Bytes of samples per CPU.
        samples: u64,
        /// Bytes of sideband records per CPU.
        sideband: u64,
    },
}

/// The importance of a [`Notice`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Importance {
    /// Shown with `-vv`: the attrs of events.
    Attributes,
    /// Shown with `-v`: details.
    Detail,
    /// A problem: shown among others by what it takes from the recording.
    Problem(Harm),
    /// Shown as soon as it happens.
    Event,
}

impl Notice {
    /// Returns the importance, which decides when the notice is shown.
    pub fn importance(&self) -> Importance {
        match self {
            Self::Opened { .. } | Self::Refused { .. } => Importance::Attributes,
            // The summary names the event.
            Self::Rings { .. }
            | Self::ClockInstead
            | Self::MissingFeature { .. }
            | Self::WholeCpusForShortLives
            | Self::WholeCpusForProbes => Importance::Detail,
            Self::CommandTerminated
            | Self::CommandGoesOn { .. }
            | Self::ConditionMet(_)
            | Self::LastFileIncomplete(_)
            | Self::Dump(_)
            | Self::CountedCpuOffline { .. } => Importance::Event,
            Self::TasksRead { snapshots: 1.., .. } => Importance::Detail,
            Self::RingsShrunk { .. } | Self::WholeCpus { .. } | Self::JvmsAsked { .. } => {
                Importance::Problem(Harm::Nothing)
            }
            Self::ForeignProc | Self::JvmNotAsked { .. } => Importance::Problem(Harm::Names),
            Self::FramePointersInstead { .. }
            | Self::StackLimited { .. }
            | Self::CopiesShrunk { .. }
            | Self::StacksRefused { .. } => Importance::Problem(Harm::Stacks),
            Self::NotPermitted { .. }
            | Self::UserSpaceOnly { .. }
            | Self::RateLimited { .. }
            | Self::NeverRan { .. }
            | Self::NotInherited { .. }
            | Self::TasksRead { .. }
            | Self::SwitchesSampled { .. }
            | Self::ProcessGone { .. }
            | Self::ChildrenNotRecorded { .. }
            | Self::CpuOffline { .. }
            | Self::CpuNotSampled { .. } => Importance::Problem(Harm::Samples),
            Self::NothingToCount { .. } => Importance::Problem(Harm::Everything),
        }
    }
}

/// Displays the fields of an attr that are not 0.
struct Fields<'a>(&'a Attr);

impl fmt::Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attr = self.0;
        write!(f, "type {}, size {}, config {:#x}", attr.kind, attr.size, attr.config)?;
        let rate = if attr.is_frequency() { "sample_freq" } else { "sample_period" };
        write!(f, ", {rate} {}", attr.sample_period)?;
        write!(f, ", sample_type {}, read_format {}", names(attr.sample_format), names(attr.read_format))?;
        let numbers = [
            ("precise_ip", u64::from(attr.precise_ip)),
            ("wakeup_watermark", u64::from(attr.wakeup)),
            ("bp_type", u64::from(attr.bp_type)),
            ("config1", attr.config1),
            ("config2", attr.config2),
            ("config3", attr.config3),
            ("config4", attr.config4),
            ("branch_sample_type", attr.branch_sample_format.bits()),
            ("sample_regs_user", attr.sample_regs_user),
            ("sample_stack_user", u64::from(attr.sample_stack_user)),
            ("clockid", u64::from(attr.clockid.unsigned_abs())),
            ("sample_regs_intr", attr.sample_regs_intr),
            ("sample_max_stack", u64::from(attr.sample_max_stack)),
        ];
        for (name, value) in numbers.into_iter().filter(|&(_, value)| value != 0) {
            write!(f, ", {name} {value:#x}")?;
        }
        write!(f, ", {}", names(attr.flags).to_lowercase())
    }
}

/// Returns the names of set bits, joined by `|`.
fn names(bits: impl fmt::Debug) -> String {
    let text = format!("{bits:?}");
    let inner = text.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    inner.unwrap_or(&text).replace(" | ", "|")
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClockInstead => {
                f.write_str("no hardware counters (cycles) on this machine: sampling cpu-clock instead")
            }
            Self::FramePointersInstead { event } => write!(
                f,
                "no last branch records with {event} on this machine: using frame pointers instead; \
                 try: --call-graph auto"
            ),
            Self::NotPermitted { what } => write!(
                f,
                "recording without {what}, which need CAP_PERFMON; try: sudo setcap cap_perfmon=ep \"$(command -v prof)\""
            ),
            Self::UserSpaceOnly { paranoid } => {
                f.write_str(
                    "user space only: the kernel needs kernel.perf_event_paranoid at 1 or less",
                )?;
                if let Some(paranoid) = paranoid {
                    write!(f, " (it is {paranoid})")?;
                }
                f.write_str(" or CAP_PERFMON; try: sudo sysctl kernel.perf_event_paranoid=1")
            }
            Self::NothingToCount { event } => {
                write!(
                    f,
                    "{event} occurs in the kernel, which this user may not observe: expect no samples"
                )
            }
            Self::RateLimited { asked, allowed } if *asked > host::sysctl::DEFAULT_MAX_SAMPLE_RATE_HZ => {
                write!(f, "no kernel samples at {asked} Hz: sampling at {allowed} Hz; try: -F max")
            }
            Self::RateLimited { asked, allowed } => write!(
                f,
                "{asked} Hz is above kernel.perf_event_max_sample_rate (the kernel lowers it): sampling at {allowed} Hz; \
                 try: sudo sysctl kernel.perf_event_max_sample_rate={}",
                asked.saturating_mul(2).max(host::sysctl::DEFAULT_MAX_SAMPLE_RATE_HZ)
            ),
            Self::RingsShrunk { wanted, given, errno: Some(ENOMEM) } => write!(
                f,
                "rings of {} KiB per CPU instead of {} KiB: this machine or cgroup has no more memory (ENOMEM)",
                given / 1024,
                wanted / 1024
            ),
            Self::RingsShrunk { wanted, given, errno: Some(EINVAL) } => write!(
                f,
                "rings of {} KiB per CPU instead of {} KiB: the kernel refuses larger ones (EINVAL)",
                given / 1024,
                wanted / 1024
            ),
            Self::RingsShrunk { wanted, given, .. } => write!(
                f,
                "rings of {} KiB per CPU instead of {} KiB: locked memory is limited (ulimit -l); try: sudo sysctl kernel.perf_event_mlock_kb={}",
                given / 1024,
                wanted / 1024,
                mlock_kb_for(*wanted)
            ),
            Self::CopiesShrunk { asked, given, ring: Some(ring) } => write!(
                f,
                "stack copies of {given} bytes instead of {asked}: larger ones do not fit into a ring of {} KiB; try a \
                 larger ring (-m)",
                ring / 1024
            ),
            Self::CopiesShrunk { asked, given, ring: None } => write!(
                f,
                "stack copies of {given} bytes instead of {asked}: a sample has at most 64 KiB in all"
            ),
            Self::MissingFeature { event, feature } => {
                write!(f, "this kernel does not know {feature}: recording {event} without it")
            }
            Self::ForeignProc => write!(
                f,
                "/proc is that of another pid namespace: what ran before has no names; {MOUNT_PROC}"
            ),
            Self::NotInherited { event } => write!(
                f,
                "{event} samples existing threads only: before Linux 6.12 groups with :S are not inherited; try without :S"
            ),
            Self::WholeCpus { needed, limit } => write!(
                f,
                "{needed} file descriptors are needed, {limit} allowed: sampling whole CPUs, dropping samples of others; \
                 try: sudo prlimit --pid $$ --nofile={needed}"
            ),
            Self::WholeCpusForShortLives => f.write_str(
                "sampling whole CPUs, dropping samples of others, so that short-lived processes are sampled, too",
            ),
            Self::StackLimited { asked, allowed } => write!(
                f,
                "the kernel records call chains of {allowed} addresses instead of {asked}; \
                 try: sudo sysctl kernel.perf_event_max_stack={asked}"
            ),
            Self::NeverRan { event, why } => write!(f, "{event} has no samples: {why}"),
            Self::WholeCpusForProbes => f.write_str(
                "sampling whole CPUs, dropping samples of others: new processes do not inherit probes",
            ),
            Self::SwitchesSampled { busiest } => {
                f.write_str("more than 20,000 switches a second on a CPU")?;
                if let Some(busiest) = busiest {
                    write!(f, ", most often of {}", Name::from(busiest.as_slice()))?;
                }
                f.write_str(": some are recorded, the rest is estimated from counts")
            }
            Self::StacksRefused { ptrace_scope } => {
                f.write_str("stacks of blocked threads cannot be read")?;
                match ptrace_scope {
                    Some(1) => f.write_str(
                        ": kernel.yama.ptrace_scope is 1 (own descendants only); try: prof record --off-cpu -- \
                         COMMAND, or sudo sysctl kernel.yama.ptrace_scope=0",
                    ),
                    Some(scope @ 2..) => write!(
                        f,
                        ": kernel.yama.ptrace_scope is {scope} (needs CAP_SYS_PTRACE); try: sudo prof record --off-cpu"
                    ),
                    _ => f.write_str(": the process is another user's, or changed its credentials"),
                }
            }
            Self::TasksRead { snapshots: 0, .. } => {
                f.write_str("no goroutines were read: no program of Go ran, or its memory may not be read")
            }
            Self::TasksRead { counts, snapshots, unobserved } => {
                let Counts { seen, parked, whole, torn, cut, unread } = counts;
                write!(
                    f,
                    "goroutines, in {snapshots} snapshots together: {seen} seen, {parked} parked, {whole} whole, {torn} torn, \
                     {cut} cut, {unread} not read; {unobserved:.1} s not observed"
                )
            }
            Self::ProcessGone { pid } => write!(f, "process {pid} does not exist"),
            Self::JvmsAsked { pids } => {
                let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
                write!(f, "asked java for the names of its code: {}", pids.join(", "))
            }
            Self::JvmNotAsked { pid, why } => {
                write!(f, "java {pid} did not report the names of its code: {why}")
            }
            Self::ChildrenNotRecorded { children } => {
                let (children_are, are) =
                    if *children == 1 { ("child that was", "is") } else { ("children that were", "are") };
                write!(f, "{children} {children_are} started before {are} not recorded; try: --with-children")
            }
            Self::CpuOffline { cpu } => {
                write!(f, "CPU {cpu} went offline (or the machine suspended), and is not recorded any more; try again")
            }
            Self::CpuNotSampled { cpu } => write!(
                f,
                "CPU {cpu} came online while recording, and is not recorded; try again"
            ),
            Self::CountedCpuOffline { cpu } => {
                write!(f, "CPU {cpu} went offline: its counts end there")
            }
            Self::Opened { name, attr } => write!(f, "{name}: {}", Fields(attr)),
            Self::Refused { name, attr } => write!(f, "{name} was refused: {}", Fields(attr)),
            Self::CommandTerminated => f.write_str("the recording is over: the command was sent SIGTERM"),
            Self::CommandGoesOn { because } => write!(f, "{because}; the command goes on"),
            Self::LastFileIncomplete(why) => write!(f, "last file: {why}"),
            Self::ConditionMet(why) => write!(f, "{why}: writing a file"),
            Self::Dump(Ok(dump)) => {
                let samples = if dump.samples == 1 { "sample" } else { "samples" };
                let (path, seconds) = (Name::from(dump.path.as_os_str().as_encoded_bytes()), dump.span.as_secs_f64());
                write!(f, "wrote {path}: {} {samples} of {seconds:.1} s, {} KiB", dump.samples, dump.size.div_ceil(1024))?;
                if dump.is_short {
                    f.write_str("; the window is too small for its time; try: --window SECSs,SIZE")?;
                }
                if let Some(why) = &dump.incomplete {
                    write!(f, "; {why}")?;
                }
                match &dump.not_removed {
                    Some(why) => write!(f, "; the oldest file could not be removed: {why}"),
                    None => Ok(()),
                }
            }
            Self::Dump(Err(failure)) => {
                let path = Name::from(failure.path.as_os_str().as_encoded_bytes());
                write!(f, "cannot write {path}: {}; the recording goes on", failure.why)
            }
            Self::Rings { cpus, samples, sideband } => write!(
                f,
                "rings: {cpus} CPU{}, {} KiB for samples and {} KiB for sideband records each",
                if *cpus == 1 { "" } else { "s" },
                samples / 1024,
                sideband / 1024
            ),
        }
    }
}
