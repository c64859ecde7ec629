//! Reads memory of other processes: `process_vm_readv(2)`.
//!
//! Only what is in memory is read, as `/proc/PID/pagemap` says. To read another page, the kernel would fetch it: from a file system that
//! may not answer, if one is mapped there. Then nobody could end us, not even with SIGKILL. A hostile process can have a page dropped
//! between the two calls, and can hold the lock of its memory, so that only `crate::process_memory` knows who may call this.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use model::Pid;

use super::check;
use super::system::{page_size, shows_our_pids};

/// Reads memory of a process from `address` (Avma) into `into`. Returns the number of bytes read: fewer than requested if a page follows
/// that is not in memory, or not mapped, or lies in a file (or memory without one that is shared) and `may_read_file` refuses its address.
/// Where the kernel does not tell which pages are in memory, nothing is read.
///
/// # Errors
/// `EFAULT` if nothing is mapped at `address`, `ESRCH` if the process has ended, `EPERM` if we may not read it.
pub(crate) fn read(
    pid: Pid,
    address: u64,
    into: &mut [u8],
    may_read_file: &mut dyn FnMut(u64) -> bool,
) -> io::Result<usize> {
    match read_by(pid.0, address, into, may_read_file) {
        // The memory is that of all threads, and the main one may have ended before the others.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) && shows_our_pids() => {
            let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Err(error) };
            let mut tids = threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
            tids.find_map(|tid: i32| read_by(tid, address, into, may_read_file).ok()).ok_or(error)
        }
        result => result,
    }
}

/// Reads the memory of the process of the thread with this number.
fn read_by(
    tid: i32,
    address: u64,
    into: &mut [u8],
    may_read_file: &mut dyn FnMut(u64) -> bool,
) -> io::Result<usize> {
    let length = PAGE_MAPS.with_borrow_mut(|maps| maps.present(tid, address, into.len(), may_read_file))?;
    let into = into.get_mut(..length).unwrap_or_default();
    let Ok(address) = usize::try_from(address) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: into.len() };
    // SAFETY: the local vector describes `into`, which the kernel writes to; the remote one is an address in the other
    // process, which the kernel checks.
    let read = unsafe { libc::process_vm_readv(tid, &raw const local, 1, &raw const remote, 1, 0) };
    // −1 is an error; otherwise at most `isize::MAX`.
    if read < 0 {
        check(-1)?;
    }
    Ok(usize::try_from(read).unwrap_or(0))
}

thread_local! {
    static PAGE_MAPS: RefCell<PageMaps> = RefCell::default();
}

/// The page maps of processes, kept open: opening one takes longer than reading it.
#[derive(Default)]
struct PageMaps(HashMap<i32, File>);

/// Maximum number of processes of which a thread keeps page maps open, or remembers something else. When it is reached, all are forgotten:
/// most processes have ended.
pub(crate) const MAX_PROCESSES: usize = 64;
/// Maximum number of pages that are looked at. Who reads asks for a few.
const MAX_PAGES: usize = 64;
/// Bytes of a page map for each page.
const ENTRY_BYTES: usize = 8;
/// The bit of an entry that says that the page is in memory (`Documentation/admin-guide/mm/pagemap.rst`).
const PRESENT: u64 = 1 << 63;
/// The bit of an entry that says that the page is of a file, or of shared memory.
const OF_FILE: u64 = 1 << 61;

impl PageMaps {
    /// Returns how many of `length` bytes from `address` on lie in pages that are in memory and may be read.
    fn present(
        &mut self,
        tid: i32,
        address: u64,
        length: usize,
        may_read_file: &mut dyn FnMut(u64) -> bool,
    ) -> io::Result<usize> {
        let page = page_size() as u64;
        let first = address / page;
        let last = address.saturating_add(length.max(1) as u64 - 1) / page;
        let pages = usize::try_from(last - first).map_or(MAX_PAGES, |pages| (pages + 1).min(MAX_PAGES));
        let mut entries = [0; MAX_PAGES * ENTRY_BYTES];
        let entries = entries.get_mut(..pages * ENTRY_BYTES).unwrap_or_default();
        let read = self.read(tid, first.saturating_mul(ENTRY_BYTES as u64), entries)?;
        let entries = entries.get(..read).unwrap_or_default().as_chunks::<ENTRY_BYTES>().0;
        let mut may_read = |(entry, number): (&[u8; ENTRY_BYTES], u64)| {
            let entry = u64::from_ne_bytes(*entry);
            entry & PRESENT != 0 && (entry & OF_FILE == 0 || may_read_file(number.saturating_mul(page)))
        };
        let present = entries.iter().zip(first..).take_while(|&at| may_read(at)).count() as u64;
        let end = (first + present).saturating_mul(page);
        Ok(usize::try_from(end.saturating_sub(address)).map_or(length, |present| present.min(length)))
    }

    /// Reads a part of a page map. A kept one may be that of an earlier program of the process: then it is empty.
    fn read(&mut self, tid: i32, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if let Some(map) = self.0.get(&tid)
            && let Ok(read @ 1..) = map.read_at(into, offset)
        {
            return Ok(read);
        }
        if self.0.len() >= MAX_PROCESSES {
            self.0.clear();
        }
        let map = File::open(format!("/proc/{tid}/pagemap"))?;
        let read = map.read_at(into, offset)?;
        self.0.insert(tid, map);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::perf_event::own_pid;

    #[test]
    fn our_own_memory_is_read_and_nothing_else() {
        let word = 0x1234_5678_9abc_def0_u64.to_ne_bytes();
        let mut found = [0; 8];
        assert_eq!(read(own_pid(), word.as_ptr() as u64, &mut found, &mut |_| true).unwrap(), 8);
        assert_eq!(found, word);
        assert!(!matches!(read(own_pid(), 16, &mut found, &mut |_| true), Ok(1..)));
        assert!(!matches!(read(own_pid(), u64::MAX - 4, &mut found, &mut |_| true), Ok(1..)));
    }

    #[test]
    fn pages_that_are_not_in_memory_are_left_alone() {
        let page = page_size();
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 * page as u64).unwrap();
        file.write_all_at(&[7; 16], page as u64).unwrap();
        let mapping = crate::sys::file_map::FileMap::new(&file).unwrap();
        let bytes = mapping.as_ref();
        let mut found = vec![0; 2 * page];
        let address = bytes.as_ptr() as u64;
        assert_eq!(read(own_pid(), address + page as u64, &mut found[..16], &mut |_| true).unwrap_or(0), 0);
        assert_eq!(bytes[page], 7);
        assert_eq!(read(own_pid(), address + page as u64, &mut found[..16], &mut |_| true).unwrap(), 16);
        assert_eq!(found[..16], [7; 16]);
        let refused = read(own_pid(), address + page as u64, &mut found[..16], &mut |_| false);
        assert_eq!(refused.unwrap_or(0), 0);
    }
}
