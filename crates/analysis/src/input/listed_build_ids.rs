//! The build ids that a recording lists beside its records, which a tracker needs for mappings whose records carry none: by path in
//! its BUILD_ID section, by file in a section of ours.

use std::sync::Arc;

use host::objects::{RecordedFiles, RecordedState};
use model::Pid;
use perfdata::Description;
use perfdata::sections::mapped_files::{self, MappedFile};
use tracker::{FileContents, Tracker};

/// Counts the listed build ids and the sections of ours that a tracker has. In pipe form, and where the recorder was killed, they
/// stand between other records, so the tracker is given new ones as they come.
#[derive(Default)]
pub(crate) struct ListedBuildIds {
    paths: usize,
    sections: usize,
    /// Where sizes and times of files go.
    files: Arc<RecordedFiles>,
}

impl ListedBuildIds {
    /// Has added nothing yet. Adds sizes and times of files to `files`.
    pub(crate) fn new(files: &Arc<RecordedFiles>) -> Self {
        Self { files: Arc::clone(files), ..Self::default() }
    }

    /// Adds the build ids to `tracker` that the recording has listed since the last call.
    pub(crate) fn add_new_to(&mut self, recording: &Description, tracker: &mut Tracker) {
        let features = recording.features();
        for entry in features.build_ids.get(self.paths..).unwrap_or_default() {
            if entry.pid == Pid::NONE {
                tracker.add_build_id(entry.path.as_bytes(), entry.build_id);
            }
        }
        self.paths = self.paths.max(features.build_ids.len());
        let sections = features.sections.get(self.sections..).unwrap_or_default();
        for file in mapped_files::in_sections(sections, recording.endian()) {
            let MappedFile { file, since, build_id, size, modified, is_foreign } = file;
            tracker.add_file(file, since, FileContents { build_id, is_foreign });
            self.files.add(file, RecordedState { size, modified });
        }
        self.sections = self.sections.max(features.sections.len());
    }
}
