//! Caches objects, or the indexes made of them, between calls that resolve addresses.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use elf::{Object, SymbolSource};
use host::objects::{DebugFiles, FileBytes, HostObject, ObjectBytes, ObjectStore};
use model::{BuildId, Name, ObjectIdentity};
use symbolizer::{ObjectIndex, minidebug};

/// Objects that are kept.
#[derive(Default)]
pub(super) enum ObjectCache {
    /// None.
    #[default]
    Nothing,
    /// With their files, which are mapped all the while: for work that ends soon.
    Files(Mutex<HashMap<ObjectIdentity, Arc<Opened>>>),
    /// Indexes that were made of them: for work that goes on for days, while files change.
    Indexes(Mutex<Indexes>),
}

/// Maximum number of objects that are kept open with their files.
const MAX_FILES: usize = 256;

/// The index and the unpacked `.gnu_debugdata` of an object. They mean nothing without its files.
pub(super) struct CachedIndex {
    /// The files that it was made of.
    files: FileSetStamp,
    /// The object in `.gnu_debugdata`, unpacked.
    pub(super) minidebug: Option<HostObject>,
    /// The error of unpacking it, if it exists and cannot be unpacked.
    pub(super) minidebug_error: Option<String>,
    /// Made for the first address of code.
    pub(super) index: OnceLock<Arc<ObjectIndex>>,
}

/// An object with all that belongs to it.
pub(super) struct Opened {
    pub(super) object: Arc<HostObject>,
    pub(super) path: PathBuf,
    /// Its path in the recording: that may lead through a process.
    pub(super) name: Name,
    pub(super) files: DebugFiles,
    pub(super) known: Arc<CachedIndex>,
    /// True to keep no more of its files in memory than a step of the work reads.
    pub(super) saves_memory: bool,
}

impl Opened {
    /// Finds its debug files. `known` gives what is known of the object with these files already.
    pub(super) fn new(
        store: &ObjectStore,
        object: Arc<HostObject>,
        path: PathBuf,
        name: Name,
        known: impl FnOnce(&FileSetStamp) -> Option<Arc<CachedIndex>>,
    ) -> Self {
        let files = store.debug_files(&object, &path);
        let stamp = FileSetStamp::new(&object, &files);
        let known = known(&stamp).unwrap_or_else(|| {
            let wanted = files.debug.is_none() && !object.has_symbols(SymbolSource::Full);
            Arc::new(CachedIndex::new(stamp, if wanted { unpack_minidebug(&object) } else { Ok(None) }))
        });
        Self { object, path, name, files, known, saves_memory: false }
    }

    /// Returns the users who answer for the files that its lines come from: that with the line table, and those that this refers to.
    /// The vDSO comes from the kernel, for which root answers.
    pub(super) fn authors(&self) -> BTreeSet<u32> {
        let DebugFiles { debug, supplementary, package, .. } = &self.files;
        let with_lines =
            debug.as_ref().filter(|debug| debug.has_contents(".debug_line")).unwrap_or(&self.object);
        let files = std::iter::once(with_lines).chain(supplementary).chain(package);
        files.map(|file| file.source().author().unwrap_or(0)).collect()
    }

    /// Returns true if one of its files changed while it was read, so that what was found is not to be relied on.
    pub(super) fn has_changed(&self) -> bool {
        self.all_files().any(|file| file.source().has_changed())
    }

    /// Ends a step of the work: where memory is saved, releases the pages of all files until they are read again.
    pub(super) fn end_step(&self) {
        if self.saves_memory {
            self.all_files().for_each(|file| file.source().release_memory());
        }
    }

    fn all_files(&self) -> impl Iterator<Item = &Arc<HostObject>> {
        let DebugFiles { debug, supplementary, package, .. } = &self.files;
        std::iter::once(&self.object).chain([debug, supplementary, package].into_iter().flatten())
    }
}

/// The object that is packed in another one.
fn unpack_minidebug(object: &HostObject) -> Result<Option<HostObject>, String> {
    let Some(bytes) = minidebug(object)? else { return Ok(None) };
    let unpacked = Object::parse(ObjectBytes::Memory(bytes, None));
    unpacked.map(Some).map_err(|error| format!("section .gnu_debugdata: {error}"))
}

/// Tells files apart that were found for the same object at different times.
#[derive(PartialEq, Eq)]
pub(super) struct FileSetStamp([Option<(usize, Option<BuildId>)>; 4]);

impl FileSetStamp {
    /// Of these files.
    pub(super) fn new(object: &HostObject, files: &DebugFiles) -> Self {
        let others = [&files.debug, &files.supplementary, &files.package].map(Option::as_deref);
        let [debug, supplementary, package] = others;
        let stamp = |file: &HostObject| (file.data().len(), file.build_id());
        Self([Some(object), debug, supplementary, package].map(|file| file.map(stamp)))
    }
}

impl CachedIndex {
    /// Nothing but what was unpacked.
    pub(super) fn new(files: FileSetStamp, minidebug: Result<Option<HostObject>, String>) -> Self {
        let (minidebug, minidebug_error) = match minidebug {
            Ok(minidebug) => (minidebug, None),
            Err(error) => (None, Some(error)),
        };
        Self { files, minidebug, minidebug_error, index: OnceLock::new() }
    }

    /// The bytes that it takes.
    fn size(&self) -> usize {
        let minidebug = self.minidebug.as_ref().map_or(0, |object| object.data().len());
        size_of::<Self>() + minidebug + self.index.get().map_or(0, |index| index.memory_bytes())
    }
}

/// The part of all kept bytes that an object may have with its unpacked sections: 8 of 16 MB. Those of Debian's C library take 7 MB, and
/// each interval of a busy machine has new addresses in it: to unpack them each time was 30 % of the CPU time of `prof watch`.
const MAX_UNPACKED_DIVISOR: usize = 2;

/// The indexes of objects, up to a number of bytes: those that were not asked for the longest go first.
pub(super) struct Indexes {
    max_bytes: usize,
    size: usize,
    objects: HashMap<ObjectIdentity, (u64, usize, Arc<CachedIndex>)>,
    /// Counts up with each use.
    uses: u64,
}

impl Indexes {
    /// Makes an empty cache of at most `max_bytes` bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, size: 0, objects: HashMap::new(), uses: 0 }
    }

    fn get(&mut self, identity: &ObjectIdentity) -> Option<Arc<CachedIndex>> {
        self.uses += 1;
        let (used, _, known) = self.objects.get_mut(identity)?;
        *used = self.uses;
        Some(Arc::clone(known))
    }

    fn put(&mut self, identity: &ObjectIdentity, known: &Arc<CachedIndex>) {
        self.remove(identity);
        // More unpacked sections would displace the symbols of many other objects.
        if known.size() > self.max_bytes / MAX_UNPACKED_DIVISOR {
            known.index.get().inspect(|index| index.release_unpacked());
        }
        // Nor must a large object displace all others.
        let size = known.size();
        if size > self.max_bytes / 3 * 2 {
            return;
        }
        while self.size + size > self.max_bytes {
            let oldest = self.objects.iter().min_by_key(|(_, (used, ..))| *used);
            let Some(oldest) = oldest.map(|(identity, _)| identity.clone()) else { break };
            self.remove(&oldest);
        }
        self.uses += 1;
        self.size += size;
        self.objects.insert(identity.clone(), (self.uses, size, Arc::clone(known)));
    }

    fn remove(&mut self, identity: &ObjectIdentity) {
        self.size -= self.objects.remove(identity).map_or(0, |(_, size, _)| size);
    }
}

impl ObjectCache {
    /// The object with its files, where they are kept.
    pub(super) fn opened(&self, identity: &ObjectIdentity) -> Option<Arc<Opened>> {
        match self {
            Self::Files(files) => lock(files).get(identity).cloned(),
            _ => None,
        }
    }

    /// Returns the index of an object that has these files now.
    pub(super) fn known(&self, identity: &ObjectIdentity, files: &FileSetStamp) -> Option<Arc<CachedIndex>> {
        match self {
            Self::Indexes(indexes) => lock(indexes).get(identity).filter(|known| known.files == *files),
            _ => None,
        }
    }

    /// Returns true if little of files may be in memory at a time, because the work goes on for days.
    pub(super) fn saves_memory(&self) -> bool {
        matches!(self, Self::Indexes(_))
    }

    /// Keeps an object, when work with it is done.
    pub(super) fn put(&self, identity: &ObjectIdentity, opened: &Arc<Opened>) {
        match self {
            Self::Nothing => {}
            Self::Files(files) => {
                let mut files = lock(files);
                if files.len() >= MAX_FILES {
                    files.clear();
                }
                files.insert(identity.clone(), Arc::clone(opened));
            }
            Self::Indexes(indexes) => lock(indexes).put(identity, &opened.known),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Cached data stays valid if another thread has panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> ObjectIdentity {
        ObjectIdentity { path: name.into(), build_id: None, file: None }
    }

    fn own() -> HostObject {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        HostObject::parse(ObjectBytes::Memory(bytes, None)).unwrap()
    }

    fn stamp(length: usize) -> FileSetStamp {
        FileSetStamp([Some((length, None)), None, None, None])
    }

    #[test]
    fn what_was_not_asked_for_the_longest_goes_first_and_a_giant_is_not_kept() {
        let own = own();
        let known = Arc::new(CachedIndex::new(stamp(1), Ok(Some(own))));
        let size = known.size();
        let mut indexes = Indexes::new(3 * size);
        for name in ["a", "b", "c"] {
            indexes.put(&identity(name), &known);
        }
        assert!(indexes.get(&identity("a")).is_some());
        indexes.put(&identity("d"), &known);
        let is_kept = |indexes: &mut Indexes, name| indexes.get(&identity(name)).is_some();
        assert_eq!(["a", "b", "c", "d"].map(|name| is_kept(&mut indexes, name)), [true, false, true, true]);
        assert_eq!(indexes.size, 3 * size);
        // Again, which is no other one.
        indexes.put(&identity("d"), &known);
        assert_eq!((indexes.size, indexes.objects.len()), (3 * size, 3));
        let mut small = Indexes::new(size + size / 3);
        small.put(&identity("a"), &known);
        assert_eq!((small.size, small.objects.len()), (0, 0));
    }

    #[test]
    fn what_was_read_of_other_files_is_not_used() {
        let kept = ObjectCache::Indexes(Mutex::new(Indexes::new(1 << 20)));
        let known = Arc::new(CachedIndex::new(stamp(1), Ok(None)));
        if let ObjectCache::Indexes(indexes) = &kept {
            lock(indexes).put(&identity("a"), &known);
        }
        assert!(kept.known(&identity("a"), &stamp(1)).is_some());
        assert!(kept.known(&identity("a"), &stamp(2)).is_none());
    }
}
