//! The build ids that a recording lists, told to a tracker.

use model::Pid;
use perfdata::Description;
use tracker::Tracker;

/// The number of listed build ids that a tracker has been told; a pipe lists them late.
#[derive(Default)]
pub(crate) struct ListedBuildIds(usize);

impl ListedBuildIds {
    /// Tells the tracker those that are new.
    pub(crate) fn tell(&mut self, recording: &Description, tracker: &mut Tracker) {
        let listed = &recording.features().build_ids;
        for entry in listed.get(self.0..).unwrap_or_default() {
            if entry.pid == Pid::NONE {
                tracker.add_build_id(entry.path.as_bytes(), entry.build_id);
            }
        }
        self.0 = self.0.max(listed.len());
    }
}
