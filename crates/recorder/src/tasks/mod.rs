//! Reads parked tasks of running programs, and makes them samples of an event of their own (`docs/decisions/0020-tasks-read-from-outside.md`).
//!
//! ```text
//! records of mappings ─▶ TaskObserver ─▶ thread: Go programs, a snapshot of each at random times ─▶ samples ─▶ the next round
//! ```

mod labels;
mod reader;
mod share;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use decoder::record::{Mmap, Record};
use decoder::{RecordLayout, kind};
use model::{FileIdentity, Pid};
use perfdata::sections::TASKS;

use crate::consumer::{Chunk, RecordObserver, Recording, RingKind};
use crate::event::{Catalogue, Event, Rate, dummy_event};
use crate::mapped_files::mapped_file;
use crate::notice::Notice;
use crate::options::{CallChain, Options};
use crate::records::raw_records;
use reader::Reader;
use tasks::Counts;

/// Adds the event of parked tasks to `options`, with this number of snapshots in a second.
pub fn observe_tasks(options: &mut Options, catalogue: &dyn Catalogue, snapshots: u64) {
    options.choose_events(catalogue);
    options.events.push(Event {
        rate: Some(Rate::Frequency(snapshots)),
        call_chain: Some(CallChain::FramePointers),
        read_outside: true,
        ..dummy_event(TASKS)
    });
}

/// Tells the thread that reads tasks of processes and their programs, and has its samples recorded.
pub(crate) struct TaskObserver {
    snapshots: u64,
    /// The layout of records of mappings.
    layout: Option<RecordLayout>,
    shared: Arc<Shared>,
}

/// What the threads share. The reader ends when it is closed.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Is notified at the end.
    closed: Condvar,
}

#[derive(Default)]
struct State {
    changes: Vec<Change>,
    /// The samples that were made since the last round.
    records: Vec<u8>,
    totals: Totals,
    is_closed: bool,
}

/// What all snapshots together have found.
#[derive(Default)]
struct Totals {
    counts: Counts,
    /// The number of snapshots of a process.
    snapshots: u64,
    /// Nanoseconds between snapshots for which none stands.
    unobserved: u64,
}

/// What happens to a process.
enum Change {
    /// It maps code of a file.
    Maps(Pid, Mapping),
    /// It executes another program, or ends.
    Ends(Pid),
}

/// A mapping of a file.
struct Mapping {
    start: u64,
    page_offset: u64,
    path: Vec<u8>,
    file: FileIdentity,
}

impl TaskObserver {
    /// Returns an observer if the recording has the event of tasks.
    pub(crate) fn new(options: &Options) -> Option<Self> {
        let event = options.events.iter().find(|event| event.is_of_tasks())?;
        let Some(Rate::Frequency(snapshots)) = event.rate else { return None };
        Some(Self { snapshots, layout: None, shared: Arc::default() })
    }
}

impl RecordObserver for TaskObserver {
    fn begin(&mut self, recording: &Recording) {
        let index = recording.events.iter().position(|event| event.name.starts_with(TASKS));
        self.layout = recording.layout(recording.events.len().saturating_sub(1));
        let Some(reader) = index.and_then(|index| Reader::new(recording, index, self.snapshots)) else {
            return;
        };
        let shared = Arc::clone(&self.shared);
        // Without it there are no samples, which views say.
        let _ = std::thread::Builder::new().name(TASKS.to_owned()).spawn(move || reader.run(&shared));
    }

    fn observe(&mut self, chunk: &Chunk) {
        let Some(layout) = self.layout.as_ref().filter(|_| chunk.ring == RingKind::Sideband) else { return };
        for raw in raw_records(&chunk.bytes) {
            if !matches!(raw.kind, kind::MMAP2 | kind::COMM | kind::EXIT) {
                continue;
            }
            let change = match layout.decode(&raw) {
                Ok(Record::Mmap(map)) => Mapping::of(&map).map(|mapping| Change::Maps(map.pid, mapping)),
                Ok(Record::Comm(comm)) if comm.exec => Some(Change::Ends(comm.pid)),
                Ok(Record::Exit(task)) if task.pid.0 == task.tid.0 => Some(Change::Ends(task.pid)),
                _ => None,
            };
            self.shared.state().changes.extend(change);
        }
    }

    fn take_records(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.shared.state().records)
    }

    fn end(&mut self, notices: &mut Vec<Notice>) {
        let mut state = self.shared.state();
        state.is_closed = true;
        self.shared.closed.notify_one();
        let Totals { counts, snapshots, unobserved } = state.totals;
        notices.push(Notice::TasksRead { counts, snapshots, unobserved: unobserved as f64 / 1e9 });
    }
}

impl Drop for TaskObserver {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.closed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mapping {
    fn of(map: &Mmap<'_>) -> Option<Self> {
        let file = mapped_file(map)?;
        Some(Self { start: map.start, page_offset: map.page_offset, path: map.path.to_vec(), file })
    }
}
