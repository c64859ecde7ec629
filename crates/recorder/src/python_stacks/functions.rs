//! The addresses of Python functions in a recording ([`model::PYTHON_CODE`]).

use std::collections::HashMap;
use std::sync::Arc;

use decoder::record::{Mmap, MmapExtended, MmapIdentity};
use decoder::{CpuMode, Record, RecordLayout, SampleId};
use model::{FileIdentity, PYTHON_CODE, Pid, Tid, Timestamp, UNKNOWN_PYTHON, python_mapping_name};
use python::{PythonFrame, PythonFunction};
use rustc_hash::FxHashMap;

/// The functions of a recording. One that several processes run has one address.
#[derive(Debug)]
pub(super) struct FunctionTable {
    // Hashed with a random key, because profiled programs choose the names.
    starts: HashMap<Arc<PythonFunction>, u64>,
    /// By the address of the function in our memory, which is kept: its names are hashed once.
    known: FxHashMap<*const PythonFunction, (Arc<PythonFunction>, u64)>,
    by_start: FxHashMap<u64, Arc<PythonFunction>>,
    /// The next address.
    next: u64,
}

/// The place of a line of a function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The first address of the function.
    pub(super) start: u64,
    /// The distance of the line's address from there.
    pub(super) line: u64,
}

/// The place of functions that were not found.
pub(super) const UNKNOWN_PLACE: Place = Place { start: PYTHON_CODE.start.0, line: 0 };

/// The maximum number of functions. Later ones are not named.
const MAX_FUNCTIONS: usize = 1 << 17;
/// Addresses of functions are multiples of this, so that neighbours are told apart in hexadecimal.
const ALIGNMENT: u64 = 0x1000;
/// `PROT_READ | PROT_EXEC`, `MAP_PRIVATE` of `mmap(2)`.
const PROTECTION: u32 = 5;
const MAP_PRIVATE: u32 = 2;

impl Default for FunctionTable {
    fn default() -> Self {
        let next = UNKNOWN_PLACE.start + ALIGNMENT;
        Self { starts: HashMap::new(), known: FxHashMap::default(), by_start: FxHashMap::default(), next }
    }
}

impl FunctionTable {
    /// Returns the place of the line that a frame executes; `None` where there are too many functions.
    pub(super) fn place(&mut self, frame: &PythonFrame) -> Option<Place> {
        let line = u64::from(frame.line.saturating_sub(frame.function.first_line));
        Some(Place { start: self.start(&frame.function)?, line })
    }

    fn start(&mut self, function: &Arc<PythonFunction>) -> Option<u64> {
        let pointer = Arc::as_ptr(function);
        if let Some((_, start)) = self.known.get(&pointer) {
            return Some(*start);
        }
        let start = match self.starts.get(function) {
            Some(start) => *start,
            None => {
                let end = self.next.checked_add(size(function))?.checked_next_multiple_of(ALIGNMENT)?;
                if self.starts.len() >= MAX_FUNCTIONS || end > PYTHON_CODE.end.0 {
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
    pub(super) fn encode_mapping(
        &self,
        start: u64,
        pid: Pid,
        time: Timestamp,
        layout: &RecordLayout,
        out: &mut Vec<u8>,
    ) {
        let (path, page_offset, len) = match self.by_start.get(&start) {
            Some(function) => (
                python_mapping_name(&function.file, &function.name),
                u64::from(function.first_line),
                size(function),
            ),
            None => (python_mapping_name("", UNKNOWN_PYTHON), 0, ALIGNMENT),
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
fn size(function: &PythonFunction) -> u64 {
    u64::from(function.last_line.saturating_sub(function.first_line)) + 2
}
