//! Negotiates each event with the kernel on one subject, before it is opened on all: which attr this kernel and user may have.

use std::io;

use decoder::Attr;
use host::sys::perf_event::{PerfEvent, Subject};
use model::{CpuId, Tid};

use super::advice::{explain, explain_probe};
use super::descriptors::Descriptors;
use super::fallbacks::{Fallback, Kernel, Refusal, open_with_fallbacks};
use super::opened::{OpenEvent, Opened};
use super::rings::SIDEBAND_SIZE;
use super::selected_events::counts_on;
use super::sent_notices::SentNotices;
use super::variants::{copy_sizes, variants};
use crate::attr;
use crate::error::{ESRCH, Error};
use crate::event::{Event, clock_event};
use crate::notice::Notice;
use crate::options::Options;
use crate::unwind::{Arrival, CopySizes, PerArrival};

/// Number of bytes of sideband records after which their reader is woken, because the files of short-lived programs are read while these
/// live. An exec writes at least 340: COMM, the program, and the vdso. To be woken for each record took 5 % of the CPU time of 300 programs
/// that a shell started.
const SIDEBAND_WAKEUP_BYTES: u32 = 256;

/// Negotiates all events, on the first of `threads` that lives, or on a CPU where there are none. Returns events that are not open
/// yet.
pub(super) fn negotiate_all(
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

    let wakeup = u32::try_from(wanted_ring / 4).unwrap_or(1 << 30);
    let mut negotiation = Negotiation {
        options,
        cpus,
        threads,
        stack_copies: sizes.map(CopySizes::initial),
        wakeup,
        sent: SentNotices::default(),
        open_events: Vec::new(),
        notices,
    };
    let mut open_events: Vec<OpenEvent> = Vec::new();
    for (index, event) in events.iter().enumerate() {
        if let Some(mut opened) = negotiation.sampler(index, event)? {
            opened.part_of = opened.whole_among(&open_events);
            open_events.push(opened);
        }
    }
    let variants = variants(&open_events, &sizes);
    open_events.extend(variants);
    let sideband = negotiation.sideband(&open_events)?;
    Ok(Opened::of_events(open_events, sideband, sizes))
}

/// The state that all events of a recording share while they are negotiated.
struct Negotiation<'a> {
    options: &'a Options,
    /// The CPUs that are sampled.
    cpus: &'a [CpuId],
    /// The threads of the target; none where whole CPUs are sampled.
    threads: &'a [Tid],
    /// Bytes of each stack copy to begin with.
    stack_copies: PerArrival<u32>,
    /// Bytes after which a ring wakes its reader.
    wakeup: u32,
    sent: SentNotices,
    /// Events that stay open until those of the target are: opening the first event of a machine, and closing the last, takes
    /// milliseconds.
    open_events: Vec<PerfEvent>,
    notices: &'a mut dyn FnMut(Notice),
}

impl Negotiation<'_> {
    /// Negotiates a sampling event; `None` where the clock has to stand in for it, and is there already.
    fn sampler(&mut self, index: usize, event: &Event) -> Result<Option<OpenEvent>, Error> {
        let mut attr = self.limited(event);
        if let Some(probe) = &event.probe {
            attr.config1 = probe.config1();
        }
        let clock = event.is_default.then(|| self.limited(&clock_event()));
        let (mut attr, fallbacks) = self.negotiate(&event.name, &attr, clock.as_ref(), Some(event))?;
        let mut selected = Event { max_stack: event.max_stack.or(self.options.max_stack), ..event.clone() };
        // One clock is enough for all kinds of cores.
        if fallbacks.contains(&Fallback::Clock) {
            if self.sent.contains(&Notice::ClockInstead) {
                return Ok(None);
            }
            selected.cpus = None;
        }
        let name = self.report_fallbacks(event, &attr, fallbacks);
        if event.leader.is_some_and(|leader| leader != index) {
            attr = attr::member(attr);
        }
        (self.notices)(Notice::Opened { name: name.clone(), attr: Box::new(attr.clone()) });
        Ok(Some(OpenEvent { leader: event.leader, selected: Some(selected), ..OpenEvent::new(name, attr) }))
    }

    /// Negotiates the event that writes records of mappings, names and threads, beside these samplers.
    fn sideband(&mut self, samplers: &[OpenEvent]) -> Result<OpenEvent, Error> {
        let attrs: Vec<Attr> = samplers.iter().map(|event| event.attr.clone()).collect();
        // Not with records of switches: the reader's own switch would wake it again.
        let wakeup = match self.options.extras.switches {
            true => u32::try_from(SIDEBAND_SIZE / 4).unwrap_or(1 << 14),
            false => SIDEBAND_WAKEUP_BYTES,
        };
        let attr = attr::sideband(&attrs, self.options, wakeup);
        let (attr, fallbacks) = self.negotiate("dummy", &attr, None, None)?;
        for fallback in fallbacks {
            match fallback {
                Fallback::Without(feature) => {
                    (self.notices)(Notice::MissingFeature { event: "sideband".to_owned(), feature });
                }
                Fallback::Forbidden(what) => self.sent.send_once(Notice::NotPermitted { what }, self.notices),
                _ => {}
            }
        }
        (self.notices)(Notice::Opened { name: "dummy".to_owned(), attr: Box::new(attr.clone()) });
        Ok(OpenEvent::new("dummy".to_owned(), attr))
    }

    /// Returns the attr of a sampling event, within the limits of the kernel's settings.
    fn limited(&mut self, event: &Event) -> Attr {
        let stack_copy = *self.stack_copies.of(Arrival::at_rate(attr::rate_of(event, self.options)));
        let mut attr = attr::sampler(event, self.options, stack_copy, self.wakeup);
        self.sent.limit_rate(&mut attr, self.notices);
        self.sent.limit_stack(&mut attr, self.notices);
        attr
    }

    /// Opens an event on the first subject that there is. Returns the attr that this kernel and user allow, and the fallbacks that
    /// led to it.
    fn negotiate(
        &mut self,
        name: &str,
        attr: &Attr,
        clock: Option<&Attr>,
        event: Option<&Event>,
    ) -> Result<(Attr, Vec<Fallback>), Error> {
        // A PMU of one kind of core opens on CPUs of this kind only.
        let has_it = |cpu: &&CpuId| event.is_none_or(|event| counts_on(event, **cpu));
        let cpu = self.cpus.iter().find(has_it).copied().unwrap_or_default();
        let whole_cpu = self.threads.is_empty().then_some(Subject::Cpu(cpu));
        let subjects = self.threads.iter().map(|&tid| Subject::Thread(tid, Some(cpu))).chain(whole_cpu);
        let is_probe = event.is_some_and(|event| event.probe.is_some());
        let explain = if is_probe { explain_probe } else { explain };
        let mut gone = None;
        for subject in subjects {
            match open_with_fallbacks(&Kernel, attr.clone(), clock, subject, None) {
                Ok((attr, opened, fallbacks)) => {
                    self.open_events.push(opened);
                    return Ok((attr, fallbacks));
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

    /// Sends notices of the fallbacks of an event, and returns the name under which it is recorded.
    fn report_fallbacks(&mut self, event: &Event, attr: &Attr, fallbacks: Vec<Fallback>) -> String {
        let (mut name, mut user_only) = (event.name.clone(), false);
        for fallback in fallbacks {
            match fallback {
                Fallback::Clock => {
                    name = clock_event().name;
                    self.sent.send_once(Notice::ClockInstead, self.notices);
                }
                Fallback::UserSpaceOnly => {
                    user_only = true;
                    let paranoid = host::sysctl::perf_event_paranoid();
                    self.sent.send_once(Notice::UserSpaceOnly { paranoid }, self.notices);
                    if attr.occurs_in_kernel_only() {
                        (self.notices)(Notice::NothingToCount { event: event.name.clone() });
                    }
                }
                Fallback::Forbidden(what) => self.sent.send_once(Notice::NotPermitted { what }, self.notices),
                Fallback::FramePointers => {
                    self.sent.send_once(Notice::FramePointersInstead { event: name.clone() }, self.notices);
                }
                Fallback::NotInherited => (self.notices)(Notice::NotInherited { event: name.clone() }),
                Fallback::Without(feature) => {
                    (self.notices)(Notice::MissingFeature { event: name.clone(), feature })
                }
            }
        }
        if user_only && !name.contains(':') {
            name.push_str(":u");
        }
        name
    }
}
