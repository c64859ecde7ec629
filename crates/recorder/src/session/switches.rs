//! What a running recording does beside its rings to see where threads wait.

use std::time::Instant;

use perfdata::sections::WatchedTime;

use super::Run;
use crate::consumer::DrainStats;
use crate::consumer::{Chunk, RingKind, SwitchUpdate};
use crate::notice::Notice;
use crate::open::Opened;
use crate::waits::{OutsideReader, SwitchSampler};

impl Run<'_> {
    /// Tells the consumer from when on switches are watched; returns that.
    pub(super) fn begin_watching(&mut self, watched: Option<WatchedTime>) -> Option<WatchedTime> {
        let news: Vec<SwitchUpdate> = watched.map(SwitchUpdate::Watched).into_iter().collect();
        self.consumer.update_switches(&news);
        watched
    }

    /// Does what is due `now` to see where threads wait, and tells the consumer of it.
    pub(super) fn watch_switches(&mut self, now: Instant, opened: &mut Opened) {
        self.sample_switches(now, opened);
        self.read_outside(now);
        self.tell_of_switches();
    }

    /// Holds switches back where they are too many, or lets them go on.
    fn sample_switches(&mut self, now: Instant, opened: &mut Opened) {
        let Some(switches) = &mut self.switches else { return };
        let was_whole = switches.is_whole();
        let is_to_be_fetched = switches.step(now, opened);
        if was_whole && !switches.is_whole() {
            (self.notices)(Notice::SwitchesSampled);
        }
        if is_to_be_fetched && self.round.is_none() {
            // How many there were in the window decides on the next.
            self.begin_round();
        }
    }

    /// Tells the consumer what became known of switches.
    fn tell_of_switches(&mut self) {
        let mut news = self.switches.as_mut().map(SwitchSampler::take_updates).unwrap_or_default();
        news.extend(self.outside.iter_mut().flat_map(OutsideReader::take_updates));
        if !news.is_empty() {
            self.consumer.update_switches(&news);
        }
    }

    /// Takes what is read of blocked threads.
    fn read_outside(&mut self, now: Instant) {
        let Some(outside) = &mut self.outside else { return };
        let bytes = outside.look(now);
        if outside.is_refused() {
            (self.notices)(Notice::StacksRefused { ptrace_scope: host::sysctl::ptrace_scope() });
        }
        if !bytes.is_empty() {
            self.take(Chunk { ring: RingKind::Samples, bytes, drained: DrainStats::default() });
        }
    }
}
