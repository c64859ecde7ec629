//! The processes that run on this machine, for crates that may not ask the operating system themselves.

use std::sync::Arc;

use model::{Avma, Pid, ProcessMemory, Tid};

use crate::{process_memory, procfs};

/// Reads the memory of running processes, and numbers of their threads.
#[derive(Clone, Copy, Default, Debug)]
pub struct LiveProcesses;

impl ProcessMemory for LiveProcesses {
    fn read(&self, pid: Pid, address: Avma, into: &mut [u8]) -> usize {
        process_memory::read(pid, address.0, into).unwrap_or(0)
    }

    fn blocks(&self, pid: Pid, start: Avma, others: &[Avma]) -> Vec<(Avma, Arc<Vec<u8>>)> {
        process_memory::read_blocks(pid, start, others)
    }

    fn own_number(&self, tid: Tid) -> Option<Tid> {
        let status = procfs::status(tid).ok()?;
        Some(Tid(status.own_number.0))
    }
}
