//! What a recording says of the contents of the files that its processes mapped.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::FileIdentity;

use crate::slow_files::FileFacts;

/// Sizes and times of mapped files, by which a file without a build id is known again: a linker that writes in place gets the same
/// inode. (Device numbers are no evidence on overlayfs and btrfs, and a link or a package upgrade changes `st_ctime` alone.)
#[derive(Default, Debug)]
pub struct RecordedFiles {
    /// `None` for a file that had several contents during the recording: its inode does not say which one was mapped.
    states: Mutex<HashMap<FileIdentity, Option<RecordedState>>>,
}

/// The contents of a file, as the recorder found them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordedState {
    /// The size in bytes.
    pub size: u64,
    /// The time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
}

impl RecordedFiles {
    /// Adds what the recording says of a file.
    pub fn add(&self, file: FileIdentity, state: RecordedState) {
        let mut states = self.lock();
        let known = states.entry(file).or_insert(Some(state));
        if *known != Some(state) {
            *known = None;
        }
    }

    /// Returns true unless the recording says that the mapped file had other contents than the one with these `facts`.
    pub(super) fn agree(&self, file: &FileIdentity, facts: &FileFacts) -> bool {
        let found = RecordedState { size: facts.size, modified: facts.modified };
        self.lock().get(file).is_none_or(|recorded| *recorded == Some(found))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FileIdentity, Option<RecordedState>>> {
        // A panic in another thread leaves the table valid.
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
