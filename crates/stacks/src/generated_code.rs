//! The files that unwind tables of generated code come from: jitdumps, read as runtimes write them.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::{Duration, Instant};

use elf::SectionReader;
use generated::JitDump;
use host::objects::BlockBytes;
use host::perf_map::{self, MapFile};
use host::timed_worker::{Outcome, TimedWorker};
use model::{Avma, FileOffset, Life, Pid, Timestamp};
use unwinder::{ObjectNumber, UnwindTables};

use crate::generated_tables::{GeneratedTables, TableNumbers};

/// The longest time to wait for one dump, and for all of them together: stacks are waiting meanwhile.
const PATIENCE: Duration = Duration::from_millis(200);
const PATIENCE_TOGETHER: Duration = Duration::from_secs(10);
/// The interval at which dumps that have no table so far are read on: most of them never have one.
const BETWEEN_LOOKS_WITHOUT_TABLES: Duration = Duration::from_millis(100);
/// Loads and moves of one dump that are looked at (each takes some 200 bytes), and of all dumps together.
const MAX_LOADS: usize = 1 << 16;
const MAX_LOADS_TOGETHER: usize = 1 << 18;
/// Bytes of tables of one dump. Equal tables of like functions are one.
const MAX_TABLE_BYTES: usize = 4 << 20;
/// Says how long a process lived, by which its dump is told from files that somebody else left there. `None` where
/// no file of this machine can be its dump.
#[derive(Clone)]
pub struct DumpOwners(Arc<dyn Fn(Pid) -> Option<Life> + Send + Sync>);

impl DumpOwners {
    /// Owners with these lives.
    pub fn new(life: impl Fn(Pid) -> Option<Life> + Send + Sync + 'static) -> Self {
        Self(Arc::new(life))
    }
}

impl fmt::Debug for DumpOwners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DumpOwners")
    }
}

/// Opens dumps, and reads what they say beyond what was read of them.
#[derive(Debug)]
pub(crate) struct DumpReader {
    owners: DumpOwners,
    /// True if the times of samples are of the clock of dumps.
    has_clock: bool,
    worker: TimedWorker,
    waited: Duration,
    objects: TableNumbers,
}

impl DumpReader {
    pub(crate) fn new(owners: DumpOwners, has_clock: bool) -> Self {
        let (worker, waited) = (TimedWorker::default(), Duration::ZERO);
        Self { owners, has_clock, worker, waited, objects: TableNumbers::default() }
    }

    /// Opens the dump that a process has mapped. `None` where there is none that can be its own.
    pub(crate) fn open(&mut self, pid: Pid, path: &[u8]) -> Option<GeneratedCode> {
        let life = (self.owners.0)(pid)?;
        let path = path.to_vec();
        let file = self.run(move || perf_map::find_dump(pid, &path, life).ok().flatten())??;
        Some(GeneratedCode {
            file: Arc::new(file),
            dump: Arc::new(Mutex::new(JitDump::for_unwinding(MAX_LOADS, MAX_TABLE_BYTES))),
            tables: RwLock::default(),
            looked: Mutex::new(None),
        })
    }

    /// Reads what was written since the last look. `others` is the number of loads of other dumps.
    pub(crate) fn look(&mut self, code: &GeneratedCode, others: usize) {
        if !code.begin_look() {
            return;
        }
        if others + code.loads() >= MAX_LOADS_TOGETHER {
            return;
        }
        let (file, dump) = (Arc::clone(&code.file), Arc::clone(&code.dump));
        self.run(move || {
            // A thread that was left behind may still read it.
            if let Ok(mut dump) = dump.try_lock() {
                // What was read before an error stays, and the replay tells of it.
                let _ = dump.read(&mut file.reader());
            }
        });
        let dump = match code.dump.try_lock() {
            Ok(dump) => dump,
            Err(TryLockError::Poisoned(dump)) => dump.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let has_times = self.has_clock && !dump.has_processor_times();
        let mut known = code.tables.write().unwrap_or_else(PoisonError::into_inner);
        known.add_new(&dump, has_times, &mut self.objects);
    }

    fn run<T: Send + 'static>(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let patience = PATIENCE.min(PATIENCE_TOGETHER.saturating_sub(self.waited));
        let begin = Instant::now();
        let outcome = self.worker.run(patience, work);
        // Reading is work; only what does not come is waited for.
        match outcome {
            Outcome::Done(value) => Some(value),
            Outcome::Pending(_) | Outcome::Refused => {
                self.waited += begin.elapsed();
                None
            }
        }
    }
}

/// The code that one dump tells of.
#[derive(Debug)]
pub(crate) struct GeneratedCode {
    file: Arc<MapFile>,
    dump: Arc<Mutex<JitDump>>,
    tables: RwLock<GeneratedTables>,
    /// The length of the file at the last look into it, and when that was.
    looked: Mutex<Option<(u64, Instant)>>,
}

impl GeneratedCode {
    /// The load that an address is code of at a time: when it was made, the object that is its table, and the offset in it.
    pub(crate) fn find(
        &self,
        address: Avma,
        time: Timestamp,
    ) -> Option<(Timestamp, ObjectNumber, FileOffset)> {
        self.read().find(address, time)
    }

    /// Returns the numbers of [`GeneratedTables::loads_until`].
    pub(crate) fn loads_until(&self, time: Timestamp) -> (usize, usize) {
        self.read().loads_until(time)
    }

    /// The tables with this number.
    pub(crate) fn tables(
        &self,
        object: ObjectNumber,
    ) -> Option<Arc<UnwindTables<SectionReader<BlockBytes>>>> {
        self.read().tables(object)
    }

    /// Returns the number of loads that are kept.
    pub(crate) fn loads(&self) -> usize {
        self.read().loads()
    }

    /// Returns true if the dump has tables, and more was written than has been read.
    pub(crate) fn has_grown(&self) -> bool {
        self.has_tables() && self.file.length().ok() != lock(&self.looked).map(|(length, _)| length)
    }

    /// Returns true if the file is to be read, and notes how much of it there is.
    fn begin_look(&self) -> bool {
        let Ok(length) = self.file.length() else { return false };
        let mut looked = lock(&self.looked);
        let is_due = looked.is_none_or(|(known, when)| {
            known != length && (self.has_tables() || when.elapsed() >= BETWEEN_LOOKS_WITHOUT_TABLES)
        });
        if is_due {
            *looked = Some((length, Instant::now()));
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
    // A panic elsewhere does not make what is known wrong.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
