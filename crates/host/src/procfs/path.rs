//! Paths of processes and threads in `/proc`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::{Pid, Tid};

use crate::sys::perf_event::own_pid;
use crate::sys::system::shows_our_pids;

/// Returns the path of a file that describes a process; for the number of a thread, of one that describes the thread.
///
/// # Errors
/// `Unsupported` if `/proc` is that of another pid namespace, in which the number belongs to another process.
pub(crate) fn path(pid: Pid, name: &str) -> io::Result<PathBuf> {
    if pid == own_pid() {
        return Ok(PathBuf::from(format!("/proc/self/{name}")));
    }
    match shows_our_pids() {
        true => Ok(PathBuf::from(format!("/proc/{pid}/{name}"))),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Returns the path of a file that describes what the threads of a process share: its memory, root, program, namespaces and open
/// files. The kernel has it for living threads alone: the main thread may end before the others (`pthread_exit` in `main`).
///
/// # Errors
/// As [`path`].
pub(crate) fn shared_path(pid: Pid, name: &str) -> io::Result<PathBuf> {
    let own = path(pid, name)?;
    // A refusal is no proof that the thread has ended. A kernel thread has no program either, and no other threads.
    if pid == own_pid() || !program(pid).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(own);
    }
    living_thread(pid, &super::threads(pid)?).map_or(Ok(own), |tid| path(tid, name))
}

/// Calls `read` with the path of such a file, and looks for a living thread only if that is not found: twice as fast as
/// [`shared_path`] for links, which are not found once their thread has ended. Of memory the kernel then shows nothing, without an
/// error.
///
/// # Errors
/// Those of `read`; as [`path`].
pub(crate) fn read_shared<T>(pid: Pid, name: &str, read: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let found = read(&path(pid, name)?);
    let is_missing = found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if !is_missing || pid == own_pid() {
        return found;
    }
    let threads = super::threads(pid)?;
    if threads.len() < 2 || program(pid).is_ok() {
        return found;
    }
    living_thread(pid, &threads).map_or(found, |tid| read(&path(tid, name)?))
}

/// Returns one of these threads of a process that is not its main thread and has not ended.
fn living_thread(pid: Pid, threads: &[Tid]) -> Option<Pid> {
    let mut others = threads.iter().map(|tid| Pid(tid.0)).filter(|&tid| tid != pid);
    others.find(|&tid| program(tid).is_ok())
}

fn program(pid: Pid) -> io::Result<PathBuf> {
    path(pid, "exe").and_then(fs::read_link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_number_and_by_that_of_its_living_threads() {
        let own = own_pid();
        assert_eq!(path(own, "maps").unwrap(), PathBuf::from("/proc/self/maps"));
        assert_eq!(shared_path(own, "root").unwrap(), PathBuf::from("/proc/self/root"));
        assert_eq!(path(Pid(1), "stat").unwrap(), PathBuf::from("/proc/1/stat"));
        // A kernel thread.
        assert_eq!(shared_path(Pid(2), "maps").unwrap(), PathBuf::from("/proc/2/maps"));
        assert!(shared_path(Pid(i32::MAX), "maps").is_err(), "nobody has this number");
        let root = |pid| read_shared(pid, "root", |path| fs::read_link(path));
        assert_eq!(root(own).unwrap(), fs::read_link("/proc/self/root").unwrap());
        assert_eq!(root(Pid(i32::MAX)).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
