//! One user stack from all that is known of it: the copy, the kernel's own walk, earlier stacks, the live memory.

use decoder::Sample;
use model::{Avma, Pid, ProcessMemory, TruncationReason};
use unwinder::{NoMemory, StackEnd, UnwoundStack};

use crate::caller_cache::CallerCache;
use crate::chain::{ChainEnd, ChainUnwinder, extend};
use crate::kernel_walk::{FirstWord, callers_beyond};
use crate::live_memory::{LiveMemory, Witness};
use crate::mechanisms::Mechanisms;
use crate::process_maps::{MappedObjects, ProcessMaps};
use crate::user_state::UserState;

/// A sample of a thread with a user stack, and what is known of its process at that moment.
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

/// Places in code with their rules, of some 40 bytes each, and frames of other stacks, of 100, that a view that stays open
/// keeps: programs that come and go all day, a compiler above all, would fill what a recording has for them.
const FEW_PLACES: usize = 50_000;
const FEW_FRAMES: usize = 50_000;

/// Walks user stacks into call chains.
#[derive(Debug, Default)]
pub struct StackWalker {
    unwinder: ChainUnwinder,
    callers: CallerCache,
    memory: Vec<u8>,
    mechanisms: Mechanisms,
}

impl StackWalker {
    /// One that ends stacks at `frame_limit` frames, and uses these of the mechanisms.
    pub fn new(frame_limit: usize, mechanisms: Mechanisms) -> Self {
        Self { unwinder: ChainUnwinder::new(frame_limit, mechanisms), mechanisms, ..Self::default() }
    }

    /// Forgets what was remembered for later stacks, where it is more than a view that stays open shall keep.
    pub fn keep_little(&mut self) {
        self.unwinder.forget_places_beyond(FEW_PLACES);
        self.callers.forget_beyond(FEW_FRAMES);
    }

    /// Returns the stack found last in a copy (and, by the other methods, beyond it).
    pub fn stack(&self) -> &UnwoundStack {
        self.unwinder.stack()
    }

    /// Appends what the sample itself says of the stack.
    pub fn walk(&mut self, sampled: &SampledStack<'_>, chain: &mut Vec<u64>) -> ChainEnd {
        let end = self.unwinder.unwind(sampled.maps, sampled.state, &mut NoMemory, chain);
        if self.stack().led_out_by.is_some() {
            let cut_at = chain.len() - 1;
            let mark = chain.split_off(cut_at);
            if self.extend_by_kernels_walk(sampled, chain) {
                return ChainEnd { end: StackEnd::Complete, late: false };
            }
            chain.truncate(cut_at);
            chain.extend(mark);
        }
        end
    }

    /// Appends the stack, if its copy makes it complete, or an earlier one, and that can be seen before `is_over` returns true. Says
    /// whether an earlier one was needed.
    pub fn walk_at_once(
        &mut self,
        sampled: &SampledStack<'_>,
        is_over: &dyn Fn() -> bool,
        chain: &mut Vec<u64>,
    ) -> Option<ChainEnd> {
        let mut objects = MappedObjects::open(sampled.maps, is_over).at(sampled.state.time);
        let end = self.unwinder.unwind_at_once(&mut objects, sampled.state, chain)?;
        let late = end == StackEnd::Truncated(TruncationReason::CopyTooSmall)
            && !sampled.state.stack.bytes.is_empty()
            && self.extend_by_earlier_stack(sampled.pid, &mut objects, chain);
        (end == StackEnd::Complete || late).then_some(ChainEnd { end: StackEnd::Complete, late })
    }

    /// Appends the callers of the stack found last that an earlier one of the process had.
    fn extend_by_earlier_stack(
        &mut self,
        pid: Pid,
        objects: &mut MappedObjects<'_>,
        chain: &mut Vec<u64>,
    ) -> bool {
        let stack = self.unwinder.stack();
        let Some(tail) = self.callers.above(pid, stack, objects) else { return false };
        extend(chain, tail.iter().map(|frame| frame.address));
        let whole: Vec<_> = stack.frames.iter().chain(&tail).copied().collect();
        self.callers.note(pid, &whole);
        true
    }

    /// Keeps a stack that was complete in its copy, for others that will not be.
    pub fn note(&mut self, pid: Pid) {
        if self.unwinder.stack().end == StackEnd::Complete
            && self.mechanisms.contains(Mechanisms::CALLER_CACHE)
        {
            self.callers.note(pid, &self.unwinder.stack().frames);
        }
    }

    /// Returns true if the stack found last goes on beyond the copy.
    pub fn goes_on(&self) -> bool {
        let stack = self.unwinder.stack();
        stack.end == StackEnd::Truncated(TruncationReason::CopyTooSmall) || stack.led_out_by.is_some()
    }

    /// The stack found last is deeper than its copy, and `chain` holds it from `start` on: goes on by an earlier stack of the
    /// process, or by the live memory.
    pub fn finish(
        &mut self,
        sampled: &SampledStack<'_>,
        memory: &dyn ProcessMemory,
        chain: &mut Vec<u64>,
        start: usize,
    ) -> ChainEnd {
        let SampledStack { pid, state, maps, .. } = *sampled;
        let witness = self.witness(sampled, chain, start);
        let stack = self.unwinder.stack();
        if stack.end == StackEnd::Complete {
            return ChainEnd { end: stack.end, late: true };
        }
        let cut = ChainEnd { end: stack.end, late: false };
        let mark = chain.pop();
        if self.extend_by_earlier_stack(pid, &mut MappedObjects::all(maps), chain) {
            return ChainEnd { end: StackEnd::Complete, late: true };
        }
        chain.extend(mark);
        if let Some(witness) = witness {
            let mut memory = LiveMemory::new(memory, pid, witness, maps, &mut self.memory);
            chain.truncate(start);
            let unwound = self.unwinder.unwind(maps, state, &mut memory, chain);
            if !matches!(unwound.end, StackEnd::Truncated(_)) {
                self.note(pid);
                return unwound;
            }
            // What was read is no longer what it was: only what the copy says is sure.
            chain.truncate(start);
            self.unwinder.unwind(maps, state, &mut NoMemory, chain);
        }
        let mark = chain.pop();
        self.extend_by_kernels_walk(sampled, chain);
        chain.extend(mark);
        cut
    }

    /// By what one sees whether the outermost frame of the stack found last is still there. Where nothing was copied, the
    /// kernel's walk may lead one frame further, also in `chain`, which holds the stack from `start` on.
    fn witness(&mut self, sampled: &SampledStack<'_>, chain: &mut Vec<u64>, start: usize) -> Option<Witness> {
        let SampledStack { sample, state, maps, .. } = *sampled;
        if !self.mechanisms.contains(Mechanisms::LIVE_MEMORY) {
            return None;
        }
        if let (true, Some(first)) = (state.stack.bytes.is_empty(), FirstWord::of(sample, state)) {
            chain.truncate(start);
            self.unwinder.unwind(maps, state, &mut { first }, chain);
            if self.stack().frames.len() > 1 {
                return Some(Witness::return_address(first.place, first.word));
            }
            chain.truncate(start);
            self.unwinder.unwind(maps, state, &mut NoMemory, chain);
        }
        self.stack().frames.last().and_then(|last| Witness::of(last, &state.stack))
    }

    /// Appends the callers that the kernel found beyond the copy. Whether that makes the stack complete: the kernel knows
    /// frame pointers only, so it does where all code between keeps them.
    fn extend_by_kernels_walk(&mut self, sampled: &SampledStack<'_>, chain: &mut Vec<u64>) -> bool {
        if !self.mechanisms.contains(Mechanisms::KERNEL_WALK) {
            return false;
        }
        let keeps_frame_pointers = self.unwinder.stack().led_out_by.is_some();
        let callers = callers_beyond(sampled.sample, sampled.state, self.unwinder.stack());
        for caller in callers.into_iter().flatten() {
            let Some(is_first) = self.unwinder.is_first(sampled.maps, Avma(caller)) else { break };
            chain.push(caller);
            if is_first && keeps_frame_pointers {
                return true;
            }
        }
        false
    }
}
