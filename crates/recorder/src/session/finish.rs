//! Ends a recording: tells the consumer the totals, and makes the summary.

use std::io;
use std::time::Duration;

use host::sys::clock;
use model::Loss;

use super::{Prepared, PrivilegedExecs, Session};
use crate::consumer::{Circumstances, Ending, LostCount};
use crate::error::Error;
use crate::notice::Notice;
use crate::summary::{Command, RunningCommand, Summary, coverage, lost_samples};

impl Session<'_> {
    /// Ends the consumer's recording and returns the summary. All records have been consumed.
    pub(super) fn finish(
        mut self,
        prepared: Prepared,
        duration: Duration,
        lost: Option<Vec<LostCount>>,
        cpus: usize,
        result: Result<(), Error>,
    ) -> Result<Summary, Error> {
        let full_rings = if lost.is_none() { self.readers.full_rings() } else { 0 };
        let exit =
            self.exit.or_else(|| self.child.as_ref().and_then(|child| child.try_wait().ok().flatten()));
        let cpu_time = exit.map(|_| clock::cpu_time_of_children().since(prepared.cpu_time_before));
        let is_all_recorded = prepared.is_of_whole_command && !prepared.opened.state.was_paused;
        let command_time = cpu_time.filter(|_| is_all_recorded);
        let privileged_execs = self.privileged_execs.take().map(PrivilegedExecs::finish).unwrap_or_default();
        let unread = lost.iter().flatten().fold(full_rings, |sum, count| sum.saturating_add(count.unread));
        let circumstances = Circumstances {
            throttled: self.throttling.total(),
            tasks: self.tasks,
            more_rights: privileged_execs.len() as u64,
            unread,
        };
        let coverage = coverage(&prepared.opened, &self.tally, command_time, circumstances);
        if self.failure.is_none() {
            let mut task_times = match (&prepared.opened.task_clocks, &self.task_reports) {
                (Some(clocks), Some(reports)) => clocks.unreported(reports),
                _ => Vec::new(),
            };
            if let (Some(time), Some(reports)) = (command_time, &self.task_reports) {
                // Counts may have been exchanged with those of other events: see `coverage`.
                let total_ns = u64::try_from(time.total().as_nanos()).unwrap_or(u64::MAX);
                let rest = total_ns.saturating_sub(reports.total_ns());
                task_times.iter_mut().for_each(|time| time.nanoseconds = time.nanoseconds.min(rest));
            }
            let watched = prepared.watched;
            let switches =
                self.switches.take().and_then(|switches| switches.finish(watched?.end, self.outside.iter()));
            let (lost, stacks) = (lost.clone(), None);
            prepared.recording.files.finish();
            let coverage = coverage.clone();
            let ending = Ending { lost, full_rings, stacks, task_times, coverage, exit, watched, switches };
            self.failure = self.consumer.end(&ending).err();
        }
        self.forward_reports();
        self.readers.join();
        let error = match (result, self.failure) {
            (Err(error), _) => Some(error),
            (Ok(()), Some(errno)) => {
                let kept = self.kept && errno.kind() != io::ErrorKind::NotFound;
                Some(Error::Consumer { errno, kept })
            }
            (Ok(()), None) => None,
        };
        if let Some(error) = error {
            if let Some(child) = self.child.filter(|_| exit.is_none()) {
                (self.notices)(Notice::CommandGoesOn { because: error.to_string() });
                // Our failure decides the exit code, so the command's status does not matter.
                let _ = child.wait();
            }
            return Err(error);
        }
        let samplers = prepared.opened.samplers().count();
        let (samples, sideband) = (self.counted.lost, self.lost_sideband);
        let rings = Loss { samples, sideband, unread: full_rings, ..Loss::default() };
        let loss = Loss {
            throttles: self.counted.throttles,
            cut_bytes: self.counted.bad_bytes,
            ..lost_samples(rings, lost.as_deref(), samplers)
        };
        let command = match (self.child, exit) {
            (_, Some(status)) => Some(Command::Ended(status)),
            (Some(child), None) => Some(Command::Running(RunningCommand { child })),
            (None, None) => None,
        };
        Ok(Summary {
            coverage,
            events: prepared.recording.events,
            cpus,
            samples: self.counted.samples,
            duplicates: self.removed,
            loss,
            duration,
            cpu_time,
            has_task_times: self.task_reports.is_some(),
            unrecorded_children: prepared.opened.unrecorded_children,
            privileged_execs,
            whole_cpu_rate: None,
            counts: Vec::new(),
            command,
        })
    }
}
