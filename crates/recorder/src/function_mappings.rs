//! The addresses of functions that a recording names by mappings ([`model::FUNCTION_CODE`]).

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use decoder::record::{Mmap, MmapExtended, MmapIdentity};
use decoder::{CpuMode, Record, RecordLayout, SampleId};
use model::{Avma, FileIdentity, Pid, Tid, Timestamp};
use rustc_hash::{FxHashMap, FxHashSet};

/// A function of a program in one language.
pub(crate) trait MappedFunction: Eq + Hash {
    /// The addresses of the language's functions.
    const CODE: Range<Avma>;

    /// The name of the mapping that stands for functions which were not found.
    const UNKNOWN: &str;

    /// Returns the name of the function's mapping.
    fn mapping_name(&self) -> Vec<u8>;

    /// Returns the lines of the function.
    fn lines(&self) -> RangeInclusive<u32>;
}

/// The functions of a recording in one language. One that several processes run has one address.
#[derive(Debug)]
pub(crate) struct FunctionTable<F> {
    // Hashed with a random key, because profiled programs choose the names.
    starts: HashMap<Arc<F>, u64>,
    /// By the address of the function in our memory, which is kept: its names are hashed once.
    known: FxHashMap<usize, (Arc<F>, u64)>,
    by_start: FxHashMap<u64, Arc<F>>,
    /// The next address.
    next: u64,
}

/// The place of a line of a function.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The first address of the function.
    start: u64,
    /// The distance of the line's address from there.
    line: u64,
}

/// The maximum number of functions. Later ones are not named.
const MAX_FUNCTIONS: usize = 1 << 17;
/// Addresses of functions are multiples of this, so that neighbours are told apart in hexadecimal.
const ALIGNMENT: u64 = 0x1000;
/// `PROT_READ | PROT_EXEC`, `MAP_PRIVATE` of `mmap(2)`.
const PROTECTION: u32 = 5;
const MAP_PRIVATE: u32 = 2;

impl<F: MappedFunction> Default for FunctionTable<F> {
    fn default() -> Self {
        let next = Self::UNKNOWN_PLACE.start + ALIGNMENT;
        Self { starts: HashMap::new(), known: FxHashMap::default(), by_start: FxHashMap::default(), next }
    }
}

impl<F: MappedFunction> FunctionTable<F> {
    /// The place of functions that were not found.
    const UNKNOWN_PLACE: Place = Place { start: F::CODE.start.0, line: 0 };

    /// Returns the address of a line of a function, or of functions that were not found, in a process at a time. Appends the MMAP2 record of
    /// the function to `records`, unless the process has `recorded` its first address before.
    pub(crate) fn address(
        &mut self,
        function: Option<(&Arc<F>, u32)>,
        (pid, time): (Pid, Timestamp),
        recorded: &mut FxHashSet<u64>,
        layout: &RecordLayout,
        records: &mut Vec<u8>,
    ) -> u64 {
        let place = function.and_then(|(function, line)| self.place(function, line));
        let Place { start, line } = place.unwrap_or(Self::UNKNOWN_PLACE);
        if recorded.insert(start) {
            self.encode_mapping(start, pid, time, layout, records);
        }
        start + line
    }

    /// Returns the place of a line of a function; `None` where there are too many functions.
    fn place(&mut self, function: &Arc<F>, line: u32) -> Option<Place> {
        let line = u64::from(line.saturating_sub(*function.lines().start()));
        Some(Place { start: self.start(function)?, line })
    }

    fn start(&mut self, function: &Arc<F>) -> Option<u64> {
        let pointer = Arc::as_ptr(function).addr();
        if let Some((_, start)) = self.known.get(&pointer) {
            return Some(*start);
        }
        let start = match self.starts.get(function) {
            Some(start) => *start,
            None => {
                let end = self.next.checked_add(size(&**function))?.checked_next_multiple_of(ALIGNMENT)?;
                if self.starts.len() >= MAX_FUNCTIONS || end > F::CODE.end.0 {
                    return None;
                }
                let start = std::mem::replace(&mut self.next, end);
                self.starts.insert(Arc::clone(function), start);
                self.by_start.insert(start, Arc::clone(function));
                start
            }
        };
        if self.known.len() >= MAX_FUNCTIONS {
            self.known.clear();
        }
        self.known.insert(pointer, (Arc::clone(function), start));
        Some(start)
    }

    /// Appends the MMAP2 record of the function that begins at `start`.
    fn encode_mapping(
        &self,
        start: u64,
        pid: Pid,
        time: Timestamp,
        layout: &RecordLayout,
        out: &mut Vec<u8>,
    ) {
        let (path, page_offset, len) = match self.by_start.get(&start) {
            Some(function) => {
                (function.mapping_name(), u64::from(*function.lines().start()), size(&**function))
            }
            None => (F::UNKNOWN.as_bytes().to_vec(), 0, ALIGNMENT),
        };
        let identity = FileIdentity { major: 0, minor: 0, inode: 0, generation: 0 };
        let thread = Some((pid, Tid(pid.0)));
        let record = Record::Mmap(Mmap {
            pid,
            tid: Tid(pid.0),
            start,
            len,
            page_offset,
            path: &path,
            extended: Some(MmapExtended {
                identity: MmapIdentity::File(identity),
                protection: PROTECTION,
                flags: MAP_PRIVATE,
            }),
            data: false,
            mode: CpuMode::User,
            scan_cut_short: false,
            sample_id: SampleId { thread, time: Some(time), ..SampleId::default() },
        });
        // The name has a bound that a record has room for.
        let _ = layout.encode(&record, out);
    }
}

/// Returns the number of addresses of a function: one for each line, and one behind, for return addresses.
fn size(function: &impl MappedFunction) -> u64 {
    let lines = function.lines();
    u64::from(lines.end().saturating_sub(*lines.start())) + 2
}
