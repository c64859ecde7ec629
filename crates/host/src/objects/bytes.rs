use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use elf::{Object, ReadAt};
use model::{BuildId, Reason};

use super::block_cache::{BlockBytes, BlockCache, BlockFile, read_fully};
use crate::in_root::check_regular;
use crate::slow_files::{self, OpenFile};
use crate::sys::file_map::FileMap;
use crate::sys::file_system::{self, FileSystem};
use crate::sys::identity::NOBODY;

/// Maximum size of a file that is copied into memory, because its file system may not answer while it is read: larger than debug builds
/// of browsers.
const MAX_COPIED_BYTES: u64 = 4 << 30;

/// The bytes of an object: a memory-mapped file, or a copy in memory.
#[derive(Debug)]
pub enum ObjectBytes {
    /// A memory-mapped file, and the user who answers for its contents ([`file_author`]).
    Mapped(FileMap, u32),
    /// A copy in memory, and the user who answers for its contents: nobody ([`NOBODY`]) for a file on a file system that may not answer,
    /// `None` for an image without a file, or an unpacked file.
    Memory(Vec<u8>, Option<u32>),
}

/// An object with its bytes.
pub type HostObject = Object<ObjectBytes>;

impl ObjectBytes {
    /// Returns true if bytes that were read may not be those of the file: see [`FileMap::has_changed`].
    pub fn has_changed(&self) -> bool {
        match self {
            Self::Mapped(map, _) => map.has_changed(),
            Self::Memory(..) => false,
        }
    }

    /// Returns the user who answers for the contents of the file; `None` for bytes in memory.
    pub fn author(&self) -> Option<u32> {
        match self {
            Self::Mapped(_, author) => Some(*author),
            Self::Memory(_, author) => *author,
        }
    }
}

/// Returns the user who answers for the contents of a file: its owner, or nobody ([`NOBODY`]) if any user may have written it, or if
/// a program of any user says who owns it (FUSE).
pub fn file_author(file: &File) -> u32 {
    const OTHERS_WRITE: u32 = 0o002; // S_IWOTH of inode(7)
    let is_fuse = file_system::of(file).is_ok_and(|kind| kind == FileSystem::Fuse);
    match file.metadata() {
        Ok(metadata) if !is_fuse && metadata.mode() & OTHERS_WRITE == 0 => metadata.uid(),
        _ => NOBODY,
    }
}

impl AsRef<[u8]> for ObjectBytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Mapped(map, _) => map.as_ref(),
            Self::Memory(bytes, _) => bytes,
        }
    }
}

/// The bytes of an object, as an [`ObjectStore`](super::ObjectStore) gets them from a file.
pub trait FileBytes: ReadAt + Sized {
    /// State shared by all objects of a store.
    type Shared: Default + Debug;

    /// Reads the headers of a regular file.
    ///
    /// # Errors
    /// The reason why the file is not a usable object.
    fn open(file: OpenFile, size: u64, shared: &Self::Shared) -> Result<Object<Self>, Reason>;

    /// Releases cached memory. Later reads are correct, but slower.
    fn release_memory(&self);
}

impl FileBytes for ObjectBytes {
    type Shared = ();

    fn open(file: OpenFile, size: u64, (): &()) -> Result<Object<Self>, Reason> {
        let file = match file {
            OpenFile::Here(file) => return open_opened(&file),
            file @ OpenFile::There(_) => file,
        };
        if size > MAX_COPIED_BYTES {
            return Err(Reason::FileUnreadable(format!(
                "it has {size} bytes, on a file system that may not answer"
            )));
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        if read_fully(&file, 0, &mut bytes) < bytes.len() {
            return Err(Reason::NoAnswer);
        }
        Object::parse(Self::Memory(bytes, Some(NOBODY))).map_err(|error| Reason::Malformed(error.to_string()))
    }

    /// Releases the pages of a mapped file until they are read again.
    fn release_memory(&self) {
        if let Self::Mapped(map, _) = self {
            map.release_pages();
        }
    }
}

impl FileBytes for BlockBytes {
    type Shared = Arc<BlockCache>;

    fn open(file: OpenFile, size: u64, cache: &Arc<BlockCache>) -> Result<Object<Self>, Reason> {
        let bytes = Self::File(BlockFile::new(file, size, cache));
        Object::read(bytes).map_err(|error| Reason::Malformed(error.to_string()))
    }

    fn release_memory(&self) {
        self.clear_cache();
    }
}

/// Opens a file as bytes of type `S` and reads its headers.
///
/// # Errors
/// The reason why the file is not a usable object.
pub(super) fn open_as<S: FileBytes>(path: &Path, shared: &S::Shared) -> Result<Object<S>, Reason> {
    let file = slow_files::open(path).map_err(|error| reason(&error))?;
    let size = file.facts().map_err(|error| reason(&error))?.size;
    S::open(file, size, shared)
}

/// Maps a file and reads its headers.
///
/// # Errors
/// The reason why the file is not a usable object.
pub fn open(path: &Path) -> Result<HostObject, Reason> {
    open_as(path, &())
}

/// Reads the build id of an open file that a process has mapped.
pub(super) fn build_id_of_file(file: &File) -> Option<BuildId> {
    build_id_of(OpenFile::Here(file.try_clone().ok()?), file.metadata().ok()?.len())
}

/// Reads the build id of a file that a process has mapped. The size is in bytes.
pub(super) fn build_id_of(file: OpenFile, size: u64) -> Option<BuildId> {
    elf::build_id_of_mapped(&BlockBytes::File(BlockFile::new(file, size, &Arc::default())))
}

/// Maps an open file, which may be nameless, and reads its headers.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_opened(file: &File) -> Result<HostObject, Reason> {
    let checked = file.metadata().and_then(|metadata| check_regular(&metadata));
    let bytes = checked.and_then(|()| FileMap::new(file)).map_err(|error| reason(&error))?;
    let object = Object::parse(ObjectBytes::Mapped(bytes, file_author(file)));
    let object = object.map_err(|error| Reason::Malformed(error.to_string()))?;
    if object.source().has_changed() { Err(Reason::ChangedWhileRead) } else { Ok(object) }
}

fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Reason::FileMissing,
        io::ErrorKind::TimedOut => Reason::NoAnswer,
        _ => Reason::FileUnreadable(errno_text(error)),
    }
}

/// Returns the text of an error without the number that Rust appends: "Permission denied".
fn errno_text(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::InvalidInput && error.raw_os_error().is_none() {
        return String::from("not a regular file, or empty");
    }
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
