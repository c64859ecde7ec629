//! A bound on repeated reads: in a hostile file a million units may share one long table.

use std::sync::atomic::{AtomicUsize, Ordering};

use gimli::Section as _;

use super::Dwarf;

/// The number of bytes of abbreviation tables that may still be read.
pub(crate) struct WorkBudget(AtomicUsize);

/// The budget as a multiple of the size of `.debug_info` and `.debug_abbrev`. Files of dwz have one abbreviation table
/// for all units; reading it for each takes about this multiple at most.
const BUDGET_PER_BYTE: usize = 16;

/// The budget of small files, which takes a fraction of a second to spend.
const MIN_BUDGET_BYTES: usize = 1 << 24;

impl WorkBudget {
    /// Returns a budget in proportion to the size of the debug information.
    pub(crate) fn new(dwarf: &Dwarf<'_>) -> Self {
        let bytes = dwarf.debug_info.reader().len().saturating_add(dwarf.debug_abbrev.reader().len());
        Self(AtomicUsize::new(bytes.saturating_mul(BUDGET_PER_BYTE).saturating_add(MIN_BUDGET_BYTES)))
    }

    /// Takes `bytes` off the budget. Returns false if fewer are left, and then for every further call with bytes > 0.
    pub(crate) fn try_spend(&self, bytes: usize) -> bool {
        let left = |left: usize| Some(left.saturating_sub(bytes));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        before.is_ok_and(|before| before >= bytes)
    }
}
