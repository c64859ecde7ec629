//! A file's contents as memory.

use std::fs::File;
use std::io;

/// A read-only mapping of a whole file.
///
/// The pages come in as they are touched. Someone who overwrites the file meanwhile changes the bytes that are read,
/// so every reader treats them as hostile anyway; someone who cuts it short makes touching what is gone a SIGBUS.
/// Maps are therefore made of object files only (installers replace those, they do not write into them), and live no
/// longer than the work with them.
#[derive(Debug)]
pub struct FileMap(memmap2::Mmap);

impl FileMap {
    /// Maps a file.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the mapping is private, read-only and made of a regular file. Its bytes are only ever read as
        // plain integers of a slice; no invariant of a type depends on their staying the same.
        unsafe { memmap2::Mmap::map(file) }.map(Self)
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
