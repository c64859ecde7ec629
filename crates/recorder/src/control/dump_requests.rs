//! What was asked of a running recording, and is not done yet.

use crate::consumer::Consumer;

/// The rounds after which all that had happened before a request has come: each stage before the consumer's last one may hold
/// records back for one more ([`crate::members`], [`crate::unwind`]).
const ROUNDS: u8 = 3;

/// Requests for files with what is kept.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Rounds that are to be finished before the next file is begun.
    rounds: u8,
    tickets: Vec<u64>,
    /// Requests that came since that was decided.
    later: Vec<u64>,
}

/// The ticket of a request that nobody waits for.
pub(crate) const NOBODY: u64 = 0;

impl Requests {
    /// A file is asked for, with all that has happened until now; a round may be running.
    pub(crate) fn add(&mut self, ticket: u64, is_round_running: bool) {
        let tickets = if self.tickets.is_empty() {
            self.rounds = ROUNDS + u8::from(is_round_running);
            &mut self.tickets
        } else {
            &mut self.later
        };
        // A thousand signals are one request.
        if !tickets.contains(&ticket) {
            tickets.push(ticket);
        }
    }

    /// Returns true if the next round is wanted at once.
    pub(crate) fn wait_for_rounds(&self) -> bool {
        !self.tickets.is_empty()
    }

    /// A round is finished, of which `consumer` knows.
    pub(crate) fn finished_round(&mut self, consumer: &mut dyn Consumer) {
        self.rounds = self.rounds.saturating_sub(1);
        if self.rounds == 0 && !self.tickets.is_empty() {
            self.tickets.drain(..).for_each(|ticket| consumer.request_dump(ticket));
            std::mem::take(&mut self.later).into_iter().for_each(|ticket| self.add(ticket, false));
        }
    }
}
