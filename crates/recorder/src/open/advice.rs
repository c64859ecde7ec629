//! Turns a refusal of `perf_event_open(2)` into an error with the cause and what to try.

use std::io;

use decoder::attr::SIZE_VER7;
use decoder::{Attr, AttrFlags};
use host::cgroup;
use host::procfs::{self, Capability};
use host::sys::limits;
use host::sys::perf_event::Subject;
use host::sysctl;
use model::Tid;

use super::open_event;
use crate::counting::not_here;
use crate::error::{
    E2BIG, EACCES, EBUSY, EINTR, EINVAL, EIO, EMFILE, ENODEV, ENOENT, ENOSPC, ENOSYS, EOPNOTSUPP, EOVERFLOW,
    EPERM, ESRCH, Error, MORE_DESCRIPTORS,
};
use crate::event::core_pmu_name;
use crate::options::{Options, Target};
use crate::plan::{PlannedEvent, RefusedEvent};

/// EIO: the file is not a regular one. EINVAL: it has no code there, or ends before.
pub(crate) const NO_PLACE_FOR_A_PROBE: &str =
    "a probe needs a regular file with code at this offset of the file; try uprobe:PATH:SYMBOL";
/// EINTR: ftrace has a probe of its own at the same place.
pub(crate) const PROBED_BY_FTRACE: &str =
    "ftrace has probed the same place; end its probe first (/sys/kernel/tracing/uprobe_events)";

/// Returns the error for an event that was refused with `errno`: the cause, and what to try.
pub(crate) fn explain(errno: io::Error, event: &str, attr: &Attr, options: &Options) -> Error {
    let without_controllers = match &options.target {
        Target::Cgroup(path) => cgroup::without_controllers(path).map(|(file, controller)| {
            format!(
                "no controller is enabled for this cgroup, and without one the kernel has no perf events for it; \
                 try: echo +{controller} | sudo tee {}",
                file.display()
            )
        }),
        _ => None,
    };
    let advice = match errno.raw_os_error() {
        Some(ESRCH) => {
            let number = match &options.target {
                Target::Processes(pids) => pids.first().map(|pid| pid.0),
                Target::Threads(tids) => tids.first().map(|tid| tid.0),
                Target::User(user) => return Error::NoProcessOf { user: *user },
                _ => None,
            };
            match number {
                Some(pid) => return Error::NoSuchProcess { pid },
                None => String::new(),
            }
        }
        Some(ENOSYS) if attr.sample_stack_user > 0 && has_call() => {
            "this architecture copies no user stacks; try: --call-graph fp".to_owned()
        }
        Some(EINTR) => PROBED_BY_FTRACE.to_owned(),
        Some(EIO) => NO_PLACE_FOR_A_PROBE.to_owned(),
        Some(ENOSYS) => {
            return Error::NoPerfEvents(
                "this kernel has no perf_event_open, or a seccomp filter (of a container) forbids it; try: prof doctor",
            );
        }
        Some(EACCES | EPERM) if attr.is_kernel_breakpoint() => format!(
            "breakpoints in the kernel take CAP_SYS_ADMIN; try: sudo {} -e {event} …",
            options.invocation
        ),
        Some(EINVAL) if attr.is_kernel_breakpoint() && attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) => {
            "user space never comes to an address of the kernel; try it without :u and --all-user".to_owned()
        }
        Some(EACCES | EPERM | EINVAL) if event.starts_with("ftrace:function") => {
            "all functions are traced for root alone, by kernels that can change their code; try a tracepoint (prof list) or kprobe:FUNCTION"
                .to_owned()
        }
        Some(EACCES | EPERM) => permission(attr, options),
        Some(ENOENT | ENODEV | EOPNOTSUPP) if !options.extras.branches.is_empty() => {
            "branches take a PMU (Intel LBR, AMD LbrExtV2, ARM BRBE), which this machine does not show; try without -b and -j"
                .to_owned()
        }
        Some(ENOENT) if without_controllers.is_some() => without_controllers.unwrap_or_default(),
        Some(ENOENT | ENODEV | EOPNOTSUPP) => {
            let clock = if attr.is_cpu_clock() { "" } else { "; try: -e cpu-clock" };
            format!("{}{clock}", not_here(core_pmu_name().as_deref()))
        }
        Some(EINVAL) => invalid(event, attr, options),
        Some(EBUSY) => "somebody else has the PMU for themselves".to_owned(),
        Some(ENOSPC) => "there are only four hardware breakpoints".to_owned(),
        Some(E2BIG) if attr.size > SIZE_VER7 => "this kernel does not know config3 (Linux 6.3), or config4, which came later".to_owned(),
        Some(EOVERFLOW) => {
            let allowed = sysctl::perf_event_max_stack();
            let allowed = allowed.map_or_else(String::new, |allowed| format!(" ({allowed})"));
            let asked = attr.sample_max_stack;
            format!(
                "--max-stack is above kernel.perf_event_max_stack{allowed}; try: sudo sysctl kernel.perf_event_max_stack={asked}"
            )
        }
        Some(EMFILE) => MORE_DESCRIPTORS.to_owned(),
        _ => String::new(),
    };
    Error::Open { event: event.to_owned(), errno, advice }
}

/// Returns the error as [`explain`], for a probe: it needs more rights than other events, and has to be at an instruction.
fn explain_probe(errno: io::Error, event: &str, attr: &Attr, options: &Options) -> Error {
    if errno.raw_os_error() == Some(EINVAL) && !event.starts_with("kprobe:") {
        return Error::Open { event: event.to_owned(), errno, advice: NO_PLACE_FOR_A_PROBE.to_owned() };
    }
    if !matches!(errno.raw_os_error(), Some(EACCES | EPERM)) {
        return explain(errno, event, attr, options);
    }
    let advice = format!(
        "probes in programs take CAP_SYS_ADMIN (before Linux 6.16, CAP_PERFMON); try: sudo {} -e {event} …",
        options.invocation
    );
    Error::Open { event: event.to_owned(), errno, advice }
}

/// Returns true unless even the simplest event fails with ENOSYS: then the call itself is missing, and no feature of an event.
fn has_call() -> bool {
    let opened = open_event(&crate::attr::dummy(), Subject::Thread(Tid(0), None), None);
    opened.err().and_then(|error| error.raw_os_error()) != Some(ENOSYS)
}

/// Returns the advice for the likeliest cause of EINVAL. Opens simpler events to find out what the kernel does accept.
fn invalid(event: &str, attr: &Attr, options: &Options) -> String {
    let opens = |attr: &Attr| {
        let subject = Subject::Thread(Tid(0), None);
        open_event(attr, subject, None).is_ok()
    };
    let counter = Attr {
        size: crate::attr::size_with(attr),
        kind: attr.kind,
        config: attr.config,
        config1: attr.config1,
        config2: attr.config2,
        config3: attr.config3,
        flags: AttrFlags::DISABLED,
        ..Attr::default()
    };
    let levels = attr.flags & (AttrFlags::EXCLUDE_USER | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
    let is_bare = opens(&counter);
    if attr.flags.contains(AttrFlags::INHERIT_THREAD) && is_bare {
        return "this kernel does not follow threads alone (Linux 5.13); try it without --inherit".to_owned();
    }
    if is_bare && !levels.is_empty() && !opens(&Attr { flags: counter.flags | levels, ..counter.clone() }) {
        return "its PMU cannot tell user space from the kernel; try it without :u, :k, --all-user and --all-kernel".to_owned();
    }
    if is_bare && attr.sample_period > 0 {
        return format!("it can be counted, and takes no samples; try: prof stat -e {event}");
    }
    if !options.cpus.as_deref().unwrap_or(&[]).is_empty() && is_bare {
        return "its PMU does not count on these CPUs; try it without -C".to_owned();
    }
    "the kernel does not accept these attributes (-vv shows them)".to_owned()
}

fn permission(attr: &Attr, options: &Options) -> String {
    let program = options.invocation;
    let paranoid = sysctl::perf_event_paranoid();
    let level =
        paranoid.map_or_else(String::new, |level| format!(" (kernel.perf_event_paranoid is {level})"));
    let may =
        procfs::own_status().is_ok_and(|own| own.has(Capability::Perfmon) || own.has(Capability::SysAdmin));
    let is_admin = procfs::own_status().is_ok_and(|own| own.has(Capability::SysAdmin));
    match &options.target {
        // Debian's and others' own levels. Their older patch asks for CAP_SYS_ADMIN, the newer one for CAP_PERFMON.
        _ if paranoid.is_some_and(|level| level > 2) && !is_admin => {
            let wants = if may {
                "CAP_SYS_ADMIN, and CAP_PERFMON does not do"
            } else {
                "CAP_PERFMON, or with an older kernel CAP_SYS_ADMIN"
            };
            format!(
                "this system wants {wants}{level}; try: sudo sysctl kernel.perf_event_paranoid=2, or sudo {program} …"
            )
        }
        Target::System | Target::Cgroup(_) => format!(
            "observing whole CPUs takes CAP_PERFMON or kernel.perf_event_paranoid at 0 or less{level}; \
             try: sudo {program} -a, or sudo sysctl kernel.perf_event_paranoid=0"
        ),
        _ if may => {
            "this process has CAP_PERFMON, so something else forbids it (a security module, a container?)"
                .to_owned()
        }
        _ if attr.flags.contains(AttrFlags::EXCLUDE_USER) => format!(
            "observing the kernel takes CAP_PERFMON or kernel.perf_event_paranoid at 1 or less{level}; \
             try: sudo sysctl kernel.perf_event_paranoid=1"
        ),
        Target::Processes(pids) => another_users(program, "-p", pids.iter().map(|pid| pid.0)),
        Target::Threads(tids) => another_users(program, "-t", tids.iter().map(|tid| tid.0)),
        Target::User(user) => {
            format!("the processes of user {user} are not yours; try: sudo {program} -u {user}")
        }
        Target::Command => {
            format!("perf events are not permitted here{level}; try: sudo {program} …")
        }
    }
}

fn another_users(program: &str, flag: &str, numbers: impl Iterator<Item = i32>) -> String {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let list = numbers.join(",");
    format!(
        "{list} is another user's process, or has more rights than you; try: sudo {program} {flag} {list}"
    )
}

/// Returns the error for an event of a plan that was refused.
pub(super) fn explain_refused(refused: RefusedEvent, options: &Options) -> Error {
    let RefusedEvent { name, errno, attr, is_probe } = refused;
    let explain = if is_probe { explain_probe } else { explain };
    explain(errno, &name, &attr, options)
}

/// Returns the error for a planned event that was refused on a thread or CPU of the target.
pub(super) fn refusal(errno: io::Error, event: &PlannedEvent, options: &Options) -> Error {
    if errno.raw_os_error() == Some(EMFILE) {
        let limit = limits::open_files().current;
        let detail = "more threads began meanwhile".to_owned();
        return Error::Descriptors { needed: limit.saturating_mul(2), detail, limit };
    }
    explain(errno, &event.name, &event.attr, options)
}
