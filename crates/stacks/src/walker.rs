//! Finds one user stack from all that is known of it: the copy, the kernel's own walk, live memory.

use decoder::Sample;
use model::{Avma, Pid, ProcessMemory, TruncationReason};
use python::Activation;
use unwinder::{Architecture, NoMemory, StackEnd, UnwoundStack};

use crate::chain::{ChainEnd, ChainUnwinder};
use crate::interpreters::push_activations;
use crate::javascript_words::{IndexedWords, MappedV8};
use crate::kernel_walk::{FirstWord, callers_beyond};
use crate::live_memory::{FrameCheck, LiveMemory};
use crate::mechanisms::Mechanisms;
use crate::process_maps::{MappedObjects, ProcessMaps};
use crate::user_state::UserState;

/// A sample of a thread with a user stack, and the mappings of its process at that moment.
#[derive(Clone, Copy, Debug)]
pub struct SampledStack<'a> {
    /// The sample.
    pub sample: &'a Sample<'a>,
    /// Its process.
    pub pid: Pid,
    /// Registers, and the copy of the stack.
    pub state: &'a UserState<'a>,
    /// The mappings of the process.
    pub maps: &'a ProcessMaps,
}

/// The number of unwind rules, of some 40 bytes each, that [`StackWalker::trim_caches`] keeps. Programs that come and go all day,
/// compilers above all, would fill the bound that a recording has.
const MAX_RULES_TRIMMED: usize = 50_000;

/// Walks user stacks into call chains.
#[derive(Debug, Default)]
pub struct StackWalker {
    unwinder: ChainUnwinder,
    memory: Vec<u8>,
    mechanisms: Mechanisms,
}

impl StackWalker {
    /// Creates a walker that ends stacks at `frame_limit` frames and uses these mechanisms only.
    pub fn new(frame_limit: u16, mechanisms: Mechanisms) -> Self {
        Self { unwinder: ChainUnwinder::new(frame_limit, mechanisms), mechanisms, ..Self::default() }
    }

    /// Drops the remembered rules, if there are more than a view that stays open for days should keep. Those in use come back with the next
    /// stacks.
    pub fn trim_caches(&mut self) {
        self.unwinder.forget_rules_beyond(MAX_RULES_TRIMMED);
    }

    /// Does the same as [`ChainUnwinder::insert_leaf_caller`].
    pub fn insert_leaf_caller(
        &mut self,
        architecture: Architecture,
        maps: &ProcessMaps,
        link: u64,
        chain: &mut Vec<u64>,
        start: usize,
    ) {
        self.unwinder.insert_leaf_caller(architecture, maps, link, chain, start);
    }

    /// Returns the stack that was walked last. Frames that the kernel's walk has added are only in the chain.
    pub fn stack(&self) -> &UnwoundStack {
        self.unwinder.stack()
    }

    /// Appends what the sample holds of each frame of the interpreter of Python in the last stack, innermost first.
    pub fn push_activations(&self, sampled: &SampledStack<'_>, activations: &mut Vec<Activation>) {
        push_activations(self.stack(), sampled.state, &sampled.maps.space, activations);
    }

    /// Appends the words of each frame in the last stack that V8 may have made, innermost first.
    pub fn push_javascript_words(
        &self,
        sampled: &SampledStack<'_>,
        v8: &MappedV8,
        words: &mut Vec<IndexedWords>,
    ) {
        v8.push_words(self.stack(), sampled.state, &sampled.maps.space, words);
    }

    /// Appends the stack as far as the sample itself holds it: in the copy, and beyond that by the kernel's walk where all code keeps
    /// frame pointers.
    pub fn walk(&mut self, sampled: &SampledStack<'_>, chain: &mut Vec<u64>) -> ChainEnd {
        let end = self.unwinder.unwind(sampled.maps, sampled.state, &mut NoMemory, chain);
        if self.stack().frame_pointer_beyond_copy.is_some() {
            let cut_at = chain.len() - 1;
            let mark = chain.split_off(cut_at);
            if self.extend_by_kernels_walk(sampled, chain) {
                return ChainEnd { end: StackEnd::Complete, beyond_copy: false };
            }
            chain.truncate(cut_at);
            chain.extend(mark);
        }
        end
    }

    /// Appends the stack, if it is complete in its copy. Reads only tables that are open, and only until `is_over` returns true. Returns false
    /// where that is not enough; `chain` may have grown then.
    pub fn walk_within(
        &mut self,
        sampled: &SampledStack<'_>,
        is_over: &dyn Fn() -> bool,
        chain: &mut Vec<u64>,
    ) -> bool {
        let mut objects = MappedObjects::open(sampled.maps, is_over).at(sampled.state.time);
        self.unwinder.unwind_within(&mut objects, sampled.state, chain) == Some(StackEnd::Complete)
    }

    /// Returns true if the last stack is deeper than its copy, or goes on in another stack.
    pub fn exceeds_copy(&self) -> bool {
        let stack = self.unwinder.stack();
        let is_beyond =
            |reason| matches!(reason, TruncationReason::CopyTooSmall | TruncationReason::OtherStack);
        matches!(stack.end, StackEnd::Truncated(reason) if is_beyond(reason))
            || stack.frame_pointer_beyond_copy.is_some()
    }

    /// Continues the last stack, which is deeper than its copy, by the process's `memory`.
    /// `chain` holds the stack from `start` on. Must follow a call of [`StackWalker::walk`] for the same sample.
    pub fn walk_beyond_copy(
        &mut self,
        sampled: &SampledStack<'_>,
        memory: &dyn ProcessMemory,
        chain: &mut Vec<u64>,
        start: usize,
    ) -> ChainEnd {
        let SampledStack { pid, state, maps, .. } = *sampled;
        let check = self.frame_check(sampled, chain, start);
        let stack = self.unwinder.stack();
        if stack.end == StackEnd::Complete {
            return ChainEnd { end: stack.end, beyond_copy: true };
        }
        let cut = ChainEnd { end: stack.end, beyond_copy: false };
        if let Some(check) = check {
            let mut memory = LiveMemory::new(memory, pid, check, maps, &mut self.memory);
            chain.truncate(start);
            let unwound = self.unwinder.unwind(maps, state, &mut memory, chain);
            if matches!(
                unwound.end,
                StackEnd::Complete | StackEnd::Truncated(TruncationReason::AddressLimit(_))
            ) {
                return unwound;
            }
            // The process has changed its stack while it was read: only the copy is reliable.
            chain.truncate(start);
            self.unwinder.unwind(maps, state, &mut NoMemory, chain);
        }
        let mark = chain.pop();
        self.extend_by_kernels_walk(sampled, chain);
        chain.extend(mark);
        cut
    }

    /// Returns the check that tells whether the outermost frame of the last stack is still in the process's memory. Where nothing was
    /// copied, it first walks one frame further by the kernel's walk, also in `chain`, which holds the stack from `start` on.
    fn frame_check(
        &mut self,
        sampled: &SampledStack<'_>,
        chain: &mut Vec<u64>,
        start: usize,
    ) -> Option<FrameCheck> {
        let SampledStack { sample, state, maps, .. } = *sampled;
        if !self.mechanisms.contains(Mechanisms::LIVE_MEMORY) {
            return None;
        }
        if let (true, Some(first)) = (state.stack.bytes.is_empty(), FirstWord::from_sample(sample, state)) {
            chain.truncate(start);
            self.unwinder.unwind(maps, state, &mut { first }, chain);
            if self.stack().frames.len() > 1 {
                return Some(FrameCheck::return_address(first.address, first.word));
            }
            chain.truncate(start);
            self.unwinder.unwind(maps, state, &mut NoMemory, chain);
        }
        self.stack().frames.last().and_then(|last| FrameCheck::for_outermost(last, &state.stack))
    }

    /// Appends the callers that the kernel found beyond the copy. Returns true if the stack is complete with them. The kernel follows
    /// frame pointers only, so that is certain only where all code in between keeps them.
    fn extend_by_kernels_walk(&mut self, sampled: &SampledStack<'_>, chain: &mut Vec<u64>) -> bool {
        if !self.mechanisms.contains(Mechanisms::KERNEL_WALK) {
            return false;
        }
        let keeps_frame_pointers = self.unwinder.stack().frame_pointer_beyond_copy.is_some();
        let callers = callers_beyond(sampled.sample, sampled.state, self.unwinder.stack());
        for caller in callers.into_iter().flatten() {
            let Some(is_outermost) = self.unwinder.is_outermost(sampled.maps, Avma(caller)) else { break };
            chain.push(caller);
            if is_outermost && keeps_frame_pointers {
                return true;
            }
        }
        false
    }
}
