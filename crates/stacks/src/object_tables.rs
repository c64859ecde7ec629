//! Objects whose tables the unwinder asks for, opened when first needed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use elf::{ElfError, Object, SectionReader};
use host::objects::{BlockBytes, ObjectStore, own_vdso_bytes};
use model::{Name, Pid, Space};
use unwinder::{ObjectSections, UnwindTables};

/// A list of the unwind tables that exist and were not read: one sentence for each object, the first few.
/// Clones share the list, so that it can be read while stacks are unwound.
#[derive(Clone, Default, Debug)]
pub struct RefusedTables(Arc<Mutex<BTreeSet<String>>>);

/// So many sentences are enough.
const MOST_SENTENCES: usize = 16;

impl RefusedTables {
    fn add(&self, object: &Name, refused: &[ElfError]) {
        if let Some(first) = refused.first() {
            let mut sentences = self.lock();
            if sentences.len() < MOST_SENTENCES {
                sentences.insert(format!("{object}: {first}"));
            }
        }
    }

    /// Returns a sentence for each table that has been refused so far. Objects are called as the profiled machine
    /// calls them.
    pub fn sentences(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // A panic elsewhere does not make the set wrong.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One object, opened when its tables are asked for first.
#[derive(Debug)]
pub(crate) struct ObjectTables {
    space: Space,
    /// A process that maps it.
    pid: Pid,
    store: Arc<ObjectStore<BlockBytes>>,
    refused: RefusedTables,
    tables: OnceLock<Option<OpenTables>>,
}

/// The tables of an object that was opened.
#[derive(Debug)]
struct OpenTables {
    tables: Arc<UnwindTables<SectionReader<BlockBytes>>>,
    /// Memory that they and the headers of the object take, but for unpacked sections, which have a budget of their own.
    bytes: usize,
}

impl ObjectTables {
    pub(crate) fn new(
        space: Space,
        pid: Pid,
        store: Arc<ObjectStore<BlockBytes>>,
        refused: RefusedTables,
    ) -> Self {
        Self { space, pid, store, refused, tables: OnceLock::new() }
    }

    /// Its tables; `None` where the object cannot be had, is another one than was mapped, or of another architecture.
    pub(crate) fn tables(&self) -> Option<Arc<UnwindTables<SectionReader<BlockBytes>>>> {
        let open = self.tables.get_or_init(|| self.open()).as_ref();
        open.map(|open| Arc::clone(&open.tables))
    }

    /// Returns the number of bytes of memory that they take while they are open.
    pub(crate) fn size(&self) -> usize {
        self.tables.get().and_then(Option::as_ref).map_or(0, |open| open.bytes)
    }

    /// Lets the store forget the object, which is closed with its last user.
    pub(crate) fn close(&self) {
        if let Space::Object(identity) = &self.space {
            self.store.close(identity);
        }
    }

    /// Returns true if its tables have been asked for before.
    pub(crate) fn is_open(&self) -> bool {
        self.tables.get().is_some()
    }

    fn open(&self) -> Option<OpenTables> {
        let (tables, headers) = match &self.space {
            Space::Object(identity) => {
                let (object, path) = self.store.open_with_path(identity, &[self.pid]).ok()?;
                let mut sections = ObjectSections::from_object(&object)?;
                if let Some(debug_file) = self.store.debug_files(&object, &path).debug {
                    sections.add_debug_file(&debug_file);
                }
                let tables = UnwindTables::new(sections);
                self.refused.add(&identity.path, tables.refused());
                (tables, object.headers_size())
            }
            Space::Vdso { build_id } => {
                let vdso = Object::read(BlockBytes::Memory(own_vdso_bytes()?)).ok()?;
                let same = match (build_id, vdso.build_id()) {
                    (Some(recorded), Some(ours)) => recorded.same_object(&ours),
                    // The kernel states no id for it: ours it is only on the machine that was recorded.
                    _ => self.store.paths().own_images,
                };
                (UnwindTables::new(ObjectSections::from_object(&Arc::new(vdso)).filter(|_| same)?), 0)
            }
            _ => return None,
        };
        let bytes = headers + tables.indices_size();
        Some(OpenTables { tables: Arc::new(tables), bytes })
    }
}
