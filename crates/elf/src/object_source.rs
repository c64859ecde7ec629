use alloc::sync::Arc;
use core::fmt;

use model::{BuildId, ObjectIdentity, Pid};

use crate::{Object, ReadAt};

/// Opens the objects that a recording names, for crates that read tables of objects and open no files themselves.
///
/// An implementation keeps what it has opened, and gives out the same object again until it is told to close it.
pub trait ObjectSource: fmt::Debug + Send + Sync {
    /// Holds the bytes of an object.
    type Bytes: ReadAt + Send + Sync + 'static;

    /// Opens the object that the process `pid` has mapped. Returns `None` where there is no file that is this very object, by its
    /// build id or inode, or where it cannot be read.
    fn open(&self, identity: &ObjectIdentity, pid: Pid) -> Option<OpenedObject<Self::Bytes>>;

    /// Opens the vDSO that the kernel of the recorded machine maps into each process. `build_id` is its recorded build id, if
    /// the recording has it. Returns `None` where this machine's vDSO is or may be another one.
    fn open_vdso(&self, build_id: Option<&BuildId>) -> Option<Arc<Object<Self::Bytes>>>;

    /// Drops the source's own reference to an object. The last user of the object closes its file.
    fn close(&self, identity: &ObjectIdentity);

    /// Drops the source's own references to all objects, as [`ObjectSource::close`] does to one.
    fn close_all(&self);

    /// Releases memory that only makes later reads faster.
    fn release_caches(&self);
}

/// An object, and the separate file that holds its debug information.
#[derive(Debug)]
pub struct OpenedObject<D> {
    /// The object.
    pub object: Arc<Object<D>>,
    /// Its debug file; `None` where it has none, or needs none.
    pub debug_file: Option<Arc<Object<D>>>,
}
