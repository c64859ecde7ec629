//! Handles events from outside of the rings: signals, commands, conditions, the ends of processes.

use std::time::Instant;

use host::sys::signals::SIGTERM;

use super::{Pause, Session};
use crate::control::Command;
use crate::control::NO_TICKET;
use crate::control::OutsideEvent;
use crate::control::ends_with_command;
use crate::notice::Notice;
use crate::open::Opened;
use crate::options::Options;

/// The next step of the session after an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It continues.
    GoOn,
    /// It starts sampling, although the delay is not over.
    Begin,
    /// It ends the recording.
    End,
}

impl Session<'_> {
    pub(super) fn outside(
        &mut self,
        event: OutsideEvent,
        opened: &mut Opened,
        options: &Options,
        pause: Pause,
    ) -> Next {
        match event {
            OutsideEvent::Stop => return Next::End,
            OutsideEvent::Dump => self.requests.add(NO_TICKET, self.round.is_some()),
            OutsideEvent::Condition(index) => {
                if let Some(condition) = options.dump_conditions.get(index) {
                    (self.notices)(Notice::ConditionMet(condition.to_string()));
                }
                self.requests.add(NO_TICKET, self.round.is_some());
            }
            OutsideEvent::Command(command, ticket) => {
                return self.command(command, ticket, opened, options, pause);
            }
            OutsideEvent::Signal(signal) => {
                if self.child.is_some() && !ends_with_command(signal.signal) {
                    return Next::GoOn;
                }
                // A terminal sends signals to the command, too. A signal from a process (with a sender) comes to us only.
                if let (Some(_), Some(child)) = (signal.sender, &self.child) {
                    // A command that has just ended needs no signal.
                    let _ = child.send(signal.signal);
                }
                return Next::End;
            }
            OutsideEvent::Ended(_) => {
                self.left = self.left.saturating_sub(1);
                self.exit = self.child.as_ref().and_then(|child| child.try_wait().ok().flatten());
                if self.left == 0 {
                    return Next::End;
                }
            }
        }
        Next::GoOn
    }

    fn command(
        &mut self,
        command: Command,
        ticket: u64,
        opened: &mut Opened,
        options: &Options,
        pause: Pause,
    ) -> Next {
        let mut outcome = Ok(None);
        let next = match command {
            Command::Ping => Next::GoOn,
            Command::Stop => {
                self.stop_command();
                Next::End
            }
            Command::Enable if pause == Pause::Delay => Next::Begin,
            Command::Enable => {
                opened.resume();
                Next::GoOn
            }
            // During the delay nothing is enabled yet.
            Command::Disable if pause == Pause::Delay => Next::GoOn,
            Command::Disable => {
                opened.pause();
                Next::GoOn
            }
            Command::Dump if options.in_parts => {
                self.requests.add(ticket, self.round.is_some());
                return Next::GoOn;
            }
            Command::Dump => {
                outcome = Err("this recording keeps no window; try: prof record --overwrite".to_owned());
                Next::GoOn
            }
        };
        self.answer(ticket, outcome);
        next
    }

    pub(super) fn stop_command(&mut self) {
        if let Some(child) = self.child.as_ref().filter(|_| self.exit.is_none())
            && child.send(SIGTERM).is_ok()
        {
            (self.notices)(Notice::CommandTerminated);
        }
    }

    fn answer(&self, ticket: u64, outcome: Result<Option<std::path::PathBuf>, String>) {
        if let Some(answers) = &self.answers {
            answers.send(ticket, outcome);
        }
    }

    /// Forwards the consumer's notices to the user, and its reports of files to the user and to the senders of commands.
    pub(super) fn forward_reports(&mut self) {
        for notice in self.consumer.take_notices() {
            (self.notices)(notice);
        }
        for report in self.consumer.take_dump_reports() {
            let outcome = match &report.outcome {
                Ok(dump) => Ok(Some(dump.path.clone())),
                Err(failure) => Err(failure.why.clone()),
            };
            report.tickets.iter().for_each(|&ticket| self.answer(ticket, outcome.clone()));
            (self.notices)(Notice::Dump(report.outcome));
        }
    }

    /// Returns true if it is time for a round at `next`, or a request waits for one and none is running.
    pub(super) fn round_is_due(&self, now: Instant, next: Instant) -> bool {
        now >= next || (self.requests.want_round() && self.round.is_none())
    }
}
