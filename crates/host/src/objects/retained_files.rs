//! Files that are kept open while recording, because their paths may lead elsewhere or nowhere when names are looked for:
//! programs below `/tmp`, in memory, in containers, and such as are built anew.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use model::{BuildId, ObjectIdentity, Pid};

use super::block_cache::BlockBytes;
use super::bytes::ObjectSource;
use crate::in_root;
use crate::mounts::Mounts;
use crate::sys::limits;
use crate::sys::perf_event::own_pid;

/// Files that are kept open at the most.
const MAX_FILES: u64 = 256;
/// The part of the descriptors that we may have which may be used for them: one in so many.
const DESCRIPTORS_PER_RETAINED_FILE: u64 = 8;
/// Objects that are remembered, held or not.
const MAX_IDENTITIES: usize = 4096;
/// The number of times that a file is looked for: by the first process that maps it, and by some more should that one have ended already.
const MAX_ATTEMPTS: u8 = 8;
/// Folders whose files are not meant to stay.
const TEMPORARY_FOLDERS: [&[u8]; 4] = [b"/tmp/", b"/var/tmp/", b"/dev/shm/", b"/memfd:"];
/// The text that the kernel puts behind the path of a file without a name.
const DELETED_SUFFIX: &[u8] = b" (deleted)";

/// Files by what a recording knows of them. Clones share the open files.
#[derive(Clone, Default, Debug)]
pub struct RetainedFiles {
    files: HashMap<ObjectIdentity, RetainedFile>,
    /// The number of times that each was looked for.
    attempts: HashMap<ObjectIdentity, u8>,
    /// True if the file that was mapped longest ago is closed when there is no room for another.
    newest_only: bool,
    /// Counts the mappings.
    mappings: u64,
    /// Files that another process held, by their own build ids and inodes.
    handed_over: HandedOver,
}

#[derive(Clone, Debug)]
struct RetainedFile {
    file: Arc<File>,
    size: u64,
    /// Nanoseconds.
    modified: i128,
    /// The count of mappings when one mapped it last.
    mapped: u64,
}

#[derive(Clone, Default, Debug)]
struct HandedOver {
    by_build_id: HashMap<BuildId, RetainedFile>,
    /// With the last component of the path: inodes of different file systems may be the same.
    by_inode: HashMap<(u64, OsString), RetainedFile>,
}

/// The place at which a process has mapped a file.
#[derive(Clone, Copy, Debug)]
pub struct MappingLocation<'a> {
    /// The process.
    pub pid: Pid,
    /// The first address.
    pub start: u64,
    /// The first address behind.
    pub end: u64,
    /// The root folder in which the path is to be looked for, where it is not ours.
    pub root: Option<&'a File>,
}

impl RetainedFiles {
    /// Keeps a file open that a process has mapped. It must be the one that `identity` names by its build id or inode;
    /// nothing but regular files is opened, and none of a file system that a program serves.
    pub fn add(&mut self, identity: &ObjectIdentity, at: &MappingLocation<'_>) {
        self.mappings += 1;
        if let Some(held) = self.files.get_mut(identity) {
            held.mapped = self.mappings;
            return;
        }
        let most = (limits::open_files().current / DESCRIPTORS_PER_RETAINED_FILE).min(MAX_FILES);
        let has_room = (self.files.len() as u64) < most;
        if !has_room && !self.newest_only {
            return;
        }
        let is_new = !self.attempts.contains_key(identity);
        if is_new && self.attempts.len() >= MAX_IDENTITIES {
            if !self.newest_only {
                return;
            }
            self.attempts.clear();
        }
        let attempts = self.attempts.entry(identity.clone()).or_default();
        if *attempts >= MAX_ATTEMPTS {
            return;
        }
        *attempts += 1;
        let mounts = Mounts::of_process(at.pid);
        let found = links(at).into_iter().filter_map(|link| open_path(&link)).find_map(|found| {
            let file = open_to_read(&found, &mounts)?;
            is_same_file(&file, identity).then_some(file)
        });
        let found = found.or_else(|| {
            let root = at.root.map_or_else(|| open_path("/"), |root| root.try_clone().ok())?;
            let found =
                in_root::open(&root, path_in_process(identity), &|file| !mounts.is_fuse(file)).ok()?;
            let file = open_to_read(&found, &mounts)?;
            is_same_file(&file, identity).then_some(file)
        });
        if let Some(file) = found
            && let Ok(metadata) = file.metadata()
        {
            if !has_room {
                let oldest = self.files.iter().min_by_key(|(_, held)| held.mapped);
                if let Some(oldest) = oldest.map(|(identity, _)| identity.clone()) {
                    self.files.remove(&oldest);
                }
            }
            self.files.insert(identity.clone(), RetainedFile::new(file, &metadata, self.mappings));
        }
    }

    /// None yet, for a recording that keeps its newest samples only: so it is with files.
    pub fn newest_only() -> Self {
        Self { newest_only: true, ..Self::default() }
    }

    /// Files that another process has opened, each for what its own build id or inode says that it is.
    pub fn from_files(files: impl IntoIterator<Item = File>) -> Self {
        let mut handed_over = HandedOver::default();
        for file in files {
            let Ok(metadata) = file.metadata() else { continue };
            let build_id = build_id_of(&file, metadata.len());
            let held = RetainedFile::new(file, &metadata, 0);
            let path = std::fs::read_link(format!("/proc/self/fd/{}", held.file.as_raw_fd()));
            let name = path.ok().and_then(|path| Some(file_name(path.as_os_str().as_bytes())?.to_owned()));
            handed_over.by_inode.extend(name.map(|name| ((metadata.ino(), name), held.clone())));
            handed_over.by_build_id.extend(build_id.map(|build_id| (build_id, held)));
        }
        Self { handed_over, ..Self::default() }
    }

    /// The open files.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.values().map(|held| &*held.file)
    }

    /// Closes the files that will be found again by their paths.
    pub fn close_findable(&mut self) {
        if self.files.is_empty() {
            return;
        }
        let (mounts, root) = (Mounts::of_process(own_pid()), open_path("/"));
        self.files.retain(|identity, held| {
            let path = identity.path.as_bytes();
            if TEMPORARY_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
                return true;
            }
            let there = root.as_ref().and_then(|root| {
                in_root::open(root, Path::new(OsStr::from_bytes(path)), &|file| !mounts.is_fuse(file)).ok()
            });
            let number = |metadata: Metadata| (metadata.dev(), metadata.ino());
            let there = there.and_then(|there| there.metadata().ok()).map(number);
            there.is_none() || there != held.file.metadata().ok().map(number)
        });
        self.attempts = HashMap::new();
    }

    /// Returns true if none is held.
    pub fn is_empty(&self) -> bool {
        let HandedOver { by_build_id, by_inode } = &self.handed_over;
        self.files.is_empty() && by_build_id.is_empty() && by_inode.is_empty()
    }

    /// Returns true if this file is held.
    pub fn contains(&self, identity: &ObjectIdentity) -> bool {
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

    fn find(&self, identity: &ObjectIdentity) -> Option<&RetainedFile> {
        let handed_over = || match (&identity.build_id, &identity.file) {
            (Some(build_id), _) => self.handed_over.by_build_id.get(build_id),
            (None, Some(file)) => {
                let name = file_name(identity.path.as_bytes())?.to_owned();
                self.handed_over.by_inode.get(&(file.inode, name))
            }
            (None, None) => None,
        };
        self.files.get(identity).or_else(handed_over)
    }
}

impl RetainedFile {
    fn new(file: File, metadata: &Metadata, mapped: u64) -> Self {
        Self { file: Arc::new(file), size: metadata.len(), modified: modified(metadata), mapped }
    }
}

/// Links to a mapped file that need no path: that of the mapping, for which one needs rights, and that of the program.
fn links(at: &MappingLocation<'_>) -> [String; 2] {
    let MappingLocation { pid, start, end, .. } = at;
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
fn is_same_file(file: &File, identity: &ObjectIdentity) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    match (&identity.build_id, &identity.file) {
        (Some(recorded), _) => {
            build_id_of(file, metadata.len()).is_some_and(|found| found.same_object(recorded))
        }
        // The device is not compared: overlay and btrfs show another one in records than in stat(2).
        (None, Some(recorded)) => recorded.inode != 0 && recorded.inode == metadata.ino(),
        (None, None) => false,
    }
}

fn build_id_of(file: &File, size: u64) -> Option<BuildId> {
    let file = file.try_clone().ok()?;
    BlockBytes::open(file, size, &Arc::default()).ok()?.build_id()
}

/// The path by which the process knows it, as far as that has one.
pub(super) fn path_in_process(identity: &ObjectIdentity) -> &Path {
    let path = identity.path.as_bytes();
    Path::new(OsStr::from_bytes(path.strip_suffix(DELETED_SUFFIX).unwrap_or(path)))
}

/// The last component of such a path.
fn file_name(path: &[u8]) -> Option<&OsStr> {
    let path = path.strip_suffix(DELETED_SUFFIX).unwrap_or(path);
    path.rsplit(|&byte| byte == b'/').next().map(OsStr::from_bytes)
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
    const NOWHERE: MappingLocation<'_> =
        MappingLocation { pid: Pid(i32::MAX), start: 0, end: 0x1000, root: None };

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
        let mut held = RetainedFiles::default();
        held.add(&identity, &NOWHERE);
        fs::remove_file(&copy).unwrap();
        held.close_findable();
        assert!(held.contains(&identity));
        let paths = SearchPaths::from_environment(None, Vec::new(), true);
        let without = ObjectStore::<ObjectBytes>::new(paths.clone());
        assert!(without.open(&identity, &[]).is_err());
        let store = ObjectStore::<ObjectBytes>::new(paths).with_held(Arc::new(held));
        assert!(store.open(&identity, &[]).unwrap().section(".text").is_some());
    }

    #[test]
    fn files_of_another_process_are_known_by_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (program, text) = (folder.path().join("program"), folder.path().join("text"));
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::write(&text, "no object").unwrap();
        let open = [&program, &text].map(|path| File::open(path).unwrap());
        let build_id = build_id_of(&open[0], open[0].metadata().unwrap().len());
        let held = RetainedFiles::from_files(open);
        let (program, text) = (identity(&program), identity(&text));
        assert!(held.contains(&program) && held.contains(&text));
        if build_id.is_some() {
            let path = Name::from("/elsewhere/copy");
            assert!(held.contains(&ObjectIdentity { path, build_id, file: None }));
        }
        let other = ObjectIdentity { path: Name::from("/another"), ..text.clone() };
        assert!(!held.contains(&other), "the inode alone may be that of another file system");
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(held.open::<ObjectBytes>(&program, &()).is_some());
        assert!(held.contains(&ObjectIdentity {
            path: Name::new(&[text.path.as_bytes(), DELETED_SUFFIX].concat()),
            ..text
        }));
    }

    #[test]
    fn the_newest_files_are_held_where_they_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let identities: Vec<ObjectIdentity> = (0..2 * MAX_FILES)
            .map(|number| {
                let path = folder.path().join(number.to_string());
                fs::write(&path, "file").unwrap();
                identity(&path)
            })
            .collect();
        let (mut first, mut newest) = (RetainedFiles::default(), RetainedFiles::newest_only());
        for identity in &identities {
            first.add(identity, &NOWHERE);
            newest.add(identity, &NOWHERE);
            newest.add(&identities[0], &NOWHERE);
        }
        let last = &identities[identities.len() - 1];
        assert!(first.contains(&identities[1]) && !first.contains(last));
        assert!(!newest.contains(&identities[1]) && newest.contains(last) && newest.contains(&identities[0]));
        assert_eq!(newest.files.len(), first.files.len());
    }

    #[test]
    fn what_stays_where_it_is_is_closed() {
        let program = std::env::current_exe().unwrap();
        let identity = identity(&program);
        let mut held = RetainedFiles::default();
        held.add(&identity, &NOWHERE);
        assert!(held.contains(&identity));
        if TEMPORARY_FOLDERS.iter().any(|folder| identity.path.as_bytes().starts_with(folder)) {
            println!("skipped: these tests are built in a folder of passing files");
            return;
        }
        held.close_findable();
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
        let at = MappingLocation { root: Some(&opened), ..NOWHERE };
        let of = |path: &str, identity: ObjectIdentity| ObjectIdentity { path: Name::from(path), ..identity };
        let mut held = RetainedFiles::default();
        held.add(&of("/link", identity(&secret)), &at);
        held.add(&of("/pipe", identity(&pipe)), &at);
        held.add(&of("/file", identity(&secret)), &at);
        let build_id = BuildId::from_hex("0123456789abcdef");
        let file = of("/file", identity(&root.join("file")));
        held.add(&ObjectIdentity { build_id, file: None, ..file.clone() }, &at);
        assert!(held.is_empty(), "{held:?}");
        held.add(&file, &at);
        assert!(held.contains(&file));
    }

    #[test]
    fn a_file_that_was_written_since_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let identity = identity(&copy);
        let mut held = RetainedFiles::default();
        held.add(&identity, &NOWHERE);
        assert!(held.open::<ObjectBytes>(&identity, &()).is_some());
        OpenOptions::new().write(true).open(&copy).unwrap().set_len(100 << 30).unwrap();
        assert!(held.open::<ObjectBytes>(&identity, &()).is_none());
    }
}
