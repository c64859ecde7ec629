//! The files that unwind tables of generated code come from: jitdumps, read as runtimes write them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::Duration;

use generated::{DumpFile, DumpReader, DumpSource, JitDump, READ_INTERVAL};
use model::{Avma, FileOffset, Pid, Timestamp};
use unwinder::{ObjectNumber, UnwindTables};

use crate::generated_tables::{GeneratedTables, TableNumbers};
use crate::table_bytes::TableBytes;

/// The maximum number of loads and moves of one dump that are kept, of some 200 bytes each.
const MAX_LOADS: usize = 1 << 16;
/// The maximum number of loads and moves of all dumps together.
const MAX_LOADS_TOGETHER: usize = 1 << 18;
/// The maximum size of the tables of one dump. Equal tables are kept once.
const MAX_TABLE_BYTES: usize = 4 << 20;

/// Opens dumps, and reads on those that have grown.
#[derive(Debug)]
pub(crate) struct DumpUpdater {
    source: Box<dyn DumpSource>,
    /// True if the times of samples are by the clock of dumps.
    has_clock: bool,
    numbers: TableNumbers,
}

impl DumpUpdater {
    pub(crate) fn new(source: Box<dyn DumpSource>, has_clock: bool) -> Self {
        Self { source, has_clock, numbers: TableNumbers::default() }
    }

    /// Opens the dump that a process has mapped, as [`DumpSource::open`] does. Nothing of it is read.
    pub(crate) fn open(&mut self, pid: Pid, path: &[u8]) -> Option<GeneratedCode> {
        Some(GeneratedCode {
            file: self.source.open(pid, path)?,
            dump: Arc::new(Mutex::new(JitDump::for_unwinding(MAX_LOADS, MAX_TABLE_BYTES))),
            tables: RwLock::default(),
            last_read: Mutex::new(None),
        })
    }

    /// Reads what was written to a dump since it was last read, if that is due. `other_loads` is the number of loads of all other
    /// dumps.
    pub(crate) fn update(&mut self, code: &GeneratedCode, other_loads: usize) {
        if !code.begin_read(self.source.now()) || other_loads + code.loads() >= MAX_LOADS_TOGETHER {
            return;
        }
        let (file, dump) = (Arc::clone(&code.file), Arc::clone(&code.dump));
        self.source.run(Box::new(move || {
            // An earlier call that took too long may still be reading.
            if let Ok(mut dump) = dump.try_lock() {
                // Functions that were read before an error stay known. The replay reports the error.
                let _ = dump.read(&mut DumpReader::new(&*file));
            }
        }));
        let dump = match code.dump.try_lock() {
            Ok(dump) => dump,
            Err(TryLockError::Poisoned(dump)) => dump.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let has_times = self.has_clock && !dump.has_processor_times();
        let mut known = code.tables.write().unwrap_or_else(PoisonError::into_inner);
        known.add_new(&dump, has_times, &mut self.numbers);
    }
}

/// The code that one dump describes.
#[derive(Debug)]
pub(crate) struct GeneratedCode {
    file: Arc<dyn DumpFile>,
    dump: Arc<Mutex<JitDump>>,
    tables: RwLock<GeneratedTables>,
    /// The length of the file when it was last read, and the time of that by [`DumpSource::now`].
    last_read: Mutex<Option<(u64, Duration)>>,
}

impl GeneratedCode {
    /// Finds the code at an address, as [`GeneratedTables::find`] does.
    pub(crate) fn find(
        &self,
        address: Avma,
        time: Timestamp,
    ) -> Option<(Timestamp, ObjectNumber, FileOffset)> {
        self.read().find(address, time)
    }

    /// Returns tables, as [`GeneratedTables::tables`] does.
    pub(crate) fn tables(&self, object: ObjectNumber) -> Option<Arc<UnwindTables<TableBytes>>> {
        self.read().tables(object)
    }

    /// Returns the number of loads and moves that were read.
    pub(crate) fn loads(&self) -> usize {
        self.read().loads()
    }

    /// Returns true if the dump has tables, and more was written than has been read.
    pub(crate) fn has_grown(&self) -> bool {
        self.has_tables() && self.file.length().ok() != lock(&self.last_read).map(|(length, _)| length)
    }

    /// Returns true if the file is to be read now, and records that it is.
    fn begin_read(&self, now: Duration) -> bool {
        let Ok(length) = self.file.length() else { return false };
        let mut last_read = lock(&self.last_read);
        let is_due = last_read.is_none_or(|(known, when)| {
            let has_waited = || now.saturating_sub(when) >= READ_INTERVAL;
            known != length && (self.has_tables() || has_waited())
        });
        if is_due {
            *last_read = Some((length, now));
        }
        is_due
    }

    fn has_tables(&self) -> bool {
        !self.read().is_empty()
    }

    fn read(&self) -> RwLockReadGuard<'_, GeneratedTables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in another thread leaves the value valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::test_sources::MemoryDump;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn header() -> Vec<u8> {
        words(&[1 << 32 | 0x4a69_5444, 62 << 32 | 40, 42 << 32, 7, 0])
    }

    /// A record that loads 16 bytes of code at `address`, behind one with its unwind table, if it has one.
    fn load(address: u64, has_table: bool) -> Vec<u8> {
        let table = [words(&[(16 + 24 + 8) << 32 | 4, 0, 8, 0, 0]), address.to_le_bytes().to_vec()].concat();
        let load = words(&[(16 + 40 + 2 + 16) << 32, 10, 1, address, address, 16, address]);
        [if has_table { table } else { Vec::new() }, load, b"f\0".to_vec(), vec![0xcc; 16]].concat()
    }

    fn opened(dump: &MemoryDump) -> (DumpUpdater, GeneratedCode) {
        let mut updater = DumpUpdater::new(Box::new(dump.clone()), true);
        let code = updater.open(Pid(1), b"/tmp/jit-1.dump").unwrap();
        (updater, code)
    }

    fn write(dump: &MemoryDump, bytes: &[u8]) {
        dump.bytes.lock().unwrap().extend_from_slice(bytes);
    }

    #[test]
    fn a_dump_with_tables_is_read_on_whenever_it_has_grown() {
        let dump = MemoryDump::default();
        write(&dump, &[header(), load(0x1000, true)].concat());
        let (mut updater, code) = opened(&dump);
        updater.update(&code, 0);
        assert_eq!((code.loads(), code.has_grown()), (1, false));
        let read = dump.read_bytes.load(Ordering::Relaxed);
        updater.update(&code, 0);
        assert_eq!(dump.read_bytes.load(Ordering::Relaxed), read, "nothing is new");
        write(&dump, &load(0x2000, true));
        assert!(code.has_grown());
        updater.update(&code, 0);
        assert_eq!((code.loads(), code.has_grown()), (2, false));
        assert!(code.find(Avma(0x2000), Timestamp(10)).is_some());
        write(&dump, &load(0x3000, true));
        updater.update(&code, MAX_LOADS_TOGETHER);
        assert_eq!(code.loads(), 2, "other dumps have all loads that may be kept");
    }

    #[test]
    fn a_dump_without_tables_is_read_now_and_then() {
        let dump = MemoryDump::default();
        write(&dump, &[header(), load(0x1000, false)].concat());
        let (mut updater, code) = opened(&dump);
        updater.update(&code, 0);
        write(&dump, &load(0x2000, true));
        dump.milliseconds.store(99, Ordering::Relaxed);
        updater.update(&code, 0);
        assert_eq!((code.loads(), code.has_grown()), (0, false), "nobody waits for a dump without tables");
        dump.milliseconds.store(100, Ordering::Relaxed);
        updater.update(&code, 0);
        assert_eq!(code.loads(), 2);
    }

    #[test]
    fn a_read_that_comes_late_is_used_later() {
        let late = Arc::<Mutex<Vec<_>>>::default();
        let dump = MemoryDump { left_behind: Some(Arc::clone(&late)), ..MemoryDump::default() };
        write(&dump, &[header(), load(0x1000, true)].concat());
        let (mut updater, code) = opened(&dump);
        updater.update(&code, 0);
        assert_eq!(code.loads(), 0);
        for work in late.lock().unwrap().drain(..) {
            (work.0)();
        }
        write(&dump, &load(0x2000, true));
        dump.milliseconds.store(100, Ordering::Relaxed);
        updater.update(&code, 0);
        assert_eq!(code.loads(), 1, "of the first read; the second is still to come");
    }
}
