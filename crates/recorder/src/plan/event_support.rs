//! The extent to which an event works on this machine for this user: what becomes of its attr tells.

use decoder::{Attr, AttrFlags};

use super::Stop;
use super::facts::{Facts, Question, Site};
use super::fallbacks::{Fallback, negotiate};
use super::limits::limit_rate;
use crate::attr;
use crate::error::{EACCES, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, EPERM};
use crate::event::Event;
use crate::options::Options;

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

/// Returns the extent to which `event` works at `site`, with the fallbacks of a recording with `options`.
pub(crate) fn support(
    event: &Event,
    options: &Options,
    site: Site,
    facts: &Facts,
) -> Result<EventSupport, Stop> {
    let mut sampler = attr::sampler(event, options, STACK_COPY, 1 << 12);
    if let Some(probe) = &event.probe {
        sampler.config1 = probe.config1();
    }
    limit_rate(&mut sampler, &facts.settings);
    let errno = match negotiate(sampler, None, site, facts)? {
        Ok((attr, fallbacks)) => {
            let is_forbidden = |fallback: &Fallback| matches!(fallback, Fallback::Forbidden(_));
            let is_user_only = fallbacks.contains(&Fallback::UserSpaceOnly);
            return Ok(match () {
                () if is_user_only && attr.occurs_in_kernel_only() => EventSupport::Forbidden,
                () if is_user_only => EventSupport::UserSpaceOnly,
                () if fallbacks.iter().any(is_forbidden) => EventSupport::Forbidden,
                () => EventSupport::Samples,
            });
        }
        Err(refusal) => refusal.errno.raw_os_error().unwrap_or(0),
    };
    Ok(match errno {
        ENOENT | ENODEV | EOPNOTSUPP => EventSupport::Absent,
        EACCES | EPERM => EventSupport::Forbidden,
        EINVAL => {
            let (size, flags) = (attr::size_with(&event.attr), AttrFlags::DISABLED);
            let counter = Attr { size, flags, ..event.attr.clone() };
            match facts.answer_to(Question::Opens(counter, site))? {
                Ok(_) => EventSupport::CountsOnly,
                Err(EACCES | EPERM) => EventSupport::Forbidden,
                Err(_) => EventSupport::Refused(EINVAL),
            }
        }
        other => EventSupport::Refused(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::select;
    use crate::options::Target;
    use decoder::SampleFormat;

    fn asked(text: &str, machine: impl Fn(&Attr) -> Result<(), i32>) -> EventSupport {
        let event = &select(text, &Vec::new()).unwrap()[0];
        let options = Options::new(Target::Threads(Vec::new()));
        let mut facts = Facts::default();
        loop {
            match support(event, &options, Site::Thread(None), &facts) {
                Ok(support) => return support,
                Err(Stop::Ask(questions)) => super::super::tests::tell(&mut facts, questions, &machine),
                Err(refused) => panic!("{refused:?}"),
            }
        }
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
