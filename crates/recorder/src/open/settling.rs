//! Finding out what of each event this kernel and user may have, before it is opened on all of its subjects.

use std::io;

use decoder::Attr;
use host::sys::perf_event::{PerfEvent, Subject};
use model::{CpuId, Tid};

use super::advice::{explain, explain_probe};
use super::descriptors::Descriptors;
use super::ladder::{Kernel, Refusal, Step, settle};
use super::plan::{OpenEvent, Opened};
use super::rings::SIDEBAND_SIZE;
use super::selected::counts_on;
use super::told::ToldNotices;
use super::variants::{copy_sizes, variants};
use crate::attr;
use crate::error::{ESRCH, Error};
use crate::event::{Event, clock_event};
use crate::notice::Notice;
use crate::options::Options;

/// Settles all events, with the first of `threads` that lives, or a CPU: they are open on nothing yet.
pub(super) fn settle_all(
    options: &Options,
    events: &[Event],
    cpus: &[CpuId],
    wanted_ring: u64,
    threads: &[Tid],
    descriptors: Descriptors,
    notices: &mut dyn FnMut(Notice),
) -> Result<Opened, Error> {
    let sizes = copy_sizes(options, events, wanted_ring, descriptors, notices);
    let cpus = options.cpus.as_deref().unwrap_or(cpus);
    let (told, kept) = (ToldNotices::default(), Vec::new());
    let wakeup = u32::try_from(wanted_ring / 4).unwrap_or(1 << 30);
    let mut settling =
        Settling { options, cpus, threads, stack_copy: sizes.initial(), wakeup, told, kept, notices };
    let mut open_events: Vec<OpenEvent> = Vec::new();
    for (index, event) in events.iter().enumerate() {
        if let Some(mut opened) = settling.sampler(index, event)? {
            opened.part_of = opened.whole_among(&open_events);
            open_events.push(opened);
        }
    }
    let variants = variants(&open_events, &sizes);
    open_events.extend(variants);
    let sideband = settling.sideband(&open_events)?;
    Ok(Opened::of_events(open_events, sideband, sizes))
}

/// The state that all events of a recording have in common while they are settled.
struct Settling<'a> {
    options: &'a Options,
    /// Those that are sampled.
    cpus: &'a [CpuId],
    /// Of the target; none where whole CPUs are.
    threads: &'a [Tid],
    /// Bytes of each stack copy to begin with.
    stack_copy: u32,
    /// Bytes after which a ring wakes its reader.
    wakeup: u32,
    told: ToldNotices,
    /// Open until the real ones are: the first event of a machine, and the last, cost it milliseconds.
    kept: Vec<PerfEvent>,
    notices: &'a mut dyn FnMut(Notice),
}

impl Settling<'_> {
    /// Settles a sampling event; `None` where the clock that would stand in for it is there already.
    fn sampler(&mut self, index: usize, event: &Event) -> Result<Option<OpenEvent>, Error> {
        let mut attr = self.limited(event);
        if let Some(probe) = &event.probe {
            attr.config1 = probe.config1();
        }
        let clock = event.is_default.then(|| self.limited(&clock_event()));
        let (mut attr, steps) = self.settle(&event.name, &attr, clock.as_ref(), Some(event))?;
        let mut selected = event.clone();
        // One clock does for all kinds of cores.
        if steps.contains(&Step::Clock) {
            if self.told.has(&Notice::ClockInstead) {
                return Ok(None);
            }
            selected.cpus = None;
        }
        let name = self.tell(event, &attr, steps);
        if event.leader.is_some_and(|leader| leader != index) {
            attr = attr::member(attr);
        }
        (self.notices)(Notice::Opened { name: name.clone(), attr: Box::new(attr.clone()) });
        Ok(Some(OpenEvent { leader: event.leader, selected: Some(selected), ..OpenEvent::new(name, attr) }))
    }

    /// Settles the event that tells of mappings, names and threads, beside these samplers.
    fn sideband(&mut self, samplers: &[OpenEvent]) -> Result<OpenEvent, Error> {
        let attrs: Vec<Attr> = samplers.iter().map(|event| event.attr.clone()).collect();
        let wakeup = u32::try_from(SIDEBAND_SIZE / 4).unwrap_or(1 << 14);
        let attr = attr::sideband(&attrs, self.options, wakeup);
        let (attr, steps) = self.settle("dummy", &attr, None, None)?;
        for step in steps {
            match step {
                Step::Without(feature) => {
                    (self.notices)(Notice::Without { event: "sideband".to_owned(), feature });
                }
                Step::Forbidden(what) => self.told.once(Notice::Forbidden { what }, self.notices),
                _ => {}
            }
        }
        (self.notices)(Notice::Opened { name: "dummy".to_owned(), attr: Box::new(attr.clone()) });
        Ok(OpenEvent::new("dummy".to_owned(), attr))
    }

    /// The attr of an event, within the limits of the kernel's settings.
    fn limited(&mut self, event: &Event) -> Attr {
        let mut attr = attr::sampler(event, self.options, self.stack_copy, self.wakeup);
        self.told.limit_rate(&mut attr, self.notices);
        self.told.limit_stack(&mut attr, self.notices);
        attr
    }

    /// Opens an event on one subject, with what this kernel and user allow of it.
    fn settle(
        &mut self,
        name: &str,
        attr: &Attr,
        clock: Option<&Attr>,
        event: Option<&Event>,
    ) -> Result<(Attr, Vec<Step>), Error> {
        // A PMU is asked on a CPU that has it.
        let has_it = |cpu: &&CpuId| event.is_none_or(|event| counts_on(event, **cpu));
        let cpu = self.cpus.iter().find(has_it).copied().unwrap_or_default();
        let whole_cpu = self.threads.is_empty().then_some(Subject::Cpu(cpu));
        let subjects = self.threads.iter().map(|&tid| Subject::Thread(tid, Some(cpu))).chain(whole_cpu);
        let is_probe = event.is_some_and(|event| event.probe.is_some());
        let explain = if is_probe { explain_probe } else { explain };
        let mut gone = None;
        for subject in subjects {
            match settle(&Kernel, attr.clone(), clock, subject, None) {
                Ok((attr, kept, steps)) => {
                    self.kept.push(kept);
                    return Ok((attr, steps));
                }
                Err(Refusal { errno, .. }) if errno.raw_os_error() == Some(ESRCH) => gone = Some(errno),
                Err(Refusal { errno, attr: refused }) => {
                    (self.notices)(Notice::Refused { name: name.to_owned(), attr: refused });
                    return Err(explain(errno, name, attr, self.options));
                }
            }
        }
        let error = gone.unwrap_or_else(|| io::Error::from_raw_os_error(ESRCH));
        Err(explain(error, name, attr, self.options))
    }

    /// Tells what had to be left out of an event, and returns the name under which it is recorded.
    fn tell(&mut self, event: &Event, attr: &Attr, steps: Vec<Step>) -> String {
        let (mut name, mut user_only) = (event.name.clone(), false);
        for step in steps {
            match step {
                Step::Clock => {
                    name = clock_event().name;
                    self.told.once(Notice::ClockInstead, self.notices);
                }
                Step::UserSpaceOnly => {
                    user_only = true;
                    let paranoid = host::sysctl::perf_event_paranoid();
                    self.told.once(Notice::UserSpaceOnly { paranoid }, self.notices);
                    if attr.occurs_in_kernel_only() {
                        (self.notices)(Notice::NothingToCount { event: event.name.clone() });
                    }
                }
                Step::Forbidden(what) => self.told.once(Notice::Forbidden { what }, self.notices),
                Step::FramePointers => {
                    self.told.once(Notice::FramePointersInstead { event: name.clone() }, self.notices);
                }
                Step::NotInherited => (self.notices)(Notice::NotInherited { event: name.clone() }),
                Step::Without(feature) => (self.notices)(Notice::Without { event: name.clone(), feature }),
            }
        }
        if user_only && !name.contains(':') {
            name.push_str(":u");
        }
        name
    }
}
