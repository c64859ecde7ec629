//! Watches switches and blocked threads while recording, to see where threads wait.

use std::time::Instant;

use perfdata::sections::WatchedTime;

use super::Session;
use crate::consumer::{Chunk, RingKind, SwitchUpdate};
use crate::notice::Notice;
use crate::open::Opened;
use crate::waits::{OutsideReader, SwitchSampler};

impl Session<'_> {
    /// Reports to the consumer that switches are watched from now on. Returns `watched`.
    pub(super) fn begin_watching(&mut self, watched: Option<WatchedTime>) -> Option<WatchedTime> {
        let updates: Vec<SwitchUpdate> = watched.map(SwitchUpdate::Watched).into_iter().collect();
        self.consumer.update_switches(&updates);
        watched
    }

    /// Does the work that is due at `now`: pauses or resumes the recording of switches, reads blocked threads, and reports updates to
    /// the consumer.
    pub(super) fn watch_switches(&mut self, now: Instant, opened: &mut Opened) {
        self.sample_switches(now, opened);
        self.read_outside(now);
        self.forward_switch_updates();
    }

    /// Pauses the recording of switches if there are too many, or resumes it.
    fn sample_switches(&mut self, now: Instant, opened: &mut Opened) {
        let Some(switches) = &mut self.switches else { return };
        let was_whole = switches.is_whole();
        let is_to_be_fetched = switches.step(now, opened);
        self.event_ids.reopened(opened.take_later_ids());
        if was_whole && !switches.is_whole() {
            (self.notices)(Notice::SwitchesSampled);
        }
        self.are_switches_due |= is_to_be_fetched;
        // A round that runs may have drained the rings too early.
        if self.are_switches_due && self.round.is_none() {
            self.are_switches_due = false;
            self.begin_round();
        }
    }

    /// Reports updates about switches to the consumer.
    fn forward_switch_updates(&mut self) {
        let mut updates = self.switches.as_mut().map(SwitchSampler::take_updates).unwrap_or_default();
        updates.extend(self.outside.iter_mut().flat_map(OutsideReader::take_updates));
        if !updates.is_empty() {
            self.consumer.update_switches(&updates);
        }
    }

    /// Reads the stacks of blocked threads and sends them to the consumer as samples.
    fn read_outside(&mut self, now: Instant) {
        let Some(outside) = &mut self.outside else { return };
        let bytes = outside.poll(now);
        if outside.is_refused() {
            (self.notices)(Notice::StacksRefused { ptrace_scope: host::sysctl::ptrace_scope() });
        }
        if !bytes.is_empty() {
            self.consume(Chunk::new(RingKind::Samples, bytes));
        }
    }
}
