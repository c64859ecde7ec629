//! Opens whole CPUs in place of threads: where there are too many threads, or they end too soon to be sampled by a clock of their
//! own. `docs/decisions/0002-shares-of-short-processes.md` has the figures.

use host::procfs::{self, Capability};
use host::{sysctl, sysfs};
use model::{CpuId, Pid};

use super::opened::{OpenEvent, Opened, open_target};
use super::targets::processes;
use crate::attr::rate_of;
use crate::error::Error;
use crate::event::{Event, Rate, clock_event};
use crate::notice::Notice;
use crate::options::{Options, Target};
use crate::waits;

/// Maximum number of CPUs that are opened whole for a command. On more, its share of them is likely small, and the samples of other
/// processes cost more than they bring.
const MAX_CPUS: usize = 16;

/// Minimum period for which whole CPUs are opened for a command: few programs end within a shorter one, and the samples of other
/// processes would fill the rings. In cycles it is five times as long, as many as the fastest processors have in a nanosecond.
const MIN_PERIOD_NS: u64 = 400_000;
const MAX_HERTZ: u64 = 1_000_000_000 / MIN_PERIOD_NS;
const MIN_PERIOD_CYCLES: u64 = 5 * MIN_PERIOD_NS;
/// Minimum requested size of rings for it: smaller ones are soon full of samples of other processes.
const MIN_RING_BYTES: u64 = 1 << 20;

/// Opens the events of `options` on their target, or on whole CPUs in its place, where that is permitted: for a command, whose programs
/// may be short; for processes with more threads than there may be file descriptors; and for probes. [`Opened::members`] then
/// are the processes whose samples are kept. `child` is the waiting child that becomes the command.
pub(crate) fn open(
    options: &Options,
    child: Option<Pid>,
    notices: &mut dyn FnMut(Notice),
) -> Result<Opened, Error> {
    if let (Target::Command, Some(child), Some(cpus)) = (&options.target, child, cpus_of_command(options)) {
        let events = waits::on_whole_cpus(options.events.clone());
        let whole = Options { target: Target::System, cpus: Some(cpus), events, ..options.clone() };
        let is_time = |event: &OpenEvent| event.is_of_waits() || event.attr.runs_with_time();
        if let Some((mut opened, pending_notices)) = open_whole(&whole, child)
            && opened.events.iter().all(is_time)
        {
            opened.members = Some(Vec::new());
            pending_notices.into_iter().for_each(&mut *notices);
            notices(Notice::WholeCpusForCommand);
            return Ok(opened);
        }
    }
    if has_probes(options)
        && let Some(opened) = open_for_probes(options, child, notices)?
    {
        return Ok(opened);
    }
    let opened = open_target(options, child, notices);
    let Err(Error::Descriptors { needed, limit, .. }) = opened else { return opened };
    if options.per_thread || !matches!(options.target, Target::Processes(_) | Target::User(_)) {
        return opened;
    }
    let pids = processes(options)?;
    let whole = Options { target: Target::System, ..options.clone() };
    let Some((mut instead, pending_notices)) = open_whole(&whole, child.unwrap_or(Pid::NONE)) else {
        return opened;
    };
    instead.members = Some(pids);
    notices(Notice::WholeCpus { needed, limit });
    pending_notices.into_iter().for_each(notices);
    Ok(instead)
}

/// Returns true if there are probes in programs that the processes started by the target have to inherit. They cannot: the attr
/// points to a path in the memory of the recorder, and for a new thread the kernel reads that address in the memory of the thread's
/// creator, whose `fork` or `clone` then fails (`perf_uprobe_event_init()` in kernel/events/core.c).
fn has_probes(options: &Options) -> bool {
    let watched = options.slow_calls.iter().flat_map(|call| &call.probes);
    options.inherits() && options.events.iter().chain(watched).any(|event| event.probe.is_some())
}

/// Opens probes on whole CPUs, with the processes of the target as members; `None` where that is not permitted.
fn open_for_probes(
    options: &Options,
    child: Option<Pid>,
    notices: &mut dyn FnMut(Notice),
) -> Result<Option<Opened>, Error> {
    let (pids, cpus) = match options.target {
        Target::Command => (Vec::new(), procfs::allowed_cpus().ok()),
        _ => (processes(options)?, None),
    };
    let chosen = |cpu: &CpuId| options.cpus.as_ref().is_none_or(|chosen| chosen.contains(cpu));
    let cpus = cpus.map(|cpus| cpus.into_iter().filter(chosen).collect()).or_else(|| options.cpus.clone());
    let whole = Options { target: Target::System, cpus, ..options.clone() };
    let Some((mut opened, pending_notices)) = open_whole(&whole, child.unwrap_or(Pid::NONE)) else {
        return Ok(None);
    };
    opened.members = Some(pids);
    pending_notices.into_iter().for_each(&mut *notices);
    notices(Notice::WholeCpusForProbes);
    Ok(Some(opened))
}

/// Opens whole CPUs, and returns them with the notices to send; `None` where that is not permitted.
fn open_whole(whole: &Options, child: Pid) -> Option<(Opened, Vec<Notice>)> {
    let mut pending_notices = Vec::new();
    let child = (child != Pid::NONE).then_some(child);
    let opened = open_target(whole, child, &mut |notice| pending_notices.push(notice)).ok()?;
    Some((opened, pending_notices))
}

/// Returns the highest rate at which whole CPUs are opened for a command, in Hz, if they are not at the requested one.
pub(crate) fn whole_cpu_rate(options: &Options) -> Option<u64> {
    let slower = Options { rate: Some(Rate::Frequency(MAX_HERTZ)), ..options.clone() };
    let is_asked = options.target == Target::Command && cpus_of_command(options).is_none();
    (is_asked && cpus_of_command(&slower).is_some()).then_some(MAX_HERTZ)
}

/// Returns the CPUs on which a command may run, if they are to be opened whole for it.
fn cpus_of_command(options: &Options) -> Option<Vec<CpuId>> {
    let is_slow = |event: &Event| match rate_of(event, options) {
        Rate::Frequency(hertz) => hertz <= MAX_HERTZ,
        Rate::Period(period) => {
            period >= if event.attr.is_cpu_clock() { MIN_PERIOD_NS } else { MIN_PERIOD_CYCLES }
        }
    };
    let is_time = |event: &Event| {
        event.attr.runs_with_time() && event.filter.is_none() && event.leader.is_none() && is_slow(event)
    };
    let is_plain = options.inherits()
        && !options.extras.switches
        && !options.threads_only
        && options.ring_size.is_none_or(|size| size >= MIN_RING_BYTES)
        && options.events.iter().filter(|event| !event.is_of_waits()).all(is_time)
        && (!options.events.is_empty() || is_slow(&clock_event()));
    if !is_plain || !may_see_whole_cpus() {
        return None;
    }
    let mut cpus = procfs::allowed_cpus().ok()?;
    cpus.retain(|cpu| options.cpus.as_ref().is_none_or(|chosen| chosen.contains(cpu)));
    let is_few = (1..=MAX_CPUS).contains(&cpus.len());
    let has_waits = options.events.iter().any(|event| event.watches);
    (is_few && (!has_waits || may_record_all_switches(&cpus))).then_some(cpus)
}

/// Returns true if the switches of all processes on `cpus` are to be recorded for those of a command. A thread must not leave these
/// CPUs, or its waits are not known. For the command it is cheaper: the kernel has no events to exchange at a switch, which takes 3 %
/// of the time of a program with 100,000 switches a second (`cargo xtask bench switches`).
fn may_record_all_switches(cpus: &[CpuId]) -> bool {
    sysfs::online_cpus().is_ok_and(|online| online.iter().all(|cpu| cpus.contains(cpu)))
        && waits::are_switches_few(cpus.len())
}

/// Returns true if events of whole CPUs are permitted (checklist C5), the kernel's side included where it is asked for.
fn may_see_whole_cpus() -> bool {
    let has = |capability| procfs::own_status().is_ok_and(|status| status.has(capability));
    has(Capability::Perfmon)
        || has(Capability::SysAdmin)
        || sysctl::perf_event_paranoid().is_some_and(|level| level <= 0)
}
