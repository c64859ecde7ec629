//! The contract between a recording and whatever takes its records: chunks, what is known at the beginning and at the end, and the
//! traits [`RecordingSink`] and [`Consumer`].

mod chunk;
mod dump_report;
mod ending;
mod forward;
mod recording;
mod switch_update;

use std::io;
use std::time::Instant;

use model::Loss;

use crate::notice::Notice;
use crate::unwind::StackTotals;

pub use chunk::{Chunk, DrainStats, RingKind};
pub use dump_report::{Dump, DumpFailure, DumpReport};
pub use ending::{Ending, LostCount, TaskTime};
pub(crate) use forward::{forward_calls, forward_upkeep};
pub use recording::{RecordedEvent, Recording};
pub use switch_update::SwitchUpdate;

/// Takes what a recording says beside its records. Those come by [`Consumer`] or [`crate::unwind::OrderedConsumer`].
///
/// The calls come from one thread, in this order: `begin`; records of what existed before; `started`; then, again and again,
/// records and `finished_round`, and now and then `checkpoint`; at last `end`.
pub trait RecordingSink {
    /// The events are open; nothing has been recorded yet.
    ///
    /// # Errors
    /// Where the destination cannot be made; the command is then not started.
    fn begin(&mut self, recording: &Recording) -> io::Result<()>;

    /// Says that all that existed before is described, and the command runs.
    ///
    /// # Errors
    /// Those of the destination.
    fn started(&mut self) -> io::Result<()>;

    /// Something went missing before it came here: bytes of a ring that were no records, or records that a stage could not
    /// decode.
    fn add_loss(&mut self, _loss: Loss) {}

    /// Every ring has been emptied since the round before: no record that comes later is older than the newest one
    /// that came before the *previous* call.
    ///
    /// # Errors
    /// Those of the destination; the recording then ends.
    fn finished_round(&mut self) -> io::Result<()>;

    /// The wanted size of stack copies in bytes, where it matters and can be chosen; asked after each round.
    fn wanted_copy_size(&self) -> Option<u32> {
        None
    }

    /// Returns true if the records are wanted soon, so that rounds should follow each other quickly.
    fn wants_round_soon(&self) -> bool {
        false
    }

    /// Takes the totals of stacks since the recording began; told before each round is finished, where they are unwound.
    fn set_stack_totals(&mut self, _stacks: &StackTotals) {}

    /// Takes what became known of switches; what [`Ending`] says of them at the end has all of it.
    fn update_switches(&mut self, _news: &[SwitchUpdate]) {}

    /// Something asked for a file with what is kept. What was recorded before has come. `ticket` is in the report of that
    /// file; one file may serve several.
    fn request_dump(&mut self, _ticket: u64) {}

    /// Returns the reports on files since the last call.
    fn take_dump_reports(&mut self) -> Vec<DumpReport> {
        Vec::new()
    }

    /// Returns the notices for the user since the last call.
    fn take_notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }

    /// Half a second has gone by: make it readable, should we die now.
    ///
    /// # Errors
    /// Those of the destination; the recording then ends.
    fn checkpoint(&mut self) -> io::Result<()>;

    /// Nothing more comes.
    ///
    /// # Errors
    /// Those of the destination.
    fn end(&mut self, ending: &Ending) -> io::Result<()>;
}

/// Takes the records of a recording as they come out of the rings.
pub trait Consumer: RecordingSink {
    /// Records, of one ring in its order; rings are in no order to each other but for `finished_round`. Gives the
    /// memory back for the next chunk, or keeps it.
    ///
    /// # Errors
    /// Those of the destination; the recording then ends.
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>>;

    /// Looks at a sample that is still in its ring, and will soon come in a chunk: appends a shorter record of the same layout to
    /// `into`, to come in its place, or does nothing and returns false. The ring waits meanwhile, about `until` then.
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
