//! What will be opened, before anything is opened: a pure function of the options and of [`Facts`] about the machine, the rights of the
//! user and the target.
//!
//! ```text
//!  options ─┐
//!           ├─▶ plan ─▶ Plan: events with their attrs, where they are opened, sizes of rings; and notices of what was left out
//!  Facts ───┘    └────▶ Stop: questions to the kernel, whose answers are new facts; or why there is no plan
//! ```
//!
//! An event is not opened, or opened otherwise than asked for, where
//! - [`selected_events`] leaves it out: its PMU counts on none of the CPUs;
//! - [`scope`] chooses whole CPUs in place of the target;
//! - [`descriptors`], [`limits`] and [`copy_sizes`] find the machine too small for what is asked for;
//! - [`fallbacks`] gives up what the kernel does not know or the user has no right to, one part after each refusal.
//!
//! [`crate::open`] asks the questions and carries the plan out; the plan of `prof stat` is [`crate::counting`]'s, from the same parts.

mod copy_sizes;
mod descriptors;
mod event_support;
mod facts;
mod fallbacks;
pub(crate) mod limits;
mod scope;
mod selected_events;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use descriptors::Descriptors;
pub use descriptors::{attachable_threads, descriptors_for};
pub use event_support::EventSupport;
pub(crate) use event_support::support;
pub(crate) use facts::{Answer, Facts, Question, Site};
pub(crate) use fallbacks::{Fallback, Refusal, negotiate};
pub(crate) use limits::MAX_DEFAULT_RING_BYTES;
pub use limits::{SIDEBAND_SIZE, default_ring_bytes, mlock_kb_for};
pub(crate) use scope::whole_cpu_rate;
pub(crate) use selected_events::{chosen_cpus, counts_on, selected_events};

use std::io;

use decoder::Attr;
use model::CpuId;
use perfdata::sections::FAULT_STACKS;

use crate::attr;
use crate::error::{ESRCH, Error};
use crate::event::{Event, clock_event, dummy_event};
use crate::notice::Notice;
use crate::options::{Options, Target};
use crate::waits;
use copy_sizes::CopySizes;

/// Number of bytes of sideband records after which their reader is woken, because the files of short-lived programs are read while these
/// live. An exec writes at least 340: COMM, the program, and the vdso. To be woken for each record took 5 % of the CPU time of 300 programs
/// that a shell started.
const SIDEBAND_WAKEUP_BYTES: u32 = 256;

/// What is opened for a recording.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Where it is opened.
    pub(crate) scope: Scope,
    /// The options that are carried out: those that were asked for, or whole CPUs in their place.
    pub(crate) options: Options,
    /// The CPUs that are online.
    pub(crate) cpus: Vec<CpuId>,
    /// The events that sample.
    pub(crate) events: Vec<PlannedEvent>,
    /// The event that writes records of mappings, names and threads.
    pub(crate) sideband: PlannedEvent,
    /// The clock that counts the CPU time of each task, where that is wanted.
    pub(crate) task_clock: Option<Attr>,
    /// Bytes of each ring for samples that are asked for.
    pub(crate) wanted_ring: u64,
    /// Bytes of each ring for samples, as far as they are known to be permitted.
    pub(crate) ring: u64,
}

/// Where the events of a recording are opened. On whole CPUs, records of other processes are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// On the target.
    Target,
    /// On the CPUs that the target may run on, because its programs or threads may end within a period.
    CpusOfShortLives,
    /// On whole CPUs, because probes in programs cannot be inherited.
    CpusOfProbes,
    /// On whole CPUs, because the target has more threads than there may be file descriptors.
    CpusOfThreads,
}

/// An event to be opened.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct PlannedEvent {
    /// The name under which it is recorded.
    pub(crate) name: String,
    /// The attr that the kernel accepts.
    pub(crate) attr: Attr,
    /// The index of its group's leader, for members of a group.
    pub(crate) leader: Option<usize>,
    /// The event as it was selected.
    pub(crate) selected: Event,
    /// For the same event on another kind of core: the index of the first of these parts, which stands for all in the recording.
    pub(crate) part_of: Option<usize>,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum Stop {
    /// These have to be answered first.
    Ask(Vec<Question>),
    /// Nothing can be opened.
    Fail(Error),
    /// The kernel refuses an event, whatever is left out of it.
    Refused(Box<RefusedEvent>),
}

/// An event that the kernel refuses.
#[derive(Debug)]
pub(crate) struct RefusedEvent {
    pub(crate) name: String,
    pub(crate) errno: io::Error,
    /// The attr that explains the refusal.
    pub(crate) attr: Attr,
    pub(crate) is_probe: bool,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Fail(error)
    }
}

/// Returns what is opened for a recording with `options`: on its target, or on whole CPUs in its place, where that is permitted and has
/// not failed: for a command, whose programs may be short; for processes that are sampled seldom, or that have more threads than there may
/// be file descriptors; and for probes. Adds notices of the attrs, and of what was left out and why.
pub(crate) fn plan(options: &Options, facts: &Facts, notices: &mut Vec<Notice>) -> Result<Plan, Stop> {
    if let Some(cpus) = scope::cpus_of_short_lives(options, facts)? {
        let is_time = |event: &PlannedEvent| event.selected.is_of_waits() || event.attr.runs_with_time();
        let events = waits::on_whole_cpus(options.events.clone());
        let whole = Options { cpus: Some(cpus), events, ..options.clone() };
        let plan = plan_on_cpus(Scope::CpusOfShortLives, whole, facts, notices)?;
        if let Some(plan) = plan.filter(|plan| plan.events.iter().all(is_time)) {
            return Ok(plan);
        }
        notices.clear();
    }
    if scope::has_probes(options) {
        let whole = Options { cpus: scope::cpus_of_probes(options, facts), ..options.clone() };
        if let Some(plan) = plan_on_cpus(Scope::CpusOfProbes, whole, facts, notices)? {
            return Ok(plan);
        }
    }
    let plan = plan_for(Scope::Target, options, facts, notices);
    let Err(Stop::Fail(Error::Descriptors { needed, limit, .. })) = plan else { return plan };
    if options.per_thread || !matches!(options.target, Target::Processes(_) | Target::User(_)) {
        return plan;
    }
    match plan_on_cpus(Scope::CpusOfThreads, options.clone(), facts, notices)? {
        Some(instead) => {
            notices.insert(0, Notice::WholeCpus { needed, limit });
            Ok(instead)
        }
        None => plan,
    }
}

/// Returns what is opened on whole CPUs for `options`; `None` where that is not permitted.
fn plan_on_cpus(
    scope: Scope,
    options: Options,
    facts: &Facts,
    notices: &mut Vec<Notice>,
) -> Result<Option<Plan>, Stop> {
    if facts.refused_scopes.contains(&scope) {
        return Ok(None);
    }
    match plan_for(scope, &Options { target: Target::System, ..options }, facts, notices) {
        Err(Stop::Fail(_) | Stop::Refused(_)) => {
            notices.clear();
            Ok(None)
        }
        plan => plan.map(Some),
    }
}

/// Returns what is opened for `options` on their own target.
fn plan_for(scope: Scope, options: &Options, facts: &Facts, notices: &mut Vec<Notice>) -> Result<Plan, Stop> {
    let cpus = &facts.online_cpus;
    let sampled = chosen_cpus(options, cpus)?;
    let on_threads = !options.target.is_cpu_wide();
    let threads = if on_threads { facts.threads.len() } else { 0 };
    let rings = if options.per_thread { threads } else { cpus.len() };
    let wanted_ring = limits::ring_bytes(options.ring_size, rings, facts.memory_kb);
    let ring = facts.largest_ring.map_or(wanted_ring, |largest| largest.min(wanted_ring));
    let selected = selected_events(options, sampled, &facts.core_pmus)?;
    let descriptors = Descriptors {
        threads: threads.max(1),
        siblings: if on_threads { facts.siblings.len() } else { 0 },
        cpus: if options.per_thread { 1 } else { cpus.len() },
        events: selected.len(),
        watched: match options.target {
            Target::System | Target::Cgroup(_) => 0,
            Target::Command | Target::Threads(_) => threads,
            Target::Processes(_) | Target::User(_) => facts.processes.len(),
        },
    };
    descriptors.check(facts)?;
    if let Some((needed, detail, limit)) = facts.too_many_threads.clone().filter(|_| scope == Scope::Target) {
        return Err(Error::Descriptors { needed, detail, limit }.into());
    }
    let copy_sizes = CopySizes::new(options, &selected, ring, facts, notices);
    let mut planner = Planner {
        options,
        facts,
        cpus: sampled,
        copy_sizes,
        wakeup: u32::try_from(ring / 4).unwrap_or(1 << 30),
        notices,
    };
    let mut events = Vec::new();
    for sampler in each(&selected, |index, event| planner.sampler(index, event))?.into_iter().flatten() {
        events.push(sampler.part_among(&events));
    }
    let attrs: Vec<Attr> = events.iter().map(|event| event.attr.clone()).collect();
    let sideband = planner.sideband(&attrs)?;
    let task_clock = wants_task_times(options, &attrs).then(|| attr::task_clock(&attrs, options));
    notices.extend(task_clock.as_ref().map(|attr| opened("task-clock", attr)));
    let (options, cpus) = (options.clone(), cpus.clone());
    Ok(Plan { scope, options, cpus, events, sideband, task_clock, wanted_ring, ring })
}

/// Plans each of `events`. All questions are asked at once.
pub(crate) fn each<T>(
    events: &[Event],
    mut plan: impl FnMut(usize, &Event) -> Result<T, Stop>,
) -> Result<Vec<T>, Stop> {
    let (mut planned, mut questions) = (Vec::new(), Vec::new());
    for (index, event) in events.iter().enumerate() {
        match plan(index, event) {
            Ok(event) => planned.push(event),
            Err(Stop::Ask(more)) => questions.extend(more),
            Err(stop) if questions.is_empty() => return Err(stop),
            // An earlier event may be refused, too, and is the one to report then.
            Err(_) => break,
        }
    }
    if questions.is_empty() { Ok(planned) } else { Err(Stop::Ask(questions)) }
}

/// Returns true if the CPU times of tasks are wanted: where tasks are sampled by a clock, inherit it, and run on all CPUs.
fn wants_task_times(options: &Options, samplers: &[Attr]) -> bool {
    let follows = options.inherits() && options.cpus.is_none() && !options.low_memory && !options.in_parts;
    // Records of switches have the times more exactly.
    let follows = follows && !options.events.iter().any(|event| event.watches);
    let has_clock = samplers.iter().any(Attr::is_cpu_clock);
    follows && has_clock && !options.target.is_cpu_wide()
}

fn opened(name: &str, attr: &Attr) -> Notice {
    Notice::Opened { name: name.to_owned(), attr: Box::new(attr.clone()) }
}

/// What the events of a recording have in common while they are planned.
struct Planner<'a> {
    options: &'a Options,
    facts: &'a Facts,
    /// The CPUs that are sampled.
    cpus: &'a [CpuId],
    copy_sizes: CopySizes,
    /// Bytes after which a ring wakes its reader.
    wakeup: u32,
    notices: &'a mut Vec<Notice>,
}

impl Planner<'_> {
    /// Plans a sampling event; `None` where the clock has to stand in for it, and is there already.
    fn sampler(&mut self, index: usize, event: &Event) -> Result<Option<PlannedEvent>, Stop> {
        let mut attr = self.limited(event);
        if let Some(probe) = &event.probe {
            attr.config1 = probe.config1();
        }
        let clock = event.is_default.then(|| self.limited(&clock_event()));
        let (mut attr, fallbacks) = self.negotiate(&event.name, &attr, clock.as_ref(), Some(event))?;
        let mut selected = Event { max_stack: event.max_stack.or(self.options.max_stack), ..event.clone() };
        // One clock is enough for all kinds of cores.
        if fallbacks.contains(&Fallback::Clock) {
            if self.notices.contains(&Notice::ClockInstead) {
                return Ok(None);
            }
            selected.cpus = None;
        }
        let name = self.report_fallbacks(event, &attr, fallbacks);
        if event.leader.is_some_and(|leader| leader != index) {
            attr = attr::member(attr);
        }
        self.notices.push(opened(&name, &attr));
        Ok(Some(PlannedEvent::new(name, attr, selected)))
    }

    /// Plans the event that writes records of mappings, names and threads, beside these samplers.
    fn sideband(&mut self, samplers: &[Attr]) -> Result<PlannedEvent, Stop> {
        // Not with records of switches: the reader's own switch would wake it again.
        let wakeup = match self.options.extras.switches {
            true => u32::try_from(SIDEBAND_SIZE / 4).unwrap_or(1 << 14),
            false => SIDEBAND_WAKEUP_BYTES,
        };
        let attr = attr::sideband(samplers, self.options, wakeup);
        let (attr, fallbacks) = self.negotiate("dummy", &attr, None, None)?;
        for fallback in fallbacks {
            match fallback {
                Fallback::Without(feature) => {
                    self.notices.push(Notice::MissingFeature { event: "sideband".to_owned(), feature });
                }
                Fallback::Forbidden(what) => self.notify_once(Notice::NotPermitted { what }),
                _ => {}
            }
        }
        self.notices.push(opened("dummy", &attr));
        Ok(PlannedEvent::sideband(attr))
    }

    /// Returns the attr of a sampling event, within the limits of the kernel's settings.
    fn limited(&mut self, event: &Event) -> Attr {
        let stack_copy = self.copy_sizes.of(event, self.options);
        let mut attr = attr::sampler(event, self.options, stack_copy, self.wakeup);
        // `-F max` asks for the largest number; the limit is what it means.
        let rate =
            limits::limit_rate(&mut attr, &self.facts.settings).filter(|(asked, _)| *asked != u64::MAX);
        let stack = limits::limit_stack(&mut attr, &self.facts.settings);
        rate.into_iter()
            .for_each(|(asked, allowed)| self.notify_once(Notice::RateLimited { asked, allowed }));
        stack
            .into_iter()
            .for_each(|(asked, allowed)| self.notify_once(Notice::StackLimited { asked, allowed }));
        attr
    }

    /// Returns the attr that this kernel and user allow, and the fallbacks that led to it.
    fn negotiate(
        &mut self,
        name: &str,
        attr: &Attr,
        clock: Option<&Attr>,
        event: Option<&Event>,
    ) -> Result<(Attr, Vec<Fallback>), Stop> {
        // A PMU of one kind of core opens on CPUs of this kind only.
        let has_it = |cpu: &&CpuId| event.is_none_or(|event| counts_on(event, **cpu));
        let cpu = self.cpus.iter().find(has_it).copied().unwrap_or_default();
        let site = if self.options.target.is_cpu_wide() { Site::Cpu(cpu) } else { Site::Thread(Some(cpu)) };
        let outcome = negotiate(attr.clone(), clock, site, self.facts)?;
        outcome.map_err(|Refusal { errno, attr: refused }| {
            let (name, attr) = (name.to_owned(), attr.clone());
            if errno.raw_os_error() != Some(ESRCH) {
                self.notices.push(Notice::Refused { name: name.clone(), attr: refused });
            }
            let is_probe = event.is_some_and(|event| event.probe.is_some());
            Stop::Refused(Box::new(RefusedEvent { name, errno, attr, is_probe }))
        })
    }

    /// Adds notices of the fallbacks of an event, and returns the name under which it is recorded.
    fn report_fallbacks(&mut self, event: &Event, attr: &Attr, fallbacks: Vec<Fallback>) -> String {
        let (mut name, mut user_only) = (event.name.clone(), false);
        for fallback in fallbacks {
            match fallback {
                Fallback::Clock => {
                    name = clock_event().name;
                    self.notify_once(Notice::ClockInstead);
                }
                Fallback::UserSpaceOnly => {
                    user_only = true;
                    self.notify_once(Notice::UserSpaceOnly { paranoid: self.facts.settings.paranoid });
                    if attr.occurs_in_kernel_only() {
                        self.notices.push(Notice::NothingToCount { event: event.name.clone() });
                    }
                }
                Fallback::Forbidden(what) => self.notify_once(Notice::NotPermitted { what }),
                Fallback::FramePointers => {
                    self.notify_once(Notice::FramePointersInstead { event: name.clone() });
                }
                Fallback::NotInherited => self.notices.push(Notice::NotInherited { event: name.clone() }),
                Fallback::Without(feature) => {
                    self.notices.push(Notice::MissingFeature { event: name.clone(), feature });
                }
            }
        }
        if user_only && !name.contains(':') {
            name.push_str(":u");
        }
        name
    }

    /// Adds a notice, unless there is an equal one.
    fn notify_once(&mut self, notice: Notice) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }
}

impl PlannedEvent {
    /// Makes an event with the group of the selected one.
    pub(crate) fn new(name: String, attr: Attr, selected: Event) -> Self {
        Self { name, attr, leader: selected.leader, selected, part_of: None }
    }

    /// Makes the event that writes records of mappings, names and threads.
    pub(crate) fn sideband(attr: Attr) -> Self {
        Self::new("dummy".to_owned(), attr, dummy_event("dummy"))
    }

    /// Returns true if it samples switches, and not what threads have waited for.
    pub(crate) fn samples_switches(&self) -> bool {
        self.selected.watches && !self.name.starts_with(FAULT_STACKS) && !self.selected.is_switch_records()
    }

    /// Returns true if it is an event of the recording, and not a part of another one.
    pub(crate) fn is_whole(&self) -> bool {
        self.part_of.is_none()
    }

    /// Makes it a part of the event among `before` that is the same on another kind of core, with samples of the same layout.
    pub(crate) fn part_among(self, before: &[Self]) -> Self {
        let layout = |event: &Self| {
            let attr = &event.attr;
            let registers = (attr.sample_regs_user, attr.sample_regs_intr);
            (attr.sample_format, attr.read_format, attr.branch_sample_format, registers, attr.is_frequency())
        };
        let is_same = |event: &Self| {
            event.is_whole()
                && event.selected.core
                && event.name == self.name
                && layout(event) == layout(&self)
        };
        let part_of = before.iter().position(is_same).filter(|_| self.selected.core);
        Self { part_of, ..self }
    }
}
