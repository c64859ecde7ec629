//! A memory-mapped file that survives truncation.

use std::fs::File;
use std::io;

use super::map_guard::{self, Guard};

/// A read-only mapping of a whole file.
///
/// Pages are loaded on first access. If the file is overwritten meanwhile, the bytes change, so readers must not trust them. If it
/// is truncated, or the disk fails, the rest reads as zeros, and [`FileMap::has_changed`] returns true: results must then be
/// discarded.
#[derive(Debug)]
pub struct FileMap {
    // Dropped before the map: the guard must not know an unmapped address.
    guard: Guard,
    map: memmap2::Mmap,
}

impl FileMap {
    /// Maps a file.
    ///
    /// # Errors
    /// Those of `mmap(2)`; `FileTooLarge` for 1 TiB and more.
    pub fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the mapping is private, read-only and made of a regular file. Its bytes are only ever read as
        // plain integers of a slice; no invariant of a type depends on their staying the same.
        let map = unsafe { memmap2::Mmap::map(file) }?;
        if map.len() > map_guard::MAX_BYTES {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(Self { guard: Guard::new(&map), map })
    }

    /// Returns true if bytes that were read are not those of the file, because it was truncated or could not be read.
    pub fn has_changed(&self) -> bool {
        self.guard.has_faulted()
    }

    /// Releases the pages (`MADV_DONTNEED` of madvise(2)). The next access loads them again, mostly from the page cache.
    pub fn release_pages(&self) {
        // SAFETY: the mapping is private and was never written to, so that no byte is lost; readers see the file's.
        let advised = unsafe { self.map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        // On failure the pages stay.
        let _ = advised;
    }
}

impl AsRef<[u8]> for FileMap {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
        map.release_pages();
        let empty = resident(address).unwrap();
        assert!(full > 100 && empty < full / 10, "{full} kB, then {empty} kB");
        assert_eq!(sum(), before);
    }

    #[test]
    fn a_file_that_shrinks_is_zeros_from_there_on_and_marked() {
        const LENGTH: usize = 8 * 4096;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; LENGTH]).unwrap();
        let (map, other) = (FileMap::new(&file).unwrap(), FileMap::new(&file).unwrap());
        file.set_len(3 * 4096).unwrap();
        assert!(!map.has_changed(), "nothing has been read");
        assert_eq!(map.as_ref()[3 * 4096 - 1], 7);
        assert_eq!(map.as_ref()[5 * 4096], 0);
        assert!(map.has_changed() && !other.has_changed());
        // A file that grows again does not undo that its bytes were read as zeros.
        file.set_len(LENGTH as u64).unwrap();
        assert_eq!(map.as_ref()[LENGTH - 1], 0);
        assert_eq!(other.as_ref()[LENGTH - 1], 0);
        assert!(!other.has_changed(), "the file has zeros there by now");
        drop(map);
        file.set_len(0).unwrap();
        assert_eq!(other.as_ref().iter().map(|&byte| u64::from(byte)).sum::<u64>(), 0);
        assert!(other.has_changed());
    }

    #[test]
    fn many_readers_of_shrinking_files_live_on() {
        let work = |_| {
            for round in 0..200 {
                let mut file = tempfile::tempfile().unwrap();
                file.write_all(&[7; 5 * 4096]).unwrap();
                let map = FileMap::new(&file).unwrap();
                file.set_len(round % 5 * 4096).unwrap();
                let sum: u64 = map.as_ref().iter().map(|&byte| u64::from(byte)).sum();
                assert_eq!(sum, 7 * 4096 * (round % 5));
                assert!(map.has_changed());
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|number| drop(scope.spawn(move || work(number)))));
    }

    /// The other half of [`a_fault_that_is_not_of_a_guarded_map_ends_the_process`]: what its child does.
    #[test]
    #[ignore = "ends the process that runs it"]
    fn faults_elsewhere() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 2 * 4096]).unwrap();
        let _guarded = FileMap::new(&file).unwrap();
        // SAFETY: a private map of a file of ours; that it shrinks is what is tried.
        let unguarded = unsafe { memmap2::Mmap::map(&file) }.unwrap();
        file.set_len(0).unwrap();
        println!("{}", unguarded[4096]);
    }

    #[test]
    fn a_fault_that_is_not_of_a_guarded_map_ends_the_process() {
        use std::os::unix::process::ExitStatusExt;
        let mut child = std::process::Command::new("/proc/self/exe");
        child.args(["--ignored", "--exact", "sys::file_map::tests::faults_elsewhere"]);
        let output = child.output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
    }
}
