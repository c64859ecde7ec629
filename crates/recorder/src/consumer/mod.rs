//! The contract between a recording and its consumers: chunks of records, the events at the beginning, the totals at the end, and the
//! traits [`RecordingSink`] and [`Consumer`].

mod chunk;
mod coverage;
mod dump_report;
mod ending;
mod forward;
mod recording;
mod switch_update;

use std::io;
use std::time::Instant;

use model::Loss;

use crate::notice::Notice;
use crate::unwind::{PerArrival, StackTotals};

pub use chunk::{Chunk, DrainStats, RingKind};
pub use coverage::{Circumstances, EventCoverage};
pub(crate) use coverage::{Tasks, nanoseconds};
pub use dump_report::{Dump, DumpFailure, DumpReport};
pub use ending::{Ending, LostCount, TaskTime};
pub(crate) use forward::{forward_calls, forward_upkeep};
pub use recording::{RecordedEvent, Recording};
pub use switch_update::SwitchUpdate;

/// Receives the course of a recording: beginning, rounds, losses, checkpoints, end. The records themselves come through one of the
/// traits on top of it, [`Consumer`] (in the order of each ring) or [`crate::unwind::OrderedConsumer`] (in the order of time).
///
/// One thread makes all calls, in this order: `begin`; records of what existed before; `started`; then records and
/// `finished_round` repeatedly, with a `checkpoint` about every half second; `end` at last.
pub trait RecordingSink {
    /// Called when the events are open and nothing has been recorded yet.
    ///
    /// # Errors
    /// If the output cannot be created; the command is not started then.
    fn begin(&mut self, recording: &Recording) -> io::Result<()>;

    /// Called when the records of all that existed before have come, and the command runs.
    ///
    /// # Errors
    /// Those of writing the output.
    fn started(&mut self) -> io::Result<()>;

    /// Adds losses of earlier stages: bytes of a ring that are no records, or records that a stage could not decode.
    fn add_loss(&mut self, _loss: Loss) {}

    /// Called when every ring has been drained since the previous call: no later record is older than the newest one that came
    /// before that *previous* call.
    ///
    /// # Errors
    /// Those of writing the output; the recording ends then.
    fn finished_round(&mut self) -> io::Result<()>;

    /// Returns the sizes of stack copies in bytes that the sink wants from now on; `None` leaves them as they are. Polled after each round.
    fn wanted_copy_sizes(&self) -> Option<PerArrival<u32>> {
        None
    }

    /// Returns true if the sink waits for the next round, which should then come early.
    fn wants_round_soon(&self) -> bool {
        false
    }

    /// Replaces the totals of unwound stacks since the recording began. Called before each `finished_round` if stacks are unwound.
    fn set_stack_totals(&mut self, _stacks: &StackTotals) {}

    /// Reports changes in how switches are recorded. [`Ending`] repeats all of them but the counts of threads.
    fn update_switches(&mut self, _news: &[SwitchUpdate]) {}

    /// Requests a file with the records that are kept; all that was recorded before the request has come. The report of the file
    /// carries `ticket`; one file may serve several requests.
    fn request_dump(&mut self, _ticket: u64) {}

    /// Takes the reports of files that were finished since the last call.
    fn take_dump_reports(&mut self) -> Vec<DumpReport> {
        Vec::new()
    }

    /// Takes the notices for the user since the last call.
    fn take_notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }

    /// Called about every half second, to make the output readable should the process be killed.
    ///
    /// # Errors
    /// Those of writing the output; the recording ends then.
    fn checkpoint(&mut self) -> io::Result<()>;

    /// Finishes the output; no call follows.
    ///
    /// # Errors
    /// Those of writing the output.
    fn end(&mut self, ending: &Ending) -> io::Result<()>;
}

/// Receives the records of a recording as they are drained from the rings.
pub trait Consumer: RecordingSink {
    /// Consumes records of one ring, in its order; only `finished_round` relates the order of different rings. Returns the chunk's
    /// memory for reuse, or `None` if it is kept.
    ///
    /// # Errors
    /// Those of writing the output; the recording ends then.
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>>;

    /// Replaces a sample that is still in its ring by a shorter record: appends that to `into` and returns true, or leaves `into`
    /// unchanged and returns false. The record comes in a later chunk, in place of the sample. The ring cannot be drained
    /// meanwhile: the call should return before `until`.
    fn shorten_sample(&mut self, _sample: &[u8], _until: Instant, _into: &mut Vec<u8>) -> bool {
        false
    }
}

impl<D: RecordingSink + ?Sized> RecordingSink for &mut D {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        (**self).begin(recording)
    }

    fn started(&mut self) -> io::Result<()> {
        (**self).started()
    }

    fn finished_round(&mut self) -> io::Result<()> {
        (**self).finished_round()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        (**self).end(ending)
    }

    forward_calls!(this => (**this));
    forward_upkeep!(this => (**this));
}

impl<C: Consumer + ?Sized> Consumer for &mut C {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        (**self).consume(chunk)
    }

    fn shorten_sample(&mut self, sample: &[u8], until: Instant, into: &mut Vec<u8>) -> bool {
        (**self).shorten_sample(sample, until, into)
    }
}
