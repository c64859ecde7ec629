//! What a recording came to: how long, how many samples, what was lost, and how much of each event they stand for.

mod coverage;
mod loss;

use std::time::Duration;

use host::sys::clock::CpuTime;
use host::sys::pidfd::PidFd;
use host::sys::signals::Received;
use host::sys::signals::SIGTERM;
use host::sys::spawn::{Child, ExitStatus};
use model::{Coverage, Loss};

use crate::consumer::RecordedEvent;
use crate::control::Control;

pub(crate) use coverage::{Tally, coverage};
pub(crate) use loss::lost_samples;

/// The summary of a finished recording.
#[derive(Debug)]
pub struct Summary {
    /// The events as they were opened; the sideband event comes last.
    pub events: Vec<RecordedEvent>,
    /// CPUs with rings.
    pub cpus: usize,
    /// Samples that reached us.
    pub samples: u64,
    /// Samples of one thread that two copies of an event took; they are not among `samples`.
    pub duplicates: u64,
    /// The loss of the recording.
    pub loss: Loss,
    /// From the start of sampling to its end.
    pub duration: Duration,
    /// CPU time of the command and those of its children that it waited for.
    pub cpu_time: Option<CpuTime>,
    /// The coverage of each sampling event.
    pub coverage: Vec<Coverage>,
    /// True if the recording says what CPU time each thread and process had.
    pub has_task_times: bool,
    /// Processes that those which were attached to had started before, and that are not recorded.
    pub unrecorded_children: usize,
    /// The command.
    pub command: Option<Command>,
}

/// The fate of the recorded command.
#[derive(Debug)]
pub enum Command {
    /// It has ended.
    Ended(ExitStatus),
    /// The recording ended before it.
    Running(RunningCommand),
}

/// A command that goes on after its recording.
#[derive(Debug)]
pub struct RunningCommand {
    pub(crate) child: Child,
}

impl RunningCommand {
    /// Asks it to end (SIGTERM). One that has just ended needs no signal.
    pub fn terminate(&self) {
        let _ = self.child.send(SIGTERM);
    }

    /// Waits for its end, or for a signal to us, which is `Err`.
    ///
    /// # Errors
    /// The signal that ended the wait.
    pub fn wait(&self, control: &Control) -> Result<ExitStatus, Received> {
        let signal = PidFd::open(self.child.pid()).ok().and_then(|process| control.wait_for(&process));
        match signal {
            Some(signal) => Err(signal),
            // A child that cannot be waited for has ended, and how is not known.
            None => Ok(self.child.wait().unwrap_or(ExitStatus::Code(0))),
        }
    }
}
