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

    /// Takes the pages out of our memory (`MADV_DONTNEED`, `madvise(2)`): what is touched again comes back from the
    /// file, mostly from the kernel's cache of it.
    pub fn give_back(&self) {
        // SAFETY: the mapping is private and was never written to, so that no byte is lost; readers see the file's.
        let advised = unsafe { self.0.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        // Where the kernel does not want to, the pages stay.
        let _ = advised;
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The resident part of the mapping that holds an address, in kB (proc(5), `/proc/pid/smaps`).
    fn resident(address: usize) -> Option<u64> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let mut lines = smaps.lines().skip_while(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let parse = |text| usize::from_str_radix(text, 16).ok();
            let range = range.and_then(|(start, end)| Some(parse(start)?..parse(end)?));
            !range.is_some_and(|range| range.contains(&address))
        });
        let line = lines.find_map(|line| line.strip_prefix("Rss:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    #[test]
    fn pages_leave_our_memory_and_the_bytes_come_back() {
        let map = FileMap::new(&File::open("/proc/self/exe").unwrap()).unwrap();
        let sum = || map.as_ref().iter().step_by(4096).map(|&byte| u64::from(byte)).sum::<u64>();
        let (before, address) = (sum(), map.as_ref().as_ptr() as usize);
        let full = resident(address).unwrap();
        map.give_back();
        let empty = resident(address).unwrap();
        assert!(full > 100 && empty < full / 10, "{full} kB, then {empty} kB");
        assert_eq!(sum(), before);
    }
}
