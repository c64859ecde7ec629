//! Which records say how much was lost.

use decoder::record::{Lost, LostSamples};
use model::Loss;

/// Adds up what records say of losses, each loss once.
///
/// A ring that overflows leaves `LOST` records, which count records of every type and can lag behind. A recorder that
/// reads `PERF_FORMAT_LOST` at the end writes its totals as `LOST_SAMPLES` with time 0: they replace the former. The
/// kernel's own `LOST_SAMPLES`, with a time, tell of samples that never reached a ring: they come on top.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LossAccount {
    in_rings: u64,
    in_sideband_rings: u64,
    totals: Option<Totals>,
    before_rings: u64,
    throttles: u64,
    undecodable: u64,
    unattributed: u64,
    elsewhere: Loss,
}

/// The totals of lost records that a recorder wrote at its end.
#[derive(Clone, Copy, Default, Debug)]
struct Totals {
    samples: u64,
    sideband: u64,
}

impl LossAccount {
    /// Adds a `LOST` record; `of_sideband` where its ring has no samples.
    pub(super) fn lost(&mut self, record: &Lost, of_sideband: bool) {
        let sum = if of_sideband { &mut self.in_sideband_rings } else { &mut self.in_rings };
        *sum = sum.saturating_add(record.lost);
    }

    /// Adds a `LOST_SAMPLES` record; `of_sideband` where its event takes no samples.
    pub(super) fn lost_samples(&mut self, record: &LostSamples, of_sideband: bool) {
        if record.filtered_by_bpf {
            return;
        }
        let is_total = record.sample_id.time.is_none_or(|time| time.0 == 0);
        if is_total {
            // Totals of 0 are not written. So a total of the sideband event means that the missing totals of other events are 0.
            let totals = self.totals.get_or_insert_default();
            let sum = if of_sideband { &mut totals.sideband } else { &mut totals.samples };
            *sum = sum.saturating_add(record.lost);
        } else {
            let sum = if of_sideband { &mut self.in_sideband_rings } else { &mut self.before_rings };
            *sum = sum.saturating_add(record.lost);
        }
    }

    /// Adds what went missing before it could become a record here.
    pub(super) fn add(&mut self, loss: Loss) {
        self.elsewhere += loss;
    }

    /// Counts a `THROTTLE` record.
    pub(super) fn throttled(&mut self) {
        self.throttles = self.throttles.saturating_add(1);
    }

    /// Counts a record that could not be decoded.
    pub(super) fn undecodable(&mut self) {
        self.undecodable = self.undecodable.saturating_add(1);
    }

    /// Counts a counter value of an event that the recording does not describe.
    pub(super) fn unattributed(&mut self) {
        self.unattributed = self.unattributed.saturating_add(1);
    }

    /// Returns the loss counted so far.
    pub(super) fn loss(&self) -> Loss {
        let rings = Totals { samples: self.in_rings, sideband: self.in_sideband_rings };
        let Totals { samples, sideband } = self.totals.unwrap_or(rings);
        let mut loss = Loss {
            samples: samples.saturating_add(self.before_rings),
            sideband,
            throttles: self.throttles,
            undecodable: self.undecodable,
            unattributed: self.unattributed,
            ..Loss::default()
        };
        loss += self.elsewhere;
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::SampleId;
    use model::Timestamp;

    fn lost_samples(lost: u64, time: u64) -> LostSamples {
        let sample_id = SampleId { time: Some(Timestamp(time)), ..SampleId::default() };
        LostSamples { lost, filtered_by_bpf: false, sample_id }
    }

    #[test]
    fn each_loss_counts_once() {
        let mut account = LossAccount::default();
        account.lost(&Lost { id: 1, lost: 870, sample_id: SampleId::default() }, false);
        assert_eq!(account.loss().samples, 870);
        account.lost_samples(&lost_samples(869, 0), false);
        assert_eq!(account.loss().samples, 869, "the total replaces what the rings said");
        account.lost_samples(&lost_samples(5, 77), false);
        assert_eq!(account.loss().samples, 874, "what never reached a ring comes on top");
        account.lost_samples(&lost_samples(3, 0), true);
        assert_eq!((account.loss().samples, account.loss().sideband), (874, 3));
    }

    #[test]
    fn what_a_ring_without_samples_lost_is_no_loss_of_samples() {
        let lost = |lost| Lost { id: 1, lost, sample_id: SampleId::default() };
        let mut live = LossAccount::default();
        live.lost(&lost(5), true);
        live.lost(&lost(2), false);
        assert_eq!((live.loss().samples, live.loss().sideband), (2, 5));
        // In a file a LOST record does not say whose ring it was; the totals do, of which those of 0 are not written.
        let mut file = LossAccount::default();
        file.lost(&lost(5), false);
        file.lost_samples(&lost_samples(5, 0), true);
        assert_eq!((file.loss().samples, file.loss().sideband), (0, 5));
    }
}
