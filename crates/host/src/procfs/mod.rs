//! Reads processes and threads from `/proc`.

mod path;
mod stat;
mod status;
mod syscall_state;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use model::{Pid, Tid};

use crate::sys::namespace;
use crate::sys::perf_event::own_pid;
use crate::sys::system::shows_our_pids;

pub(crate) use path::{path, read_shared, shared_path};
pub use stat::{Lineage, TaskState, busy_time, context_switches, cpu_time, life, lineage, task_state};
pub use status::{Capability, Status, allowed_cpus, own_status, status};
pub use syscall_state::{SyscallState, descriptor_target, has_open, syscall_state};

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
        let metadata = read_shared(pid, &format!("ns/{name}"), |path| fs::metadata(path)).ok()?;
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
    /// True if somebody without rights over us may have made it: see [`is_foreign`].
    pub is_foreign: bool,
}

impl PathView {
    /// Maximum number of views whose mounts are remembered, or whose root folders are kept open.
    pub const MAX: usize = 64;

    /// Returns our own view, read once; `None` if we may not read it.
    pub fn own() -> Option<&'static Self> {
        static OWN: OnceLock<Option<PathView>> = OnceLock::new();
        OWN.get_or_init(|| path_view(own_pid()).ok()).as_ref()
    }
}

/// Reads the path view of a process.
///
/// # Errors
/// The process has ended, or we may not read it.
pub fn path_view(pid: Pid) -> io::Result<PathView> {
    let namespace = namespace_inode(pid, "mnt")?;
    let root = read_shared(pid, "root", |path| fs::read_link(path))?;
    Ok(PathView { namespace, root, is_foreign: is_foreign_in(pid, namespace)? })
}

/// Returns true if paths of a process may mean what an unprivileged user likes: it is in another user namespace than we, where any
/// user may change root folders, or its mount namespace belongs to another one, where any user may mount. A mount namespace that is
/// ours, or whose owner we may not know because it has rights over us, is not foreign.
///
/// # Errors
/// The process has ended, or we may not read it.
pub fn is_foreign(pid: Pid) -> io::Result<bool> {
    is_foreign_in(pid, namespace_inode(pid, "mnt")?)
}

fn is_foreign_in(pid: Pid, mount_namespace: u64) -> io::Result<bool> {
    static OWN: OnceLock<Option<[u64; 2]>> = OnceLock::new();
    let own = || Some([namespace_inode(own_pid(), "user").ok()?, namespace_inode(own_pid(), "mnt").ok()?]);
    // Kernels without user namespaces lack the links.
    let Some([own_user, own_mounts]) = *OWN.get_or_init(own) else { return Ok(false) };
    if namespace_inode(pid, "user")? != own_user {
        return Ok(true);
    }
    if mount_namespace == own_mounts {
        return Ok(false);
    }
    match namespace::owning_user_namespace(&read_shared(pid, "ns/mnt", |path| fs::File::open(path))?) {
        Ok(owner) => Ok(owner != own_user),
        Err(error) => Ok(error.raw_os_error() != Some(libc::EPERM)),
    }
}

fn namespace_inode(pid: Pid, kind: &str) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(read_shared(pid, &format!("ns/{kind}"), |path| fs::metadata(path))?.ino())
}

/// Opens the root folder of a process with `O_PATH`, to resolve paths below it.
///
/// # Errors
/// The process has ended, or we may not read it.
pub fn root_folder(pid: Pid) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY);
    read_shared(pid, "root", |path| options.open(path))
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
