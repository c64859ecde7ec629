//! Rounds: all rings are emptied, and what came before the round before can be put in order.

use std::time::{Duration, Instant};

use super::Run;

/// The time for which samples may be looked at in their rings in one round; what is left then is copied out.
const LONGEST_LOOK: Duration = Duration::from_millis(3);

impl Run<'_> {
    /// Empties the rings.
    pub(super) fn begin_round(&mut self) {
        let (consumer, is_shrunk) = (&mut self.consumer, self.duplicates.is_none());
        let until = Instant::now() + LONGEST_LOOK;
        let mut shrink = |sample: &[u8], into: &mut Vec<u8>| {
            is_shrunk && Instant::now() < until && consumer.shorten_sample(sample, until, into)
        };
        let (readers, round) = self.readers.begin_round(&mut shrink);
        self.round = Some((round, readers));
    }

    /// Takes what the rings still hold.
    pub(super) fn last_round(&mut self) {
        let (readers, round) = self.readers.begin_last_round();
        self.round = Some((round, readers));
        while self.round.is_some() {
            match self.messages.next(None) {
                Ok(message) => self.handle(message),
                Err(_) => break,
            }
        }
    }
}
