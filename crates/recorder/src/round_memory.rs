//! The memory of processes that run, each block read once for the samples of a round, or for a look: they lead to the same frames and
//! functions. The blocks of the round before are mostly wanted again, and are asked for together.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use host::live_processes::LiveProcesses;
use model::{Avma, Pid, ProcessMemory, Tid};
use rustc_hash::FxHashMap;

/// The memory of processes, with the blocks that were read since [`RoundMemory::forget`]. Where a process has gone on since, they are the
/// nearer to the samples.
#[derive(Default, Debug)]
pub(crate) struct RoundMemory<M = LiveProcesses> {
    memory: M,
    blocks: RefCell<Blocks>,
    /// The blocks that each process had in the round before, until the first is wanted again.
    before: RefCell<FxHashMap<Pid, Vec<Avma>>>,
}

/// Blocks by their process and their beginning.
type Blocks = FxHashMap<(Pid, Avma), Block>;

#[derive(Debug)]
struct Block {
    bytes: Arc<Vec<u8>>,
    /// True if it was wanted in this round.
    is_wanted: Cell<bool>,
}

/// The maximum number of blocks that are kept, of 4 KiB each: those of the stacks of a few hundred samples.
const MAX_BLOCKS: usize = 1024;

impl<M> RoundMemory<M> {
    /// Forgets what was read.
    pub(crate) fn forget(&mut self) {
        let before = self.before.get_mut();
        before.clear();
        for ((pid, start), block) in self.blocks.get_mut().drain() {
            if block.is_wanted.get() {
                before.entry(pid).or_default().push(start);
            }
        }
    }
}

impl<M: ProcessMemory> ProcessMemory for RoundMemory<M> {
    fn read(&self, pid: Pid, address: Avma, into: &mut [u8]) -> usize {
        self.memory.read(pid, address, into)
    }

    fn block(&self, pid: Pid, start: Avma) -> Arc<Vec<u8>> {
        let mut blocks = self.blocks.borrow_mut();
        if let Some(known) = blocks.get(&(pid, start)) {
            known.is_wanted.set(true);
            return Arc::clone(&known.bytes);
        }
        let others = self.before.borrow_mut().remove(&pid).unwrap_or_default();
        let mut wanted = None;
        for (at, bytes) in self.memory.blocks(pid, start, &others) {
            if at == start {
                wanted = Some(Arc::clone(&bytes));
            }
            if blocks.len() < MAX_BLOCKS {
                blocks.insert((pid, at), Block { bytes, is_wanted: Cell::new(at == start) });
            }
        }
        wanted.unwrap_or_default()
    }

    fn own_number(&self, tid: Tid) -> Option<Tid> {
        self.memory.own_number(tid)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts how often it is read; the count is what it holds.
    #[derive(Default)]
    struct Counting(Cell<u8>);

    impl ProcessMemory for Counting {
        fn read(&self, _: Pid, _: Avma, into: &mut [u8]) -> usize {
            self.0.set(self.0.get().wrapping_add(1));
            into.fill(self.0.get());
            into.len()
        }
    }

    #[test]
    fn a_block_is_read_once_a_round() {
        let mut memory = RoundMemory::<Counting>::default();
        let first = |memory: &RoundMemory<Counting>, pid, start| memory.block(Pid(pid), Avma(start))[0];
        assert_eq!([first(&memory, 1, 4096), first(&memory, 1, 4096)], [1, 1]);
        assert_eq!([first(&memory, 2, 4096), first(&memory, 1, 8192)], [2, 3]);
        memory.forget();
        assert_eq!(first(&memory, 1, 4096), 4);
        for number in 0..2 * MAX_BLOCKS as u64 {
            first(&memory, 3, number * 4096);
        }
        assert_eq!(memory.blocks.borrow().len(), MAX_BLOCKS);
    }
}
