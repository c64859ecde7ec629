//! Counts from start to end: waits for the target, a signal or the end of time, and reports intervals.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use host::process_handle::ProcessHandle;
use host::procfs;
use host::sys::clock;
use host::sys::schedule::PriorityGuard;
use host::sys::signals::SIGTERM;
use host::sys::spawn::{Child, WaitingChild};
use model::{MIN_MISSING_SHARE, Tid};

use super::open::Counters;
use super::{Count, Counted, IntervalCounts, Plan, Reading};
use crate::control::workload;
use crate::control::{Control, OutsideEvent, OutsidePoller, ends_with_command};
use crate::error::Error;
use crate::notice::Notice;
use crate::open::require_perf_events;
use crate::options::{Options, Target};
use crate::summary::{Command, RunningCommand};

/// Least CPU time without events that is told. Of 200 runs of short commands on a loaded machine, none had more than 1.5 ms, most of it
/// before the exec that enables the events.
const MIN_UNCOUNTED: Duration = Duration::from_millis(2);

/// Counts the events of `options` on their target until it ends, the time is over, or `control` stops it. Calls `report` after each
/// interval of `plan`. The first signal is passed on to a command, which runs on to its end.
///
/// # Errors
/// Where an event cannot be counted, or the command cannot be started.
pub fn count(
    options: &Options,
    plan: Plan,
    control: &Control,
    report: &mut dyn FnMut(&IntervalCounts<'_>),
    notices: &mut dyn FnMut(Notice),
) -> Result<Counted, Error> {
    require_perf_events()?;
    let before = clock::cpu_time_of_children();
    let waiting = options.workload.as_ref().map(|workload| workload::fork(workload, control)).transpose()?;
    let pid = waiting.as_ref().map(WaitingChild::pid);
    // Without it, on a busy machine, the recorder notices the end of a short command long after it.
    let _priority = PriorityGuard::acquire();
    let counters = match Counters::open(options, plan, pid, notices) {
        Ok(counters) => counters,
        Err(error) => {
            waiting.into_iter().for_each(WaitingChild::cancel);
            return Err(error);
        }
    };
    let mut run =
        Run { counters, plan, reported: Vec::new(), reported_at: Duration::ZERO, begin: Instant::now() };
    let mut child = None;
    let forked = pid.and_then(|pid| procfs::schedstat(Tid(pid.0)).ok()).map_or(0, |[ran, ..]| ran);
    if let Some(waiting) = waiting {
        // Where the command is the target, its exec enables the events.
        if options.target != Target::Command
            && options.delay.is_none()
            && let Err(error) = run.counters.enable()
        {
            waiting.cancel();
            return Err(error);
        }
        run.begin = Instant::now();
        child = Some(workload::start(waiting, options)?);
    } else if options.delay.is_none() {
        run.counters.enable()?;
        run.begin = Instant::now();
    }
    let processes = workload::watched(options, child.as_ref().map(Child::pid));
    let mut outside = OutsidePoller::new(control, processes);
    let mut end = match options.delay {
        Some(delay) => {
            run.plan.interval = None; // There is nothing to report yet.
            run.wait(&mut outside, child.as_ref(), Some(delay), &mut |_| {})
        }
        None => End::Time,
    };
    if end == End::Time {
        if options.delay.is_some() {
            (run.begin, run.plan) = (Instant::now(), plan);
            run.counters.enable()?;
        }
        end = run.wait(&mut outside, child.as_ref(), options.duration, report);
    }
    run.counters.disable();
    let elapsed = run.begin.elapsed();
    run.report_interval(elapsed, report);
    let counts = run.counters.counts(&run.counters.read());
    run.counters.report_offline_cpus(notices);
    let stopped = end == End::Time && child.is_some();
    if stopped && child.as_ref().is_some_and(|child| child.send(SIGTERM).is_ok()) {
        notices(Notice::CommandTerminated);
    }
    let command = child.map(|child| wait_for_command(child, control, end == End::Interrupted));
    let cpu_time =
        matches!(command, Some(Command::Ended(_))).then(|| clock::cpu_time_of_children().since(before));
    let is_whole = end == End::Target && options.delay.is_none() && options.target == Target::Command;
    let follows_all = options.inherits() && !options.threads_only;
    let uncounted_cpu_time = cpu_time.filter(|_| is_whole && follows_all).and_then(|time| {
        uncounted_cpu_time(&counts, time.total().saturating_sub(Duration::from_nanos(forked)))
    });
    Ok(Counted {
        events: run.counters.plan.events,
        counts,
        elapsed,
        cpu_time,
        uncounted_cpu_time,
        command,
        interrupted: end == End::Interrupted || outside.has_signal,
    })
}

/// Waits for the end of the command, until a signal comes; with `at_once` does not wait.
fn wait_for_command(child: Child, control: &Control, at_once: bool) -> Command {
    let process = ProcessHandle::of_process(child.pid());
    let signal = if at_once { None } else { control.wait_for(&process) };
    let status =
        if at_once || signal.is_some() { child.try_wait().ok().flatten() } else { child.wait().ok() };
    match status {
        Some(status) => Command::Ended(status),
        None => Command::Running(RunningCommand { child }),
    }
}

/// Returns how much of the CPU time that a command used no event was open for, if that is significant. Events are enabled while their
/// task runs.
fn uncounted_cpu_time(counts: &[Count], used: Duration) -> Option<Duration> {
    let mut enabled: HashMap<usize, u64> = HashMap::new();
    for count in counts {
        let sum = enabled.entry(count.event).or_default();
        *sum = sum.saturating_add(count.reading.enabled_ns);
    }
    let missing = used.saturating_sub(Duration::from_nanos(enabled.into_values().max()?));
    let is_significant =
        missing >= MIN_UNCOUNTED && missing.as_secs_f64() >= MIN_MISSING_SHARE * used.as_secs_f64();
    is_significant.then_some(missing)
}

/// Why counting has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The time is over.
    Time,
    /// The target has ended.
    Target,
    /// A stop was requested, or a signal came without a command to pass it on to, or after the first one.
    Interrupted,
}

struct Run {
    counters: Counters,
    plan: Plan,
    /// The readings of the last report.
    reported: Vec<Option<Reading>>,
    /// The time of the last report, since `begin`.
    reported_at: Duration,
    /// When counting began.
    begin: Instant,
}

impl Run {
    /// Waits until `duration` is over or the target has ended, and reports each interval.
    fn wait(
        &mut self,
        outside: &mut OutsidePoller,
        child: Option<&Child>,
        duration: Option<Duration>,
        report: &mut dyn FnMut(&IntervalCounts<'_>),
    ) -> End {
        let mut intervals = 1;
        loop {
            let now = self.begin.elapsed();
            if duration.is_some_and(|duration| now >= duration) {
                return End::Time;
            }
            let mut next = duration;
            if let Some(interval) = self.plan.interval {
                // Computed from the number of the interval, so that the time that reports take does not add up.
                let due = interval.saturating_mul(intervals);
                if now >= due {
                    self.report_interval(now, report);
                    let passed = now.as_nanos() / interval.as_nanos().max(1);
                    intervals = u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(1);
                    continue;
                }
                next = Some(next.map_or(due, |next| next.min(due)));
            }
            match outside.wait(next.map(|next| next.saturating_sub(now))) {
                Some(OutsideEvent::Ended(_)) if outside.left == 0 => return End::Target,
                Some(OutsideEvent::Signal(signal)) => match child {
                    Some(_) if !ends_with_command(signal.signal) => {}
                    Some(child) if !outside.has_signal => {
                        outside.has_signal = true;
                        // A terminal sends its signals to the command as well; a process sends them to the recorder alone.
                        if signal.sender.is_some() {
                            let _ = child.send(signal.signal);
                        }
                    }
                    _ => return End::Interrupted,
                },
                Some(OutsideEvent::Stop) => return End::Interrupted,
                _ => {}
            }
        }
    }

    /// Reports what was counted since the last report, where intervals are wanted.
    fn report_interval(&mut self, now: Duration, report: &mut dyn FnMut(&IntervalCounts<'_>)) {
        if self.plan.interval.is_none() {
            return;
        }
        let readings = self.counters.read();
        let mut differences = readings.clone();
        let instances = &self.counters.instances;
        for ((difference, before), instance) in differences.iter_mut().zip(&self.reported).zip(instances) {
            let snapshot =
                self.counters.plan.events.get(instance.event).is_some_and(|event| event.measure.snapshot);
            if let (Some(difference), Some(before)) = (difference, before) {
                let value = difference.value;
                *difference = difference.since(before);
                if snapshot {
                    difference.value = value;
                }
            }
        }
        let counts = self.counters.counts(&differences);
        report(&IntervalCounts {
            events: &self.counters.plan.events,
            counts,
            from: self.reported_at,
            to: now,
        });
        (self.reported, self.reported_at) = (readings, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_without_events_is_what_no_event_was_enabled_for() {
        let of = |event, enabled_ms: u64| Count {
            event,
            cpu: None,
            reading: Reading { enabled_ns: enabled_ms * 1_000_000, ..Reading::default() },
            unreadable: false,
        };
        let missing = |counts: &[Count], used| uncounted_cpu_time(counts, Duration::from_millis(used));
        // An event without a counter at first says nothing of the others.
        assert_eq!(missing(&[of(0, 0), of(1, 30), of(1, 20)], 150), Some(Duration::from_millis(100)));
        assert_eq!(missing(&[of(0, 100)], 101), None, "the exec");
        assert_eq!(missing(&[of(0, 1_000)], 1_020), None, "a small share");
        assert_eq!(missing(&[of(0, 200)], 100), None, "on whole CPUs");
        assert_eq!(missing(&[], 100), None);
    }
}
