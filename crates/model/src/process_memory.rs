use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Avma, Pid, Tid};

/// The size of a block of memory in bytes, and its alignment. A larger one holds more, and costs no more to read than a small one.
pub const BLOCK_BYTES: u64 = 4096;

/// Reads the memory of running processes, for crates that may not ask the operating system themselves.
pub trait ProcessMemory {
    /// Copies the memory of a process from `address` on into `into`. Returns the number of bytes copied: fewer than there is room
    /// for where the readable memory ends, and 0 where the process has ended or may not be read.
    fn read(&self, pid: Pid, address: Avma, into: &mut [u8]) -> usize;

    /// Returns up to [`BLOCK_BYTES`] from `start` on, as [`ProcessMemory::read`] copies them. Who keeps blocks shares them.
    fn block(&self, pid: Pid, start: Avma) -> Arc<Vec<u8>> {
        let mut bytes = vec![0; BLOCK_BYTES as usize];
        let read = self.read(pid, start, &mut bytes);
        bytes.truncate(read);
        Arc::new(bytes)
    }

    /// Returns the block at `start` first, and as many of the `others` as cost little in addition: where another process reads for this
    /// one, the question costs more than the blocks.
    fn blocks(&self, pid: Pid, start: Avma, others: &[Avma]) -> Vec<(Avma, Arc<Vec<u8>>)> {
        let _ = others;
        vec![(start, self.block(pid, start))]
    }

    /// Returns the number that a thread has in the PID namespace of its process, such as that of a container; `None` where it has ended.
    /// By default there are no namespaces.
    fn own_number(&self, tid: Tid) -> Option<Tid> {
        Some(tid)
    }
}
