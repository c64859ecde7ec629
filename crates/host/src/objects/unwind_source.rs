//! Implements the source of objects for the unwinder with an object store.

use std::sync::Arc;

use elf::{Object, ObjectSource, OpenedObject};
use model::{BuildId, ObjectIdentity, Pid};

use super::{BlockBytes, ObjectStore, own_vdso_bytes};

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
