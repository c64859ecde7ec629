//! Divides the stacks of each thread into branches with weights. Stacks share the branches of their common callers.

use crate::{Profile, StackId, StackTable, ThreadId, Weight};

/// The number of a branch in [`Branches`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BranchId(u32);

/// A part of a thread's call tree without forks: consecutive stacks of one run that belong to the same samples. The same
/// stacks of another thread form another branch.
#[derive(Clone, Copy, Debug)]
struct Branch {
    /// The first and the last stack. The numbers between them are stacks of the branch, too.
    first: StackId,
    last: StackId,
    /// The branch that calls this one. It is 0 in the branch of a thread's empty stack.
    caller: u32,
    /// The first branch that this one calls; 0 for none.
    first_callee: u32,
    /// The next branch with the same caller; 0 for none.
    next_callee: u32,
    /// The weight of all samples whose stack is `last` or has it as a caller.
    total: u64,
}

/// All branches of a profile.
#[derive(Debug)]
pub(crate) struct Branches {
    /// Thread by thread, callers before callees. Number 0 belongs to no thread, so that 0 can stand for none.
    branches: Vec<Branch>,
    roots: Vec<(ThreadId, BranchId)>,
}

impl Branches {
    /// Builds the branches of all samples of a profile, weighed by `weight`.
    pub(crate) fn of(profile: &Profile, weight: Weight) -> Self {
        let counts = profile.counts().map(|(thread, stack, count)| (thread, stack, count.weight(weight)));
        let mut counts: Vec<_> = counts.collect();
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
                    let start = profile.stacks.first_of_run(profile.stacks.run(end));
                    let first = if before < start { start } else { before.next_of_run() };
                    branch = all.push(first, end, ends.branch[profile.stacks.caller(first).index()]);
                }
                ends.branch[end.index()] = branch;
                if let Some(&(_, _, total)) = counts.next_if(|&&(_, stack, _)| stack == end) {
                    all.branches[branch as usize].total = total;
                }
                before = end;
            }
        }
        all.connect();
        all
    }

    fn push(&mut self, first: StackId, last: StackId, caller: u32) -> u32 {
        self.branches.push(Branch { first, last, caller, first_callee: 0, next_callee: 0, total: 0 });
        // Memory runs out before there are 2^32 branches.
        (self.branches.len() - 1) as u32
    }

    /// Links each branch into the list of its caller, and adds its weight to the caller's. Goes backwards, so that the weight
    /// of a branch is complete before it is added.
    fn connect(&mut self) {
        for index in (1..self.branches.len()).rev() {
            let Branch { caller, total, .. } = self.branches[index];
            let caller = &mut self.branches[caller as usize];
            caller.total = caller.total.saturating_add(total);
            let next = std::mem::replace(&mut caller.first_callee, index as u32);
            self.branches[index].next_callee = next;
        }
    }

    /// Returns each thread that has samples, with the branch of its empty stack.
    pub(crate) fn roots(&self) -> &[(ThreadId, BranchId)] {
        &self.roots
    }

    /// Returns the first stack of a branch.
    pub(crate) fn first(&self, branch: BranchId) -> StackId {
        self.branches[branch.0 as usize].first
    }

    /// Returns the stack after `stack` in a branch; `None` at the end of the branch.
    pub(crate) fn next(&self, branch: BranchId, stack: StackId) -> Option<StackId> {
        (stack < self.branches[branch.0 as usize].last).then(|| stack.next_of_run())
    }

    /// Returns the weight of all samples whose stack goes through this branch.
    pub(crate) fn total(&self, branch: BranchId) -> u64 {
        self.branches[branch.0 as usize].total
    }

    /// Returns the branches that begin above the last stack of this one.
    pub(crate) fn callees(&self, branch: BranchId) -> impl Iterator<Item = BranchId> {
        let mut next = self.branches[branch.0 as usize].first_callee;
        std::iter::from_fn(move || {
            let callee = next;
            next = self.branches[callee as usize].next_callee;
            (callee != 0).then_some(BranchId(callee))
        })
    }
}

/// Finds the last stacks of a thread's branches: the stacks of its samples, and those that another run begins above.
struct Ends<'p> {
    stacks: &'p StackTable,
    /// The last stacks, ascending. The empty stack is the first.
    found: Vec<StackId>,
    /// By stack: the branch that ends there, of the last thread that has such a branch.
    branch: Vec<u32>,
    /// By run: the root branch of the last thread that has stacks in the run.
    thread: Vec<u32>,
}

impl<'p> Ends<'p> {
    fn of(stacks: &'p StackTable) -> Self {
        Self { stacks, found: Vec::new(), branch: vec![0; stacks.len()], thread: vec![0; stacks.runs()] }
    }

    /// Fills `found` for a thread whose samples have these stacks. `root` is the root branch of the thread.
    fn find(&mut self, samples: impl Iterator<Item = StackId>, root: u32) {
        self.found.clear();
        self.found.push(StackId::EMPTY);
        for mut end in samples {
            loop {
                self.found.push(end);
                let run = self.stacks.run(end);
                // Run 0 is that of the empty stack.
                if std::mem::replace(&mut self.thread[run], root) == root || run == 0 {
                    break;
                }
                end = self.stacks.caller(self.stacks.first_of_run(run));
            }
        }
        self.found.sort_unstable();
        self.found.dedup();
    }
}
