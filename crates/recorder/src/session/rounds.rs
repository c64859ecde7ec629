//! Rounds, in each of which all rings are drained: records from before the previous round can then be put into the order of time.

use std::time::{Duration, Instant};

use super::Session;
use crate::consumer::Chunk;

/// Time per round for unwinding samples in their rings; after it, samples are copied out of the rings with their stacks.
const MAX_UNWIND_TIME: Duration = Duration::from_millis(3);

impl Session<'_> {
    /// Begins a round: drains rings that hold little, and asks the readers for the others.
    pub(super) fn begin_round(&mut self) {
        let (consumer, may_shorten) = (&mut self.consumer, self.duplicates.is_none());
        let until = Instant::now() + MAX_UNWIND_TIME;
        let mut shrink = |sample: &[u8], into: &mut Chunk| {
            may_shorten && Instant::now() < until && consumer.shorten_sample(sample, until, into)
        };
        let (readers, round) = self.readers.begin_round(&mut shrink);
        self.round = Some((round, readers));
    }

    /// Drains all rings for the last time and waits for the readers.
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
