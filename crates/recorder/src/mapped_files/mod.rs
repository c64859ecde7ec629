//! The build ids, sizes and times of mapped files. A worker reads each file once, and again after it was written in place.
//!
//! The kernel would put build ids into MMAP2 records itself, but once one event asks for that, it marks the records of everybody
//! else's events, too, and their perf aborts (`perf_event_mmap_output()` in kernel/events/core.c). So we do not ask: records name
//! device, inode and generation.
//!
//! ```text
//! rings ─▶ readers (at once) ─┐
//!          session (each chunk) ┴─▶ requests ─▶ worker ─▶ table ─▶ files and windows, tracker
//! ```

mod observer;
mod table;
mod worker;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use decoder::Record;
use decoder::record::{Mmap, MmapExtended, MmapIdentity};
use host::objects::{FileMapping, FileState, MappedFileReader};
use model::{FileIdentity, Pid, Timestamp};
use perfdata::sections::mapped_files::MappedFile;
use tracker::{FileContents, Tracker};

use crate::error::Error;
use crate::work_queue::{FINISH_TIME, WorkQueue};
pub(crate) use observer::MappingObserver;
use table::Table;

/// The build ids, sizes and times of mapped files. Clones share them.
#[derive(Clone, Default, Debug)]
pub struct MappedFiles {
    table: Arc<Mutex<Table>>,
    worker: Option<Arc<WorkQueue<Order>>>,
}

/// An order to the worker.
#[derive(Debug)]
enum Order {
    /// Reads a file, unless it is known by then.
    Read(Request),
    /// Looks whether a known file was written.
    ReadAgain(Request),
}

/// A mapping of a file that is to be read.
#[derive(Clone, Debug)]
struct Request {
    file: FileIdentity,
    pid: Pid,
    start: u64,
    end: u64,
    page_offset: u64,
    /// The time of the record.
    time: Timestamp,
    path: Vec<u8>,
}

impl Request {
    fn mapping(&self) -> FileMapping<'_> {
        let Self { file, pid, start, end, page_offset, path, .. } = self;
        let (device, inode, path) = ((file.major, file.minor), file.inode, path.as_slice());
        FileMapping { pid: *pid, start: *start, end: *end, page_offset: *page_offset, device, inode, path }
    }
}

impl MappedFiles {
    /// Starts the worker. `clock` is the clock of the records; `None` if it cannot be read.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(clock: Option<i32>) -> Result<Self, Error> {
        let table = Arc::<Mutex<Table>>::default();
        let shared = Arc::clone(&table);
        let worker = WorkQueue::start("build-ids", move |orders| worker::run(orders, &shared, clock))?;
        Ok(Self { table, worker: Some(Arc::new(worker)) })
    }

    /// Has the file of a mapping read, and returns true, unless it is known. Makes no system call for a known file.
    pub(crate) fn request(&self, map: &Mmap<'_>) -> bool {
        let Some(file) = mapped_file(map) else { return false };
        let is_new = self.lock().needs_reading(&file, map.path, Instant::now());
        if is_new && let Some(worker) = &self.worker {
            worker.offer(Order::Read(request_of(file, map)));
        }
        is_new
    }

    /// Notes that a known file was mapped again, so that [`MappedFiles::finish`] looks whether it was written since.
    fn note_use(&self, file: FileIdentity, map: &Mmap<'_>) {
        let time = map.sample_id.time.unwrap_or(Timestamp(0));
        self.lock().note_use(&file, time, || request_of(file, map));
    }

    /// Reads the file of a mapping on the calling thread, unless it is known.
    pub(crate) fn read_now(&self, map: &Mmap<'_>, reader: &mut MappedFileReader) {
        let Some(file) = mapped_file(map) else { return };
        if self.lock().needs_reading(&file, map.path, Instant::now()) {
            let request = request_of(file, map);
            let state = reader.read(&request.mapping(), None);
            self.lock().insert(&request, state, Timestamp(0));
        }
    }

    /// Waits until the files that were mapped so far are read, and looks whether those that were mapped again were written. Files on a
    /// file system that does not answer in time stay unknown.
    pub(crate) fn finish(&self) {
        let Some(worker) = &self.worker else { return };
        let again = self.lock().take_used();
        worker.finish(again.into_iter().map(Order::ReadAgain), Instant::now() + FINISH_TIME);
    }

    /// Returns all states of a file, in the order of time; none if it is not known.
    pub(crate) fn states(&self, file: &FileIdentity) -> Vec<MappedFile> {
        self.lock().states(file).to_vec()
    }

    /// Returns the files that were read since the last call with the same `cursor`, which is 0 at first. Of very many, the oldest are
    /// missing.
    pub(crate) fn read_since(&self, cursor: &mut u64) -> Vec<FileIdentity> {
        self.lock().read_since(cursor)
    }

    /// Tells a tracker what is known of the file of a record, before the record is applied.
    pub fn add_to(&self, tracker: &mut Tracker, record: &Record<'_>) {
        let Record::Mmap(map) = record else { return };
        let Some(file) = mapped_file(map) else { return };
        // It is told again of those that are mapped.
        if tracker.files() >= table::MAX_FILES {
            tracker.forget_files();
        }
        for state in self.lock().states(&file) {
            let MappedFile { since, build_id, is_foreign, .. } = *state;
            tracker.add_file(file, since, FileContents { build_id, is_foreign });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    // No code panics while it holds the lock; if it did, the table would still be consistent.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the file of a record that maps code of a file.
pub(crate) fn mapped_file(map: &Mmap<'_>) -> Option<FileIdentity> {
    match map.extended {
        Some(MmapExtended { identity: MmapIdentity::File(file), .. })
            if file.inode != 0 && map.pid.0 > 0 && !map.data =>
        {
            Some(file)
        }
        _ => None,
    }
}

fn request_of(file: FileIdentity, map: &Mmap<'_>) -> Request {
    Request {
        file,
        pid: map.pid,
        start: map.start,
        end: map.start.saturating_add(map.len),
        page_offset: map.page_offset,
        time: map.sample_id.time.unwrap_or(Timestamp(0)),
        path: map.path.to_vec(),
    }
}

/// Returns the time on the clock of the records at which a file was changed last.
fn time_of_change(state: &FileState, clock: i32) -> Option<Timestamp> {
    const CLOCK_REALTIME: i32 = 0;
    let (now, wall_clock) = (host::sys::clock::now(clock).ok()?, host::sys::clock::now(CLOCK_REALTIME).ok()?);
    let age = wall_clock.saturating_sub(u64::try_from(state.changed).ok()?);
    Some(Timestamp(now.saturating_sub(age)))
}

#[cfg(test)]
mod tests;
