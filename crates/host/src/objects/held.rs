//! Files that are kept open while recording, because their paths may lead elsewhere or nowhere when names are looked for:
//! programs below `/tmp`, in memory, in containers, and such as are built anew.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use model::{ObjectIdentity, Pid};

use super::blocks::BlockBytes;
use super::bytes::ObjectSource;
use crate::in_root;
use crate::mounts::Mounts;
use crate::sys::limits;
use crate::sys::perf_event::own_pid;

/// Files that are kept open at the most.
const MOST_FILES: u64 = 256;
/// The part of the descriptors that we may have which may be used for them: one in so many.
const PART_OF_DESCRIPTORS: u64 = 8;
/// Objects that are remembered, held or not.
const MOST_KNOWN: usize = 4096;
/// The number of times that a file is looked for: by the first process that maps it, and by some more should that one have ended already.
const MOST_LOOKS: u8 = 8;
/// Folders whose files are not meant to stay.
const PASSING: [&[u8]; 4] = [b"/tmp/", b"/var/tmp/", b"/dev/shm/", b"/memfd:"];
/// The text that the kernel puts behind the path of a file without a name.
const DELETED: &[u8] = b" (deleted)";

/// Files by what a recording knows of them.
#[derive(Default, Debug)]
pub struct HeldFiles {
    files: HashMap<ObjectIdentity, HeldFile>,
    /// The number of times that each was looked for.
    looks: HashMap<ObjectIdentity, u8>,
}

#[derive(Debug)]
struct HeldFile {
    file: File,
    size: u64,
    /// Nanoseconds.
    modified: i128,
}

/// The place at which a process has mapped a file.
#[derive(Clone, Copy, Debug)]
pub struct MappedAt<'a> {
    /// The process.
    pub pid: Pid,
    /// The first address.
    pub start: u64,
    /// The first address behind.
    pub end: u64,
    /// The root folder in which the path is to be looked for, where it is not ours.
    pub root: Option<&'a File>,
}

impl HeldFiles {
    /// Keeps a file open that a process has mapped. It must be the one that `identity` names by its build id or inode;
    /// nothing but regular files is opened, and none of a file system that a program serves.
    pub fn hold(&mut self, identity: &ObjectIdentity, at: &MappedAt<'_>) {
        let most = (limits::open_files().current / PART_OF_DESCRIPTORS).min(MOST_FILES);
        if self.files.len() as u64 >= most || self.files.contains_key(identity) {
            return;
        }
        let is_new = !self.looks.contains_key(identity);
        if is_new && self.looks.len() >= MOST_KNOWN {
            return;
        }
        let looks = self.looks.entry(identity.clone()).or_default();
        if *looks >= MOST_LOOKS {
            return;
        }
        *looks += 1;
        let mounts = Mounts::of(at.pid);
        let found = links(at).into_iter().filter_map(|link| open_path(&link)).find_map(|found| {
            let file = open_to_read(&found, &mounts)?;
            is_meant(&file, identity).then_some(file)
        });
        let found = found.or_else(|| {
            let root = at.root.map_or_else(|| open_path("/"), |root| root.try_clone().ok())?;
            let found = in_root::open(&root, path_of(identity), &|file| !mounts.is_fuse(file)).ok()?;
            let file = open_to_read(&found, &mounts)?;
            is_meant(&file, identity).then_some(file)
        });
        if let Some(file) = found
            && let Ok(metadata) = file.metadata()
        {
            let held = HeldFile { file, size: metadata.len(), modified: modified(&metadata) };
            self.files.insert(identity.clone(), held);
        }
    }

    /// Closes the files that will be found again by their paths.
    pub fn close_those_that_stay(&mut self) {
        if self.files.is_empty() {
            return;
        }
        let (mounts, root) = (Mounts::of(own_pid()), open_path("/"));
        self.files.retain(|identity, held| {
            let path = identity.path.as_bytes();
            if PASSING.iter().any(|folder| path.starts_with(folder)) {
                return true;
            }
            let there = root.as_ref().and_then(|root| {
                in_root::open(root, Path::new(OsStr::from_bytes(path)), &|file| !mounts.is_fuse(file)).ok()
            });
            let number = |metadata: Metadata| (metadata.dev(), metadata.ino());
            let there = there.and_then(|there| there.metadata().ok()).map(number);
            there.is_none() || there != held.file.metadata().ok().map(number)
        });
        self.looks = HashMap::new();
    }

    /// Returns true if none is held.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns true if this file is held.
    pub fn holds(&self, identity: &ObjectIdentity) -> bool {
        self.find(identity).is_some()
    }

    /// Reads the headers of a file; `None` where it is not held, or has changed since.
    pub(super) fn open<S: ObjectSource>(
        &self,
        identity: &ObjectIdentity,
        shared: &S::Shared,
    ) -> Option<elf::Object<S>> {
        let held = self.find(identity)?;
        let metadata = held.file.metadata().ok()?;
        if metadata.len() != held.size || modified(&metadata) != held.modified {
            return None;
        }
        S::open(held.file.try_clone().ok()?, held.size, shared).ok()
    }

    fn find(&self, identity: &ObjectIdentity) -> Option<&HeldFile> {
        self.files.get(identity)
    }
}

/// Links to a mapped file that need no path: that of the mapping, for which one needs rights, and that of the program.
fn links(at: &MappedAt<'_>) -> [String; 2] {
    let MappedAt { pid, start, end, .. } = at;
    [format!("/proc/{pid}/map_files/{start:x}-{end:x}"), format!("/proc/{pid}/exe")]
}

fn open_path(path: &(impl AsRef<Path> + ?Sized)) -> Option<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path).ok()
}

/// Opens what was found to be read, once it is known that this does nothing and waits for nobody.
fn open_to_read(found: &File, mounts: &Mounts) -> Option<File> {
    let is_file = |metadata: &Metadata| metadata.is_file() && metadata.len() > 0;
    if mounts.is_fuse(found) || !found.metadata().is_ok_and(|metadata| is_file(&metadata)) {
        return None;
    }
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(again).ok()
}

/// Returns true if it is the file that was mapped.
fn is_meant(file: &File, identity: &ObjectIdentity) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    match (&identity.build_id, &identity.file) {
        (Some(recorded), _) => {
            let object = file
                .try_clone()
                .ok()
                .and_then(|file| BlockBytes::open(file, metadata.len(), &Arc::default()).ok());
            object.and_then(|object| object.build_id()).is_some_and(|found| found.same_object(recorded))
        }
        // The device is not compared: overlay and btrfs show another one in records than in stat(2).
        (None, Some(recorded)) => recorded.inode != 0 && recorded.inode == metadata.ino(),
        (None, None) => false,
    }
}

/// The path by which the process knows it, as far as that has one.
pub(super) fn path_of(identity: &ObjectIdentity) -> &Path {
    let path = identity.path.as_bytes();
    Path::new(OsStr::from_bytes(path.strip_suffix(DELETED).unwrap_or(path)))
}

fn modified(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{ObjectBytes, ObjectStore, SearchPaths};
    use model::{BuildId, FileIdentity, Name};
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Nobody maps anything there.
    const NOWHERE: MappedAt<'_> = MappedAt { pid: Pid(i32::MAX), start: 0, end: 0x1000, root: None };

    fn identity(path: &Path) -> ObjectIdentity {
        let inode = fs::metadata(path).unwrap().ino();
        let file = Some(FileIdentity { major: 0, minor: 0, inode, generation: 0 });
        ObjectIdentity { path: Name::new(path.as_os_str().as_bytes()), build_id: None, file }
    }

    #[test]
    fn a_file_is_read_when_its_name_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let identity = identity(&copy);
        let mut held = HeldFiles::default();
        held.hold(&identity, &NOWHERE);
        fs::remove_file(&copy).unwrap();
        held.close_those_that_stay();
        assert!(held.holds(&identity));
        let paths = SearchPaths::from_environment(None, Vec::new(), true);
        let without = ObjectStore::<ObjectBytes>::new(paths.clone());
        assert!(without.open(&identity, &[]).is_err());
        let store = ObjectStore::<ObjectBytes>::new(paths).with_held(Arc::new(held));
        assert!(store.open(&identity, &[]).unwrap().section(".text").is_some());
    }

    #[test]
    fn what_stays_where_it_is_is_closed() {
        let program = std::env::current_exe().unwrap();
        let identity = identity(&program);
        let mut held = HeldFiles::default();
        held.hold(&identity, &NOWHERE);
        assert!(held.holds(&identity));
        if PASSING.iter().any(|folder| identity.path.as_bytes().starts_with(folder)) {
            println!("skipped: these tests are built in a folder of passing files");
            return;
        }
        held.close_those_that_stay();
        assert!(held.is_empty());
    }

    #[test]
    fn traps_are_not_opened_and_other_files_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "secret").unwrap();
        symlink(&secret, root.join("link")).unwrap();
        let pipe = root.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        fs::write(root.join("file"), "no object").unwrap();
        let opened = open_path(&root).unwrap();
        let at = MappedAt { root: Some(&opened), ..NOWHERE };
        let of = |path: &str, identity: ObjectIdentity| ObjectIdentity { path: Name::from(path), ..identity };
        let mut held = HeldFiles::default();
        held.hold(&of("/link", identity(&secret)), &at);
        held.hold(&of("/pipe", identity(&pipe)), &at);
        held.hold(&of("/file", identity(&secret)), &at);
        let build_id = BuildId::from_hex("0123456789abcdef");
        let file = of("/file", identity(&root.join("file")));
        held.hold(&ObjectIdentity { build_id, file: None, ..file.clone() }, &at);
        assert!(held.is_empty(), "{held:?}");
        held.hold(&file, &at);
        assert!(held.holds(&file));
    }

    #[test]
    fn a_file_that_was_written_since_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let identity = identity(&copy);
        let mut held = HeldFiles::default();
        held.hold(&identity, &NOWHERE);
        assert!(held.open::<ObjectBytes>(&identity, &()).is_some());
        OpenOptions::new().write(true).open(&copy).unwrap().set_len(100 << 30).unwrap();
        assert!(held.open::<ObjectBytes>(&identity, &()).is_none());
    }
}
