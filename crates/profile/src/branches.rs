//! The stacks of each thread, with all that they share, as branches that carry weight.

use crate::{Profile, StackId, ThreadId, Weight};

/// The number of a branch in [`Branches`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BranchId(u32);

/// A stack of a thread, and what grows from it: the same stack of another thread is another branch.
#[derive(Clone, Copy, Debug)]
struct Branch {
    stack: StackId,
    /// Unused in the empty stack of a thread.
    caller: u32,
    /// 0 for none: that is the branch of no thread.
    first_callee: u32,
    /// The next one that `caller` calls; 0 for none.
    next_callee: u32,
    /// The weight of all samples whose stack begins like this one.
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
        let mut all = Self { branches: Vec::with_capacity(profile.stacks.len() + 1), roots: Vec::new() };
        all.push(StackId::EMPTY, 0);
        // By stack: its branch, if that is one of this thread's.
        let mut known = vec![0; profile.stacks.len()];
        let mut new = Vec::new();
        for of_thread in counts.chunk_by(|(one, ..), (other, ..)| one == other) {
            let Some(&(thread, ..)) = of_thread.first() else { continue };
            let root = all.push(StackId::EMPTY, 0);
            known[StackId::EMPTY.index()] = root;
            all.roots.push((thread, BranchId(root)));
            for &(_, stack, count) in of_thread {
                let mut rest = stack;
                while known[rest.index()] < root
                    && let Some((_, caller)) = profile.stacks.split(rest)
                {
                    new.push(rest);
                    rest = caller;
                }
                let mut branch = known[rest.index()];
                while let Some(stack) = new.pop() {
                    branch = all.push(stack, branch);
                    known[stack.index()] = branch;
                }
                let total = &mut all.branches[branch as usize].total;
                *total = total.saturating_add(count.weight(weight));
            }
        }
        all.connect();
        all
    }

    fn push(&mut self, stack: StackId, caller: u32) -> u32 {
        self.branches.push(Branch { stack, caller, first_callee: 0, next_callee: 0, total: 0 });
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

    /// The stack of a branch.
    pub(crate) fn stack(&self, branch: BranchId) -> StackId {
        self.branches[branch.0 as usize].stack
    }

    /// The weight of all samples whose stack begins like this one.
    pub(crate) fn total(&self, branch: BranchId) -> u64 {
        self.branches[branch.0 as usize].total
    }

    /// The branches that are one entry longer.
    pub(crate) fn callees(&self, branch: BranchId) -> impl Iterator<Item = BranchId> {
        let mut next = self.branches[branch.0 as usize].first_callee;
        std::iter::from_fn(move || {
            let callee = next;
            next = self.branches[callee as usize].next_callee;
            (callee != 0).then_some(BranchId(callee))
        })
    }
}
