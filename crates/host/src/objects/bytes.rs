use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use elf::Object;
use model::{BuildId, Reason};

use crate::sys::file_map::FileMap;

/// The bytes of an object: a mapped file, or memory.
#[derive(Debug)]
pub enum ObjectBytes {
    /// A file.
    Mapped(FileMap),
    /// A copy: an image that has no file, or was unpacked from one.
    Memory(Vec<u8>),
}

/// An object with its bytes.
pub type HostObject = Object<ObjectBytes>;

impl ObjectBytes {
    /// Whether what was read of a file may not be the file's: see [`FileMap::has_changed`].
    pub fn has_changed(&self) -> bool {
        match self {
            Self::Mapped(map) => map.has_changed(),
            Self::Memory(_) => false,
        }
    }

    /// Takes the pages of a file out of our memory until they are touched again.
    pub fn give_back(&self) {
        if let Self::Mapped(map) = self {
            map.give_back();
        }
    }
}

impl AsRef<[u8]> for ObjectBytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map.as_ref(),
            Self::Memory(bytes) => bytes,
        }
    }
}

/// Maps a file and reads its headers.
///
/// # Errors
/// The reason why the file is no object that can be used.
pub fn open(path: &Path) -> Result<HostObject, Reason> {
    parse(map(path))
}

/// The build id of a file. Linkers put it at the beginning, which is cheaper to read than a file is to map: with several threads,
/// all CPUs hear of it when the mapping goes.
pub(super) fn build_id(path: &Path) -> Option<BuildId> {
    const BEGINNING: u64 = 4096;
    let file = open_regular(path).ok()?;
    let mut beginning = Vec::with_capacity(BEGINNING as usize);
    (&file).take(BEGINNING).read_to_end(&mut beginning).ok()?;
    let from_beginning = Object::parse(beginning).ok().and_then(|object| object.build_id());
    from_beginning.or_else(|| open_opened(&file).ok()?.build_id())
}

/// As [`open`], of a file that is open already, and may have no name.
pub(crate) fn open_opened(file: &File) -> Result<HostObject, Reason> {
    parse(check(file.metadata()).and_then(|()| FileMap::new(file)))
}

fn parse(mapped: io::Result<FileMap>) -> Result<HostObject, Reason> {
    let bytes = mapped.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Reason::FileMissing,
        _ => Reason::FileUnreadable(errno_text(&error)),
    })?;
    let object = Object::parse(ObjectBytes::Mapped(bytes));
    let object = object.map_err(|error| Reason::Malformed(error.to_string()))?;
    if object.source().has_changed() { Err(Reason::ChangedWhileRead) } else { Ok(object) }
}

fn map(path: &Path) -> io::Result<FileMap> {
    FileMap::new(&open_regular(path)?)
}

fn open_regular(path: &Path) -> io::Result<File> {
    // The path comes from a recording. Opening a device can do things, and a pipe without a writer would wait
    // forever: so nothing but a regular file is opened, and without waiting, should it have changed meanwhile.
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

/// "Permission denied", without the number that Rust adds.
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
