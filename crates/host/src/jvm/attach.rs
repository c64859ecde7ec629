//! The attach protocol of OpenJDK (`VirtualMachineImpl.java`, `attachListener_posix.cpp`). A file `.attach_pidN` and SIGQUIT make
//! the virtual machine listen at the socket `/tmp/.java_pidN`. A request is a list of NUL-terminated words, the answer a number
//! and a text.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use model::{Name, Pid};

use super::error::AttachError;
use super::options::JavaOptions;
use super::process::{JavaProcess, SIGQUIT};
use crate::in_root;
use crate::mounts::Mounts;
use crate::process_handle::ProcessHandle;
use crate::procfs;
use crate::sys::directory::{Directory, Entry};
use crate::sys::poll::LOOK_INTERVAL;
use crate::sys::{identity, peer};

/// The request: version of the protocol, operation, and three arguments.
const REQUEST: &[u8] = b"1\0jcmd\0Compiler.perfmap\0\0\0";
/// Maximum size of an answer: virtual machines send less.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Maximum length of the part of an answer that messages show.
const MAX_SHOWN_BYTES: usize = 200;
/// The folder of the socket, below the root of the process.
const SOCKET_FOLDER: &str = "tmp";

/// Requests a perf map. Changes the credentials of the calling thread for good, so the thread must end afterwards.
pub(super) fn request_perf_map(pid: Pid, deadline: Instant) -> Result<(), AttachError> {
    // Opened first, so that a later process with this pid gets no signal.
    let process = ProcessHandle::of_process(pid);
    let machine = JavaProcess::inspect(pid)?;
    machine.check_signal_handled().or_else(|why| match why {
        // A virtual machine that listens already needs no signal.
        AttachError::NoHandler => Ok(()),
        why => Err(why),
    })?;
    let options = JavaOptions::of_process(pid).map_err(AttachError::Unreadable)?;
    let files = ProcessFiles::open_root(pid).map_err(AttachError::Unreadable)?;
    identity::act_as(machine.user, machine.group).map_err(|_| AttachError::OtherUser)?;
    let socket = match files.socket(&machine)? {
        Some(socket) => {
            files.remove_attach_file(&machine);
            socket
        }
        None => {
            if options.disable_attaching(|path| files.open(path)) {
                return Err(AttachError::Disabled);
            }
            start_listener(&machine, &process, &files, deadline)?
        }
    };
    send_request(&socket, &machine, deadline)
}

/// Opens files as the process sees them, below its root.
struct ProcessFiles {
    root: File,
    /// The path of the working folder, below the root.
    working: PathBuf,
    current: Option<Directory>,
    mounts: Arc<Mounts>,
}

impl ProcessFiles {
    fn open_root(pid: Pid) -> io::Result<Self> {
        let root = procfs::root_folder(pid)?;
        let top = std::fs::read_link(procfs::shared_path(pid, "root")?)?;
        // The link is a path in our view, or below the process's root if that is in another mount namespace.
        let working = std::fs::read_link(procfs::shared_path(pid, "cwd")?)?;
        let mounts = Mounts::of_process(pid);
        let folder = procfs::shared_path(pid, "cwd")?;
        let folder = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(folder)?;
        if mounts.is_fuse(&folder) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let working = working.strip_prefix(&top).map(Path::to_path_buf).unwrap_or(working);
        let current = Directory::root()
            .and_then(|root| root.enter(c"proc")?.enter(&number(pid))?.enter_following(c"cwd"));
        Ok(Self { root, working, current: current.ok(), mounts })
    }

    /// Opens a path as the process resolves it (`O_PATH`).
    fn open(&self, path: &Path) -> io::Result<File> {
        // `join` ignores the working folder if the path is absolute.
        in_root::open(&self.root, &self.working.join(path), &|folder, _| !self.mounts.is_fuse(folder))
    }

    fn open_named(&self, name: &CStr) -> io::Result<File> {
        self.open(&Path::new("/").join(SOCKET_FOLDER).join(OsStr::from_bytes(name.to_bytes())))
    }

    /// Opens its `/tmp`, following links.
    fn folder(&self) -> io::Result<Directory> {
        let mut path = Path::new("/").join(SOCKET_FOLDER);
        for _ in 0..8 {
            let found = self.open(&path)?;
            if !found.metadata()?.is_symlink() {
                return Ok(Directory::from(found));
            }
            let target = Entry::from(found).link_target()?;
            path = path.parent().unwrap_or(Path::new("/")).join(target);
        }
        Err(io::Error::from_raw_os_error(libc::ELOOP))
    }

    /// Finds the socket of the virtual machine; `None` if it does not listen yet.
    fn socket(&self, machine: &JavaProcess) -> Result<Option<File>, AttachError> {
        let name = machine.socket_name();
        match self.open_named(&name) {
            Ok(found) => {
                let facts = found.metadata().map_err(AttachError::Unreadable)?;
                let is_its_own = facts.file_type().is_socket() && machine.owns(facts.uid());
                if is_its_own { Ok(Some(found)) } else { Err(AttachError::NameTaken(shown(&name))) }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(AttachError::CannotCreate(shown(&name), error)),
        }
    }

    /// Removes the attach file that an earlier request may have left: the virtual machine listens.
    fn remove_attach_file(&self, machine: &JavaProcess) {
        let name = machine.attach_name();
        let is_left = self
            .open_named(&name)
            .and_then(|found| found.metadata())
            .is_ok_and(|facts| facts.is_file() && machine.owns(facts.uid()));
        // It is empty, and does no harm where it cannot be removed.
        let _ = is_left.then(|| self.folder().map(|folder| folder.remove(&name)));
    }

    /// Checks that the working folder has no foreign attach file: the virtual machine looks there first.
    fn check_working_folder(&self, machine: &JavaProcess) -> Result<(), AttachError> {
        let name = machine.attach_name();
        let Some(found) = self.current.as_ref().and_then(|folder| folder.look_at(&name).ok()) else {
            return Ok(());
        };
        let is_its_own = found.metadata().is_ok_and(|facts| facts.is_file() && machine.owns(facts.uid()));
        if is_its_own { Ok(()) } else { Err(AttachError::NameTaken(Name::from(name.to_bytes()))) }
    }
}

/// Makes the virtual machine listen, waits for its socket and returns it.
fn start_listener(
    machine: &JavaProcess,
    process: &ProcessHandle,
    files: &ProcessFiles,
    deadline: Instant,
) -> Result<File, AttachError> {
    let name = machine.attach_name();
    let cannot = |error| AttachError::CannotCreate(shown(&name), error);
    files.check_working_folder(machine)?;
    machine.check_signal_handled()?;
    let folder = files.folder().map_err(cannot)?;
    let mut guard = AttachFileGuard { folder: &folder, name: None };
    match folder.create_new(&name, 0o600) {
        Ok(_) => guard.name = Some(&name),
        // Another program attaches now, or was killed while attaching.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(cannot(error)),
    }
    // Without the file, SIGQUIT makes the virtual machine print its threads.
    let seen = files.open_named(&name).and_then(|seen| seen.metadata()).map_err(cannot)?;
    if !seen.is_file() || !machine.owns(seen.uid()) {
        return Err(AttachError::NameTaken(shown(&name)));
    }
    guard.name = Some(&name);
    machine.check_signal_handled()?;
    process.send(SIGQUIT).map_err(AttachError::Connection)?;
    while Instant::now() < deadline {
        if let Some(socket) = files.socket(machine)? {
            return Ok(socket);
        }
        thread::sleep(LOOK_INTERVAL);
    }
    // It stands still, or has no CPU time. When it sees the signal, it looks for the file.
    guard.name = None;
    Err(AttachError::NoAnswer)
}

/// Removes the attach file when dropped.
struct AttachFileGuard<'a> {
    folder: &'a Directory,
    name: Option<&'a CStr>,
}

impl Drop for AttachFileGuard<'_> {
    fn drop(&mut self) {
        // The folder may have been removed.
        let _ = self.name.map(|name| self.folder.remove(name));
    }
}

/// Sends the request if the virtual machine itself has bound the socket, and waits for the answer.
fn send_request(socket: &File, machine: &JavaProcess, deadline: Instant) -> Result<(), AttachError> {
    // Through the descriptor, because the name may refer to another file by now.
    let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
    let mut stream = UnixStream::connect(path).map_err(AttachError::Connection)?;
    let listener = peer::credentials(stream.as_fd()).map_err(AttachError::Connection)?;
    if listener.process != machine.pid {
        return Err(AttachError::Impostor(shown(&machine.socket_name())));
    }
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(AttachError::NoAnswer) } else { Ok(Some(left)) }
    };
    stream.set_write_timeout(left()?).map_err(AttachError::Connection)?;
    stream.write_all(REQUEST).map_err(failed)?;
    let mut answer = Vec::new();
    let mut block = [0; 4096];
    while answer.len() < MAX_ANSWER_BYTES {
        stream.set_read_timeout(left()?).map_err(AttachError::Connection)?;
        match stream.read(&mut block) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(block.get(..count).unwrap_or(&block)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    parse_answer(&answer)
}

fn failed(error: io::Error) -> AttachError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AttachError::NoAnswer,
        _ => AttachError::Connection(error),
    }
}

/// Parses an answer: its first line is 0 on success.
fn parse_answer(answer: &[u8]) -> Result<(), AttachError> {
    let mut parts = answer.splitn(2, |&byte| byte == b'\n');
    let (code, text) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default().trim_ascii());
    let says = |words: &[u8]| text.windows(words.len()).any(|part| part == words);
    if says(b"Unknown diagnostic command") {
        return Err(AttachError::TooOld);
    }
    if code == b"0" {
        return Ok(());
    }
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    Err(AttachError::Refused(Name::from(line.get(..MAX_SHOWN_BYTES).unwrap_or(line))))
}

/// Returns the path in `/tmp`, for messages.
fn shown(name: &CStr) -> Name {
    Name::from([b"/tmp/", name.to_bytes()].concat().as_slice())
}

fn number(pid: Pid) -> std::ffi::CString {
    std::ffi::CString::new(pid.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_whether_it_was_done() {
        assert!(parse_answer(b"0\n").is_ok());
        assert!(parse_answer(b"0\nwritten to /tmp/perf-1.map\n").is_ok());
        let old = b"1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n";
        assert!(matches!(parse_answer(old), Err(AttachError::TooOld)));
        let no = parse_answer(b"101\nno \x1b[2J\nmore").unwrap_err().to_string();
        assert!(no.starts_with("it answers: no ") && !no.contains('\x1b') && !no.contains("more"), "{no}");
        assert!(matches!(parse_answer(b""), Err(AttachError::Refused(_))));
    }
}
