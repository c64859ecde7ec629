//! Walks of units, which remember where the functions of each unit lie. The first two walks read a unit from end to end;
//! the second records its functions, and later ones read only the functions that cover a wanted address.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimli::{UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

use super::Reader;
use super::walk::UnitFrames;

/// Maximum number of address ranges recorded of one unit. More are a sign of a hostile file.
const MAX_RANGES: usize = 1 << 20;

/// The address ranges of a unit's functions, in the order of the file.
#[derive(Default)]
pub(crate) struct UnitFunctions(Vec<FunctionRange>);

struct FunctionRange {
    begin: u64,
    end: u64,
    entry: UnitOffset,
}

impl UnitFunctions {
    /// Adds a range of the function at `entry`, unless there are too many.
    pub(crate) fn push(&mut self, entry: UnitOffset, begin: u64, end: u64) {
        if self.0.len() <= MAX_RANGES {
            self.0.push(FunctionRange { begin, end, entry });
        }
    }

    fn is_complete(&self) -> bool {
        self.0.len() <= MAX_RANGES
    }

    /// Returns the entries of functions that cover one of `addresses` (sorted), in the order of the file.
    pub(crate) fn covering(&self, addresses: &[u64]) -> Vec<UnitOffset> {
        let covers = |range: &&FunctionRange| {
            let first = addresses.partition_point(|&address| address < range.begin);
            addresses.get(first).is_some_and(|&address| address < range.end)
        };
        let mut entries: Vec<UnitOffset> = self.0.iter().filter(covers).map(|range| range.entry).collect();
        entries.dedup();
        entries
    }
}

/// The walks of the units of a file, by unit number.
#[derive(Default)]
pub(crate) struct UnitWalks(Mutex<FxHashMap<u32, Progress>>);

#[derive(Clone)]
enum Progress {
    /// The unit was read once. Most units are never read again, so its functions are not recorded yet.
    ReadOnce,
    /// The functions of the unit are recorded.
    Recorded(Arc<UnitFunctions>),
    /// The unit has more ranges than [`MAX_RANGES`], and is read from end to end each time.
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
            Progress::Recorded(functions) => functions.0.capacity() * size_of::<FunctionRange>(),
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
