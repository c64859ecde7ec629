use std::fmt::Debug;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use elf::{Object, ReadAt};
use model::{BuildId, Reason};

use super::block_cache::{BlockBytes, BlockCache, BlockFile};
use crate::sys::file_map::FileMap;
use crate::sys::file_system::{self, FileSystem};
use crate::sys::identity::NOBODY;

/// The bytes of an object: a memory-mapped file, or a copy in memory.
#[derive(Debug)]
pub enum ObjectBytes {
    /// A memory-mapped file, and the user who answers for its contents ([`file_author`]).
    Mapped(FileMap, u32),
    /// A copy of an image without a file, or an unpacked file.
    Memory(Vec<u8>),
}

/// An object with its bytes.
pub type HostObject = Object<ObjectBytes>;

impl ObjectBytes {
    /// Returns true if bytes that were read may not be those of the file: see [`FileMap::has_changed`].
    pub fn has_changed(&self) -> bool {
        match self {
            Self::Mapped(map, _) => map.has_changed(),
            Self::Memory(_) => false,
        }
    }

    /// Returns the user who answers for the contents of the file; `None` for bytes in memory.
    pub fn author(&self) -> Option<u32> {
        match self {
            Self::Mapped(_, author) => Some(*author),
            Self::Memory(_) => None,
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
            Self::Memory(bytes) => bytes,
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
    fn open(file: File, size: u64, shared: &Self::Shared) -> Result<Object<Self>, Reason>;

    /// Releases cached memory. Later reads are correct, but slower.
    fn release_memory(&self);
}

impl FileBytes for ObjectBytes {
    type Shared = ();

    fn open(file: File, _: u64, (): &()) -> Result<Object<Self>, Reason> {
        open_opened(&file)
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

    fn open(file: File, size: u64, cache: &Arc<BlockCache>) -> Result<Object<Self>, Reason> {
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
    let file = open_regular(path).map_err(|error| reason(&error))?;
    let size = file.metadata().map_err(|error| reason(&error))?.len();
    S::open(file, size, shared)
}

/// Maps a file and reads its headers.
///
/// # Errors
/// The reason why the file is not a usable object.
pub fn open(path: &Path) -> Result<HostObject, Reason> {
    open_as(path, &())
}

/// Reads the build id of an open file.
pub(super) fn build_id_of_file(file: &File) -> Option<BuildId> {
    let (file, size) = (file.try_clone().ok()?, file.metadata().ok()?.len());
    BlockBytes::open(file, size, &Arc::default()).ok()?.build_id()
}

/// Maps an open file, which may be nameless, and reads its headers.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_opened(file: &File) -> Result<HostObject, Reason> {
    let bytes = check(file.metadata()).and_then(|()| FileMap::new(file)).map_err(|error| reason(&error))?;
    let object = Object::parse(ObjectBytes::Mapped(bytes, file_author(file)));
    let object = object.map_err(|error| Reason::Malformed(error.to_string()))?;
    if object.source().has_changed() { Err(Reason::ChangedWhileRead) } else { Ok(object) }
}

fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Reason::FileMissing,
        _ => Reason::FileUnreadable(errno_text(error)),
    }
}

fn open_regular(path: &Path) -> io::Result<File> {
    // The path comes from a recording. Opening a device has side effects, and opening a pipe without a writer blocks. So only
    // regular files are opened, with O_NONBLOCK in case the path changes in between.
    check(std::fs::metadata(path))?;
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    check(file.metadata())?;
    Ok(file)
}

fn check(metadata: io::Result<Metadata>) -> io::Result<()> {
    let metadata = metadata?;
    let is_usable = metadata.is_file() && metadata.len() > 0;
    if is_usable { Ok(()) } else { Err(io::Error::from(io::ErrorKind::InvalidInput)) }
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
