use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use elf::{Object, ObjectSource, OpenedObject, UnpackBudget};
use model::{BuildId, FileIdentity, Name, ObjectIdentity, Pid, Reason};

use super::bytes::open_as;
use super::recorded_files::RecordedFiles;
use super::retained_files::{DELETED_SUFFIX, RetainedFiles, path_in_process};
use super::{BlockBytes, FileBytes, ObjectBytes, SearchPaths, own_vdso_bytes};
use crate::mounts::Mounts;
use crate::slow_files::{self, FileFacts};
use crate::{process_memory, procfs};

/// Finds and opens the objects of a recording, and caches them.
#[derive(Debug)]
pub struct ObjectStore<S: FileBytes = ObjectBytes> {
    paths: SearchPaths,
    limits: ObjectLimits,
    shared: S::Shared,
    /// Files that were retained while recording.
    retained: Arc<RetainedFiles>,
    /// What the recording says of files without build ids.
    recorded: Arc<RecordedFiles>,
    opened: Mutex<OpenObjects<S>>,
}

/// The limits on the memory and files of a store.
#[derive(Clone, Debug)]
pub struct ObjectLimits {
    /// Memory for unpacked sections.
    pub unpacked: UnpackBudget,
    /// Maximum size of a debug file that is checked by its checksum, for which the whole file is read.
    pub checksummed_bytes: u64,
}

impl Default for ObjectLimits {
    /// 1 GiB of unpacked sections for one object, 2 GiB for all. (Of a program with 500 MB of debug information, half is read.)
    /// Checksums of files up to 4 GiB, which take a second.
    fn default() -> Self {
        Self { unpacked: UnpackBudget::new(1 << 30, 2 << 30), checksummed_bytes: 4 << 30 }
    }
}

#[derive(Debug)]
struct OpenObjects<S> {
    objects: HashMap<ObjectIdentity, (u64, Result<OpenObject<S>, Reason>)>,
    /// Number of uses so far, to find the least recently used object.
    uses: u64,
}

/// An object and the path at which it was found.
type OpenObject<S> = (Arc<Object<S>>, PathBuf);

/// Maximum number of cached objects; then the least recently used one is dropped. A mapped file costs address space and a kernel
/// structure, an open one a descriptor.
const MAX_OPEN_OBJECTS: usize = 512;

impl<S: FileBytes> ObjectStore<S> {
    /// Returns an empty store with default limits.
    pub fn new(paths: SearchPaths) -> Self {
        let opened = OpenObjects { objects: HashMap::new(), uses: 0 };
        Self {
            paths,
            limits: ObjectLimits::default(),
            shared: S::Shared::default(),
            retained: Arc::default(),
            recorded: Arc::default(),
            opened: Mutex::new(opened),
        }
    }

    /// Makes the store look among retained files before it searches paths.
    #[must_use]
    pub fn with_retained_files(self, retained: Arc<RetainedFiles>) -> Self {
        Self { retained, ..self }
    }

    /// Makes the store use a file without a build id only if it is as the recording says.
    #[must_use]
    pub fn with_recorded_files(self, recorded: Arc<RecordedFiles>) -> Self {
        Self { recorded, ..self }
    }

    /// Makes the store use kernel and vDSO of this machine only if their build ids match.
    #[must_use]
    pub fn without_own_images(self) -> Self {
        Self { paths: SearchPaths { own_images: false, ..self.paths }, ..self }
    }

    /// Replaces the limits of the store.
    #[must_use]
    pub fn with_limits(self, limits: ObjectLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the limit [`ObjectLimits::checksummed_bytes`].
    pub(super) fn max_checksummed_bytes(&self) -> u64 {
        self.limits.checksummed_bytes
    }

    /// Opens a file with the limits and shared state of this store.
    ///
    /// # Errors
    /// As [`super::open_file`].
    pub(super) fn open_file(&self, path: &Path) -> Result<Object<S>, Reason> {
        Ok(open_as(path, &self.shared)?.with_unpack_budget(&self.limits.unpacked))
    }

    /// Returns the paths that are searched.
    pub fn paths(&self) -> &SearchPaths {
        &self.paths
    }

    /// Opens the object with this identity. `pids` are processes that mapped it: through a process that still lives, the file is
    /// found in its mount namespace, and even if it is deleted.
    ///
    /// # Errors
    /// The reason of the first candidate that exists, which is the file that the recording names.
    pub fn open(&self, identity: &ObjectIdentity, pids: &[Pid]) -> Result<Arc<Object<S>>, Reason> {
        self.open_with_path(identity, pids).map(|(object, _)| object)
    }

    /// Opens the object with this identity, and returns the path at which it was found.
    ///
    /// # Errors
    /// As [`ObjectStore::open`].
    pub fn open_with_path(
        &self,
        identity: &ObjectIdentity,
        pids: &[Pid],
    ) -> Result<(Arc<Object<S>>, PathBuf), Reason> {
        if let Some(known) = self.lock().get(identity) {
            return known;
        }
        // If two threads open the same object at the same time, the later one replaces the earlier one.
        let opened = self.find(identity, pids);
        self.lock().insert(identity, opened.clone());
        opened
    }

    /// Removes an object from the cache. Its file is closed when the last user drops it.
    pub fn close(&self, identity: &ObjectIdentity) {
        self.lock().objects.remove(identity);
    }

    /// Removes all objects from the cache, as [`ObjectStore::close`] removes one.
    pub fn close_all(&self) {
        self.lock().objects.clear();
    }

    /// Releases memory that the objects cache. Later reads are correct, but slower.
    pub fn release_memory(&self) {
        for (object, _) in self.lock().objects.values().filter_map(|(_, opened)| opened.as_ref().ok()) {
            object.source().release_memory();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OpenObjects<S>> {
        // A panic in another thread leaves the table valid.
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, identity: &ObjectIdentity, pids: &[Pid]) -> Result<OpenObject<S>, Reason> {
        if let Some(object) = self.retained.open(identity, &self.shared) {
            let object = object.with_unpack_budget(&self.limits.unpacked);
            return Ok((Arc::new(object), path_in_process(identity).to_owned()));
        }
        let mut first_reason = None;
        for candidate in self.candidates(identity, pids) {
            match self
                .open_file(&candidate)
                .and_then(|object| self.check(&object, &candidate, identity).map(|()| object))
            {
                Ok(object) => return Ok((Arc::new(object), candidate)),
                Err(reason) => {
                    // Any other reason replaces "file missing", which says the least.
                    if first_reason.as_ref().is_none_or(|known| *known == Reason::FileMissing) {
                        first_reason = Some(reason);
                    }
                }
            }
        }
        Err(match first_reason {
            // Mappings of the kernel itself, such as `[uprobes]`, have no file.
            None | Some(Reason::FileMissing) if is_kernel_mapping(&identity.path) => Reason::ImageGone,
            reason => reason.unwrap_or(Reason::FileMissing),
        })
    }

    /// Checks that an object is the recorded one: by its build id, or else by device, inode, size and time of modification. Those are
    /// compared only on the recording machine and without `--symfs`. A foreign object must have both: the build id and the inode.
    fn check(&self, object: &Object<S>, path: &Path, identity: &ObjectIdentity) -> Result<(), Reason> {
        let file = identity.file.as_ref().filter(|_| self.paths.this_host && self.paths.symfs.is_none());
        let facts = || slow_files::open(path).and_then(|file| file.facts());
        if let Some(recorded) = identity.build_id {
            match object.build_id() {
                Some(found) if found.same_object(&recorded) => {}
                found => return Err(Reason::BuildIdDiffers { recorded, found }),
            }
            let inode = || facts().map(|found| found.inode).ok();
            return match file {
                Some(file) if inode() != Some(file.inode) => Err(Reason::FileChanged),
                _ => Ok(()),
            };
        }
        match file.map(|recorded| (recorded, facts())) {
            Some((recorded, Ok(found)))
                if is_other_inode(recorded, &found) || !self.recorded.agree(recorded, &found) =>
            {
                Err(Reason::FileChanged)
            }
            _ => Ok(()),
        }
    }

    /// Returns candidate paths of the object, the most likely first. The iterator is lazy, because reading the mappings of a process
    /// costs more than opening a file.
    ///
    /// Paths below the roots of foreign processes lead to what these like: they are candidates only for foreign objects, and the last
    /// ones. What a process has mapped of a certain inode is that file, whatever process it is.
    fn candidates(&self, identity: &ObjectIdentity, pids: &[Pid]) -> impl Iterator<Item = PathBuf> {
        const MAX_PROCESSES: usize = 4;
        let path = path_in_process(identity);
        let is_foreign = identity.build_id.is_some() && identity.file.is_some();
        let is_living = |pid: &&Pid| pid.0 > 0 && self.paths.this_host && self.paths.symfs.is_none();
        let living = pids.iter().filter(is_living);
        let of_kind =
            |foreign: bool| move |pid: &&Pid| procfs::is_foreign(**pid).is_ok_and(|found| found == foreign);
        let below_root =
            |&pid: &Pid| Some(super::search::join_below(&procfs::shared_path(pid, "root").ok()?, path));
        let by_path = path.is_absolute().then(|| {
            let below_roots =
                living.clone().filter(of_kind(false)).take(MAX_PROCESSES).filter_map(below_root);
            let is_ours = of_kind(false);
            let mapped = living
                .clone()
                .filter(move |pid| identity.file.is_some() || is_ours(pid))
                .take(MAX_PROCESSES)
                .filter_map(|&pid| map_files_link(pid, identity));
            let foreign = living.filter(move |_| is_foreign).filter(of_kind(true));
            let below_foreign_roots = foreign.take(MAX_PROCESSES).filter_map(below_root);
            below_roots
                .chain(std::iter::once_with(|| self.paths.in_symfs(path)))
                .chain(mapped)
                .chain(below_foreign_roots)
        });
        let by_build_id = identity.build_id.as_ref().filter(|_| !is_foreign).into_iter();
        by_path
            .into_iter()
            .flatten()
            .chain(by_build_id.flat_map(|build_id| self.paths.object_by_build_id(build_id)))
    }
}

impl<S> OpenObjects<S> {
    fn get(&mut self, identity: &ObjectIdentity) -> Option<Result<OpenObject<S>, Reason>> {
        self.uses += 1;
        let (last_use, object) = self.objects.get_mut(identity)?;
        *last_use = self.uses;
        Some(object.clone())
    }

    fn insert(&mut self, identity: &ObjectIdentity, object: Result<OpenObject<S>, Reason>) {
        if self.objects.len() >= MAX_OPEN_OBJECTS {
            let oldest = self.objects.iter().min_by_key(|(_, (last_use, _))| *last_use);
            if let Some(oldest) = oldest.map(|(identity, _)| identity.clone()) {
                self.objects.remove(&oldest);
            }
        }
        self.uses += 1;
        self.objects.insert(identity.clone(), (self.uses, object));
    }
}

/// Returns true if the file is on the recorded device and has another inode. A different device is no evidence: containers and
/// overlays show other numbers for the same file.
fn is_other_inode(recorded: &FileIdentity, found: &FileFacts) -> bool {
    let device = found.device;
    let same_device = recorded.major == libc::major(device) && recorded.minor == libc::minor(device);
    recorded.inode != 0 && same_device && recorded.inode != found.inode
}

/// Returns the link of a living process to a file that it has mapped, which works even if the file is deleted. Needs
/// `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE` (proc(5), `/proc/pid/map_files`). `None` if an object that is known by its path was
/// mapped through a mount of another namespace, where its path may be any.
fn map_files_link(pid: Pid, identity: &ObjectIdentity) -> Option<PathBuf> {
    let path = identity.path.as_bytes();
    let (maps, _) = process_memory::executable_maps(pid, false).ok()?;
    let entry = maps.into_iter().find(|entry| {
        let is_inode = identity.file.is_none_or(|file| {
            (file.major, file.minor, file.inode) == (entry.device.0, entry.device.1, entry.inode)
        });
        is_inode && (entry.path == path || entry.path.strip_suffix(DELETED_SUFFIX) == Some(path))
    })?;
    let link = procfs::shared_path(pid, &format!("map_files/{:x}-{:x}", entry.start, entry.end)).ok()?;
    let is_of_view = || Mounts::of_process(pid).contains(&slow_files::follow_link(&link).ok()?).then_some(());
    if identity.file.is_none() {
        is_of_view()?;
    }
    Some(link)
}

/// Returns true if a mapping with this path is one of the kernel itself: `[vdso]`, `[uprobes]`.
fn is_kernel_mapping(path: &Name) -> bool {
    path.as_bytes().starts_with(b"[") && path.as_bytes().ends_with(b"]")
}

impl ObjectSource for ObjectStore<BlockBytes> {
    type Bytes = BlockBytes;

    fn open(&self, identity: &ObjectIdentity, pid: Pid) -> Option<OpenedObject<BlockBytes>> {
        let (object, path) = self.open_with_path(identity, &[pid]).ok()?;
        let debug_file = self.debug_files(&object, &path).debug;
        Some(OpenedObject { object, debug_file })
    }

    fn open_vdso(&self, build_id: Option<&BuildId>) -> Option<Arc<Object<BlockBytes>>> {
        let vdso = Object::read(BlockBytes::Memory(own_vdso_bytes()?)).ok()?;
        let is_same = match (build_id, vdso.build_id()) {
            (Some(recorded), Some(ours)) => recorded.same_object(&ours),
            // The kernel records no build id of the vDSO, so ours is used only for recordings of this machine.
            _ => self.paths().own_images,
        };
        is_same.then(|| Arc::new(vdso))
    }

    fn close(&self, identity: &ObjectIdentity) {
        Self::close(self, identity);
    }

    fn close_all(&self) {
        Self::close_all(self);
    }

    fn release_caches(&self) {
        self.release_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::RecordedState;
    use model::{BuildId, Name};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    fn store() -> ObjectStore {
        ObjectStore::new(SearchPaths {
            symfs: None,
            debug_dirs: Vec::new(),
            build_id_cache: None,
            debuginfod_cache: None,
            this_host: true,
            own_images: true,
        })
    }

    fn identity(path: &Path, build_id: Option<BuildId>) -> ObjectIdentity {
        ObjectIdentity { path: Name::new(path.as_os_str().as_bytes()), build_id, file: None }
    }

    #[test]
    fn another_build_is_not_used_in_silence() {
        let program = std::env::current_exe().unwrap();
        let found = store().open(&identity(&program, None), &[]).unwrap().build_id();
        let recorded = BuildId::from_hex("0123456789abcdef").unwrap();
        let answer = store().open(&identity(&program, Some(recorded)), &[]);
        assert_eq!(answer.unwrap_err(), Reason::BuildIdDiffers { recorded, found });
    }

    #[test]
    fn reasons_name_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let mapped_by_kernel = store().open(&identity(Path::new("[uprobes]"), None), &[]);
        assert_eq!(mapped_by_kernel.unwrap_err(), Reason::ImageGone);
        let missing = store().open(&identity(&folder.path().join("gone"), None), &[]);
        assert_eq!(missing.unwrap_err(), Reason::FileMissing);
        let text = folder.path().join("text");
        std::fs::write(&text, "not an object").unwrap();
        assert!(matches!(store().open(&identity(&text, None), &[]).unwrap_err(), Reason::Malformed(_)));
        let directory = store().open(&identity(folder.path(), None), &[]);
        assert!(matches!(directory.unwrap_err(), Reason::FileUnreadable(_)));
    }

    #[test]
    fn a_replaced_file_without_an_id_is_noticed() {
        let program = std::env::current_exe().unwrap();
        let metadata = std::fs::metadata(&program).unwrap();
        let mut identity = identity(&program, None);
        let file = |inode| FileIdentity {
            major: libc::major(metadata.dev()),
            minor: libc::minor(metadata.dev()),
            inode,
            generation: 0,
        };
        identity.file = Some(file(metadata.ino() + 1));
        assert_eq!(store().open(&identity, &[]).unwrap_err(), Reason::FileChanged);
        let elsewhere = |symfs, this_host| {
            let paths = SearchPaths { symfs, this_host, ..store().paths().clone() };
            ObjectStore::<ObjectBytes>::new(paths).open(&identity, &[])
        };
        assert!(elsewhere(None, false).is_ok(), "inodes of another machine say nothing of ours");
        assert!(elsewhere(Some(PathBuf::from("/")), true).is_ok(), "nor of a copy of its files");
        identity.file = Some(file(metadata.ino()));
        assert!(store().open(&identity, &[]).is_ok());
        let state = RecordedState {
            size: metadata.len(),
            modified: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
        };
        let with = |states: &[RecordedState]| {
            let recorded = Arc::new(RecordedFiles::default());
            states.iter().for_each(|state| recorded.add(file(metadata.ino()), *state));
            store().with_recorded_files(recorded).open(&identity, &[]).map(drop)
        };
        assert_eq!(with(&[state, state]), Ok(()));
        let changed = Err(Reason::FileChanged);
        let larger = RecordedState { size: state.size + 1, ..state };
        assert_eq!(with(&[larger]), changed, "a linker wrote in place");
        assert_eq!(with(&[RecordedState { modified: state.modified - 1, ..state }]), changed);
        assert_eq!(with(&[larger, state]), changed, "which of the two was mapped?");
    }

    #[test]
    fn a_deleted_program_is_read_from_the_living_process() {
        if !std::fs::exists("/proc/self/map_files").unwrap_or(false) {
            println!("skipped: no /proc/self/map_files here");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("sleep");
        std::fs::copy("/bin/sleep", &copy).unwrap();
        let mut child = std::process::Command::new(&copy).arg("60").spawn().unwrap();
        let pid = Pid(child.id().try_into().unwrap());
        // `spawn` returns when the child has let go of our memory, which is before the program is mapped.
        let begin = std::time::Instant::now();
        while map_files_link(pid, &identity(&copy, None)).is_none() && begin.elapsed().as_secs() < 10 {
            std::thread::yield_now();
        }
        std::fs::remove_file(&copy).unwrap();
        let opened = store().open(&identity(&copy, None), &[pid]);
        child.kill().unwrap();
        child.wait().unwrap();
        match opened {
            Ok(object) => assert!(object.section(".text").is_some()),
            Err(Reason::FileUnreadable(why)) => println!("skipped: {why}"),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_debug_link_to_a_hollow_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (program, debug) = (folder.path().join("program"), folder.path().join("program.debug"));
        // An object without a build id, and with a link: the test itself will not do.
        std::fs::write(&program, linked_object(b"program.debug", 0x1234_5678)).unwrap();
        std::fs::write(&debug, linked_object(b"other", 0)).unwrap();
        let reason = |store: &ObjectStore| {
            let object = store.open(&identity(&program, None), &[]).unwrap();
            let mut rejected = store.debug_files(&object, &program).rejected;
            assert_eq!(rejected.len(), 1, "{rejected:?}");
            let (path, reason) = rejected.remove(0);
            assert_eq!(path, debug);
            reason
        };
        assert_eq!(reason(&store()), Reason::FileChanged, "another checksum");
        let file = std::fs::OpenOptions::new().write(true).open(&debug).unwrap();
        file.set_len(100 << 30).unwrap();
        let message = reason(&store()).to_string();
        assert!(message.contains("107374182400 bytes") && message.contains("on disk"), "{message}");
        file.set_len(1 << 20).unwrap();
        let few = ObjectLimits { checksummed_bytes: 1 << 16, ..ObjectLimits::default() };
        assert!(reason(&store().with_limits(few)).to_string().contains("1048576 bytes"));
    }

    /// An ELF file of 64 bits with a `.gnu_debuglink` and nothing else.
    fn linked_object(name: &[u8], crc: u32) -> Vec<u8> {
        let mut link = name.to_vec();
        link.resize(name.len() / 4 * 4 + 4, 0);
        link.extend(crc.to_le_bytes());
        let names = b"\0.gnu_debuglink\0.shstrtab\0";
        let (link_at, names_at) = (64, 64 + link.len());
        let headers_at = (names_at + names.len()).next_multiple_of(8);
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        for half in [3_u16, 62] {
            file.extend(half.to_le_bytes());
        }
        file.extend(1_u32.to_le_bytes());
        for word in [0, 0, headers_at as u64] {
            file.extend(word.to_le_bytes());
        }
        file.extend(0_u32.to_le_bytes());
        for half in [64_u16, 56, 0, 64, 3, 2] {
            file.extend(half.to_le_bytes());
        }
        file.extend(&link);
        file.extend(names);
        file.resize(headers_at + 64, 0);
        for (name, kind, at, size) in [(1_u32, 1_u32, link_at, link.len()), (16, 3, names_at, names.len())] {
            file.extend(name.to_le_bytes());
            file.extend(kind.to_le_bytes());
            for word in [0, 0, at as u64, size as u64, 0, 1, 0] {
                file.extend(word.to_le_bytes());
            }
        }
        file
    }
}
