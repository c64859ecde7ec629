//! What a recording or a file could not deliver. Loss is data: it travels with the profile and every output shows it.

use core::ops::AddAssign;

/// Counts of what went missing between the processor and the picture.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Loss {
    /// Samples that the kernel took and could not hand over (ring full): FORMAT_LOST over the sampling events,
    /// else the sum of LOST records (`perf_event_open(2)`, checklist T2, T11, R3).
    pub samples: u64,
    /// Counts of lost samples that could not be read: more may have been lost than `samples` says.
    pub unread: u64,
    /// Records of the sideband event that were lost: names and mappings may be missing.
    pub sideband: u64,
    /// Times the kernel throttled an event because it fired too often.
    pub throttles: u64,
    /// Records whose bytes could not be decoded.
    pub undecodable: u64,
    /// Records of a type that this version does not know; skipped by their size.
    pub unknown_records: u64,
    /// Records of an event that the file does not describe.
    pub unattributed: u64,
    /// Bytes at the end of the file that are not a whole record.
    pub cut_bytes: u64,
    /// Records that came later than the file promised: their order is not certain.
    pub out_of_order: u64,
    /// Processes that executed a program with more rights (set-user-ID and the like), where the kernel ended their events.
    pub unfollowed: u64,
}

impl Loss {
    /// Returns true if nothing went missing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Loss {
    fn add_assign(&mut self, other: Self) {
        // Destructured so that a new field cannot be forgotten here.
        let Self {
            samples,
            unread,
            sideband,
            throttles,
            undecodable,
            unknown_records,
            unattributed,
            cut_bytes,
            out_of_order,
            unfollowed,
        } = other;
        self.samples = self.samples.saturating_add(samples);
        self.unread = self.unread.saturating_add(unread);
        self.sideband = self.sideband.saturating_add(sideband);
        self.throttles = self.throttles.saturating_add(throttles);
        self.undecodable = self.undecodable.saturating_add(undecodable);
        self.unknown_records = self.unknown_records.saturating_add(unknown_records);
        self.unattributed = self.unattributed.saturating_add(unattributed);
        self.cut_bytes = self.cut_bytes.saturating_add(cut_bytes);
        self.out_of_order = self.out_of_order.saturating_add(out_of_order);
        self.unfollowed = self.unfollowed.saturating_add(unfollowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_saturates() {
        let mut loss = Loss { samples: u64::MAX, ..Loss::default() };
        loss += Loss { samples: 3, sideband: 2, ..Loss::default() };
        assert_eq!((loss.samples, loss.sideband), (u64::MAX, 2));
        assert!(!loss.is_none());
    }
}
