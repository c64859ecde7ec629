//! Reads memory of other processes: `process_vm_readv(2)`.

use std::io;

use model::{Avma, Pid, ProcessMemory};

use super::check;
use super::system::shows_our_pids;

/// Reads memory of a process from `address` (Avma) into `into`. Returns the number of bytes read: fewer than requested if an
/// unmapped page follows.
///
/// # Errors
/// `EFAULT` if nothing is mapped at `address`, `ESRCH` if the process has ended, `EPERM` if we may not read it.
pub fn read(pid: Pid, address: u64, into: &mut [u8]) -> io::Result<usize> {
    match read_by(pid.0, address, into) {
        // The memory is that of all threads, and the main one may have ended before the others.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) && shows_our_pids() => {
            let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Err(error) };
            let mut tids = threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
            tids.find_map(|tid: i32| read_by(tid, address, into).ok()).ok_or(error)
        }
        result => result,
    }
}

/// Reads the memory of the process of the thread with this number.
fn read_by(tid: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
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

/// The processes that run on this machine.
#[derive(Clone, Copy, Debug)]
pub struct LiveProcesses;

impl ProcessMemory for LiveProcesses {
    fn read(&self, pid: Pid, address: Avma, into: &mut [u8]) -> usize {
        read(pid, address.0, into).unwrap_or(0)
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
        assert_eq!(read(own_pid(), word.as_ptr() as u64, &mut found).unwrap(), 8);
        assert_eq!(found, word);
        assert!(read(own_pid(), 16, &mut found).is_err());
        assert!(read(own_pid(), u64::MAX - 4, &mut found).is_err());
    }
}
