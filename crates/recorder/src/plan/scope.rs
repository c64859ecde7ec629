//! Where events are opened: on the target, or on whole CPUs in its place, where there are too many threads, or they end too soon to be
//! sampled by a clock of their own. `docs/decisions/0002-shares-of-short-processes.md` has the figures.

use model::CpuId;

use super::Stop;
use super::facts::{Facts, Question};
use crate::attr::rate_of;
use crate::event::{Event, Rate, clock_event};
use crate::options::{Options, Target};
use crate::waits::SWITCH_RATE_INTERVAL;

/// Maximum number of CPUs that are opened whole for a command or processes. On more, their share of them is likely small, and the
/// samples of others cost more than they bring.
const MAX_CPUS: usize = 16;

/// Minimum period for which whole CPUs are opened for a command: few programs end within a shorter one, and the samples of other
/// processes would fill the rings.
const MIN_PERIOD_NS: u64 = 400_000;

/// Minimum period for which whole CPUs are opened for processes that are attached to: threads of servers often end within a longer one.
/// Up to this rate, samples of others cost the recorder nothing that can be measured: 68 ms of its CPU time in 5 s beside two other busy
/// programs, and 63 ms with events on threads (medians of 5; `prof record -v -d 5 -p PID -F 97`, and `-F 103`).
const MIN_ATTACHED_PERIOD_NS: u64 = 10_000_000;

/// Periods in cycles are compared as if of the fastest processors.
const CYCLES_PER_NANOSECOND: u64 = 5;
const NANOSECONDS: u64 = 1_000_000_000;

/// Minimum requested size of rings for it: smaller ones are soon full of samples of other processes.
const MIN_RING_BYTES: u64 = 1 << 20;

/// Switches per second and CPU of other processes up to which whole CPUs are recorded for the waits of a command. At 5 µs each they
/// take 1 % of a CPU's time.
const MAX_OTHER_SWITCHES_PER_SECOND: f64 = 2_000.0;

/// Returns true if there are probes in programs that the processes started by the target have to inherit. They cannot: the attr
/// points to a path in the memory of the recorder, and for a new thread the kernel reads that address in the memory of the thread's
/// creator, whose `fork` or `clone` then fails (`perf_uprobe_event_init()` in kernel/events/core.c).
pub(super) fn has_probes(options: &Options) -> bool {
    options.inherits() && options.events.iter().any(|event| event.probe.is_some())
}

/// Returns the CPUs on which probes are opened for the target; `None` for all.
pub(super) fn cpus_of_probes(options: &Options, facts: &Facts) -> Option<Vec<CpuId>> {
    match options.target {
        Target::Command if !facts.allowed_cpus.is_empty() => Some(chosen(&facts.allowed_cpus, options)),
        _ => options.cpus.clone(),
    }
}

/// Returns the highest rate at which whole CPUs are opened for a command, in Hz, if they are not at the requested one.
pub(crate) fn whole_cpu_rate(options: &Options, facts: &Facts) -> Result<Option<u64>, Stop> {
    if options.target != Target::Command || cpus_of_short_lives(options, facts)?.is_some() {
        return Ok(None);
    }
    let max_hertz = NANOSECONDS / MIN_PERIOD_NS;
    let slower = Options { rate: Some(Rate::Frequency(max_hertz)), ..options.clone() };
    Ok(cpus_of_short_lives(&slower, facts)?.map(|_| max_hertz))
}

/// Returns the CPUs on which the target may run, if they are to be opened whole for it because its programs or threads may end within
/// a period.
pub(super) fn cpus_of_short_lives(options: &Options, facts: &Facts) -> Result<Option<Vec<CpuId>>, Stop> {
    let (min_period, cpus) = match options.target {
        Target::Command => (MIN_PERIOD_NS, &facts.allowed_cpus),
        Target::Processes(_) | Target::User(_) => (MIN_ATTACHED_PERIOD_NS, &facts.online_cpus),
        Target::Threads(_) | Target::System | Target::Cgroup(_) => return Ok(None),
    };
    let is_slow = |event: &Event| match rate_of(event, options) {
        Rate::Frequency(hertz) => hertz <= NANOSECONDS / min_period,
        Rate::Period(period) if event.attr.is_cpu_clock() => period >= min_period,
        Rate::Period(period) => period >= CYCLES_PER_NANOSECOND * min_period,
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
    // Whole CPUs are for those who may observe them (checklist C5), the kernel's side included where it is asked for.
    if !is_plain || !facts.is_capable && facts.settings.paranoid.is_none_or(|level| level > 0) {
        return Ok(None);
    }
    let cpus = chosen(cpus, options);
    if !(1..=MAX_CPUS).contains(&cpus.len()) {
        return Ok(None);
    }
    let has_waits = options.events.iter().any(|event| event.watches);
    Ok((!has_waits || may_record_all_switches(&cpus, facts)?).then_some(cpus))
}

/// Returns true if the switches of all processes on `cpus` are to be recorded for those of a command. A thread must not leave these
/// CPUs, or its waits are not known. For the command it is cheaper: the kernel has no events to exchange at a switch, which takes 3 %
/// of the time of a program with 100,000 switches a second (`cargo xtask bench switches`).
fn may_record_all_switches(cpus: &[CpuId], facts: &Facts) -> Result<bool, Stop> {
    if !facts.online_cpus.iter().all(|cpu| cpus.contains(cpu)) {
        return Ok(false);
    }
    let most = MAX_OTHER_SWITCHES_PER_SECOND * SWITCH_RATE_INTERVAL.as_secs_f64() * cpus.len() as f64;
    Ok(facts.answer_to(Question::Switches)?.is_ok_and(|switches| switches as f64 <= most))
}

fn chosen(cpus: &[CpuId], options: &Options) -> Vec<CpuId> {
    let is_chosen = |cpu: &&CpuId| options.cpus.as_ref().is_none_or(|chosen| chosen.contains(cpu));
    cpus.iter().filter(is_chosen).copied().collect()
}
