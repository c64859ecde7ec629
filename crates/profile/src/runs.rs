//! Stores the caller of each node of a tree in 2 bits a node and 8 bytes a run: most nodes have the previous node as their caller.

/// The number of nodes in a block: one bit each in [`Block::begins`].
const BLOCK: u32 = u64::BITS;

/// A bit set of the nodes that begin a run, for 64 consecutive nodes.
#[derive(Clone, Copy, Default, Debug)]
struct Block {
    begins: u64,
    /// The number of runs that begin in earlier blocks.
    before: u32,
}

/// The caller of each node. Node 0 is the root, and its caller is itself.
#[derive(Clone, Debug)]
pub(crate) struct Callers {
    blocks: Vec<Block>,
    /// By run: the caller of the run's first node.
    of_runs: Vec<u32>,
    /// By run: the run's first node.
    starts: Vec<u32>,
    nodes: u32,
}

impl Default for Callers {
    fn default() -> Self {
        let mut callers = Self { blocks: Vec::new(), of_runs: Vec::new(), starts: Vec::new(), nodes: 0 };
        callers.push_branch(0);
        callers
    }
}

impl Callers {
    /// Adds a node whose caller is the previous node.
    pub(crate) fn push_follower(&mut self) {
        self.push(false);
    }

    /// Adds a node that begins a run: `caller` may be any node.
    pub(crate) fn push_branch(&mut self, caller: u32) {
        self.starts.push(self.nodes);
        self.push(true);
        self.of_runs.push(caller);
    }

    fn push(&mut self, begins: bool) {
        if self.nodes.is_multiple_of(BLOCK) {
            // There are at most as many runs as nodes, whose numbers have 32 bits.
            self.blocks.push(Block { begins: 0, before: self.of_runs.len() as u32 });
        }
        if let Some(block) = self.blocks.last_mut() {
            block.begins |= u64::from(begins) << (self.nodes % BLOCK);
        }
        self.nodes += 1;
    }

    /// Returns the caller of a node.
    #[inline]
    pub(crate) fn of(&self, node: u32) -> u32 {
        let block = self.blocks[(node / BLOCK) as usize];
        let bit = 1 << (node % BLOCK);
        if block.begins & bit == 0 {
            return node - 1;
        }
        self.of_runs[(block.before + (block.begins & (bit - 1)).count_ones()) as usize]
    }

    /// Returns the number of the run that contains `node`.
    #[inline]
    pub(crate) fn run(&self, node: u32) -> usize {
        let block = self.blocks[(node / BLOCK) as usize];
        let up_to = block.begins & (u64::MAX >> (BLOCK - 1 - node % BLOCK));
        // Node 0 begins a run, so at least one bit is set up to here.
        (block.before + up_to.count_ones() - 1) as usize
    }

    /// Returns the first node of a run.
    pub(crate) fn start(&self, run: usize) -> u32 {
        self.starts[run]
    }

    /// Returns the number of runs.
    pub(crate) fn runs(&self) -> usize {
        self.starts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_node_has_its_caller_and_its_run(gaps in prop::collection::vec((any::<u32>(), 0_u32..200), 1..40)) {
            let mut callers = Callers::default();
            let mut expected = vec![(0, (0, 0))];
            for (number, &(caller, followers)) in gaps.iter().enumerate() {
                let start = expected.len() as u32;
                let (caller, run) = (caller % start, (number + 1, start));
                callers.push_branch(caller);
                expected.push((caller, run));
                for _ in 0..followers {
                    callers.push_follower();
                    expected.push((expected.len() as u32 - 1, run));
                }
            }
            prop_assert_eq!(callers.runs(), gaps.len() + 1);
            for (node, &expected) in expected.iter().enumerate() {
                let run = callers.run(node as u32);
                prop_assert_eq!((callers.of(node as u32), (run, callers.start(run))), expected);
            }
        }
    }
}
