//! The build ids of a recording's BUILD_ID section, which a tracker needs for mappings whose records carry none.

use model::Pid;
use perfdata::Description;
use tracker::Tracker;

/// Counts the listed build ids that a tracker has. In pipe form, build ids may be listed between other records, so the tracker is
/// given new ones as they come.
#[derive(Default)]
pub(crate) struct ListedBuildIds(usize);

impl ListedBuildIds {
    /// Adds the build ids to `tracker` that the recording has listed since the last call.
    pub(crate) fn add_new_to(&mut self, recording: &Description, tracker: &mut Tracker) {
        let listed = &recording.features().build_ids;
        for entry in listed.get(self.0..).unwrap_or_default() {
            if entry.pid == Pid::NONE {
                tracker.add_build_id(entry.path.as_bytes(), entry.build_id);
            }
        }
        self.0 = self.0.max(listed.len());
    }
}
