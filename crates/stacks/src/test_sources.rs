//! Objects, memory and jitdumps for tests, all in memory.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use elf::{Object, ObjectSource, OpenedObject};
use generated::{DumpFile, DumpSource};
use model::{Avma, BuildId, ObjectIdentity, Pid, ProcessMemory};

/// Objects by their paths.
#[derive(Default, Debug)]
pub(crate) struct MemoryObjects {
    pub(crate) files: HashMap<Vec<u8>, Vec<u8>>,
    /// The number of times that an object was opened.
    pub(crate) opened: AtomicU64,
}

impl MemoryObjects {
    pub(crate) fn with(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let files = files.into_iter().map(|(path, bytes)| (path.into_bytes(), bytes)).collect();
        Self { files, ..Self::default() }
    }
}

impl ObjectSource for MemoryObjects {
    type Bytes = Vec<u8>;

    fn open(&self, identity: &ObjectIdentity, _: Pid) -> Option<OpenedObject<Vec<u8>>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let bytes = self.files.get(identity.path.as_bytes())?.clone();
        Some(OpenedObject { object: Arc::new(Object::read(bytes).ok()?), debug_file: None })
    }

    fn open_vdso(&self, _: Option<&BuildId>) -> Option<Arc<Object<Vec<u8>>>> {
        None
    }

    fn close(&self, _: &ObjectIdentity) {}

    fn close_all(&self) {}

    fn release_caches(&self) {}
}

/// The memory of one process: bytes from an address on.
#[derive(Debug)]
pub(crate) struct OneProcess {
    pub(crate) pid: Pid,
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
    /// The number of times that it was read.
    pub(crate) reads: AtomicU64,
}

impl ProcessMemory for OneProcess {
    fn read(&self, pid: Pid, address: Avma, into: &mut [u8]) -> usize {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let Some(offset) = address.0.checked_sub(self.start).filter(|_| pid == self.pid) else { return 0 };
        let from = usize::try_from(offset).ok().and_then(|offset| self.bytes.get(offset..));
        let from = from.unwrap_or_default();
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        count
    }
}

/// A jitdump that a test writes to, and the clock of its source. Clones are the same dump.
#[derive(Clone, Default, Debug)]
pub(crate) struct MemoryDump {
    pub(crate) bytes: Arc<Mutex<Vec<u8>>>,
    pub(crate) milliseconds: Arc<AtomicU64>,
    /// The number of bytes that were read of it.
    pub(crate) read_bytes: Arc<AtomicU64>,
    /// Work that was not done in time, where the file system does not answer.
    pub(crate) left_behind: Option<Arc<Mutex<Vec<LateWork>>>>,
}

/// Holds work for a test to run later.
pub(crate) struct LateWork(pub(crate) Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for LateWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LateWork")
    }
}

impl DumpFile for MemoryDump {
    fn length(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let from = bytes.get(offset as usize..).unwrap_or_default();
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl DumpSource for MemoryDump {
    fn open(&mut self, _: Pid, _: &[u8]) -> Option<Arc<dyn DumpFile>> {
        Some(Arc::new(self.clone()))
    }

    fn run(&mut self, read: Box<dyn FnOnce() + Send>) {
        match &self.left_behind {
            Some(late) => late.lock().unwrap().push(LateWork(read)),
            None => read(),
        }
    }

    fn now(&self) -> Duration {
        Duration::from_millis(self.milliseconds.load(Ordering::Relaxed))
    }
}
