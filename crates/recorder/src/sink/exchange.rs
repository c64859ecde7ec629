//! The end of one file of a recording and the beginning of the next: an order to the thread that writes.

use std::fs::File;
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use host::files::{FileSeries, NewFile};

use super::contents::{Contents, lock};
use crate::consumer::{Dump, DumpFailure, DumpReport};
use crate::error::Errno;
use crate::output::{BuildIds, Description, FILE_MODE, Output};
use crate::window::{Block, SidebandState};

/// Time from the request within which the file of a window is completed before it gets its name: a file should be there within a second.
const COMPLETION_TIME: Duration = Duration::from_millis(750);
/// Further time within which the file of a window is completed after it got its name. The next file waits for that.
const LATE_COMPLETION_TIME: Duration = Duration::from_secs(4);
/// Time within which any other file is completed: it has its name already, or is the last.
const LAST_COMPLETION_TIME: Duration = Duration::from_secs(30);

/// Adds to the files of a series what will not be found any more when they are read.
pub trait FileCompletion: Send {
    /// Appends to `file` and returns the number of bytes. The file is a whole recording before and after. Calls `when_late` if it
    /// has not appended by the first of `times`, and gives up at the second.
    ///
    /// # Errors
    /// Why it appended nothing, in words. The file is unchanged then.
    fn complete(
        &mut self,
        file: &File,
        times: (Instant, Instant),
        when_late: &mut dyn FnMut(),
    ) -> Result<u64, String>;
}

/// Completes the files of a recording, one at a time; `None` if nothing is added.
pub(super) type Completion = Arc<Mutex<Option<Box<dyn FileCompletion>>>>;

/// The names of a recording's files. Shared with the thread that writes.
pub(super) struct Files {
    /// `None` for a recording in one file.
    pub(super) series: Option<FileSeries>,
    /// The path of the file that is being written; empty if it is not of a series.
    pub(super) current: PathBuf,
}

impl Files {
    /// Gives a file of the series the name for a time, and removes the oldest if there are too many. Returns the path, and why the
    /// oldest was not removed.
    pub(super) fn name(&mut self, file: &mut NewFile, stamp: &str) -> io::Result<(PathBuf, Option<String>)> {
        let series = self.series.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        let path = series.name(file, stamp)?;
        Ok((path, series.remove_oldest().err().map(|error| error.to_string())))
    }
}

/// The records that the next file begins with.
pub(super) struct Beginning {
    pub(super) state: SidebandState,
    /// Those of the next file.
    pub(super) build_ids: Arc<Mutex<BuildIds>>,
    /// The window, which is all that the next file will contain; `None` if more records follow.
    pub(super) window: Option<Vec<Arc<Block>>>,
}

/// Finishes a file. The contents of a window, and the mappings of a state, are shared with the recording, not copied.
pub(super) struct Exchange {
    pub(super) description: Description,
    pub(super) files: Arc<Mutex<Files>>,
    pub(super) completion: Completion,
    pub(super) report: Sender<DumpReport>,
    pub(super) tickets: Vec<u64>,
    /// The local time for the next file's name, such as `20261122T230113`.
    pub(super) stamp: String,
    pub(super) requested_at: Instant,
    /// `None` if no file follows.
    pub(super) next: Option<Beginning>,
    /// The contents of the file that ends.
    pub(super) contents: Contents,
    /// The sections of the file that ends.
    pub(super) sections: Vec<(u32, Vec<u8>)>,
    pub(super) is_short: bool,
    pub(super) is_last: bool,
}

impl Exchange {
    /// Finishes the file and reports that. What is written after an error is another file; the error of a file whose records would
    /// go on is returned.
    pub(super) fn run(mut self, output: &mut Option<Output>) -> io::Result<()> {
        let is_all = self.is_last || self.is_of_window();
        let (files, report, tickets) =
            (Arc::clone(&self.files), self.report.clone(), mem::take(&mut self.tickets));
        let failure = |error: &io::Error| {
            let path = lock(&files).series.as_ref().map(|series| series.path().to_owned());
            DumpFailure { path: path.unwrap_or_default(), kind: error.kind(), why: Errno(error).to_string() }
        };
        let result = match self.begin_next() {
            Ok(next) => self.finish(output, next, tickets.clone()),
            Err(error) => {
                let _ = report.send(DumpReport { tickets, outcome: Err(failure(&error)) });
                return Ok(());
            }
        };
        match result {
            Err(error) if is_all => {
                let _ = report.send(DumpReport { tickets, outcome: Err(failure(&error)) });
                Ok(())
            }
            result => result,
        }
    }

    fn is_of_window(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.window.is_some())
    }

    /// Begins the next file, if there is one, and names it unless it is that of a window.
    fn begin_next(&self) -> io::Result<Option<Begun>> {
        let Some(Beginning { state, build_ids, window }) = &self.next else { return Ok(None) };
        let layout = &self.description.layout;
        let before = state.to_records();
        lock(build_ids).add_all(&before, layout);
        let mut files = lock(&self.files);
        let series = files.series.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        let mut output = self.description.create_file(series.create(FILE_MODE)?)?;
        let writer = output.records();
        writer.append(&before)?;
        writer.finished_init()?;
        let Some(blocks) = window else {
            writer.checkpoint()?;
            let file = output.file().ok_or(io::ErrorKind::Unsupported)?;
            let (path, not_removed) = files.name(file, &self.stamp)?;
            return Ok(Some(Begun { output, path, not_removed }));
        };
        for block in blocks {
            block.write_to(writer)?;
            block.sideband().flatten().for_each(|record| lock(build_ids).add_all(record, layout));
        }
        Ok(Some(Begun { output, path: PathBuf::new(), not_removed: None }))
    }

    /// Finishes the file that ends. It is that of `output`, which is replaced by the next one; the file of a window is the next one itself.
    fn finish(
        mut self,
        output: &mut Option<Output>,
        next: Option<Begun>,
        tickets: Vec<u64>,
    ) -> io::Result<()> {
        let is_of_window = self.is_of_window();
        let (mut finished, next_path, mut not_removed) = match next {
            Some(Begun { output, path, not_removed }) => (Some(output), path, not_removed),
            None => (None, PathBuf::new(), None),
        };
        if !is_of_window {
            mem::swap(output, &mut finished);
        }
        let mut finished = finished.ok_or(io::ErrorKind::NotFound)?;
        let mut path = mem::replace(&mut lock(&self.files).current, next_path);
        let build_ids = Arc::clone(&self.contents.build_ids);
        lock(&build_ids).finish();
        let mut features = self.description.features(&lock(&build_ids), self.contents.sample_time);
        features.sections.append(&mut self.sections);
        let writer = finished.records();
        let size = writer.finish(&features)?;
        if self.is_last {
            finished.check_not_deleted()?;
        }
        // The shared blocks are written: drops them, so that the limit of memory holds again.
        self.next = None;
        let opened = finished.file().map(|file| file.file().try_clone()).transpose()?;
        let now = Instant::now();
        let mut limits = (now + LAST_COMPLETION_TIME, now + LAST_COMPLETION_TIME);
        if is_of_window && !self.is_last {
            let soon = (self.requested_at + COMPLETION_TIME).max(now);
            limits = (soon, soon + LATE_COMPLETION_TIME);
        }
        let is_last = self.is_last;
        let complete = move || {
            let mut named = None;
            let mut name = || {
                if let Some(file) = finished.file().filter(|_| is_of_window) {
                    named.get_or_insert_with(|| lock(&self.files).name(file, &self.stamp));
                }
            };
            let completed = match (&mut *lock(&self.completion), &opened) {
                (Some(completion), Some(file)) => completion.complete(file, limits, &mut name),
                _ => Ok(0),
            };
            name();
            if let Some(named) = named {
                (path, not_removed) = named?;
            }
            let dump = Dump {
                path,
                size: size + *completed.as_ref().unwrap_or(&0),
                samples: self.contents.samples,
                span: self.contents.span(),
                took: self.requested_at.elapsed(),
                is_short: self.is_short,
                not_removed,
                incomplete: completed.err(),
            };
            let _ = self.report.send(DumpReport { tickets, outcome: Ok(dump) });
            Ok(())
        };
        if is_last || is_of_window {
            return complete();
        }
        // On a thread of its own, so that the next file's records do not wait.
        std::thread::Builder::new().name("completion".to_owned()).spawn(complete).map(drop)
    }
}

/// A file that has been begun.
struct Begun {
    output: Output,
    /// Empty if it has no name yet.
    path: PathBuf,
    /// The reason why the oldest file could not be removed, if so.
    not_removed: Option<String>,
}
