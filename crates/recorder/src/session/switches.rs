//! What a running recording does beside its rings to see where threads wait.

use std::time::Instant;

use super::Run;
use crate::consumer::{Chunk, RingKind};
use crate::notice::Notice;
use crate::open::Opened;
use crate::ring::Drained;

impl Run<'_> {
    /// Holds switches back where they are too many, or lets them go on.
    pub(super) fn sample_switches(&mut self, now: Instant, opened: &mut Opened) {
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

    /// Takes what is read of blocked threads.
    pub(super) fn read_outside(&mut self, now: Instant) {
        let Some(outside) = &mut self.outside else { return };
        let bytes = outside.look(now);
        if outside.is_refused() {
            (self.notices)(Notice::StacksRefused { ptrace_scope: host::sysctl::ptrace_scope() });
        }
        if !bytes.is_empty() {
            self.take(Chunk { ring: RingKind::Samples, bytes, drained: Drained::default() });
        }
    }
}
