//! Counting from its beginning to its end.

use std::time::{Duration, Instant};

use host::sys::clock::{self, CpuTime};
use host::sys::pidfd::PidFd;
use host::sys::schedule::PriorityGuard;
use host::sys::signals::SIGTERM;
use host::sys::spawn::{Child, WaitingChild};

use super::open::Counters;
use super::{Counted, Plan, Reading, Sheet};
use crate::control::workload;
use crate::control::{Control, OutsideEvent, OutsidePoller};
use crate::error::Error;
use crate::notice::Notice;
use crate::options::{Options, Target};
use crate::session::require_perf_events;
use crate::summary::{Command, RunningCommand};

/// How often the reports of tasks that end are taken out of their rings: eight thousand ends a second fit.
const REPORTS: Duration = Duration::from_millis(20);

/// Counts the events of `options` on their target until it ends, the time is over, or `control` stops it. Tells `report` of each
/// interval of `plan`. A command runs on to its end after the first signal, which is passed on to it.
///
/// # Errors
/// [`Error`]: where an event cannot be counted, or the command not be started.
pub fn count(
    options: &Options,
    plan: Plan,
    control: &Control,
    report: &mut dyn FnMut(&Sheet<'_>),
    notices: &mut dyn FnMut(Notice),
) -> Result<Counted, Error> {
    require_perf_events()?;
    let before = clock::cpu_time_of_children();
    let waiting = options.workload.as_ref().map(|workload| workload::fork(workload, control)).transpose()?;
    let pid = waiting.as_ref().map(WaitingChild::pid);
    // On a busy machine, the end of a short command is else seen long after it.
    let _urgent = PriorityGuard::acquire();
    let counters = match Counters::open(options, plan, pid, notices) {
        Ok(counters) => counters,
        Err(error) => {
            waiting.into_iter().for_each(WaitingChild::cancel);
            return Err(error);
        }
    };
    let mut run = Run { counters, plan, last: Vec::new(), last_time: Duration::ZERO, begin: Instant::now() };
    let mut child = None;
    if let Some(waiting) = waiting {
        // The exec of a command that is the target enables its events.
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
    let processes = workload::watched(options, child.as_ref());
    let mut outside = OutsidePoller::new(control, processes);
    let mut end = match options.delay {
        Some(delay) => {
            run.plan.interval = None; // Nothing is counted yet.
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
    run.tick(elapsed, report);
    let readings = run.counters.read();
    let counts = run.counts(&readings);
    run.counters.changed_cpus(notices);
    let stopped = end == End::Time && child.is_some();
    if stopped && child.as_ref().is_some_and(|child| child.send(SIGTERM).is_ok()) {
        notices(Notice::CommandTerminated);
    }
    let command = child.map(|child| ended(child, control, end == End::Interrupted));
    let cpu_time = matches!(command, Some(Command::Ended(_))).then(|| since(before));
    Ok(Counted {
        lost_reports: run.counters.reports.as_ref().map_or(0, |reports| reports.lost),
        events: run.counters.events,
        counts,
        elapsed,
        cpu_time,
        command,
        interrupted: end == End::Interrupted || outside.has_signal,
    })
}

/// Waits for the command, unless a signal comes or has come.
fn ended(child: Child, control: &Control, at_once: bool) -> Command {
    let process = PidFd::open(child.pid()).ok();
    let signal = if at_once { None } else { process.as_ref().and_then(|process| control.wait_for(process)) };
    let status =
        if at_once || signal.is_some() { child.try_wait().ok().flatten() } else { child.wait().ok() };
    match status {
        Some(status) => Command::Ended(status),
        None => Command::Running(RunningCommand { child }),
    }
}

fn since(before: CpuTime) -> CpuTime {
    let now = clock::cpu_time_of_children();
    CpuTime { user: now.user.saturating_sub(before.user), kernel: now.kernel.saturating_sub(before.kernel) }
}

/// Why waiting was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The time was.
    Time,
    /// The target has ended.
    Target,
    /// Somebody stopped us, and there is no command, or it has been told before.
    Interrupted,
}

struct Run {
    counters: Counters,
    plan: Plan,
    /// What had been read at the last report,
    last: Vec<Option<Reading>>,
    /// … and when, since the beginning.
    last_time: Duration,
    begin: Instant,
}

impl Run {
    /// Waits until `duration` is over or the target has ended, and reports each interval.
    fn wait(
        &mut self,
        outside: &mut OutsidePoller,
        child: Option<&Child>,
        duration: Option<Duration>,
        report: &mut dyn FnMut(&Sheet<'_>),
    ) -> End {
        let mut ticks = 1;
        loop {
            let now = self.begin.elapsed();
            if duration.is_some_and(|duration| now >= duration) {
                return End::Time;
            }
            let mut next = duration;
            if let Some(interval) = self.plan.interval {
                // By the number of the interval: what a report takes does not add up.
                let due = interval.saturating_mul(ticks);
                if now >= due {
                    self.tick(now, report);
                    let passed = now.as_nanos() / interval.as_nanos().max(1);
                    ticks = u32::try_from(passed).unwrap_or(u32::MAX).saturating_add(1);
                    continue;
                }
                next = Some(next.map_or(due, |next| next.min(due)));
            }
            if let Some(reports) = &mut self.counters.reports {
                reports.take();
                next = Some(next.map_or(now + REPORTS, |next| next.min(now + REPORTS)));
            }
            match outside.wait(next.map(|next| next.saturating_sub(now))) {
                Some(OutsideEvent::Ended(_)) if outside.left == 0 => return End::Target,
                Some(OutsideEvent::Signal(signal)) => match child {
                    Some(child) if !outside.has_signal => {
                        outside.has_signal = true;
                        // A terminal sends its signals to the command, too; others send them to us alone.
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
    fn tick(&mut self, now: Duration, report: &mut dyn FnMut(&Sheet<'_>)) {
        if self.plan.interval.is_none() {
            return;
        }
        let readings = self.counters.read();
        let mut news = readings.clone();
        for ((news, before), instance) in news.iter_mut().zip(&self.last).zip(&self.counters.instances) {
            let snapshot =
                self.counters.events.get(instance.event).is_some_and(|event| event.measure.snapshot);
            if let (Some(news), Some(before)) = (news, before) {
                let value = news.value;
                *news = news.since(before);
                if snapshot {
                    news.value = value;
                }
            }
        }
        let counts = self.counts(&news);
        report(&Sheet { events: &self.counters.events, counts, from: self.last_time, to: now });
        (self.last, self.last_time) = (readings, now);
    }

    fn counts(&mut self, readings: &[Option<Reading>]) -> Vec<super::Count> {
        let counts = self.counters.counts(readings);
        match &mut self.counters.reports {
            Some(reports) => {
                reports.take();
                reports.apart(counts)
            }
            None => counts,
        }
    }
}
