//! Ends a recording: tells the consumer the totals, and makes the summary.

use std::io;
use std::time::Duration;

use host::sys::clock;
use model::Loss;

use super::Session;
use super::prepared::Prepared;
use super::privileged_execs::PrivilegedExecs;
use crate::consumer::{Circumstances, Ending, LostCount};
use crate::error::Error;
use crate::notice::Notice;
use crate::summary::{Command, RunningCommand, Summary, coverage, lost_samples};

impl Prepared {
    /// Ends the consumer's recording and returns the summary. All records have been consumed.
    pub(super) fn finish(
        self,
        mut session: Session<'_>,
        duration: Duration,
        lost: Option<Vec<LostCount>>,
        cpus: usize,
        result: Result<(), Error>,
    ) -> Result<Summary, Error> {
        let full_rings = if lost.is_none() { session.readers.full_rings() } else { 0 };
        let exit =
            session.exit.or_else(|| session.child.as_ref().and_then(|child| child.try_wait().ok().flatten()));
        let cpu_time = exit.map(|_| clock::cpu_time_of_children().since(self.cpu_time_before));
        let is_all_recorded = self.is_of_whole_command && !self.opened.state.was_paused;
        let command_time = cpu_time.filter(|_| is_all_recorded);
        let privileged_execs =
            session.privileged_execs.take().map(PrivilegedExecs::finish).unwrap_or_default();
        let unread = lost.iter().flatten().fold(full_rings, |sum, count| sum.saturating_add(count.unread));
        let circumstances = Circumstances {
            throttled: session.throttling.total(),
            tasks: session.tasks,
            more_rights: privileged_execs.len() as u64,
            unread,
        };
        let coverage = coverage(&self.opened, &session.tally, command_time, circumstances);
        if session.failure.is_none() {
            let mut task_times = match (&self.opened.task_clocks, &session.task_reports) {
                (Some(clocks), Some(reports)) => clocks.unreported(reports),
                _ => Vec::new(),
            };
            if let (Some(time), Some(reports)) = (command_time, &session.task_reports) {
                // Counts may have been exchanged with those of other events: see `coverage`.
                let total_ns = u64::try_from(time.total().as_nanos()).unwrap_or(u64::MAX);
                let rest = total_ns.saturating_sub(reports.total_ns());
                task_times.iter_mut().for_each(|time| time.nanoseconds = time.nanoseconds.min(rest));
            }
            let watched = self.watched;
            let log = std::mem::take(&mut session.switch_log);
            let switches = watched.and_then(|watched| log.finish(watched.end));
            let (lost, stacks) = (lost.clone(), None);
            self.recording.files.finish();
            let coverage = coverage.clone();
            let ending = Ending { lost, full_rings, stacks, task_times, coverage, exit, watched, switches };
            session.failure = session.consumer.end(&ending).err();
        }
        session.forward_reports();
        session.readers.join();
        let error = match (result, session.failure) {
            (Err(error), _) => Some(error),
            (Ok(()), Some(errno)) => {
                let kept = session.kept && errno.kind() != io::ErrorKind::NotFound;
                Some(Error::Consumer { errno, kept })
            }
            (Ok(()), None) => None,
        };
        if let Some(error) = error {
            if let Some(child) = session.child.filter(|_| exit.is_none()) {
                (session.notices)(Notice::CommandGoesOn { because: error.to_string() });
                // Our failure decides the exit code, so the command's status does not matter.
                let _ = child.wait();
            }
            return Err(error);
        }
        let samplers = self.opened.samplers().count();
        let (samples, sideband) = (session.counted.lost, session.lost_sideband);
        let rings = Loss { samples, sideband, unread: full_rings, ..Loss::default() };
        let loss = Loss {
            throttles: session.counted.throttles,
            cut_bytes: session.counted.bad_bytes,
            ..lost_samples(rings, lost.as_deref(), samplers)
        };
        let command = match (session.child, exit) {
            (_, Some(status)) => Some(Command::Ended(status)),
            (Some(child), None) => Some(Command::Running(RunningCommand { child })),
            (None, None) => None,
        };
        Ok(Summary {
            coverage,
            events: self.recording.events,
            cpus,
            samples: session.counted.samples,
            duplicates: session.removed,
            loss,
            duration,
            cpu_time,
            has_task_times: session.task_reports.is_some(),
            unrecorded_children: self.opened.unrecorded_children,
            privileged_execs,
            whole_cpu_rate: None,
            counts: Vec::new(),
            command,
        })
    }
}
