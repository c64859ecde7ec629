//! The users who answer for the names of source files.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Frame, Resolution, SourceLocation};

/// For each source file that line tables name, the users who answer for the files with these tables ([`host::objects::file_author`]):
/// root reads a source file only if all of them may.
#[derive(Clone, Default, Debug)]
pub struct SourceOwners {
    files: HashMap<Arc<str>, Vec<u32>>,
}

impl SourceOwners {
    /// Returns the users who answer for the name of a source file; none if no line table names it.
    pub fn of(&self, file: &str) -> &[u32] {
        self.files.get(file).map_or(&[], Vec::as_slice)
    }

    /// Adds the source files that a resolution names.
    pub(crate) fn add(&mut self, found: &Resolution, users: &[u32]) {
        self.add_frames(frames(found), users);
    }

    /// Adds the source files of frames.
    pub(crate) fn add_frames(&mut self, frames: &[Frame], users: &[u32]) {
        for SourceLocation { file, .. } in frames.iter().filter_map(|frame| frame.location.as_ref()) {
            self.add_file(file, users);
        }
    }

    /// Adds those of another lookup.
    pub fn extend(&mut self, others: &Self) {
        for (file, users) in &others.files {
            self.add_file(file, users);
        }
    }

    fn add_file(&mut self, file: &Arc<str>, users: &[u32]) {
        let known = match self.files.get_mut(file) {
            Some(known) => known,
            None => self.files.entry(Arc::clone(file)).or_default(),
        };
        for user in users {
            if !known.contains(user) {
                known.push(*user);
            }
        }
    }
}

/// Returns the source lines of a resolution.
pub(super) fn locations(found: &Resolution) -> impl Iterator<Item = &SourceLocation> {
    frames(found).iter().filter_map(|frame| frame.location.as_ref())
}

fn frames(found: &Resolution) -> &[Frame] {
    match found {
        Resolution::Resolved(found) => &found.frames,
        _ => &[],
    }
}
