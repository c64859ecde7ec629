//! Processes and threads as `/proc` shows them.

mod life;
mod lineage;
mod maps;
mod status;

use std::fs;
use std::io;
use std::path::PathBuf;

use model::{Pid, Tid};

pub use life::{busy_time, cpu_time, life};
pub use lineage::{Lineage, lineage};
pub use maps::{MapEntry, executable_maps};
pub use status::{Capability, Status, allowed_cpus, holds_back, own_status, status};

/// All processes, ascending.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn processes() -> io::Result<Vec<Pid>> {
    numbers("/proc".into()).map(|numbers| numbers.into_iter().map(Pid).collect())
}

/// The threads of a process, ascending.
///
/// # Errors
/// `ENOENT` where there is no such process (any more).
pub fn threads(pid: Pid) -> io::Result<Vec<Tid>> {
    numbers(format!("/proc/{pid}/task").into()).map(|numbers| numbers.into_iter().map(Tid).collect())
}

/// A thread's name, without the line's end; at most 15 bytes of any kind.
///
/// # Errors
/// Where the thread has ended.
pub fn comm(pid: Pid, tid: Tid) -> io::Result<Vec<u8>> {
    let mut comm = fs::read(format!("/proc/{pid}/task/{tid}/comm"))?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    Ok(comm)
}

/// Device and inode of a process's namespaces, in the order of `PERF_RECORD_NAMESPACES`: net, uts, ipc, pid, user,
/// mnt, cgroup. `None` where it has ended or is not ours to look at.
pub fn namespaces(pid: Pid) -> Option<[[u64; 2]; 7]> {
    use std::os::unix::fs::MetadataExt;
    let mut links = [[0; 2]; 7];
    for (link, name) in links.iter_mut().zip(["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"]) {
        let metadata = fs::metadata(format!("/proc/{pid}/ns/{name}")).ok()?;
        *link = [metadata.dev(), metadata.ino()];
    }
    Some(links)
}

fn numbers(folder: PathBuf) -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        // A thread that ends while we look ends the listing of its folder, not ours.
        let Ok(entry) = entry else { break };
        if let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::perf_event::own_pid;

    #[test]
    fn we_are_among_the_processes() {
        let own = own_pid();
        assert!(processes().unwrap().contains(&own));
        assert!(threads(own).unwrap().contains(&Tid(own.0)));
        assert!(!comm(own, Tid(own.0)).unwrap().is_empty());
        assert_eq!(threads(Pid(0)).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
