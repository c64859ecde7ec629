//! Files that stay open while recording, because their paths may be gone or refer to other files when they are symbolized:
//! programs in `/tmp`, in memory, in containers, and programs that are rebuilt.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{BuildId, ObjectIdentity, Pid};

use super::bytes::{FileBytes, build_id_of_file};
use crate::in_root::{self, open_path};
use crate::mounts::{MountId, Mounts, mount_of};
use crate::procfs;
use crate::slow_files::{self, OpenFile};
use crate::sys::limits;
use crate::sys::perf_event::own_pid;

/// Maximum number of retained files.
const MAX_FILES: u64 = 256;
/// One in this number of the file descriptors that we may open is used for a retained file, at most.
const DESCRIPTORS_PER_RETAINED_FILE: u64 = 8;
/// Maximum number of objects whose attempts are counted; then they are counted anew.
const MAX_IDENTITIES: usize = 4096;
/// Maximum number of attempts to open a file, each through another process that maps it, as earlier ones may have ended.
pub const MAX_ATTEMPTS: u8 = 8;
/// Folders whose files are expected to vanish.
const TEMPORARY_FOLDERS: [&[u8]; 4] = [b"/tmp/", b"/var/tmp/", b"/dev/shm/", b"/memfd:"];
/// The suffix that the kernel appends to the path of a deleted file.
pub(super) const DELETED_SUFFIX: &[u8] = b" (deleted)";

/// The retained files. Clones share the open files.
#[derive(Clone, Default, Debug)]
pub struct RetainedFiles {
    files: Vec<RetainedFile>,
    /// The number of attempts to open each file.
    attempts: HashMap<ObjectIdentity, u8>,
    /// True if the least recently mapped file makes room for a new one. Otherwise new files are not retained when there is no room.
    newest_only: bool,
    /// The number of mappings so far.
    mappings: u64,
}

#[derive(Clone, Debug)]
struct RetainedFile {
    file: Arc<File>,
    size: u64,
    /// The time of the last modification, in nanoseconds since 1970.
    modified: i64,
    inode: u64,
    /// The last component of its path.
    name: OsString,
    /// The build id; `None` for a foreign file, which names nothing that another one with this build id is mapped as.
    build_id: Option<BuildId>,
    /// True if the file names only mappings of its inode.
    is_foreign: bool,
    /// The identity in the recording; `None` if another process retained the file and passed it to this one.
    recorded: Option<ObjectIdentity>,
    /// The number of mappings when this file was mapped last.
    mapped: u64,
}

/// The process and addresses of a mapping.
#[derive(Clone, Copy, Debug)]
pub struct MappingLocation<'a> {
    /// The process.
    pub pid: Pid,
    /// The first address (Avma).
    pub start: u64,
    /// The address after the last byte (Avma).
    pub end: u64,
    /// The root folder of the process, if it differs from ours.
    pub root: Option<&'a File>,
    /// True if its paths may mean what an unprivileged user likes ([`crate::procfs::is_foreign`]).
    pub is_foreign: bool,
}

impl RetainedFiles {
    /// Opens a file that a process has mapped, and retains it if its build id or inode is that of `identity`. Opens only regular
    /// files, and none on a file system that may not answer.
    pub fn add(&mut self, identity: &ObjectIdentity, at: &MappingLocation<'_>) {
        self.mappings += 1;
        let is_retained = |retained: &&mut RetainedFile| retained.recorded.as_ref() == Some(identity);
        if let Some(retained) = self.files.iter_mut().find(is_retained) {
            retained.mapped = self.mappings;
            return;
        }
        // Even opening a link to a file on NFS may block.
        let device = |file: &model::FileIdentity| (file.major, file.minor);
        let mounts = Mounts::of_process(at.pid);
        if identity.file.as_ref().is_some_and(|file| mounts.slow_device(device(file)).is_some()) {
            return;
        }
        let max_files = (limits::open_files().current / DESCRIPTORS_PER_RETAINED_FILE).min(MAX_FILES);
        let has_room = (self.files.len() as u64) < max_files;
        if !has_room && !self.newest_only {
            return;
        }
        if self.attempts.len() >= MAX_IDENTITIES {
            self.attempts.clear();
        }
        let attempts = self.attempts.entry(identity.clone()).or_default();
        if *attempts >= MAX_ATTEMPTS {
            return;
        }
        *attempts += 1;
        let path = path_in_process(identity);
        let is_it = |file: &File, metadata: &Metadata| is_same_file(file, metadata, identity);
        let found = find_by_link(at, path, &mounts, &is_it)
            .or_else(|| find_by_path(at.root, at.is_foreign, path, &mounts, &is_it));
        if let Some(found) = found
            && let Some(file) = found.open()
        {
            if !has_room {
                let oldest = self.files.iter().enumerate().min_by_key(|(_, retained)| retained.mapped);
                if let Some((oldest, _)) = oldest {
                    self.files.swap_remove(oldest);
                }
            }
            let name = path.file_name().unwrap_or_default().to_owned();
            let retained = RetainedFile::new(file, &found.metadata, name, found.is_foreign);
            let (recorded, mapped) = (Some(identity.clone()), self.mappings);
            self.files.push(RetainedFile { recorded, mapped, ..retained });
        }
    }

    /// Returns an empty set that keeps the most recently mapped files, for a recording that keeps its newest samples.
    pub fn newest_only() -> Self {
        Self { newest_only: true, ..Self::default() }
    }

    /// Returns a set of files that another process opened, identified by their own build ids and inodes; `foreign` ones by their inodes
    /// alone.
    pub fn from_files(
        files: impl IntoIterator<Item = File>,
        foreign: impl IntoIterator<Item = File>,
    ) -> Self {
        let files = files.into_iter().map(|file| (file, false));
        let files = files.chain(foreign.into_iter().map(|file| (file, true)));
        let retained = files.filter_map(|(file, is_foreign)| {
            let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
            let name = without_deleted_suffix(path.as_os_str().as_bytes()).file_name()?.to_owned();
            let metadata = file.metadata().ok()?;
            Some(RetainedFile::new(file, &metadata, name, is_foreign))
        });
        Self { files: retained.collect(), ..Self::default() }
    }

    /// Returns the open files; those that are foreign, or the others.
    pub fn files(&self, foreign: bool) -> impl Iterator<Item = &File> {
        let files = self.files.iter().filter(move |retained| retained.is_foreign == foreign);
        files.map(|retained| &*retained.file)
    }

    /// Closes the files that can be opened again by their paths.
    pub fn close_findable(&mut self) {
        if self.files.is_empty() {
            return;
        }
        let (mounts, root) = (Mounts::of_process(own_pid()), open_path("/"));
        self.files.retain(|retained| {
            let Some(identity) = &retained.recorded else { return true };
            let path = identity.path.as_bytes();
            if TEMPORARY_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
                return true;
            }
            let there = root.as_ref().ok().and_then(|root| {
                in_root::open(root, Path::new(OsStr::from_bytes(path)), &|file, name| {
                    mounts.slow_on_the_way(file, name).is_none()
                })
                .ok()
            });
            let metadata = |file: &File| file.metadata().ok();
            let there = there.as_ref().and_then(metadata).as_ref().map(number);
            there.is_none() || there != metadata(&retained.file).as_ref().map(number)
        });
        self.attempts = HashMap::new();
    }

    /// Returns true if no file is retained.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns true if this file is retained.
    pub fn contains(&self, identity: &ObjectIdentity) -> bool {
        self.find(identity).is_some()
    }

    /// Reads the headers of a file; `None` if it is not retained, or was modified since it was opened.
    pub(super) fn open<S: FileBytes>(
        &self,
        identity: &ObjectIdentity,
        shared: &S::Shared,
    ) -> Option<elf::Object<S>> {
        let retained = self.find(identity)?;
        let metadata = retained.file.metadata().ok()?;
        if metadata.len() != retained.size || modified(&metadata) != retained.modified {
            return None;
        }
        S::open(OpenFile::Here(retained.file.try_clone().ok()?), retained.size, shared).ok()
    }

    fn find(&self, identity: &ObjectIdentity) -> Option<&RetainedFile> {
        self.files.iter().find(|retained| retained.is(identity))
    }
}

impl RetainedFile {
    fn new(file: File, metadata: &Metadata, name: OsString, is_foreign: bool) -> Self {
        Self {
            build_id: build_id_of_file(&file).filter(|_| !is_foreign),
            file: Arc::new(file),
            size: metadata.len(),
            modified: modified(metadata),
            inode: metadata.ino(),
            name,
            is_foreign,
            recorded: None,
            mapped: 0,
        }
    }

    /// Returns true if the file is the one that has this identity: by build id, or by inode and name. Another file may have been given its
    /// build id, and inodes of different file systems may be equal: path and device must be those that were recorded, if they were.
    fn is(&self, identity: &ObjectIdentity) -> bool {
        let recorded = self.recorded.as_ref();
        match (&identity.build_id, &identity.file) {
            (Some(build_id), None) => {
                let is_path = recorded.is_none_or(|recorded| recorded.path == identity.path);
                is_path && self.build_id.as_ref() == Some(build_id)
            }
            (build_id, Some(file)) => {
                let recorded = recorded.and_then(|recorded| recorded.file);
                let is_file = self.inode == file.inode && recorded.is_none_or(|known| known == *file);
                let name = path_in_process(identity).file_name();
                is_file && (self.is_foreign || build_id.is_none()) && Some(&*self.name) == name
            }
            (None, None) => false,
        }
    }
}

/// The file of a mapping, open with `O_PATH`.
pub(super) struct MappedFile {
    file: File,
    /// Its metadata.
    pub(super) metadata: Metadata,
    /// True if an unprivileged user may have made its path lead to it.
    pub(super) is_foreign: bool,
}

impl MappedFile {
    /// Opens it for reading.
    pub(super) fn open(&self) -> Option<File> {
        in_root::reopen(&self.file).ok()
    }
}

/// Accepts a file that is open with `O_PATH` as that of a mapping, by its metadata and, where these do not say it, its contents.
pub(super) type IsMapped<'a> = dyn Fn(&File, &Metadata) -> bool + 'a;

/// Finds the file of a mapping through the process. Accepts only regular files, and none on a file system that may not answer.
pub(super) fn find_by_link(
    at: &MappingLocation<'_>,
    path: &Path,
    mounts: &Mounts,
    is_it: &IsMapped<'_>,
) -> Option<MappedFile> {
    let (mut found, mount) = opened_links(at).find_map(|file| {
        let mount = mount_of(&file);
        Some((accept(file, mount, mounts, is_it)?, mount))
    })?;
    // A link leads to the mapped file, whatever the path means: it may have been opened in another namespace, or in none.
    found.is_foreign = (at.is_foreign || !mounts.contains_mount(mount)) && !is_ours(&found, path, mounts);
    Some(found)
}

/// Finds the file of a mapping by its path below a root folder; in our own view without one. Accepts files as [`find_by_link`].
pub(super) fn find_by_path(
    root: Option<&File>,
    is_foreign: bool,
    path: &Path,
    mounts: &Mounts,
    is_it: &IsMapped<'_>,
) -> Option<MappedFile> {
    let file = open_below(root, path, mounts)?;
    let mount = mount_of(&file);
    let mut found = accept(file, mount, mounts, is_it)?;
    found.is_foreign = is_foreign && !is_ours(&found, path, mounts);
    Some(found)
}

/// Accepts a file that was opened with `O_PATH`, if it is a regular one and not on a file system that may not answer: opening anything
/// else for reading may block or have side effects.
fn accept(file: File, mount: Option<MountId>, mounts: &Mounts, is_it: &IsMapped<'_>) -> Option<MappedFile> {
    if mounts.slow_system_of_mount(mount).is_some() {
        return None;
    }
    let metadata = file.metadata().ok()?;
    let is_mapped = metadata.is_file() && metadata.len() > 0 && is_it(&file, &metadata);
    is_mapped.then_some(MappedFile { file, metadata, is_foreign: false })
}

/// Returns true if the path leads to this file in our own view: then it is what it says, whoever has mapped it.
fn is_ours(found: &MappedFile, path: &Path, mounts: &Mounts) -> bool {
    let ours = open_below(None, path, mounts).and_then(|file| file.metadata().ok());
    ours.is_some_and(|ours| number(&ours) == number(&found.metadata))
}

fn open_below(root: Option<&File>, path: &Path, mounts: &Mounts) -> Option<File> {
    let root = root.map_or_else(|| open_path("/"), File::try_clone).ok()?;
    in_root::open(&root, path, &|file, name| mounts.slow_on_the_way(file, name).is_none()).ok()
}

/// Returns device and inode of a file.
fn number(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Opens, with `O_PATH`, what links to a mapped file lead to.
pub(super) fn opened_links(at: &MappingLocation<'_>) -> impl Iterator<Item = File> + use<> {
    let pid = at.pid;
    link_names(at)
        .into_iter()
        .filter_map(move |name| procfs::read_shared(pid, &name, slow_files::follow_link).ok())
}

/// Returns links to a mapped file.
pub(super) fn links(at: &MappingLocation<'_>) -> impl Iterator<Item = PathBuf> + use<> {
    let pid = at.pid;
    link_names(at).into_iter().filter_map(move |name| procfs::shared_path(pid, &name).ok())
}

/// Returns the names in `/proc/PID` of links to a mapped file that work without its path: that of the mapping, which needs privileges,
/// and that of the program.
fn link_names(at: &MappingLocation<'_>) -> [String; 2] {
    let &MappingLocation { start, end, .. } = at;
    [format!("map_files/{start:x}-{end:x}"), "exe".to_owned()]
}

/// Returns true if the build id of a file that is open with `O_PATH`, or else its inode, is that of `identity`.
fn is_same_file(file: &File, metadata: &Metadata, identity: &ObjectIdentity) -> bool {
    match (&identity.build_id, &identity.file) {
        (Some(recorded), file_too) => {
            let is_inode = file_too.is_none_or(|recorded| recorded.inode == metadata.ino());
            let build_id = || build_id_of_file(&in_root::reopen(file).ok()?);
            is_inode && build_id().is_some_and(|found| found.same_object(recorded))
        }
        // Devices are not compared, because overlay and btrfs show different ones in records and in stat(2).
        (None, Some(recorded)) => recorded.inode != 0 && recorded.inode == metadata.ino(),
        (None, None) => false,
    }
}

/// Returns the path in the view of the process, without the suffix of deleted files.
pub(super) fn path_in_process(identity: &ObjectIdentity) -> &Path {
    without_deleted_suffix(identity.path.as_bytes())
}

/// Returns a path without the suffix of deleted files.
pub(super) fn without_deleted_suffix(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path.strip_suffix(DELETED_SUFFIX).unwrap_or(path)))
}

fn modified(metadata: &Metadata) -> i64 {
    nanoseconds(metadata.mtime(), metadata.mtime_nsec())
}

/// Returns a time of a file in nanoseconds since 1970; the nearest one that fits, for times before 1678 and after 2262.
pub(super) fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
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
        MappingLocation { pid: Pid(i32::MAX), start: 0, end: 0x1000, root: None, is_foreign: false };

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
        let mut retained = RetainedFiles::default();
        retained.add(&identity, &NOWHERE);
        fs::remove_file(&copy).unwrap();
        retained.close_findable();
        assert!(retained.contains(&identity));
        let paths = SearchPaths::from_environment(None, Vec::new(), true);
        let without = ObjectStore::<ObjectBytes>::new(paths.clone());
        assert!(without.open(&identity, &[]).is_err());
        let store = ObjectStore::<ObjectBytes>::new(paths).with_retained_files(Arc::new(retained));
        assert!(store.open(&identity, &[]).unwrap().section(".text").is_some());
    }

    #[test]
    fn files_of_another_process_are_known_by_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (program, text) = (folder.path().join("program"), folder.path().join("text"));
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        fs::write(&text, "no object").unwrap();
        let open = [&program, &text].map(|path| File::open(path).unwrap());
        let build_id = build_id_of_file(&open[0]);
        let retained = RetainedFiles::from_files(open, []);
        let (program, text) = (identity(&program), identity(&text));
        assert!(retained.contains(&program) && retained.contains(&text));
        if build_id.is_some() {
            let path = Name::from("/elsewhere/copy");
            assert!(retained.contains(&ObjectIdentity { path, build_id, file: None }));
        }
        let other = ObjectIdentity { path: Name::from("/another"), ..text.clone() };
        assert!(!retained.contains(&other), "the inode alone may be that of another file system");
        fs::remove_dir_all(folder.path()).unwrap();
        assert!(retained.open::<ObjectBytes>(&program, &()).is_some());
        assert!(retained.contains(&ObjectIdentity {
            path: Name::new(&[text.path.as_bytes(), DELETED_SUFFIX].concat()),
            ..text
        }));
    }

    #[test]
    fn a_build_id_that_two_files_have_names_the_one_at_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["evil", "genuine"].map(|name| folder.path().join(name));
        let mut retained = RetainedFiles::default();
        for path in &paths {
            fs::copy(std::env::current_exe().unwrap(), path).unwrap();
            retained.add(&identity(path), &NOWHERE);
        }
        let Some(build_id) = retained.files[0].build_id else { return };
        for path in &paths {
            let with_id = ObjectIdentity { build_id: Some(build_id), file: None, ..identity(path) };
            assert_eq!(Some(&*retained.find(&with_id).unwrap().name), path.file_name());
        }
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
        let mut retained = RetainedFiles::default();
        retained.add(&identity, &NOWHERE);
        assert!(retained.contains(&identity));
        if TEMPORARY_FOLDERS.iter().any(|folder| identity.path.as_bytes().starts_with(folder)) {
            println!("skipped: these tests are built in a folder of passing files");
            return;
        }
        retained.close_findable();
        assert!(retained.is_empty());
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
        let mut retained = RetainedFiles::default();
        retained.add(&of("/link", identity(&secret)), &at);
        retained.add(&of("/pipe", identity(&pipe)), &at);
        retained.add(&of("/file", identity(&secret)), &at);
        let build_id = BuildId::from_hex("0123456789abcdef");
        let file = of("/file", identity(&root.join("file")));
        retained.add(&ObjectIdentity { build_id, file: None, ..file.clone() }, &at);
        assert!(retained.is_empty(), "{retained:?}");
        retained.add(&file, &at);
        assert!(retained.contains(&file));
    }

    #[test]
    fn a_file_that_was_written_since_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let identity = identity(&copy);
        let mut retained = RetainedFiles::default();
        retained.add(&identity, &NOWHERE);
        assert!(retained.open::<ObjectBytes>(&identity, &()).is_some());
        fs::OpenOptions::new().write(true).open(&copy).unwrap().set_len(100 << 30).unwrap();
        assert!(retained.open::<ObjectBytes>(&identity, &()).is_none());
    }
}
