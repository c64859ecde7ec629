//! Finds out whether an event works on this machine for this user, by opening it: nothing else tells.

use std::io;

use decoder::{Attr, AttrFlags};
use host::sys::perf_event::Subject;
use model::{CpuId, Tid};

use super::sent_notices::lower_rate;
use super::{Fallback, Kernel, Opener, open_with_fallbacks};
use crate::attr;
use crate::error::{EACCES, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, EPERM};
use crate::event::Event;
use crate::options::{Options, Target};

/// The extent to which an event works on this machine for this user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventSupport {
    /// It samples.
    Samples,
    /// It samples user space only: this user may not observe the kernel.
    UserSpaceOnly,
    /// It counts, but cannot sample.
    CountsOnly,
    /// This machine, or its kernel, does not have it.
    Absent,
    /// This user is not permitted to open it.
    Forbidden,
    /// The kernel refuses it with another errno.
    Refused(i32),
}

/// Size of the stack copies of a trial event, in bytes. Trial events are what a recording opens, because some kernels give samples only
/// without call chains.
const STACK_COPY: u32 = 4096;

/// Opens `event` on this process, or on a CPU where its PMU counts only there, and closes it again.
pub fn event_support(event: &Event) -> EventSupport {
    support_by(&Kernel, event)
}

/// Opens `event` on all that runs on `cpu`, and closes it again.
pub fn event_support_on_cpu(event: &Event, cpu: CpuId) -> EventSupport {
    let sampler = attr::sampler(event, &Options::new(Target::System), STACK_COPY, 1 << 12);
    sampled_by(&Kernel, event, sampler, Subject::Cpu(cpu))
}

fn support_by<O: Opener>(opener: &O, event: &Event) -> EventSupport {
    let own = Tid(0);
    // A PMU outside the cores belongs to no thread.
    let subject = match &event.cpus {
        Some(cpus) if !event.core => Subject::Cpu(cpus.first().copied().unwrap_or(CpuId(0))),
        Some(cpus) => Subject::Thread(own, cpus.first().copied()),
        None => Subject::Thread(own, None),
    };
    let options = Options { inherit: false, ..Options::new(Target::Threads(vec![own])) };
    let mut sampler = attr::sampler(event, &options, STACK_COPY, 1 << 12);
    if let Some(probe) = &event.probe {
        sampler.config1 = probe.config1();
    }
    sampled_by(opener, event, sampler, subject)
}

/// Opens the attr of an event as a recording does, with fallbacks.
fn sampled_by<O: Opener>(opener: &O, event: &Event, mut sampler: Attr, subject: Subject<'_>) -> EventSupport {
    lower_rate(&mut sampler);
    match open_with_fallbacks(opener, sampler, None, subject, None) {
        Ok((attr, _, fallbacks)) if fallbacks.contains(&Fallback::UserSpaceOnly) => {
            if attr.occurs_in_kernel_only() { EventSupport::Forbidden } else { EventSupport::UserSpaceOnly }
        }
        Ok((_, _, fallbacks))
            if fallbacks.iter().any(|fallback| matches!(fallback, Fallback::Forbidden(_))) =>
        {
            EventSupport::Forbidden
        }
        Ok(_) => EventSupport::Samples,
        Err(refused) => refusal(opener, &refused.errno, event, subject),
    }
}

fn refusal<O: Opener>(opener: &O, error: &io::Error, event: &Event, subject: Subject<'_>) -> EventSupport {
    match error.raw_os_error().unwrap_or(0) {
        ENOENT | ENODEV | EOPNOTSUPP => EventSupport::Absent,
        EACCES | EPERM => EventSupport::Forbidden,
        EINVAL => {
            let counter =
                Attr { size: attr::size_with(&event.attr), flags: AttrFlags::DISABLED, ..event.attr.clone() };
            match opener.open(&counter, subject, None) {
                Ok(_) => EventSupport::CountsOnly,
                Err(error) if matches!(error.raw_os_error(), Some(EACCES | EPERM)) => EventSupport::Forbidden,
                Err(_) => EventSupport::Refused(EINVAL),
            }
        }
        other => EventSupport::Refused(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::select;
    use decoder::SampleFormat;

    struct Machine<F: Fn(&Attr) -> Result<(), i32>>(F);

    impl<F: Fn(&Attr) -> Result<(), i32>> Opener for Machine<F> {
        type Event = ();
        fn open(&self, attr: &Attr, _: Subject<'_>, _: Option<&()>) -> io::Result<()> {
            (self.0)(attr).map_err(io::Error::from_raw_os_error)
        }
    }

    fn asked(text: &str, machine: impl Fn(&Attr) -> Result<(), i32>) -> EventSupport {
        support_by(&Machine(machine), &select(text, &Vec::new()).unwrap()[0])
    }

    #[test]
    fn what_the_kernel_says_has_a_meaning() {
        assert_eq!(asked("cycles", |_| Ok(())), EventSupport::Samples);
        assert_eq!(asked("cycles", |_| Err(ENOENT)), EventSupport::Absent);
        assert_eq!(asked("cycles", |_| Err(EACCES)), EventSupport::Forbidden);
        assert_eq!(asked("cycles", |_| Err(16)), EventSupport::Refused(16));
        let no_interrupt = |attr: &Attr| if attr.sample_period == 0 { Ok(()) } else { Err(EINVAL) };
        assert_eq!(asked("r1", no_interrupt), EventSupport::CountsOnly);
        assert_eq!(asked("r1", |_| Err(EINVAL)), EventSupport::Refused(EINVAL));
        let user = |attr: &Attr| {
            if attr.flags.contains(AttrFlags::EXCLUDE_KERNEL) { Ok(()) } else { Err(EACCES) }
        };
        assert_eq!(asked("cycles", user), EventSupport::UserSpaceOnly);
        assert_eq!(asked("context-switches", user), EventSupport::Forbidden);
        // What works without call chains only does not work: recordings have them.
        let no_chains = |attr: &Attr| {
            if attr.sample_format.contains(SampleFormat::CALLCHAIN) { Err(EACCES) } else { Ok(()) }
        };
        assert_eq!(asked("cpu-clock", no_chains), EventSupport::Forbidden);
    }
}
