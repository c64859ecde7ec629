//! Addresses at which something was not found lately, so that it is not searched there for every sample.

use model::Timestamp;
use rustc_hash::FxHashSet;

/// The maximum number of addresses of a kind that are remembered, in some 70 kB; with more, all are forgotten. A process has three kinds.
const MAX_MISSES: usize = 4096;
/// Nanoseconds after which they are forgotten in any case: functions come to lie anywhere. With this, failed searches beside pytest at 997 Hz
/// read two pages of memory less a sample, of ten (`prof record -e syscalls:sys_enter_process_vm_readv`).
const MISS_NANOSECONDS: u64 = 1_000_000_000;

/// Addresses of one kind at which something was not found lately.
#[derive(Default, Debug)]
pub(crate) struct Misses {
    addresses: FxHashSet<u64>,
    /// The time since which they are remembered.
    since: Timestamp,
}

impl Misses {
    /// Forgets all once they are old.
    pub(crate) fn forget_old(&mut self, now: Timestamp) {
        if now.0.saturating_sub(self.since.0) > MISS_NANOSECONDS {
            self.addresses.clear();
            self.since = now;
        }
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        self.addresses.contains(&address)
    }

    pub(crate) fn insert(&mut self, address: u64) {
        if self.addresses.len() >= MAX_MISSES {
            self.addresses.clear();
        }
        self.addresses.insert(address);
    }
}
