//! Whole CPUs in place of threads: where these are too many, or end too soon to be sampled each by a clock of its own.
//! `docs/decisions/0002-shares-of-short-processes.md` has the figures.

use host::procfs::{self, Capability};
use host::sysctl;
use model::{CpuId, Pid, Tid};

use super::opened::{Opened, open_target};
use super::targets::processes;
use crate::attr::rate_of;
use crate::error::Error;
use crate::event::{Event, Rate, clock_event};
use crate::notice::Notice;
use crate::options::{Options, Target};

/// On more CPUs than this, a command's share of them is likely small, and what others do there costs more than it brings.
const MOST_CPUS: usize = 16;

/// At a higher rate few programs end within a period, and what others do would fill the rings: nanoseconds, or cycles, where the
/// fastest processor has five in each.
const LEAST_PERIOD: u64 = 400_000;
const HIGHEST_RATE: u64 = 1_000_000_000 / LEAST_PERIOD;
const LEAST_CYCLES: u64 = 5 * LEAST_PERIOD;
/// Rings that were asked to be smaller than this, in bytes, are soon full of what others do.
const LEAST_RING: u64 = 1 << 20;

/// Opens the events of `options` on their target, which for a command is the waiting child. Where whole CPUs are opened,
/// [`Opened::members`] says whose samples are meant: for a command, as its programs may be short; for processes, where they
/// have more threads than there may be file descriptors. Both only where that is permitted.
pub(crate) fn open(
    options: &Options,
    child: Option<Pid>,
    notices: &mut dyn FnMut(Notice),
) -> Result<Opened, Error> {
    if let (Target::Command, Some(child), Some(cpus)) = (&options.target, child, cpus_of_command(options)) {
        let whole = Options { target: Target::System, cpus: Some(cpus), ..options.clone() };
        if let Some((mut opened, told)) = open_whole(&whole, child)
            && opened.events.iter().all(|event| event.attr.runs_with_time())
        {
            opened.members = Some(Vec::new());
            opened.time_tasks(&[Tid(child.0)], false, options, notices);
            told.into_iter().for_each(&mut *notices);
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
    let Some((mut instead, told)) = open_whole(&whole, child.unwrap_or(Pid::NONE)) else { return opened };
    instead.members = Some(pids);
    notices(Notice::WholeCpus { needed, limit });
    told.into_iter().for_each(notices);
    Ok(instead)
}

/// Returns true if there are probes in programs that have to be seen in what the target starts, too. The kernel reads the path of the
/// program where it was when the probe was set, in our memory; a copy for a new thread would be read from the memory of who starts
/// that, whose `fork` or `clone` then fails (`perf_uprobe_event_init()` in kernel/events/core.c).
fn has_probes(options: &Options) -> bool {
    let watched = options.slow_calls.iter().flat_map(|call| &call.probes);
    options.inherits() && options.events.iter().chain(watched).any(|event| event.probe.is_some())
}

/// Whole CPUs, of which what is of the target is kept, where that is permitted.
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
    let Some((mut opened, told)) = open_whole(&whole, child.unwrap_or(Pid::NONE)) else { return Ok(None) };
    opened.members = Some(pids);
    told.into_iter().for_each(&mut *notices);
    notices(Notice::WholeCpusForProbes);
    Ok(Some(opened))
}

/// Opens whole CPUs, with what is to be said of it, where that is permitted.
fn open_whole(whole: &Options, child: Pid) -> Option<(Opened, Vec<Notice>)> {
    let mut told = Vec::new();
    let child = (child != Pid::NONE).then_some(child);
    let opened = open_target(whole, child, &mut |notice| told.push(notice)).ok()?;
    Some((opened, told))
}

/// The CPUs that a command may run on, where these are to be sampled whole.
fn cpus_of_command(options: &Options) -> Option<Vec<CpuId>> {
    let is_slow = |event: &Event| match rate_of(event, options) {
        Rate::Frequency(hertz) => hertz <= HIGHEST_RATE,
        Rate::Period(period) => period >= if event.attr.is_cpu_clock() { LEAST_PERIOD } else { LEAST_CYCLES },
    };
    let is_time = |event: &Event| {
        event.attr.runs_with_time() && event.filter.is_none() && event.leader.is_none() && is_slow(event)
    };
    let is_plain = options.inherits()
        && !options.extras.switches
        && !options.threads_only
        && options.ring_size.is_none_or(|size| size >= LEAST_RING)
        && options.events.iter().all(is_time)
        && (!options.events.is_empty() || is_slow(&clock_event()));
    if !is_plain || !may_see_whole_cpus() {
        return None;
    }
    let mut cpus = procfs::allowed_cpus().ok()?;
    cpus.retain(|cpu| options.cpus.as_ref().is_none_or(|chosen| chosen.contains(cpu)));
    (1..=MOST_CPUS).contains(&cpus.len()).then_some(cpus)
}

/// Returns true if events of whole CPUs are permitted (checklist C5), the kernel's side included where it is asked for.
fn may_see_whole_cpus() -> bool {
    let has = |capability| procfs::own_status().is_ok_and(|status| status.has(capability));
    has(Capability::Perfmon)
        || has(Capability::SysAdmin)
        || sysctl::perf_event_paranoid().is_some_and(|level| level <= 0)
}
