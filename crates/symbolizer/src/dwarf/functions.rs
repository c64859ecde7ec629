//! Where the functions of a unit lie in it. A unit that is read again and again is read from end to end twice; from then
//! on only those of its functions that an address lies in.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimli::{UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

use super::Reader;
use super::walk::UnitWalk;

/// More ranges than this in one unit are a sign of a hostile file.
const MOST_RANGES: usize = 1 << 20;

/// The functions of a unit that have code, in the order of the file.
#[derive(Default)]
pub(crate) struct UnitFunctions(Vec<FunctionRange>);

struct FunctionRange {
    begin: u64,
    end: u64,
    entry: UnitOffset,
}

impl UnitFunctions {
    /// Adds a range of a function, unless there are too many.
    pub(crate) fn push(&mut self, entry: UnitOffset, begin: u64, end: u64) {
        if self.0.len() <= MOST_RANGES {
            self.0.push(FunctionRange { begin, end, entry });
        }
    }

    fn is_complete(&self) -> bool {
        self.0.len() <= MOST_RANGES
    }

    /// The entries of functions that one of `addresses` (sorted) lies in, in the order of the file.
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

/// The results of units that have been read, by their numbers.
#[derive(Default)]
pub(crate) struct Walks(Mutex<FxHashMap<u32, Progress>>);

#[derive(Clone)]
enum Progress {
    /// It has been read once: most files are never looked at again.
    Once,
    /// Its functions are known.
    Known(Arc<UnitFunctions>),
    /// It has more of them than can be.
    Hostile,
}

impl Walks {
    /// Looks for `addresses` (sorted) in the unit with this number.
    pub(crate) fn walk(&self, number: u32, unit: UnitRef<'_, Reader<'_>>, addresses: &[u64]) -> UnitWalk {
        let progress = self.lock().insert(number, Progress::Once);
        let (walk, progress) = match progress {
            None => return UnitWalk::new(unit, addresses),
            Some(Progress::Once) => {
                let (walk, functions) = UnitWalk::with_functions(unit, addresses);
                let known = functions.is_complete().then(|| Progress::Known(Arc::new(functions)));
                (walk, known.unwrap_or(Progress::Hostile))
            }
            Some(Progress::Known(functions)) => {
                (UnitWalk::of_functions(unit, addresses, &functions), Progress::Known(functions))
            }
            Some(Progress::Hostile) => (UnitWalk::new(unit, addresses), Progress::Hostile),
        };
        self.lock().insert(number, progress);
        walk
    }

    /// The bytes of memory that it has besides its own.
    pub(crate) fn memory(&self) -> usize {
        let size = |progress: &Progress| match progress {
            Progress::Known(functions) => functions.0.capacity() * size_of::<FunctionRange>(),
            _ => 0,
        };
        let walks = self.lock();
        walks.values().map(size).sum::<usize>() + walks.capacity() * size_of::<(u32, Progress)>()
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<u32, Progress>> {
        // A panic elsewhere does not make the table wrong.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
