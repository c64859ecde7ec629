//! The processes that open files for this one, one for each file system.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{Name, Pid};

use super::connection::{Connection, SlowFile};
use super::patience::{Patience, WaitingTime};
use crate::helper_process;
use crate::mounts::{FileSystem, Mounts};
use crate::procfs::{self, Capability};
use crate::sys::fork;

/// Maximum number of file systems that are asked, each by a process. Whoever mounts more of them than that cannot make more processes
/// wait for ever.
const MAX_SYSTEMS: usize = 16;
/// Maximum number of files of a silent file system that are counted.
const MAX_COUNTED: usize = 4096;

/// A file system that did not answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SilentFileSystem {
    /// The path of its mount; empty if it is not, or where we may not look.
    pub place: Name,
    /// Its type; empty if it is not known.
    pub kind: Name,
    /// The number of files on it that were needed, up to some thousand.
    pub files: usize,
}

struct Registry {
    command: Vec<String>,
    waiting: Arc<WaitingTime>,
    /// Sockets of processes that were started in advance.
    spares: Vec<File>,
    systems: Vec<System>,
    /// `None` where memory is read by this process.
    memory: Option<MemoryHelpers>,
}

/// The processes that read memory of others for this one.
struct MemoryHelpers {
    /// Else they read files alone: the kernel may let only this process read the memory of what it has started (Yama).
    reads_memory: bool,
    waiting: Arc<WaitingTime>,
    /// One at most has waited for no process, and reads for all others.
    connections: Vec<MemoryHelper>,
    /// The processes whose memory could not be read in time, with how long each was waited for.
    silent: BTreeMap<Pid, Duration>,
}

struct MemoryHelper {
    connection: Arc<Connection>,
    /// The process that it has waited for in vain.
    waited: Option<Pid>,
}

struct System {
    system: FileSystem,
    connection: Arc<Connection>,
    /// The files that could not be read.
    missed: HashSet<Vec<u8>>,
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

/// Lets this process ask file systems that may not answer, through processes that are started when they are needed: this program with
/// the words `command`, which must make it call [`super::serve`] with its standard input. Before this call, files there cannot be
/// opened.
pub fn enable(command: &[&str], patience: Patience) {
    let command = command.iter().map(|&word| word.to_owned()).collect();
    let waiting = Arc::new(WaitingTime::new(patience));
    *registry() = Some(Registry { command, waiting, spares: Vec::new(), systems: Vec::new(), memory: None });
}

/// Has files of `/proc/PID` read through such processes, too, and memory, if this process may read that of other users. Must follow
/// [`enable`]. Before this call, they are read by this process.
pub fn ask_for_memory(patience: Patience) {
    let reads_memory = procfs::own_status().is_ok_and(|own| own.has(Capability::SysPtrace));
    if let Some(registry) = registry().as_mut() {
        let waiting = Arc::new(WaitingTime::new(patience));
        let (connections, silent) = (Vec::new(), BTreeMap::new());
        registry.memory = Some(MemoryHelpers { reads_memory, waiting, connections, silent });
    }
}

/// Returns the number of processes whose memory could not be read in time so far, and the one that was waited for longest.
pub fn silent_processes() -> Option<(usize, Pid)> {
    let registry = registry();
    let silent = &registry.as_ref()?.memory.as_ref()?.silent;
    let (longest, _) = silent.iter().max_by_key(|(_, waited)| **waited)?;
    Some((silent.len(), *longest))
}

/// Reads the memory of one process, and its files in `/proc`, through another process.
pub(crate) struct MemoryReader {
    pid: Pid,
    connection: Arc<Connection>,
}

/// Returns a reader of the memory of a process; `None` where this process reads it, which is that of its own user (`is_ours`).
///
/// # Errors
/// `Unsupported` if there cannot be one, `TimedOut` if this process would have to read, and the other was waited for in vain.
pub(crate) fn memory_reader(pid: Pid, is_ours: impl FnOnce() -> bool) -> io::Result<Option<MemoryReader>> {
    let known = registry().as_ref().and_then(|registry| {
        registry.memory.as_ref().map(|memory| (memory.reads_memory, memory.silent.contains_key(&pid)))
    });
    if let Some((reads_memory, is_silent)) = known
        && (!reads_memory || is_ours())
    {
        return if is_silent { Err(io::ErrorKind::TimedOut.into()) } else { Ok(None) };
    }
    process_reader(pid)
}

/// Returns a reader of the files of a process in `/proc`; `None` where this process reads them.
///
/// # Errors
/// `Unsupported` if there cannot be one.
pub(crate) fn process_reader(pid: Pid) -> io::Result<Option<MemoryReader>> {
    let mut registry = registry();
    let Some(Registry { command, spares, memory: Some(memory), .. }) = registry.as_mut() else {
        return Ok(None);
    };
    let of = |waited| memory.connections.iter().find(|helper| helper.waited == waited);
    let connection = match of(Some(pid)).or_else(|| of(None)) {
        Some(known) => Arc::clone(&known.connection),
        None if memory.connections.len() >= MAX_SYSTEMS => return Err(io::ErrorKind::Unsupported.into()),
        None => {
            let socket = helper(spares, command)?;
            let connection = Connection::to_started(socket, Arc::clone(&memory.waiting));
            memory.connections.push(MemoryHelper { connection: Arc::clone(&connection), waited: None });
            connection
        }
    };
    Ok(Some(MemoryReader { pid, connection }))
}

impl MemoryReader {
    /// Reads ranges, each an address and a length. Returns as many bytes of each as could be read.
    ///
    /// # Errors
    /// That of the first range; `TimedOut` if it is not read in time.
    pub(crate) fn read(&self, ranges: &[(u64, u64)]) -> io::Result<Vec<Vec<u8>>> {
        self.noting_silence(|connection| connection.read_memory(self.pid, ranges))
    }

    /// Opens, with `O_PATH`, what a link in its folder in `/proc` leads to.
    ///
    /// # Errors
    /// Those of opening it; `TimedOut` if it is not looked up in time.
    pub(super) fn open_link(&self, path: &Path) -> io::Result<File> {
        self.noting_silence(|connection| connection.open_link(path))
    }

    /// Opens a file of its folder in `/proc`.
    ///
    /// # Errors
    /// Those of opening it; `TimedOut` if it is not opened in time.
    pub(crate) fn open(self, path: &Path) -> io::Result<Box<dyn Read>> {
        let file = self.noting_silence(|connection| connection.open(path, Path::new(""), true))?;
        Ok(Box::new(ReaderThere { file, at: 0, reader: self }))
    }

    /// Leaves the process behind that reads, if it was waited for in vain: it reads for this process alone, once it answers.
    fn noting_silence<T>(&self, ask: impl FnOnce(&Arc<Connection>) -> io::Result<T>) -> io::Result<T> {
        let begin = Instant::now();
        let result = ask(&self.connection);
        let waited = begin.elapsed();
        if result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
            && let Some(memory) = registry().as_mut().and_then(|registry| registry.memory.as_mut())
            && waited >= memory.waiting.patience.answer
        {
            let mut helpers = memory.connections.iter_mut();
            let asked = helpers.find(|helper| Arc::ptr_eq(&helper.connection, &self.connection));
            // If it waits for another process, this one may be as ready as any.
            let is_its_fault = asked.is_some_and(|helper| *helper.waited.get_or_insert(self.pid) == self.pid);
            if is_its_fault && memory.silent.len() < MAX_COUNTED {
                *memory.silent.entry(self.pid).or_default() += waited;
            }
        }
        result
    }
}

/// A file of `/proc` that another process reads.
struct ReaderThere {
    reader: MemoryReader,
    file: SlowFile,
    at: u64,
}

impl Read for ReaderThere {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.noting_silence(|_| self.file.read_at(into, self.at))?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Starts `count` processes in advance, because this one is going to lose the right to. Must be called while there is one thread.
///
/// # Errors
/// Those of `socketpair(2)` and `fork(2)`.
pub fn prepare(count: usize) -> io::Result<()> {
    Mounts::learn_memory_mount();
    for _ in 0..count {
        let (ours, theirs) = helper_process::sockets()?;
        fork::serve_detached(&theirs, |socket| drop(super::serve(socket)))?;
        if let Some(registry) = registry().as_mut() {
            registry.spares.push(ours);
        }
    }
    Ok(())
}

/// Returns the file systems that did not answer so far.
pub fn silent_file_systems() -> Vec<SilentFileSystem> {
    let registry = registry();
    let silent = |system: &&System| !system.missed.is_empty();
    let systems = registry.iter().flat_map(|registry| registry.systems.iter().filter(silent));
    systems
        .map(|System { system, missed, .. }| SilentFileSystem {
            place: Name::from(system.place.as_slice()),
            kind: Name::from(system.kind.as_slice()),
            files: missed.len(),
        })
        .collect()
}

/// Returns the connection to the process that asks a file system.
///
/// # Errors
/// `Unsupported` if there cannot be one.
pub(super) fn connection(system: &FileSystem) -> io::Result<Arc<Connection>> {
    let mut registry = registry();
    let registry = registry.as_mut().ok_or(io::ErrorKind::Unsupported)?;
    if let Some(known) = registry.systems.iter().find(|known| known.system.device == system.device) {
        return Ok(Arc::clone(&known.connection));
    }
    if registry.systems.len() >= MAX_SYSTEMS {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let socket = helper(&mut registry.spares, &registry.command)?;
    let connection = Connection::to_started(socket, Arc::clone(&registry.waiting));
    let system =
        System { system: system.clone(), connection: Arc::clone(&connection), missed: HashSet::new() };
    registry.systems.push(system);
    Ok(connection)
}

/// Returns the socket of a process that was started in advance, or of one that is started now.
fn helper(spares: &mut Vec<File>, command: &[String]) -> io::Result<File> {
    spares.pop().map_or_else(|| Ok(helper_process::start(command)?.0), Ok)
}

/// Notes that a file could not be read, as its file system does not answer.
pub(super) fn note_missed(system: &FileSystem, path: &Path) {
    use std::os::unix::ffi::OsStrExt;
    let mut registry = registry();
    let systems = registry.iter_mut().flat_map(|registry| &mut registry.systems);
    if let Some(known) = systems.into_iter().find(|known| known.system.device == system.device)
        && known.missed.len() < MAX_COUNTED
    {
        let path = path.strip_prefix("/").unwrap_or(path);
        known.missed.insert(path.as_os_str().as_bytes().to_vec());
    }
}

fn registry() -> MutexGuard<'static, Option<Registry>> {
    // No code panics while it holds the lock; if it did, the registry would still be consistent.
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for SilentFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, kind, files } = self;
        match (kind.as_bytes(), place.as_bytes()) {
            (b"", _) => f.write_str("a file system that is not mounted here any more did not answer")?,
            _ => write!(f, "the file system at {place} ({kind}) did not answer")?,
        }
        let noun = if *files == 1 { "file" } else { "files" };
        write!(f, " in time: {files} {noun} on it could not be read")
    }
}
