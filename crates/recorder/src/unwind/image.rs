//! Objects whose tables the unwinder asks for, opened when first needed.

use std::sync::{Arc, OnceLock};

use elf::Object;
use host::objects::{BlockBytes, ObjectStore, own_vdso_bytes};
use model::{Pid, Space};
use unwinder::UnwindTables;

/// One object, opened when its tables are asked for first.
#[derive(Debug)]
pub(super) struct Image {
    space: Space,
    /// A process that maps it.
    pid: Pid,
    store: Arc<ObjectStore<BlockBytes>>,
    tables: OnceLock<Option<Arc<UnwindTables<BlockBytes>>>>,
}

impl Image {
    pub(super) fn new(space: Space, pid: Pid, store: Arc<ObjectStore<BlockBytes>>) -> Self {
        Self { space, pid, store, tables: OnceLock::new() }
    }

    /// Its tables; `None` where the object cannot be had, is another one than was mapped, or of another architecture.
    pub(super) fn tables(&self) -> Option<Arc<UnwindTables<BlockBytes>>> {
        self.tables.get_or_init(|| self.open()).clone()
    }

    /// Whether its tables have been asked for before.
    pub(super) fn is_open(&self) -> bool {
        self.tables.get().is_some()
    }

    fn open(&self) -> Option<Arc<UnwindTables<BlockBytes>>> {
        let tables = match &self.space {
            Space::Object(identity) => {
                let (object, path) = self.store.open_with_path(identity, &[self.pid]).ok()?;
                let mut tables = UnwindTables::new(Arc::clone(&object))?;
                if let Some(debug_file) = self.store.debug_files(&object, &path).debug {
                    tables.add_debug_file(&debug_file);
                }
                tables
            }
            Space::Vdso { build_id } => {
                let vdso = Object::read(BlockBytes::Memory(own_vdso_bytes()?)).ok()?;
                let same = match (build_id, vdso.build_id()) {
                    (Some(recorded), Some(ours)) => recorded.same_object(&ours),
                    // The kernel states no id for it: ours it is only on the machine that was recorded.
                    _ => self.store.paths().this_host,
                };
                UnwindTables::new(Arc::new(vdso)).filter(|_| same)?
            }
            _ => return None,
        };
        Some(Arc::new(tables))
    }
}
