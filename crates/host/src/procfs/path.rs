//! Paths of processes and threads in `/proc`.

use std::fs;
use std::io;
use std::path::PathBuf;

use model::Pid;

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
    if pid == own_pid() {
        return Ok(own);
    }
    let has_program = |pid: Pid| path(pid, "exe").and_then(fs::read_link);
    // A refusal is no proof that the thread has ended. A kernel thread has no program either, and no other threads.
    if !has_program(pid).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Ok(own);
    }
    let mut others = super::threads(pid)?.into_iter().map(|tid| Pid(tid.0)).filter(|&tid| tid != pid);
    let living = others.find(|&tid| has_program(tid).is_ok());
    living.map_or(Ok(own), |tid| path(tid, name))
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
    }
}
