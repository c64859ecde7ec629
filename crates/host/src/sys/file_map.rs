//! A memory-mapped file that survives truncation.
//!
//! Access beyond the end of a mapped file, or to a page that the disk cannot read, raises SIGBUS (mmap(2)), so whoever may write to
//! a file could end this process. Our handler checks whether the address is in a guarded map. If so, it replaces that page and all
//! following ones with zeroed memory and marks the map. The reader continues, checks the mark at its end, and discards what it
//! read. Every other SIGBUS goes to the previous handler, or ends the process.

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

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
        if map.len() > MAX_BYTES {
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

/// Registers a map with the handler. Must be dropped before the map is unmapped.
#[derive(Debug)]
struct Guard(&'static Slot);

/// Maximum size of a guarded map: a [`Slot`] has 28 bits for the number of pages.
const MAX_BYTES: usize = ((1 << COUNT_BITS) - 1) * PAGE;

/// The smallest page size of all architectures. Maps start at a multiple of it.
const PAGE: usize = 4096;
const COUNT_BITS: u32 = 28;

/// One registered map. The handler reads it at any moment in any thread, so slots are never freed, only reused.
#[derive(Default, Debug)]
struct Slot {
    /// The number of the first page, and in the lower [`COUNT_BITS`] bits the number of pages; 0 for no map. One word, so that the
    /// handler never combines the start of one map with the length of another.
    pages: AtomicU64,
    /// True if pages were replaced.
    has_faulted: AtomicBool,
    next: AtomicPtr<Slot>,
}

/// All slots, as a list that only grows.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
/// The slots without a map.
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

impl Guard {
    /// Guards a map that starts at a page boundary. Installs the handler on the first call.
    pub(super) fn new(map: &[u8]) -> Self {
        install();
        // A panic in another thread leaves the list valid.
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let slot = free.unwrap_or_else(|| {
            let slot: &'static Slot = Box::leak(Box::default());
            let _ = SLOTS.fetch_update(Ordering::Release, Ordering::Relaxed, |head| {
                slot.next.store(head, Ordering::Relaxed);
                Some(ptr::from_ref(slot).cast_mut())
            });
            slot
        });
        let first = (map.as_ptr() as usize / PAGE) as u64;
        let count = map.len().min(MAX_BYTES).div_ceil(PAGE) as u64;
        slot.has_faulted.store(false, Ordering::Relaxed);
        slot.pages.store(first << COUNT_BITS | count, Ordering::Release);
        Self(slot)
    }

    /// Returns true if the map may have returned zeros that are not in the file.
    pub(super) fn has_faulted(&self) -> bool {
        self.0.has_faulted.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.pages.store(0, Ordering::Release);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

impl Slot {
    fn range(&self) -> Range<usize> {
        let pages = self.pages.load(Ordering::Acquire);
        let start = (pages >> COUNT_BITS) as usize * PAGE;
        start..start + (pages & ((1 << COUNT_BITS) - 1)) as usize * PAGE
    }
}

/// The previous handler. Written once, before ours can run.
struct Previous(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: it is written by `install` alone, once, before the handler that reads it can run.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::zeroed()));

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
        // SAFETY: the structure is plain data, for which zeros are valid, and lives until the calls return. The previous handler
        // is stored first, because a thread may fault as soon as ours is installed.
        unsafe {
            libc::sigaction(libc::SIGBUS, ptr::null(), (*PREVIOUS.0.get()).as_mut_ptr());
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handler as usize;
            // SA_ONSTACK, like the standard library's handler of SIGBUS.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
        }
    });
}

/// Handles SIGBUS. Async-signal-safe (signal-safety(7)): reads atomics and makes system calls.
extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid structure; of a fault it has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // sigaction(2): codes above 0 are the kernel's own.
    let is_fault = code > 0;
    if !(is_fault && replace_pages(address)) {
        pass_on(signal, is_fault, info, context);
    }
}

/// Replaces the page at `address` and all following ones of its map with zeroed memory. Returns false if no guarded map contains it.
fn replace_pages(address: usize) -> bool {
    let mut slot = SLOTS.load(Ordering::Acquire);
    // SAFETY: slots are never freed, and are in the list when they are complete.
    while let Some(known) = unsafe { slot.as_ref() } {
        let range = known.range();
        if range.contains(&address) {
            known.has_faulted.store(true, Ordering::Relaxed);
            let page = address / PAGE * PAGE;
            // SAFETY: the range is a map of ours: its guard lives, and goes before it does. It stays readable memory of the
            // same extent, so that no reference into it dangles. errno belongs to the code that was interrupted.
            return unsafe {
                let errno = *libc::__errno_location();
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
                let length = range.end - page;
                let mapped = libc::mmap(page as *mut libc::c_void, length, libc::PROT_READ, flags, -1, 0);
                *libc::__errno_location() = errno;
                mapped != libc::MAP_FAILED
            };
        }
        slot = known.next.load(Ordering::Acquire);
    }
    false
}

/// Passes a signal that does not concern a guarded map to the previous handler, or restores the default action.
fn pass_on(signal: libc::c_int, is_fault: bool, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: it was written before this handler was installed. What it names, if it is no default, was installed as a
    // handler of this form. The default action is taken when the instruction faults again, or by raising the signal again: it is
    // blocked until this handler returns.
    unsafe {
        let previous = (*PREVIOUS.0.get()).assume_init();
        match previous.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::signal(signal, libc::SIG_DFL);
                if !is_fault {
                    libc::raise(signal);
                }
            }
            handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
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
