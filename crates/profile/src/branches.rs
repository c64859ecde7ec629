//! The stacks of each thread, with all that they share, as branches that carry weight.

use crate::{Profile, StackId, StackTable, ThreadId, Weight};

/// The number of a branch in [`Branches`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BranchId(u32);

/// Stacks of a thread, each on top of the one before, that the same samples go through. The same stacks of another
/// thread are another branch.
#[derive(Clone, Copy, Debug)]
struct Branch {
    /// The first and the last of the stacks, whose numbers follow each other.
    first: StackId,
    last: StackId,
    /// Unused in the empty stack of a thread.
    caller: u32,
    /// 0 for none: that is the branch of no thread.
    first_callee: u32,
    /// The next one that `caller` calls; 0 for none.
    next_callee: u32,
    /// The weight of all samples whose stack begins like the last one.
    total: u64,
}

/// All branches of a profile.
#[derive(Debug)]
pub(crate) struct Branches {
    /// Thread by thread, callers before what they call. The first one stands for no thread.
    branches: Vec<Branch>,
    roots: Vec<(ThreadId, BranchId)>,
}

impl Branches {
    /// The branches of all samples, weighed by `weight`.
    pub(crate) fn of(profile: &Profile, weight: Weight) -> Self {
        let mut counts: Vec<_> = profile.counts().collect();
        counts.sort_unstable_by_key(|&(thread, stack, _)| (thread, stack));
        let mut all = Self { branches: Vec::new(), roots: Vec::new() };
        all.push(StackId::EMPTY, StackId::EMPTY, 0);
        let mut ends = Ends::of(&profile.stacks);
        for of_thread in counts.chunk_by(|(one, ..), (other, ..)| one == other) {
            let Some(&(thread, ..)) = of_thread.first() else { continue };
            let root = all.push(StackId::EMPTY, StackId::EMPTY, 0);
            all.roots.push((thread, BranchId(root)));
            ends.find(of_thread.iter().map(|&(_, stack, _)| stack), root);
            let mut counts = of_thread.iter().peekable();
            let mut before = StackId::EMPTY;
            for &end in &ends.found {
                let mut branch = root;
                if end != StackId::EMPTY {
                    let start = profile.stacks.run(end).first;
                    let first = if before < start { start } else { before.next_of_run() };
                    branch = all.push(first, end, ends.branch[profile.stacks.caller(first).index()]);
                }
                ends.branch[end.index()] = branch;
                if let Some((_, _, count)) = counts.next_if(|&&(_, stack, _)| stack == end) {
                    all.branches[branch as usize].total = count.weight(weight);
                }
                before = end;
            }
        }
        all.connect();
        all
    }

    fn push(&mut self, first: StackId, last: StackId, caller: u32) -> u32 {
        self.branches.push(Branch { first, last, caller, first_callee: 0, next_callee: 0, total: 0 });
        // As many as there are of stacks and threads: memory ends before the numbers do.
        (self.branches.len() - 1) as u32
    }

    /// Tells callers what they call, and how much that weighs.
    fn connect(&mut self) {
        for index in (1..self.branches.len()).rev() {
            let Branch { caller, total, .. } = self.branches[index];
            let caller = &mut self.branches[caller as usize];
            caller.total = caller.total.saturating_add(total);
            let next = std::mem::replace(&mut caller.first_callee, index as u32);
            self.branches[index].next_callee = next;
        }
    }

    /// The empty stacks of all threads that have samples.
    pub(crate) fn roots(&self) -> &[(ThreadId, BranchId)] {
        &self.roots
    }

    /// The first of the stacks of a branch.
    pub(crate) fn first(&self, branch: BranchId) -> StackId {
        self.branches[branch.0 as usize].first
    }

    /// The stack of a branch on top of `stack`; `None` where the branch ends.
    pub(crate) fn next(&self, branch: BranchId, stack: StackId) -> Option<StackId> {
        (stack < self.branches[branch.0 as usize].last).then(|| stack.next_of_run())
    }

    /// The weight of all samples whose stack begins like those of this branch.
    pub(crate) fn total(&self, branch: BranchId) -> u64 {
        self.branches[branch.0 as usize].total
    }

    /// The branches on top of the last stack.
    pub(crate) fn callees(&self, branch: BranchId) -> impl Iterator<Item = BranchId> {
        let mut next = self.branches[branch.0 as usize].first_callee;
        std::iter::from_fn(move || {
            let callee = next;
            next = self.branches[callee as usize].next_callee;
            (callee != 0).then_some(BranchId(callee))
        })
    }
}

/// The ends of a thread's branches: the stacks of its samples, and the places where the runs of its stacks part.
struct Ends<'p> {
    stacks: &'p StackTable,
    /// Ascending, the empty stack first.
    found: Vec<StackId>,
    /// By stack: the branch that ends there, of the last thread that had one.
    branch: Vec<u32>,
    /// By run: the first branch of the last thread that had stacks in it.
    thread: Vec<u32>,
}

impl<'p> Ends<'p> {
    fn of(stacks: &'p StackTable) -> Self {
        Self { stacks, found: Vec::new(), branch: vec![0; stacks.len()], thread: vec![0; stacks.runs()] }
    }

    /// Finds the ends for samples with these stacks. `root` is the first branch of their thread.
    fn find(&mut self, samples: impl Iterator<Item = StackId>, root: u32) {
        self.found.clear();
        self.found.push(StackId::EMPTY);
        for mut end in samples {
            loop {
                self.found.push(end);
                let run = self.stacks.run(end);
                if std::mem::replace(&mut self.thread[run.number], root) == root
                    || run.first == StackId::EMPTY
                {
                    break;
                }
                end = self.stacks.caller(run.first);
            }
        }
        self.found.sort_unstable();
        self.found.dedup();
    }
}
