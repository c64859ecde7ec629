//! The table of mapped files.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use host::objects::{FileState, MAX_ATTEMPTS};
use model::{FileIdentity, Timestamp};
use perfdata::sections::mapped_files::MappedFile;

use super::Request;

/// Number of files from which on the table forgets those that were read before as many others: it keeps up to twice as many. So many
/// changes are kept for those who ask for them now and then, and so many files are known to a tracker.
pub(super) const MAX_FILES: usize = 1 << 15;
/// A file that is mapped again is looked at again when this time is over: it may have been written in place.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The mapped files that were read, or could not be.
#[derive(Default, Debug)]
pub(super) struct Table {
    recent: HashMap<FileIdentity, Entry>,
    /// Files that were read before those in `recent`.
    earlier: HashMap<FileIdentity, Entry>,
    /// The files whose states changed last.
    changes: VecDeque<FileIdentity>,
    /// The number of changes so far.
    changed: u64,
}

/// A file that was read, or could not be.
#[derive(Debug)]
struct Entry {
    /// In the order of time; empty if the file could not be read.
    states: Vec<MappedFile>,
    /// What was read last.
    latest: Option<FileState>,
    /// The path of the mapping through which it was read last: whether a path says what the file is holds for that path alone.
    path: Vec<u8>,
    checked: Instant,
    /// The time of the mapping through which it was read last.
    mapped: Timestamp,
    failed_attempts: u8,
    /// A later mapping.
    used: Option<Request>,
}

impl Table {
    fn get(&self, file: &FileIdentity) -> Option<&Entry> {
        self.recent.get(file).or_else(|| self.earlier.get(file))
    }

    fn get_mut(&mut self, file: &FileIdentity) -> Option<&mut Entry> {
        let Self { recent, earlier, .. } = self;
        recent.get_mut(file).or_else(|| earlier.get_mut(file))
    }

    /// Returns true if a file that is mapped by this path now has to be read.
    pub(super) fn needs_reading(&self, file: &FileIdentity, path: &[u8], now: Instant) -> bool {
        let has_other_path = |entry: &Entry| {
            let is_foreign = entry.latest.is_some_and(|state| state.is_foreign);
            !is_foreign && entry.path != path
        };
        self.get(file).is_none_or(|entry| match entry.states.is_empty() {
            true => entry.failed_attempts < MAX_ATTEMPTS,
            false => has_other_path(entry) || now.duration_since(entry.checked) > RECHECK_INTERVAL,
        })
    }

    /// Returns what was read of the file last.
    pub(super) fn latest(&self, file: &FileIdentity) -> Option<FileState> {
        self.get(file)?.latest
    }

    /// Returns all states of a file, in the order of time.
    pub(super) fn states(&self, file: &FileIdentity) -> &[MappedFile] {
        self.get(file).map_or(&[], |entry| &entry.states)
    }

    /// Keeps a mapping of a known file for [`Table::take_used`].
    pub(super) fn note_use(
        &mut self,
        file: &FileIdentity,
        time: Timestamp,
        request: impl FnOnce() -> Request,
    ) {
        let unused = |entry: &&mut Entry| entry.used.is_none() && entry.mapped < time;
        if let Some(entry) = self.get_mut(file).filter(unused) {
            entry.used = Some(request());
        }
    }

    /// Takes a mapping of each known file that was mapped since it was read or looked at.
    pub(super) fn take_used(&mut self) -> Vec<Request> {
        let entries = self.recent.values_mut().chain(self.earlier.values_mut());
        entries.filter_map(|entry| entry.used.take()).collect()
    }

    /// Inserts what was read of a file; `None` if it could not be read. `since` is the time from which on that holds if the file was
    /// known as another before.
    pub(super) fn insert(&mut self, request: &Request, read: Option<FileState>, since: Timestamp) {
        let file = request.file;
        if self.get(&file).is_none() {
            if self.recent.len() >= MAX_FILES {
                self.earlier = std::mem::take(&mut self.recent);
            }
            let (states, latest, used) = (Vec::new(), None, None);
            let (checked, mapped, failed_attempts) = (Instant::now(), request.time, 0);
            let path = Vec::new();
            let entry = Entry { states, latest, path, checked, mapped, failed_attempts, used };
            self.recent.insert(file, entry);
        }
        let Some(entry) = self.get_mut(&file) else { return };
        (entry.checked, entry.mapped, entry.used) = (Instant::now(), entry.mapped.max(request.time), None);
        let Some(mut state) = read else {
            entry.failed_attempts = entry.failed_attempts.saturating_add(1);
            return;
        };
        entry.path.clone_from(&request.path);
        // Who puts a file at a path that means something else to others can put it at one of his own, too, before or after: a file
        // that was foreign once is foreign for the whole recording.
        let becomes_foreign = state.is_foreign && entry.latest.is_some_and(|latest| !latest.is_foreign);
        state.is_foreign |= entry.latest.is_some_and(|latest| latest.is_foreign);
        entry.states.iter_mut().for_each(|known| known.is_foreign = state.is_foreign);
        // Links and rights change the time of the last change alone.
        let contents = |state: &FileState| (state.build_id, state.size, state.modified);
        let before = entry.latest.replace(state);
        let is_same = before.as_ref().map(contents) == Some(contents(&state));
        if is_same && !becomes_foreign {
            return;
        }
        let FileState { build_id, size, modified, is_foreign, .. } = state;
        let since = match entry.states.last() {
            Some(last) => since.max(Timestamp(last.since.0.saturating_add(1))),
            None => Timestamp(0),
        };
        let new = (!is_same).then_some(MappedFile { file, since, build_id, size, modified, is_foreign });
        entry.states.extend(new);
        if self.changes.len() >= MAX_FILES {
            self.changes.pop_front();
        }
        self.changes.push_back(file);
        self.changed += 1;
    }

    /// Returns the files with changes since the last call with the same `cursor`.
    pub(super) fn read_since(&self, cursor: &mut u64) -> Vec<FileIdentity> {
        let new = usize::try_from(self.changed.saturating_sub(*cursor)).unwrap_or(usize::MAX);
        *cursor = self.changed;
        self.changes.iter().skip(self.changes.len().saturating_sub(new)).copied().collect()
    }
}
