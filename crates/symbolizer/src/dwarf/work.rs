//! A bound on what is read again and again: a file can let a million units share one long table.

use std::sync::atomic::{AtomicUsize, Ordering};

use gimli::Section as _;

use super::Dwarf;

/// Bytes that may still be read of tables that units share.
pub(crate) struct WorkBudget(AtomicUsize);

/// Files of dwz have one table of abbreviations for all units, which is read this often in a sixteenth of the file's bytes.
const TIMES: usize = 16;

/// For small files: a fraction of a second.
const ALWAYS: usize = 1 << 24;

impl WorkBudget {
    /// In proportion to what there is.
    pub(crate) fn new(dwarf: &Dwarf<'_>) -> Self {
        let bytes = dwarf.debug_info.reader().len().saturating_add(dwarf.debug_abbrev.reader().len());
        Self(AtomicUsize::new(bytes.saturating_mul(TIMES).saturating_add(ALWAYS)))
    }

    /// Returns true if so many more may be read; if not, no more may.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let left = |left: usize| Some(left.saturating_sub(bytes));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        before.is_ok_and(|before| before >= bytes)
    }
}
