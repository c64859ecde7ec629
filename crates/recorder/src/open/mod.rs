//! Opens the events of a plan, and maps their rings.
//!
//! ```text
//! machine: facts ─▶ plan ─▶ opened: on every thread or CPU, with rings ─▶ running
//!             ▲       │                │
//!             └───────┴── refusals ────┘
//! ```
//!
//! [`open`] reads the facts of this [`machine`], asks [`crate::plan`] what to open, answers its questions by trying events, and carries the
//! plan out: [`Opened`] opens the events on whole CPUs, or [`attach`] on the threads of running processes. What is refused then is a
//! new fact, and the plan is made anew ([`advice`] explains a refusal for which there is no plan). While the events run, [`running`] enables
//! them, [`after_opening`] says which CPUs have gone, and [`counts`] and [`task_clock`] read what they counted.

mod advice;
mod after_opening;
mod attach;
mod counts;
mod description;
mod duplicates;
mod machine;
mod opened;
mod rings;
mod running;
mod targets;
mod task_clock;

pub(crate) use advice::{NO_PLACE_FOR_A_PROBE, PROBED_BY_FTRACE, explain};
pub(crate) use after_opening::{EventIdMap, name_lost_cpus, reopen};
pub(crate) use attach::{attach, open_threads};
pub(crate) use counts::{counted, lost_samples, never_ran};
pub(crate) use description::describe_events;
pub(crate) use duplicates::DuplicateFilter;
pub(crate) use machine::{decide, open_cgroup, read_facts, whole_cpu_rate};
pub use machine::{event_support, event_support_on_cpu};
pub(crate) use opened::{OpenEvent, Opened, Unopened, open_events};
pub(crate) use targets::{ended_processes, processes, with_descendants};
pub(crate) use task_clock::{TaskClocks, TaskReports};

use std::io;
use std::os::fd::AsFd;

use decoder::{Attr, Endian};
use host::sys::perf_event::{PerfEvent, Subject};
use model::Pid;

use crate::error::{ENODEV, Error};
use crate::notice::Notice;
use crate::options::{Options, Target};
use crate::plan::{Facts, Plan, Scope, plan};

/// Returns an error if the kernel has no perf events at all.
pub(crate) fn require_perf_events() -> Result<(), Error> {
    match host::sysctl::has_perf_events() {
        true => Ok(()),
        false => Err(Error::NoPerfEvents(
            "/proc/sys/kernel/perf_event_paranoid is missing: no perf events in this kernel, or no /proc",
        )),
    }
}

/// Opens the events of `options`, as planned by what is known of this machine. What is refused while they are opened is a new fact, and
/// the plan is made anew. `child` is the waiting child that becomes the command.
pub(crate) fn open(
    options: &Options,
    child: Option<Pid>,
    notices: &mut dyn FnMut(Notice),
) -> Result<Opened, Error> {
    let mut facts = read_facts(options, child)?;
    let mut ring_refused = None;
    loop {
        let mut pending = Vec::new();
        let decided =
            decide(options, &mut facts, &mut pending, |facts, notices| plan(options, facts, notices));
        let plan = match decided {
            Ok(plan) => plan,
            Err(error) if has_lost_cpu(&error, &mut facts)? => continue,
            Err(error) => {
                pending.into_iter().for_each(notices);
                return Err(error);
            }
        };
        let (scope, ring, wanted_ring) = (plan.scope, plan.ring, plan.wanted_ring);
        match carry_out(plan, &facts, &mut |notice| pending.push(notice)) {
            Ok(Opened { rings, .. }) if (1..ring).contains(&rings.size) => {
                // The watermark of events and the size of stack copies depend on the size of the rings.
                facts.largest_ring = Some(rings.size);
                ring_refused = rings.refused.or(ring_refused);
            }
            Ok(mut opened) => {
                pending.into_iter().for_each(&mut *notices);
                opened.rings.report(wanted_ring, ring_refused, notices);
                match scope {
                    Scope::CpusOfShortLives => notices(Notice::WholeCpusForShortLives),
                    Scope::CpusOfProbes => notices(Notice::WholeCpusForProbes),
                    Scope::Target | Scope::CpusOfThreads => {}
                }
                if let Target::Processes(pids) = &options.target
                    && !options.with_children
                {
                    opened.unrecorded_children = with_descendants(pids).len().saturating_sub(pids.len());
                    let children = opened.unrecorded_children;
                    (children > 0).then(|| notices(Notice::ChildrenNotRecorded { children }));
                }
                return Ok(opened);
            }
            Err(error) if has_lost_cpu(&error, &mut facts)? => {}
            Err(_) if scope != Scope::Target => {
                facts.refused_scopes.push(scope);
                facts.largest_ring = None;
            }
            Err(Error::Descriptors { needed, detail, limit }) => {
                pending.into_iter().for_each(&mut *notices);
                facts.too_many_threads = Some((needed, detail, limit));
            }
            Err(error) => {
                pending.into_iter().for_each(notices);
                return Err(error);
            }
        }
    }
}

/// Returns true if the error is that a CPU has gone offline since the list of CPUs was read, and reads it again.
fn has_lost_cpu(error: &Error, facts: &mut Facts) -> Result<bool, Error> {
    if !matches!(error, Error::Open { errno, .. } if errno.raw_os_error() == Some(ENODEV)) {
        return Ok(false);
    }
    let online = machine::online_cpus()?;
    if online == facts.online_cpus {
        return Ok(false);
    }
    (facts.online_cpus, facts.answers) = (online, Vec::new());
    Ok(true)
}

/// Opens an event.
pub(crate) fn open_event(
    attr: &Attr,
    subject: Subject<'_>,
    leader: Option<&PerfEvent>,
) -> io::Result<PerfEvent> {
    PerfEvent::open(&mut attr.to_bytes(Endian::NATIVE), subject, leader)
}

/// Opens what is planned.
fn carry_out(plan: Plan, facts: &Facts, notices: &mut dyn FnMut(Notice)) -> Result<Opened, Error> {
    let mut opened = Opened::of_events(&plan);
    let Plan { scope, options, task_clock, .. } = plan;
    opened.members = (scope != Scope::Target).then(|| facts.processes.clone());
    // Before all other events: see `TaskClocks::open`.
    let is_command = options.target == Target::Command;
    opened.task_clocks = task_clock.and_then(|attr| TaskClocks::open(attr, &facts.threads, is_command));
    let mut gone = Vec::new();
    match &options.target {
        Target::System => {
            gone = ended_processes(&facts.processes)?;
            opened.open_cpus(None, &options)?;
        }
        Target::Cgroup(path) => opened.open_cpus(Some(open_cgroup(path)?.as_fd()), &options)?,
        Target::Command | Target::Threads(_) => {
            for &tid in &facts.siblings {
                opened.open_sideband_of(tid, &options)?;
            }
            gone = open_threads(&facts.threads, &mut |tid| opened.open_thread(tid, &options))?;
        }
        Target::Processes(_) | Target::User(_) => {
            gone = ended_processes(&facts.processes)?;
            attach(&mut opened, &options, &mut |_| Ok(true))?;
        }
    }
    gone.into_iter().for_each(|pid| notices(Notice::ProcessGone { pid: pid.0 }));
    Ok(opened)
}
