//! Where threads wait: which events tell of it, by what is permitted, and when they were watched.

use decoder::Endian;
use host::procfs::{self, Capability};
use host::sys::clock;
use host::sysctl;

use crate::error::Error;
use crate::event::{Catalogue, Event, Rate, default_events, select};
use crate::options::{CallChain, Levels, Options, Target};

/// Adds to `options` what tells where threads wait: switch records, and an event that is sampled at each switch with the
/// stack of the thread that leaves its CPU.
///
/// That is `sched:sched_switch` with `sched:sched_waking` where tracepoints may be used, else `context-switches`, which knows
/// neither who was woken when nor the state that a thread left in.
///
/// # Errors
/// [`Error::SwitchesForbidden`] where neither is permitted.
pub fn observe_waits(options: &mut Options, catalogue: &dyn Catalogue) -> Result<(), Error> {
    if options.levels != Levels::AsSelected {
        return Err(Error::SwitchesOfOneSide);
    }
    if options.events.is_empty() {
        options.events = default_events(
            catalogue.pmus().iter().filter(|pmu| pmu.core).cloned().collect::<Vec<_>>().as_slice(),
        );
    }
    let paranoid = sysctl::perf_event_paranoid();
    let has = |capability| procfs::own_status().is_ok_and(|status| status.has(capability));
    let is_capable = has(Capability::Perfmon) || has(Capability::SysAdmin);
    let allowed = |level: i32| is_capable || paranoid.is_some_and(|paranoid| paranoid <= level);
    let traced = allowed(-1).then(|| select("sched:sched_switch,sched:sched_waking", catalogue));
    let switches = match traced {
        Some(Ok(mut events)) => {
            for event in &mut events {
                event.rate = Some(Rate::Period(1));
            }
            if let [switch, waking] = events.as_mut_slice() {
                // A thread is woken by another, or by an interrupt in another, which the target's own events do not see.
                waking.everywhere = true;
                waking.call_chain = Some(CallChain::None);
                // The idle task leaves its CPU as often as all others together, and nobody asks where it waits.
                switch.filter = options.target.is_cpu_wide().then(|| "prev_pid != 0".to_owned());
            }
            events
        }
        _ if allowed(1) => {
            let events = select("context-switches", catalogue)?.into_iter();
            events.map(|event| Event { rate: Some(Rate::Period(1)), ..event }).collect()
        }
        _ => return Err(Error::SwitchesForbidden { paranoid }),
    };
    options.events.extend(switches);
    options.extras.switches = true;
    Ok(())
}

/// For how long, and of whom, a recording tells where threads wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedTime {
    /// When it began, in nanoseconds on the clock of the recording.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
    /// Threads may be named in the recording and not be meant: only those that have samples are.
    pub only_sampled: bool,
}

impl WatchedTime {
    /// What was watched from now on, if switches are; `None` with a clock that cannot be read.
    pub(crate) fn start(options: &Options) -> Option<Self> {
        let begin = options.extras.switches.then(|| clock::now(options.clock.id()?).ok())??;
        let follows = options.target.is_cpu_wide() || options.inherits();
        let only_sampled = matches!(options.target, Target::Threads(_)) || !follows;
        Some(Self { begin, end: begin, only_sampled })
    }

    /// Until now.
    pub(crate) fn ended(self, options: &Options) -> Self {
        let now = options.clock.id().and_then(|clock| clock::now(clock).ok());
        Self { end: now.unwrap_or(self.end), ..self }
    }

    /// The bytes of the section ([`perfdata::sections::id::WATCHED_TIME`]).
    pub fn to_section(&self) -> Vec<u8> {
        [self.begin, self.end, u64::from(self.only_sampled)].into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    /// Reads a section; `None` where it is cut, or ends before it begins.
    pub fn from_section(bytes: &[u8], endian: Endian) -> Option<Self> {
        let word = |index: usize| Some(endian.u64(*bytes.get(index * 8..)?.first_chunk()?));
        let watched = Self { begin: word(0)?, end: word(1)?, only_sampled: word(2)? & 1 != 0 };
        (watched.begin <= watched.end).then_some(watched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_come_back() {
        let watched = WatchedTime { begin: 5, end: 7, only_sampled: true };
        let section = watched.to_section();
        assert_eq!(WatchedTime::from_section(&section, Endian::NATIVE), Some(watched));
        for cut in 0..section.len() {
            assert_eq!(WatchedTime::from_section(&section[..cut], Endian::NATIVE), None);
        }
        let backwards = WatchedTime { begin: 8, ..watched }.to_section();
        assert_eq!(WatchedTime::from_section(&backwards, Endian::NATIVE), None);
    }

    #[test]
    fn one_side_of_the_kernel_has_no_switches() {
        let mut options = Options { levels: Levels::User, ..Options::new(Target::Command) };
        assert!(matches!(observe_waits(&mut options, &Vec::new()), Err(Error::SwitchesOfOneSide)));
    }
}
