//! Walks of units, which remember where the functions of each unit lie. The first two walks read a unit from end to end;
//! the second records its functions, and later ones read only the functions that cover a wanted address.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimli::UnitRef;
use rustc_hash::FxHashMap;

use super::Reader;
use super::walk::{UnitFrames, UnitFunctions};

/// The walks of the units of a file, by unit number.
#[derive(Default)]
pub(crate) struct UnitWalks(Mutex<FxHashMap<u32, Progress>>);

#[derive(Clone)]
enum Progress {
    /// The unit was read once. Most units are never read again, so its functions are not recorded yet.
    ReadOnce,
    /// The functions of the unit are recorded.
    Recorded(Arc<UnitFunctions>),
    /// The unit has more ranges than [`super::walk::MAX_RANGES`], and is read from end to end each time.
    TooManyRanges,
}

impl UnitWalks {
    /// Finds the frames of `addresses` (sorted) in the unit with this number.
    pub(crate) fn walk(&self, number: u32, unit: UnitRef<'_, Reader<'_>>, addresses: &[u64]) -> UnitFrames {
        let progress = self.lock().insert(number, Progress::ReadOnce);
        let (walk, progress) = match progress {
            None => return UnitFrames::new(unit, addresses),
            Some(Progress::ReadOnce) => {
                let (walk, functions) = UnitFrames::with_functions(unit, addresses);
                let known = functions.is_complete().then(|| Progress::Recorded(Arc::new(functions)));
                (walk, known.unwrap_or(Progress::TooManyRanges))
            }
            Some(Progress::Recorded(functions)) => {
                (UnitFrames::of_functions(unit, addresses, &functions), Progress::Recorded(functions))
            }
            Some(Progress::TooManyRanges) => (UnitFrames::new(unit, addresses), Progress::TooManyRanges),
        };
        self.lock().insert(number, progress);
        walk
    }

    /// Returns the memory that it has on the heap, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let size = |progress: &Progress| match progress {
            Progress::Recorded(functions) => functions.memory_bytes(),
            _ => 0,
        };
        let walks = self.lock();
        walks.values().map(size).sum::<usize>() + walks.capacity() * size_of::<(u32, Progress)>()
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<u32, Progress>> {
        // The table is consistent even if another thread panicked while it held the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
