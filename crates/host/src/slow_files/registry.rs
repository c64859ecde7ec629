//! The processes that open files for this one, one for each file system.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Name;

use super::connection::Connection;
use super::patience::{Patience, WaitingTime};
use crate::helper_process;
use crate::mounts::{FileSystem, Mounts};
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
    *registry() = Some(Registry { command, waiting, spares: Vec::new(), systems: Vec::new() });
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
    let socket = match registry.spares.pop() {
        Some(socket) => socket,
        None => helper_process::start(&registry.command)?.0,
    };
    let connection = Arc::new(Connection::new(socket, Arc::clone(&registry.waiting)));
    let system =
        System { system: system.clone(), connection: Arc::clone(&connection), missed: HashSet::new() };
    registry.systems.push(system);
    Ok(connection)
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
