//! Finds the destination of a result: a file, or a stream such as a pipe or terminal.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::destination_error::DestinationError;
use super::folder::open_folder;
use super::trust::Trusted;
use crate::sys::directory::{Directory, Entry};
use crate::sys::{device, inherited};

/// The destination of a result, as an open folder or descriptor. Later changes of the path have no effect.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    kind: DestinationKind,
}

/// The two kinds of destinations.
#[derive(Debug)]
pub enum DestinationKind {
    /// A name in a folder, for a file that replaces an older file or link of that name when it is complete.
    Name(NameInFolder),
    /// A stream that is written sequentially: an inherited descriptor, a terminal, a named pipe, `/dev/null`.
    Stream(File),
}

/// A name in an open folder.
#[derive(Debug)]
pub struct NameInFolder {
    pub(super) folder: Directory,
    pub(super) name: CString,
}

impl NameInFolder {
    /// Returns a name in a folder that is open already.
    ///
    /// # Errors
    /// Those of `dup(2)`.
    pub fn new(folder: &Directory, name: &CStr) -> io::Result<Self> {
        Ok(Self { folder: folder.try_clone()?, name: name.to_owned() })
    }

    /// Finds the folder and name of a file.
    ///
    /// # Errors
    /// [`DestinationError`]; [`DestinationError::Stream`] if the path is a stream.
    pub fn find(path: &Path) -> Result<Self, DestinationError> {
        match resolve(path, &Trusted::for_this_process())? {
            PathTarget::Name(name) => Ok(name),
            PathTarget::Descriptor(_) | PathTarget::Pipe(_) | PathTarget::Device(_) => {
                Err(DestinationError::Stream)
            }
        }
    }
}

impl Destination {
    /// Finds the destination at `path`.
    ///
    /// The last component is never followed: a link there will be replaced. The exceptions are names of descriptors of this process
    /// (`/dev/stdout`, `/dev/stderr`, `/dev/fd/N`, `/proc/self/fd/N`). If `path` is a named pipe without reader, calls `waiting` and
    /// blocks until one opens it. Must be called before signals are blocked, so that they can end the wait.
    ///
    /// # Errors
    /// [`DestinationError`].
    pub fn find(path: &Path, waiting: impl FnOnce()) -> Result<Self, DestinationError> {
        let kind = match resolve(path, &Trusted::for_this_process())? {
            PathTarget::Name(name) => DestinationKind::Name(name),
            PathTarget::Descriptor(number) => DestinationKind::Stream(descriptor(number)?),
            PathTarget::Pipe(pipe) => {
                let path = pipe.proc_path();
                let at_once = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path);
                // ENXIO: the pipe has no reader (fifo(7)).
                if at_once.is_err_and(|error| error.raw_os_error() == Some(libc::ENXIO)) {
                    waiting();
                }
                DestinationKind::Stream(OpenOptions::new().write(true).open(path)?)
            }
            PathTarget::Device(device) => {
                let options = OpenOptions::new().write(true).custom_flags(libc::O_NOCTTY).clone();
                DestinationKind::Stream(options.open(device.proc_path())?)
            }
        };
        Ok(Self { path: path.to_owned(), kind })
    }

    /// Returns standard output as the destination.
    ///
    /// # Errors
    /// [`DestinationError::NotOpen`].
    pub fn standard_output() -> Result<Self, DestinationError> {
        Ok(Self { path: PathBuf::from("standard output"), kind: DestinationKind::Stream(descriptor(1)?) })
    }

    /// Returns the path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open folder or stream.
    pub fn into_kind(self) -> DestinationKind {
        self.kind
    }

    /// Returns true if the destination and standard output are the same file, so that output of both would be mixed.
    pub fn is_standard_output(&self) -> bool {
        let DestinationKind::Stream(stream) = &self.kind else { return false };
        let (Ok(stream), Ok(stdout)) = (stream.metadata(), std::fs::metadata("/proc/self/fd/1")) else {
            return false;
        };
        // Output to a device that discards it cannot be mixed.
        let keeps = !stream.file_type().is_char_device() || device::is_terminal(stream.rdev());
        keeps && (stream.dev(), stream.ino()) == (stdout.dev(), stdout.ino())
    }
}

/// Opens a named pipe of a trusted user for reading and writing, without blocking. The pipe stays open when the other end is closed.
///
/// # Errors
/// [`DestinationError::NoPipe`] if the path is not a named pipe, and those of [`Destination::find`].
pub fn open_pipe_read_write(path: &Path) -> Result<File, DestinationError> {
    match resolve(path, &Trusted::for_this_process())? {
        PathTarget::Pipe(pipe) => {
            let options = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).clone();
            Ok(options.open(pipe.proc_path())?)
        }
        PathTarget::Name(_) | PathTarget::Descriptor(_) | PathTarget::Device(_) => {
            Err(DestinationError::NoPipe(path.to_owned()))
        }
    }
}

/// The kind of file at a path, determined before it is opened.
enum PathTarget {
    /// Nothing, or a file or link that can be replaced.
    Name(NameInFolder),
    /// A descriptor of this process.
    Descriptor(i32),
    /// A named pipe of a trusted user.
    Pipe(Entry),
    /// A device that may be written to.
    Device(Entry),
}

fn resolve(path: &Path, trusted: &Trusted) -> Result<PathTarget, DestinationError> {
    if let Some(number) = descriptor_number(path) {
        return Ok(PathTarget::Descriptor(number));
    }
    let (folder, name) = open_folder(path, trusted)?;
    let Some(name) = name else { return Err(DestinationError::Directory) };
    let entry = match folder.look_at(&name) {
        Ok(entry) => entry,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(PathTarget::Name(NameInFolder { folder, name }));
        }
        Err(error) => return Err(error.into()),
    };
    let what = entry.metadata()?;
    let kind = what.file_type();
    if kind.is_symlink() {
        // For example `stdout`, if the folder is `/dev` by whatever path.
        let real = folder.path()?.join(OsStr::from_bytes(name.to_bytes()));
        if let Some(number) = descriptor_number(&real) {
            return Ok(PathTarget::Descriptor(number));
        }
    }
    if kind.is_symlink() || kind.is_file() {
        Ok(PathTarget::Name(NameInFolder { folder, name }))
    } else if kind.is_dir() {
        Err(DestinationError::Directory)
    } else if kind.is_socket() {
        Err(DestinationError::Socket)
    } else if kind.is_block_device() {
        Err(DestinationError::Device { kind: "block" })
    } else if kind.is_char_device() {
        let is_allowed = device::is_sink(what.rdev()) || device::is_terminal(what.rdev());
        if is_allowed {
            Ok(PathTarget::Device(entry))
        } else {
            Err(DestinationError::Device { kind: "character" })
        }
    } else if trusted.owns(&what) && what.nlink() == 1 {
        Ok(PathTarget::Pipe(entry))
    } else {
        // A second hard link may have been created by anybody.
        let owner = (!trusted.owns(&what)).then(|| what.uid());
        Err(DestinationError::ForeignPipe { owner })
    }
}

/// Returns the number of the descriptor of this process that an absolute path refers to.
fn descriptor_number(path: &Path) -> Option<i32> {
    let own = std::process::id().to_string();
    let parts: Vec<&str> = path.components().map(|part| part.as_os_str().to_str()).collect::<Option<_>>()?;
    match parts[..] {
        ["/", "dev", "stdout"] => Some(1),
        ["/", "dev", "stderr"] => Some(2),
        ["/", "dev", "fd", number] | ["/", "proc", "self" | "thread-self", "fd", number] => {
            number.parse().ok()
        }
        ["/", "proc", pid, "fd", number] if pid == own => number.parse().ok(),
        _ => None,
    }
}

fn descriptor(number: i32) -> Result<File, DestinationError> {
    inherited::descriptor(number).map_err(|error| match error.raw_os_error() {
        Some(libc::EBADF) => DestinationError::NotOpen { number },
        _ => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;
    use std::process::Command;

    fn find(path: &Path) -> Result<DestinationKind, DestinationError> {
        Destination::find(path, || ()).map(Destination::into_kind)
    }

    fn is_name(path: &Path) -> bool {
        matches!(find(path), Ok(DestinationKind::Name(_)))
    }

    fn make_pipe(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn the_last_component_is_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prof.data");
        assert!(is_name(&path));
        for target in ["/dev/null", "/etc/passwd", "/nowhere", "/dev/stdout", "/proc/self/fd/1", "."] {
            symlink(target, &path).unwrap();
            assert!(is_name(&path), "{target}");
            fs::remove_file(&path).unwrap();
        }
        fs::write(&path, "").unwrap();
        assert!(is_name(&path));
    }

    #[test]
    fn folders_are_no_destinations() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inside")).unwrap();
        for end in ["", "/", "/.", "/..", "/inside", "/inside/", "/inside/.."] {
            let path = PathBuf::from(format!("{}{end}", folder.path().display()));
            assert!(matches!(find(&path), Err(DestinationError::Directory)), "{end}");
        }
        let missing = folder.path().join("missing");
        for path in [missing.join(""), missing.join("x"), missing.join("x/y")] {
            assert!(
                matches!(find(&path), Err(DestinationError::NoFolder { missing: found, .. }) if found == missing)
            );
        }
        fs::write(folder.path().join("file"), "").unwrap();
        let below = folder.path().join("file/out.svg");
        assert_eq!(find(&below).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(find(Path::new("")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn own_links_on_the_way_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        symlink("a", folder.path().join("relative")).unwrap();
        symlink(folder.path().join("relative/b"), folder.path().join("absolute")).unwrap();
        symlink("loop", folder.path().join("loop")).unwrap();
        for way in ["relative/b/../b/x", "absolute/x", "absolute/../../absolute//./x"] {
            let Ok(DestinationKind::Name(found)) = find(&folder.path().join(way)) else { panic!("{way}") };
            let real = folder.path().canonicalize().unwrap().join("a/b");
            assert_eq!(found.folder.path().unwrap(), real, "{way}");
        }
        let error = find(&folder.path().join("loop/x")).unwrap_err();
        assert!(matches!(&error, DestinationError::Io(error) if error.raw_os_error() == Some(libc::ELOOP)));
        let Ok(DestinationKind::Name(found)) = find(Path::new("/proc/self/cwd/x")) else { panic!() };
        assert_eq!(found.folder.path().unwrap(), std::env::current_dir().unwrap());
    }

    #[test]
    fn links_of_others_on_the_way_are_not() {
        if crate::sys::system::effective_user() != 0 {
            println!("skipped: only root gives a link away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        let link = folder.path().join("link");
        symlink("a", &link).unwrap();
        assert!(is_name(&link.join("x")));
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        let error = find(&link.join("x")).unwrap_err();
        let expected = format!("{} is a link of user 65534", link.display());
        assert!(error.to_string().starts_with(&expected), "{error}");
    }

    #[test]
    fn own_descriptors_by_their_names() {
        for name in
            ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/../dev/stdout", "//proc/thread-self/fd/1"]
        {
            assert!(matches!(find(Path::new(name)), Ok(DestinationKind::Stream(_))), "{name}");
        }
        // Ours, which no caller can mean.
        use std::os::fd::AsRawFd;
        let own = File::create("/dev/null").unwrap();
        let error = find(Path::new(&format!("/dev/fd/{}", own.as_raw_fd()))).unwrap_err();
        assert!(matches!(error, DestinationError::NotOpen { .. }), "{error}");
        assert!(matches!(find(Path::new("/dev/fd/99999")), Err(DestinationError::NotOpen { number: 99999 })));
    }

    #[test]
    fn of_devices_only_sinks_are_written() {
        for name in ["/dev/null", "/dev/full", "/dev/zero"] {
            assert!(matches!(find(Path::new(name)), Ok(DestinationKind::Stream(_))), "{name}");
        }
        let error = find(Path::new("/dev/urandom")).unwrap_err();
        assert!(matches!(error, DestinationError::Device { kind: "character" }), "{error}");
    }

    #[test]
    fn a_pipe_is_written_when_somebody_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        make_pipe(&path);
        assert!(matches!(NameInFolder::find(&path), Err(DestinationError::Stream)));
        let reader = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut text = String::new();
                File::open(path).unwrap().read_to_string(&mut text).unwrap();
                text
            }
        });
        let Ok(DestinationKind::Stream(mut pipe)) = find(&path) else { panic!("no pipe") };
        pipe.write_all(b"result").unwrap();
        drop(pipe);
        assert_eq!(reader.join().unwrap(), "result");
    }

    #[test]
    fn a_pipe_that_others_may_have_put_there_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        make_pipe(&path);
        fs::hard_link(&path, folder.path().join("second")).unwrap();
        assert!(matches!(find(&path), Err(DestinationError::ForeignPipe { owner: None })));
        fs::remove_file(folder.path().join("second")).unwrap();
        if crate::sys::system::effective_user() == 0 {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            assert!(matches!(find(&path), Err(DestinationError::ForeignPipe { owner: Some(65534) })));
        }
    }
}
