//! The contract between a recording and its consumers: chunks of records, the events at the beginning, the totals at the end, and the
//! traits [`RecordingSink`] and [`Consumer`].

mod chunk;
mod coverage;
pub(crate) mod dump_report;
mod observed;
mod recording;

use std::io;
use std::time::Instant;

use model::Loss;

use crate::notice::Notice;
use crate::unwind::StackTotals;

pub use chunk::{Chunk, DrainStats, RingKind};
pub use coverage::{Circumstances, EventCoverage};
pub(crate) use coverage::{Tasks, nanoseconds};
pub use dump_report::{Dump, DumpFailure, DumpReport};
pub(crate) use observed::Observed;
pub use observed::RecordObserver;
pub use recording::{Ending, LostCount, RecordedEvent, Recording, SwitchUpdate, TaskTime};

/// Receives the course of a recording: beginning, rounds, losses, checkpoints, end. The records themselves come through one of the
/// traits on top of it, [`Consumer`] (in the order of each ring) or [`crate::unwind::OrderedConsumer`] (in the order of time).
///
/// One thread makes all calls, in this order: `begin`; records of what existed before; `started`; then records and
/// `finished_round` repeatedly, with a `checkpoint` about every half second; `end` at last.
///
/// A stage says by [`RecordingSink::next`] which sink follows. What it does not implement goes there.
pub trait RecordingSink {
    /// Returns the sink to which the calls go in which this one has no work of its own; `None` if it is the last.
    fn next(&mut self) -> Option<&mut dyn RecordingSink> {
        None
    }

    /// Called when the events are open and nothing has been recorded yet.
    ///
    /// # Errors
    /// If the output cannot be created; the command is not started then.
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.next().map_or(Ok(()), |next| next.begin(recording))
    }

    /// Called when the records of all that existed before have come, and the command runs.
    ///
    /// # Errors
    /// Those of writing the output.
    fn started(&mut self) -> io::Result<()> {
        self.next().map_or(Ok(()), |next| next.started())
    }

    /// Adds losses of earlier stages: bytes of a ring that are no records, or records that a stage could not decode.
    fn add_loss(&mut self, loss: Loss) {
        if let Some(next) = self.next() {
            next.add_loss(loss);
        }
    }

    /// Called when every ring has been drained since the previous call: no later record is older than the newest one that came
    /// before that *previous* call.
    ///
    /// # Errors
    /// Those of writing the output; the recording ends then.
    fn finished_round(&mut self) -> io::Result<()> {
        self.next().map_or(Ok(()), |next| next.finished_round())
    }

    /// Returns true if the sink waits for the next round, which should then come early.
    fn wants_round_soon(&mut self) -> bool {
        self.next().is_some_and(|next| next.wants_round_soon())
    }

    /// Replaces the totals of unwound stacks since the recording began. Called before each `finished_round` if stacks are unwound.
    fn set_stack_totals(&mut self, stacks: &StackTotals) {
        if let Some(next) = self.next() {
            next.set_stack_totals(stacks);
        }
    }

    /// Replaces the numbers of samples that each event has lost since the recording began, in the order of [`Ending::lost`]. Called
    /// after a ring of samples was full, about every half second, where the kernel counts them.
    fn set_lost(&mut self, lost: &[LostCount]) {
        if let Some(next) = self.next() {
            next.set_lost(lost);
        }
    }

    /// Reports changes in how switches are recorded. [`Ending`] repeats the gaps, and the first and last counts of threads.
    fn update_switches(&mut self, news: &[SwitchUpdate]) {
        if let Some(next) = self.next() {
            next.update_switches(news);
        }
    }

    /// Requests a file with the records that are kept; all that was recorded before the request has come. The report of the file
    /// carries `ticket`; one file may serve several requests.
    ///
    /// # Errors
    /// Those of writing the output; the recording ends then.
    fn request_dump(&mut self, ticket: u64) -> io::Result<()> {
        self.next().map_or(Ok(()), |next| next.request_dump(ticket))
    }

    /// Takes the reports of files that were finished since the last call.
    fn take_dump_reports(&mut self) -> Vec<DumpReport> {
        self.next().map(|next| next.take_dump_reports()).unwrap_or_default()
    }

    /// Takes the notices for the user since the last call.
    fn take_notices(&mut self) -> Vec<Notice> {
        self.next().map(|next| next.take_notices()).unwrap_or_default()
    }

    /// Called about every half second, to make the output readable should the process be killed.
    ///
    /// # Errors
    /// Those of writing the output; the recording ends then.
    fn checkpoint(&mut self) -> io::Result<()> {
        self.next().map_or(Ok(()), |next| next.checkpoint())
    }

    /// Finishes the output; no call follows.
    ///
    /// # Errors
    /// Those of writing the output.
    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        self.next().map_or(Ok(()), |next| next.end(ending))
    }
}

/// Receives the records of a recording as they are drained from the rings.
pub trait Consumer: RecordingSink {
    /// Consumes records of one ring, in its order; only `finished_round` relates the order of different rings. Returns the chunk's
    /// memory for reuse, or `None` if it is kept.
    ///
    /// # Errors
    /// Those of writing the output; the recording ends then.
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>>;

    /// Replaces a sample that is still in its ring by a shorter one: appends that to `into`, the chunk that will come in place of the
    /// records of the ring, and returns true, or leaves `into` unchanged and returns false. The ring cannot be drained meanwhile: the
    /// call should return before `until`.
    fn shorten_sample(&mut self, _sample: &[u8], _until: Instant, _into: &mut Chunk) -> bool {
        false
    }
}

impl<D: RecordingSink> RecordingSink for &mut D {
    fn next(&mut self) -> Option<&mut dyn RecordingSink> {
        Some(*self)
    }
}

impl<C: Consumer> Consumer for &mut C {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        (**self).consume(chunk)
    }

    fn shorten_sample(&mut self, sample: &[u8], until: Instant, into: &mut Chunk) -> bool {
        (**self).shorten_sample(sample, until, into)
    }
}
