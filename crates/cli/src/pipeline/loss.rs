//! Which records say how much was lost.

use decoder::record::{Lost, LostSamples};
use model::Loss;

/// Adds up what records say of losses, each loss once.
///
/// A ring that overflows leaves `LOST` records, which count records of every type and can lag behind. A recorder that
/// reads `PERF_FORMAT_LOST` at the end writes its totals as `LOST_SAMPLES` with time 0: they replace the former. The
/// kernel's own `LOST_SAMPLES`, with a time, tell of samples that never reached a ring: they come on top.
#[derive(Clone, Copy, Default, Debug)]
pub struct LossAccount {
    in_rings: u64,
    totals: Option<u64>,
    before_rings: u64,
    sideband: u64,
    throttles: u64,
    undecodable: u64,
    unattributed: u64,
}

impl LossAccount {
    /// Takes a `LOST` record.
    pub fn lost(&mut self, record: &Lost) {
        self.in_rings = self.in_rings.saturating_add(record.lost);
    }

    /// Takes a `LOST_SAMPLES` record; `of_sideband` where its event takes no samples.
    pub fn lost_samples(&mut self, record: &LostSamples, of_sideband: bool) {
        if record.filtered_by_bpf {
            return;
        }
        let is_total = record.sample_id.time.is_none_or(|time| time.0 == 0);
        let sum = match (is_total, of_sideband) {
            (_, true) => &mut self.sideband,
            (true, false) => self.totals.get_or_insert(0),
            (false, false) => &mut self.before_rings,
        };
        *sum = sum.saturating_add(record.lost);
    }

    /// Takes a `THROTTLE` record.
    pub fn throttled(&mut self) {
        self.throttles = self.throttles.saturating_add(1);
    }

    /// Takes a record that could not be decoded.
    pub fn undecodable(&mut self) {
        self.undecodable = self.undecodable.saturating_add(1);
    }

    /// Takes a counter value of an event that the recording does not describe.
    pub fn unattributed(&mut self) {
        self.unattributed = self.unattributed.saturating_add(1);
    }

    /// What was lost.
    pub fn loss(&self) -> Loss {
        Loss {
            samples: self.totals.unwrap_or(self.in_rings).saturating_add(self.before_rings),
            sideband: self.sideband,
            throttles: self.throttles,
            undecodable: self.undecodable,
            unattributed: self.unattributed,
            ..Loss::default()
        }
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
        account.lost(&Lost { id: 1, lost: 870, sample_id: SampleId::default() });
        assert_eq!(account.loss().samples, 870);
        account.lost_samples(&lost_samples(869, 0), false);
        assert_eq!(account.loss().samples, 869, "the total replaces what the rings said");
        account.lost_samples(&lost_samples(5, 77), false);
        assert_eq!(account.loss().samples, 874, "what never reached a ring comes on top");
        account.lost_samples(&lost_samples(3, 0), true);
        assert_eq!((account.loss().samples, account.loss().sideband), (874, 3));
    }
}
