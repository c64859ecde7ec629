use crate::{Avma, Pid, Tid};

/// Reads the memory of running processes, for crates that may not ask the operating system themselves.
pub trait ProcessMemory {
    /// Copies the memory of a process from `address` on into `into`. Returns the number of bytes copied: fewer than there is room
    /// for where the readable memory ends, and 0 where the process has ended or may not be read.
    fn read(&self, pid: Pid, address: Avma, into: &mut [u8]) -> usize;

    /// Returns the number that a thread has in the PID namespace of its process, such as that of a container; `None` where it has ended.
    /// By default there are no namespaces.
    fn own_number(&self, tid: Tid) -> Option<Tid> {
        Some(tid)
    }
}
