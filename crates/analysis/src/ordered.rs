//! Records in the order of time, read and sorted by a thread of their own: whoever takes them finds them ready.

use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded};
use host::objects::SearchPaths;
use model::Loss;
use perfdata::{Description, Notice, Reader, TimeOrder};

use crate::Error;
use crate::batch::{BATCHES, Batch};
use crate::generated_code::jit_dumps::JitDumps;
use crate::unwind;

/// Bytes of records in a batch, but for the last record: small enough to stay in the processor's cache.
const BATCH_BYTES: usize = 256 << 10;

/// The description, loss and notices of a recording that has been read to its end.
pub(crate) struct Outcome {
    /// Events and features.
    pub(crate) recording: Description,
    /// The loss: damaged records, and records that came too late.
    pub(crate) loss: Loss,
    /// The notices of the reader.
    pub(crate) notices: Vec<Notice>,
}

/// The batches of a recording.
pub(crate) struct Batches<'scope> {
    filled: Filled,
    emptied: Sender<Batch>,
    thread: ScopedJoinHandle<'scope, Result<Outcome, Error>>,
}

impl<'scope> Batches<'scope> {
    /// Starts to read. `name` is what errors call the recording, `paths` is where its files are, for stacks that are still
    /// to be unwound.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(crate) fn of(
        reader: Reader,
        name: &'scope str,
        paths: &SearchPaths,
        dumps: &Arc<JitDumps>,
        scope: &'scope std::thread::Scope<'scope, '_>,
    ) -> Result<Self, Error> {
        let (filler, filled) = bounded(BATCHES);
        let (emptied, empties) = bounded(BATCHES);
        // The events of a pipe may become known later.
        let unwind = reader.is_pipe() || unwind::may_have_stacks(reader.description());
        let batch = Batch::new(reader.description().clone());
        let reading = Reading { batch, records: reader.in_time_order(), filler, empties };
        let thread = std::thread::Builder::new()
            .name("prof-reader".to_owned())
            .spawn_scoped(scope, move || {
                let mut reading = reading;
                reading.read().map_err(|source| Error::Read { name: name.to_owned(), source })
            })
            .map_err(|source| Error::Thread { purpose: "read", source })?;
        let filled = if unwind {
            Filled::Unwound(unwind::start(filled, paths, dumps, scope)?)
        } else {
            Filled::Read(filled)
        };
        Ok(Self { filled, emptied, thread })
    }

    /// The next batch; `None` at the end, or where reading failed.
    pub(crate) fn next(&self) -> Option<Batch> {
        match &self.filled {
            Filled::Read(batches) => batches.recv().ok(),
            Filled::Unwound(batches) => batches.recv().ok()?.recv().ok(),
        }
    }

    /// Gives a batch back, for its memory.
    pub(crate) fn give_back(&self, batch: Batch) {
        // If enough batches are waiting, or the reader has ended, the batch is dropped.
        let _ = self.emptied.try_send(batch);
    }

    /// Ends the reading, and says what came of it.
    ///
    /// # Errors
    /// Those of the source.
    pub(crate) fn finish(self) -> Result<Outcome, Error> {
        drop(self.filled);
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// The source of batches.
enum Filled {
    /// The reading thread.
    Read(Receiver<Batch>),
    /// The stage that unwinds raw stacks: a channel for each batch, in their order.
    Unwound(Receiver<Receiver<Batch>>),
}

struct Reading {
    records: TimeOrder,
    batch: Batch,
    filler: Sender<Batch>,
    empties: Receiver<Batch>,
}

impl Reading {
    fn read(&mut self) -> Result<Outcome, perfdata::Error> {
        loop {
            // Hands over an incomplete batch if the receiver is waiting, because a pipe may be slow.
            let waits = !self.records.has_ready() && !self.batch.is_empty() && self.filler.is_empty();
            if (waits || self.batch.bytes() >= BATCH_BYTES) && !self.send() {
                break;
            }
            let Some(record) = self.records.next_record()? else {
                self.send();
                break;
            };
            self.batch.push(&record);
        }
        let reader = self.records.reader();
        let (recording, loss) = (reader.description().clone(), self.records.loss());
        Ok(Outcome { recording, loss, notices: self.records.reader_mut().take_notices() })
    }

    /// Hands the batch over. Returns true if the receiver takes more.
    fn send(&mut self) -> bool {
        let reader = self.records.reader();
        let recording = reader.description();
        let mut next = self.empties.try_recv().unwrap_or_else(|_| Batch::new(recording.clone()));
        next.clear();
        let mut full = std::mem::replace(&mut self.batch, next);
        full.recording = recording.clone();
        full.position = reader.position();
        self.filler.send(full).is_ok()
    }
}
