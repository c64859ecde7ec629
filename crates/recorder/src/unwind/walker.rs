//! One user stack from all that is known of it: the copy, the kernel's own walk, earlier stacks, the live memory.

use std::time::Instant;

use decoder::Sample;
use model::{Avma, Pid, TruncationReason};
use unwinder::{NoMemory, StackEnd, UnwoundStack};

use super::chain::{ChainEnd, ChainUnwinder, extend};
use super::kernel_walk::{FirstWord, callers_beyond};
use super::live_memory::{LiveMemory, Witness};
use super::sample::UserState;
use super::snapshot::{Lent, Snapshot};
use super::tails::Tails;

/// A sample of a thread with a user stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment<'a> {
    pub(super) sample: &'a Sample<'a>,
    pub(super) pid: Pid,
    pub(super) state: &'a UserState<'a>,
    pub(super) snapshot: &'a Snapshot,
}

/// Places in code with their rules, of some 40 bytes each, and frames of other stacks, of 100, that a view that stays open
/// keeps: programs that come and go all day, a compiler above all, would fill what a recording has for them.
const FEW_PLACES: usize = 50_000;
const FEW_FRAMES: usize = 50_000;

/// Walks user stacks into call chains.
#[derive(Debug, Default)]
pub(super) struct StackWalker {
    unwinder: ChainUnwinder,
    tails: Tails,
    memory: Vec<u8>,
}

impl StackWalker {
    /// One that ends stacks at `frame_limit` frames.
    pub(super) fn with_frame_limit(frame_limit: usize) -> Self {
        Self { unwinder: ChainUnwinder::with_frame_limit(frame_limit), ..Self::default() }
    }

    /// Forgets what was remembered for later stacks, where it is more than a view that stays open shall keep.
    pub(super) fn keep_little(&mut self) {
        self.unwinder.forget_places_beyond(FEW_PLACES);
        self.tails.forget_beyond(FEW_FRAMES);
    }

    /// What was found last in a copy (and, by the other methods, beyond it).
    pub(super) fn stack(&self) -> &UnwoundStack {
        self.unwinder.stack()
    }

    /// Appends what the sample itself says of the stack.
    pub(super) fn walk(&mut self, moment: &Moment<'_>, chain: &mut Vec<u64>) -> ChainEnd {
        let end = self.unwinder.unwind(moment.snapshot, moment.state, &mut NoMemory, chain);
        if self.stack().led_out_by.is_some() {
            let cut_at = chain.len() - 1;
            let mark = chain.split_off(cut_at);
            if self.extend_by_kernels_walk(moment, chain) {
                return ChainEnd { end: StackEnd::Complete, late: false };
            }
            chain.truncate(cut_at);
            chain.extend(mark);
        }
        end
    }

    /// Appends the stack, if its copy makes it complete, or an earlier one, and that can be seen about `until` then. Says whether
    /// an earlier one was needed.
    pub(super) fn walk_at_once(
        &mut self,
        moment: &Moment<'_>,
        until: Instant,
        chain: &mut Vec<u64>,
    ) -> Option<ChainEnd> {
        let mut objects = Lent::open(moment.snapshot, until);
        let end = self.unwinder.unwind_at_once(&mut objects, moment.state, chain)?;
        let late = end == StackEnd::Truncated(TruncationReason::CopyTooSmall)
            && !moment.state.stack.bytes.is_empty()
            && self.extend_by_earlier_stack(moment.pid, &mut objects, chain);
        (end == StackEnd::Complete || late).then_some(ChainEnd { end: StackEnd::Complete, late })
    }

    /// Appends the callers of the stack found last that an earlier one of the process had.
    fn extend_by_earlier_stack(&mut self, pid: Pid, objects: &mut Lent<'_>, chain: &mut Vec<u64>) -> bool {
        let stack = self.unwinder.stack();
        let Some(tail) = self.tails.above(pid, stack, objects) else { return false };
        extend(chain, tail.iter().map(|frame| frame.address));
        let whole: Vec<_> = stack.frames.iter().chain(&tail).copied().collect();
        self.tails.note(pid, &whole);
        true
    }

    /// Keeps a stack that was complete in its copy, for others that will not be.
    pub(super) fn note(&mut self, pid: Pid) {
        if self.unwinder.stack().end == StackEnd::Complete {
            self.tails.note(pid, &self.unwinder.stack().frames);
        }
    }

    /// Whether the stack found last goes on beyond the copy.
    pub(super) fn goes_on(&self) -> bool {
        let stack = self.unwinder.stack();
        stack.end == StackEnd::Truncated(TruncationReason::CopyTooSmall) || stack.led_out_by.is_some()
    }

    /// Sees to a stack before its turn comes, while the process is nearly where it was: where it is deeper than its copy, the
    /// frames beyond are read and remembered. The mappings may still lack what came to be a moment ago. Whether `chain` now
    /// ends in a complete stack.
    pub(super) fn look_ahead(&mut self, moment: &Moment<'_>, chain: &mut Vec<u64>) -> bool {
        if self.walk(moment, chain).end == StackEnd::Complete {
            self.note(moment.pid);
            return true;
        }
        if !self.goes_on() {
            return false;
        }
        let witness = self.witness(moment, chain, 0);
        if self.tails.above(moment.pid, self.unwinder.stack(), &mut Lent::all(moment.snapshot)).is_none()
            && let Some(witness) = witness
        {
            let mut memory = LiveMemory::new(moment.pid, witness, moment.snapshot, &mut self.memory);
            self.unwinder.unwind(moment.snapshot, moment.state, &mut memory, chain);
            self.note(moment.pid);
        }
        false
    }

    /// The stack found last is deeper than its copy, and `chain` holds it from `start` on: goes on by an earlier stack of the
    /// process, or by the live memory.
    pub(super) fn finish(&mut self, moment: &Moment<'_>, chain: &mut Vec<u64>, start: usize) -> ChainEnd {
        let Moment { pid, state, snapshot, .. } = *moment;
        let witness = self.witness(moment, chain, start);
        let stack = self.unwinder.stack();
        if stack.end == StackEnd::Complete {
            return ChainEnd { end: stack.end, late: true };
        }
        let cut = ChainEnd { end: stack.end, late: false };
        let mark = chain.pop();
        if self.extend_by_earlier_stack(pid, &mut Lent::all(snapshot), chain) {
            return ChainEnd { end: StackEnd::Complete, late: true };
        }
        chain.extend(mark);
        if let Some(witness) = witness {
            let mut memory = LiveMemory::new(pid, witness, snapshot, &mut self.memory);
            chain.truncate(start);
            let unwound = self.unwinder.unwind(snapshot, state, &mut memory, chain);
            if !matches!(unwound.end, StackEnd::Truncated(_)) {
                self.note(pid);
                return unwound;
            }
            // What was read is no longer what it was: only what the copy says is sure.
            chain.truncate(start);
            self.unwinder.unwind(snapshot, state, &mut NoMemory, chain);
        }
        let mark = chain.pop();
        self.extend_by_kernels_walk(moment, chain);
        chain.extend(mark);
        cut
    }

    /// By what one sees whether the outermost frame of the stack found last is still there. Where nothing was copied, the
    /// kernel's walk may lead one frame further, also in `chain`, which holds the stack from `start` on.
    fn witness(&mut self, moment: &Moment<'_>, chain: &mut Vec<u64>, start: usize) -> Option<Witness> {
        let Moment { sample, state, snapshot, .. } = *moment;
        if let (true, Some(first)) = (state.stack.bytes.is_empty(), FirstWord::of(sample, state)) {
            chain.truncate(start);
            self.unwinder.unwind(snapshot, state, &mut { first }, chain);
            if self.stack().frames.len() > 1 {
                return Some(Witness::return_address(first.place, first.word));
            }
            chain.truncate(start);
            self.unwinder.unwind(snapshot, state, &mut NoMemory, chain);
        }
        self.stack().frames.last().and_then(|last| Witness::of(last, &state.stack))
    }

    /// Appends the callers that the kernel found beyond the copy. Whether that makes the stack complete: the kernel knows
    /// frame pointers only, so it does where all code between keeps them.
    fn extend_by_kernels_walk(&mut self, moment: &Moment<'_>, chain: &mut Vec<u64>) -> bool {
        let keeps_frame_pointers = self.unwinder.stack().led_out_by.is_some();
        let callers = callers_beyond(moment.sample, moment.state, self.unwinder.stack());
        for caller in callers.into_iter().flatten() {
            let Some(is_first) = self.unwinder.is_first(moment.snapshot, Avma(caller)) else { break };
            chain.push(caller);
            if is_first && keeps_frame_pointers {
                return true;
            }
        }
        false
    }
}
