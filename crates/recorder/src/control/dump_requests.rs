//! Delays requests for files until all that was recorded before them has reached the consumer.

use std::io;

use crate::consumer::Consumer;

/// Number of rounds after which all records from before a request have reached the last consumer: one to drain them, and one for each
/// stage that holds records back for a round ([`crate::members`], [`crate::unwind`]).
const ROUNDS_TO_REACH_CONSUMER: u8 = 3;

/// The requests for files with kept records that are not forwarded yet.
#[derive(Debug, Default)]
pub(crate) struct DumpRequests {
    /// Number of rounds to finish before `tickets` are forwarded.
    rounds: u8,
    tickets: Vec<u64>,
    /// DumpRequests that arrived after the first of `tickets`.
    later: Vec<u64>,
}

/// The ticket of a request that needs no answer.
pub(crate) const NO_TICKET: u64 = 0;

impl DumpRequests {
    /// Adds a request for a file with all records up to now. `is_round_running`: the running round may miss some of them.
    pub(crate) fn add(&mut self, ticket: u64, is_round_running: bool) {
        let tickets = if self.tickets.is_empty() {
            self.rounds = ROUNDS_TO_REACH_CONSUMER + u8::from(is_round_running);
            &mut self.tickets
        } else {
            &mut self.later
        };
        // Repeated signals before a file is written are one request.
        if !tickets.contains(&ticket) {
            tickets.push(ticket);
        }
    }

    /// Returns true if requests wait for the next round, which should begin at once.
    pub(crate) fn want_round(&self) -> bool {
        !self.tickets.is_empty()
    }

    /// Counts a finished round, after `consumer` got it, and forwards the requests to `consumer` when it is time.
    ///
    /// # Errors
    /// Those of writing the output.
    pub(crate) fn finished_round(&mut self, consumer: &mut dyn Consumer) -> io::Result<()> {
        self.rounds = self.rounds.saturating_sub(1);
        if self.rounds == 0 && !self.tickets.is_empty() {
            self.tickets.drain(..).try_for_each(|ticket| consumer.request_dump(ticket))?;
            std::mem::take(&mut self.later).into_iter().for_each(|ticket| self.add(ticket, false));
        }
        Ok(())
    }
}
