//! Reads processes and threads from `/proc`.

mod life;
mod lineage;
mod maps;
mod path;
mod status;
mod syscall_state;

use std::fs;
use std::io;
use std::path::PathBuf;

use model::{Pid, Tid};

use crate::sys::system::shows_our_pids;

pub use life::{TaskState, busy_time, context_switches, cpu_time, life, task_state};
pub use lineage::{Lineage, lineage};
pub use maps::{MapEntry, executable_maps};
pub(crate) use path::{path, shared_path};
pub use status::{Capability, Status, allowed_cpus, own_status, status};
pub use syscall_state::{SyscallState, descriptor_target, syscall_state};

/// Lists all processes, ascending.
///
/// # Errors
/// `/proc` cannot be read, or is that of another pid namespace.
pub fn processes() -> io::Result<Vec<Pid>> {
    if !shows_our_pids() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    numbers("/proc".into()).map(|numbers| numbers.into_iter().map(Pid).collect())
}

/// Lists the threads of a process, ascending.
///
/// # Errors
/// `ENOENT` if there is no such process.
pub fn threads(pid: Pid) -> io::Result<Vec<Tid>> {
    numbers(path(pid, "task")?).map(|numbers| numbers.into_iter().map(Tid).collect())
}

/// Reads the name of a thread without the line feed: at most 15 arbitrary bytes.
///
/// # Errors
/// The thread has ended.
pub fn comm(pid: Pid, tid: Tid) -> io::Result<Vec<u8>> {
    let mut comm = fs::read(path(pid, &format!("task/{tid}/comm"))?)?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    Ok(comm)
}

/// Returns how long a thread has run and how long it waited for a CPU, in nanoseconds, and how often it was switched in
/// (`/proc/TID/schedstat`).
///
/// # Errors
/// The thread has ended, or the kernel does not count.
pub fn schedstat(tid: Tid) -> io::Result<[u64; 3]> {
    let text = fs::read_to_string(path(Pid(tid.0), "schedstat")?)?;
    let mut numbers = text.split_ascii_whitespace().map_while(|number| number.parse().ok());
    let mut next = || numbers.next().ok_or(io::ErrorKind::InvalidData);
    Ok([next()?, next()?, next()?])
}

/// Returns device and inode of the namespaces of a process, in the order of `PERF_RECORD_NAMESPACES`: net, uts, ipc, pid, user,
/// mnt, cgroup. `None` if the process has ended, or we may not read it.
pub fn namespaces(pid: Pid) -> Option<[[u64; 2]; 7]> {
    use std::os::unix::fs::MetadataExt;
    let mut links = [[0; 2]; 7];
    for (link, name) in links.iter_mut().zip(["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"]) {
        let metadata = fs::metadata(shared_path(pid, &format!("ns/{name}")).ok()?).ok()?;
        *link = [metadata.dev(), metadata.ino()];
    }
    Some(links)
}

/// Identifies what paths mean to a process: the inode of its mount namespace and the path of its root in our view. Reading them
/// calls no file system, which might not answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PathView {
    namespace: u64,
    root: PathBuf,
}

/// Reads the path view of a process.
///
/// # Errors
/// The process has ended, or we may not read it.
pub fn path_view(pid: Pid) -> io::Result<PathView> {
    use std::os::unix::fs::MetadataExt;
    let namespace = fs::metadata(shared_path(pid, "ns/mnt")?)?.ino();
    Ok(PathView { namespace, root: fs::read_link(shared_path(pid, "root")?)? })
}

/// Opens the root folder of a process with `O_PATH`, to resolve paths below it.
///
/// # Errors
/// The process has ended, or we may not read it.
pub fn root_folder(pid: Pid) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(shared_path(pid, "root")?)
}

/// Returns the cgroup path of a process in the hierarchy of version 2. If that is the root or missing, returns the longest path of
/// the hierarchies of version 1.
///
/// # Errors
/// `ENOENT` if there is no such process.
pub fn cgroup(pid: Pid) -> io::Result<Vec<u8>> {
    Ok(cgroup_in(&fs::read(path(pid, "cgroup")?)?))
}

/// Parses lines `NUMBER:CONTROLLERS:PATH` (cgroups(7)).
fn cgroup_in(text: &[u8]) -> Vec<u8> {
    let path = |line: &[u8]| {
        let mut fields = line.splitn(3, |&byte| byte == b':');
        let number = fields.next()?.to_vec();
        Some((number == b"0", fields.nth(1)?.to_vec()))
    };
    let paths: Vec<(bool, Vec<u8>)> = text.split(|&byte| byte == b'\n').filter_map(path).collect();
    let of_2 = paths.iter().find(|(is_2, path)| *is_2 && path.len() > 1);
    let of_1 = || paths.iter().max_by_key(|(_, path)| path.len());
    of_2.or_else(of_1).map_or_else(Vec::new, |(_, path)| path.clone())
}

fn numbers(folder: PathBuf) -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        // If the process ends meanwhile, its folder lists no more threads; those already read are returned.
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
