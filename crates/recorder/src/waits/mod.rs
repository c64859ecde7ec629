//! Where threads wait: which events tell of it, by what is permitted, and when they were watched.

mod calls;
mod holder;
mod kernel_counts;
mod outside;
mod sampling;
mod switch_log;

pub(crate) use outside::{MAX_THREADS, OutsideReader, POLL_INTERVAL};
pub(crate) use sampling::SwitchSampler;
pub(crate) use switch_log::SwitchLog;

use std::io;
use std::time::Duration;

use host::procfs::{self, Capability};
use host::sys::clock;
use host::sysctl;
use perfdata::sections::{BLOCKED_STACKS, FAULT_STACKS, SWITCH_RECORDS, WatchedTime};

use crate::error::Error;
use crate::event::{Catalogue, Event, Rate, dummy_event, select};
use crate::options::{CallChain, Options, PrivilegeLevels, Target};

/// Time over which switches of all processes are counted: 20 at the limit up to which whole CPUs are recorded for a command.
pub(crate) const SWITCH_RATE_INTERVAL: Duration = Duration::from_millis(10);

/// Adds to `options` what tells where threads wait: switch records, and an event that is sampled at each switch with the
/// stack of the thread that leaves its CPU.
///
/// That is `sched:sched_switch` with `sched:sched_waking` where tracepoints may be used, else `context-switches`, which knows
/// neither who was woken when nor the state that a thread left in. Where neither is permitted, the switch records are, of one's
/// own threads, and samples of page faults that had to wait. The stacks of threads that are blocked for longer are read from
/// outside.
///
/// # Errors
/// [`Error::SwitchesForbidden`] for whole CPUs where they may not be seen.
pub fn observe_waits(options: &mut Options, catalogue: &dyn Catalogue) -> Result<(), Error> {
    if options.levels != PrivilegeLevels::AsSelected {
        return Err(Error::SwitchesOfOneSide);
    }
    options.choose_events(catalogue);
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
            if let [_, waking] = events.as_mut_slice() {
                // A thread is woken by another, or by an interrupt in another, which the target's own events do not see.
                waking.everywhere = true;
                waking.call_chain = Some(CallChain::None);
            }
            events
        }
        _ if allowed(1) => {
            let events = select("context-switches", catalogue)?.into_iter();
            events.map(|event| Event { rate: Some(Rate::Period(1)), ..event }).collect()
        }
        _ if options.target.is_cpu_wide() => return Err(Error::SwitchesForbidden { paranoid }),
        // Switch records of one's own threads are for everybody, and samples of what happens in user space. The kernel takes that of a
        // page fault when the page is there.
        _ => {
            let named = |event| Event { name: FAULT_STACKS.to_owned(), rate: Some(Rate::Period(1)), ..event };
            select("major-faults", catalogue)?.into_iter().map(named).collect()
        }
    };
    let watched = |event: Event| Event { watches: true, records_switches: !event.everywhere, ..event };
    let switches = switches.into_iter().map(watched).collect();
    options.events.extend(if options.target.is_cpu_wide() { on_whole_cpus(switches) } else { switches });
    if !options.target.is_cpu_wide() {
        let has_stacks = matches!(options.call_chain, CallChain::Stacks { .. });
        options.events.push(Event {
            rate: Some(Rate::Period(1)),
            call_chain: (!has_stacks).then_some(CallChain::Stacks { size: None, keep: false }),
            read_outside: true,
            ..dummy_event(BLOCKED_STACKS)
        });
    }
    Ok(())
}

/// Returns `events` as they are opened on whole CPUs: without samples of switches from the idle task, which leaves its CPU as often as
/// all other threads together, and with an event of its own for records of switches, so that it can be closed: as long as it is open,
/// each switch takes 2 % longer (`docs/decisions/0014-cost-of-recording-waits.md`).
pub(crate) fn on_whole_cpus(mut events: Vec<Event>) -> Vec<Event> {
    let mut is_separate = false;
    for switch in events.iter_mut().filter(|event| event.watches && event.name == "sched:sched_switch") {
        switch.filter = Some("prev_pid != 0".to_owned());
        is_separate = std::mem::take(&mut switch.records_switches);
    }
    if is_separate {
        events.push(Event {
            rate: Some(Rate::Period(1)),
            call_chain: Some(CallChain::None),
            watches: true,
            records_switches: true,
            ..dummy_event(SWITCH_RECORDS)
        });
    }
    events
}

/// Returns how often all CPUs switch between threads within [`SWITCH_RATE_INTERVAL`], which it takes.
pub(crate) fn count_switches() -> io::Result<u64> {
    let before = procfs::context_switches()?;
    std::thread::sleep(SWITCH_RATE_INTERVAL);
    Ok(procfs::context_switches()?.saturating_sub(before))
}

/// Returns a span of watched time that begins now, if switches are watched; `None` with a clock that cannot be read.
pub(crate) fn start_watching(options: &Options) -> Option<WatchedTime> {
    let is_watched = options.events.iter().any(|event| event.watches);
    let begin = is_watched.then(|| clock::now(options.clock.id()?).ok())??;
    let follows = options.target.is_cpu_wide() || options.inherits();
    let only_sampled = matches!(options.target, Target::Threads(_)) || !follows;
    Some(WatchedTime { begin, end: begin, only_sampled })
}

/// Returns `watched`, ended now.
pub(crate) fn stop_watching(watched: WatchedTime, options: &Options) -> WatchedTime {
    let now = options.clock.id().and_then(|clock| clock::now(clock).ok());
    WatchedTime { end: now.unwrap_or(watched.end), ..watched }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_switches_can_be_closed_where_samples_stand_for_them() {
        let event = |name: &str, everywhere: bool| {
            let (watches, records_switches) = (true, !everywhere);
            Event { everywhere, watches, records_switches, ..dummy_event(name) }
        };
        let named = |events: Vec<Event>| -> Vec<(String, bool)> {
            on_whole_cpus(events).into_iter().map(|event| (event.name, event.records_switches)).collect()
        };
        let traced = named(vec![event("sched:sched_switch", false), event("sched:sched_waking", true)]);
        let expected = [("sched:sched_switch", false), ("sched:sched_waking", false), (SWITCH_RECORDS, true)];
        assert_eq!(traced, expected.map(|(name, records)| (name.to_owned(), records)));
        // Samples of the software event do not say who comes next, nor who is woken.
        assert_eq!(named(vec![event("context-switches", false)]), [("context-switches".to_owned(), true)]);
    }

    #[test]
    fn one_side_of_the_kernel_has_no_switches() {
        let mut options = Options { levels: PrivilegeLevels::User, ..Options::new(Target::Command) };
        assert!(matches!(observe_waits(&mut options, &Vec::new()), Err(Error::SwitchesOfOneSide)));
    }
}
