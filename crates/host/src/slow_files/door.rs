//! Opens files, each where it may be opened: here, or by another process.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use model::Pid;

use super::{OpenFile, registry};
use crate::in_root::{self, open_path};
use crate::mounts::{FileSystem, Mounts};
use crate::sys::perf_event::own_pid;

/// Opens the regular file at a path, which may lead through a process: `/proc/PID/root/…`, `/proc/PID/map_files/…`. Where no file
/// system is mounted that may not answer, that is the only question asked before.
///
/// # Errors
/// Those of `open(2)`; `InvalidInput` for what is empty or not a regular file, `TimedOut` if its file system does not answer.
pub(crate) fn open(path: &Path) -> io::Result<OpenFile> {
    let path = std::path::absolute(path)?;
    let (pid, root, below) = match through_process(&path) {
        Some((pid, Some(below))) => (pid, PathBuf::from(format!("/proc/{pid}/root")), below),
        Some((pid, None)) => return open_link(&path, &Mounts::of_process(pid)),
        None => (own_pid(), PathBuf::from("/"), path.clone()),
    };
    let mounts = Mounts::of_process(pid);
    if mounts.are_local() {
        // Opening a device has side effects, and opening a pipe without a writer blocks.
        in_root::check_regular(&std::fs::metadata(&path)?)?;
        let file =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(&path)?;
        in_root::check_regular(&file.metadata()?)?;
        return Ok(OpenFile::Here(file));
    }
    let met = RefCell::new(None);
    let folder = open_path(&root)?;
    let found = in_root::open_target(&folder, &below, &|folder, name| {
        let system = mounts.slow_on_the_way(folder, name);
        let may_enter = system.is_none();
        met.replace(system);
        may_enter
    });
    match (found, met.into_inner()) {
        (Ok(found), _) => in_root::open_regular(&found).map(OpenFile::Here),
        (Err(error), Some(system)) if error.kind() == io::ErrorKind::Unsupported => {
            ask(&system, &root, &below)
        }
        (Err(error), _) => Err(error),
    }
}

/// Returns the path to a regular file without links; the path itself if it does not lead to one here.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let real = match open(path) {
        Ok(OpenFile::Here(file)) => std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok(),
        Ok(OpenFile::There(_)) | Err(_) => None,
    };
    real.unwrap_or_else(|| path.to_owned())
}

/// Has the process for a file system open a file: `path` below `root`, or `root` itself for an empty path.
///
/// # Errors
/// As [`open`].
pub(crate) fn ask(system: &FileSystem, root: &Path, path: &Path) -> io::Result<OpenFile> {
    ask_for(system, root, path, true)
}

/// Does the same as [`ask`]; without `follow`, a link at the end of the path is no file.
///
/// # Errors
/// As [`open`].
pub(crate) fn ask_for(system: &FileSystem, root: &Path, path: &Path, follow: bool) -> io::Result<OpenFile> {
    let opened = registry::connection(system).and_then(|connection| connection.open(root, path, follow));
    // A link of /proc is another way to a file that is asked for by its path, too.
    if opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
        && !path.as_os_str().is_empty()
    {
        registry::note_missed(system, path);
    }
    opened.map(OpenFile::There)
}

/// Opens, with `O_PATH`, what a link of `/proc` leads to. Those in `map_files` are looked up under the lock of the process's memory: the
/// process that reads it opens them.
///
/// # Errors
/// Those of `open(2)`; `TimedOut` if it is not looked up in time.
pub(crate) fn follow_link(path: &Path) -> io::Result<File> {
    let is_of_memory = path.parent().is_some_and(|folder| folder.ends_with("map_files"));
    let pid = through_process(path).filter(|(pid, _)| is_of_memory && *pid != own_pid());
    match pid.map(|(pid, _)| registry::process_reader(pid)).transpose()?.flatten() {
        Some(reader) => reader.open_link(path),
        None => open_path(path),
    }
}

/// Opens what a link of `/proc` leads to for reading.
fn open_link(path: &Path, mounts: &Mounts) -> io::Result<OpenFile> {
    if mounts.may_call_for_links() {
        return ask(&FileSystem::unknown(), path, Path::new(""));
    }
    let found = follow_link(path)?;
    match mounts.slow_system(&found) {
        Some(system) => ask(&system, path, Path::new("")),
        None => in_root::open_regular(&found).map(OpenFile::Here),
    }
}

/// Returns the process that a path leads through, and the path below its root; `None` for another file in its folder.
fn through_process(path: &Path) -> Option<(Pid, Option<PathBuf>)> {
    let mut parts = path.components();
    let first = parts.by_ref().nth(1)?;
    if first != Component::Normal("proc".as_ref()) {
        return None;
    }
    let pid =
        parts.next().and_then(|part| std::str::from_utf8(part.as_os_str().as_bytes()).ok()?.parse().ok());
    let below = parts.next().filter(|part| part.as_os_str() == "root");
    let pid = pid.map_or_else(own_pid, Pid);
    Some((pid, below.map(|_| parts.as_path().to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_through_processes() {
        let through = |path| through_process(Path::new(path));
        assert_eq!(through("/usr/bin/proc"), None);
        assert_eq!(through("/proc/7/root/usr/lib"), Some((Pid(7), Some("usr/lib".into()))));
        assert_eq!(through("/proc/7/map_files/0-1"), Some((Pid(7), None)));
        assert_eq!(through("/proc/self/exe"), Some((own_pid(), None)));
    }
}
