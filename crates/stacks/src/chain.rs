//! Turns unwound stacks into the user part of a call chain.

use decoder::context;
use model::{Avma, FrameAddress, TruncationReason};
use unwinder::{Architecture, Innermost, NoMemory, ReadMemory, StackEnd, Unwinder, UnwoundStack};

use crate::mechanisms::Mechanisms;
use crate::process_maps::{MappedObjects, ProcessMaps};
use crate::user_state::UserState;

/// Maximum number of addresses in a call chain that the recorder makes of a stack copy: 56 of the 64 KiB that a record has, which
/// leaves room for the other parts of the sample.
pub const MAX_CHAIN_ADDRESSES: u16 = 7_000;

/// Unwinds samples into call chains. Each thread needs its own.
#[derive(Debug)]
pub struct ChainUnwinder {
    unwinder: Unwinder,
    frame_limit: u16,
    mechanisms: Mechanisms,
    stack: UnwoundStack,
}

impl Default for ChainUnwinder {
    fn default() -> Self {
        Self::new(Unwinder::FRAME_LIMIT, Mechanisms::all())
    }
}

/// The end of a user stack, and whether it was found in the copy alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainEnd {
    /// The end of the stack.
    pub end: StackEnd,
    /// True if frames beyond the copy were needed: those of the process's memory, which was read after the
    /// sample was taken.
    pub beyond_copy: bool,
}

/// Creates an unwinder with those mechanisms that are its own.
fn unwinder(frame_limit: u16, mechanisms: Mechanisms) -> Unwinder {
    Unwinder::new(frame_limit).with_code_without_tables(mechanisms.contains(Mechanisms::WITHOUT_TABLES))
}

impl ChainUnwinder {
    /// Creates an unwinder that ends stacks at `frame_limit` frames.
    pub(crate) fn new(frame_limit: u16, mechanisms: Mechanisms) -> Self {
        let unwinder = unwinder(frame_limit, mechanisms);
        Self { unwinder, frame_limit, mechanisms, stack: UnwoundStack::default() }
    }

    /// Forgets all unwind rules, if there are more than `max_rules`. Those in use are found again.
    pub(crate) fn forget_rules_beyond(&mut self, max_rules: usize) {
        if self.unwinder.cached_rules() > max_rules {
            self.unwinder = unwinder(self.frame_limit, self.mechanisms);
        }
    }

    /// Unwinds a sample and appends the user part of its call chain: `PERF_CONTEXT_USER`, the sampled instruction, the return addresses.
    /// The marker is repeated where a signal interrupted the thread, as the address after it is an instruction pointer, too. An
    /// incomplete stack ends in the marker of its reason ([`model::TruncationReason::marker`]). Words that are not in the copy are read
    /// from `beyond`.
    pub fn unwind<M: ReadMemory>(
        &mut self,
        maps: &ProcessMaps,
        state: &UserState<'_>,
        beyond: &mut M,
        chain: &mut Vec<u64>,
    ) -> ChainEnd {
        self.walk(&mut MappedObjects::all(maps).at(state.time), state, beyond);
        push_frames(chain, self.stack.addresses());
        if let StackEnd::Truncated(reason) = self.stack.end {
            chain.push(reason.marker());
        }
        ChainEnd { end: self.stack.end, beyond_copy: self.stack.frames_from_copy < self.stack.frames.len() }
    }

    /// Appends the frames that a copy holds, without a marker at the end of an incomplete stack. Returns `None`, and appends nothing,
    /// where `objects` did not give out tables that were needed.
    pub(crate) fn unwind_within(
        &mut self,
        objects: &mut MappedObjects<'_>,
        state: &UserState<'_>,
        chain: &mut Vec<u64>,
    ) -> Option<StackEnd> {
        self.walk(objects, state, &mut NoMemory);
        if objects.lacking {
            return None;
        }
        push_frames(chain, self.stack.addresses());
        Some(self.stack.end)
    }

    fn walk<M: ReadMemory>(
        &mut self,
        objects: &mut MappedObjects<'_>,
        state: &UserState<'_>,
        beyond: &mut M,
    ) {
        let innermost = Innermost { registers: &state.registers, stack: state.stack };
        self.unwinder.unwind(objects.space(), objects, &innermost, beyond, &mut self.stack);
    }

    /// Inserts the caller that the kernel's walk over frame pointers has jumped over, where the sampled function is a leaf whose return address
    /// is in the link register, which has the value `link`. The user part of `chain` begins at index `start`, with its marker.
    pub fn insert_leaf_caller(
        &mut self,
        architecture: Architecture,
        maps: &ProcessMaps,
        link: u64,
        chain: &mut Vec<u64>,
        start: usize,
    ) {
        let Some(&pc) = chain.get(start + 1) else { return };
        let objects = &mut MappedObjects::all(maps);
        if let Some(caller) = self.unwinder.caller_of_leaf(architecture, &maps.space, objects, Avma(pc), link)
        {
            chain.insert(start + 2, caller.0);
        }
    }

    /// Returns true if threads begin in the function of a return address ([`Unwinder::is_outermost`]).
    pub(crate) fn is_outermost(&mut self, maps: &ProcessMaps, return_address: Avma) -> Option<bool> {
        self.unwinder.is_outermost(&maps.space, &mut MappedObjects::all(maps), return_address)
    }

    /// Returns the stack that was unwound last.
    pub fn stack(&self) -> &UnwoundStack {
        &self.stack
    }
}

/// Appends frames to a call chain, each instruction pointer behind a `PERF_CONTEXT_USER`.
pub(crate) fn push_frames(chain: &mut Vec<u64>, frames: impl Iterator<Item = FrameAddress<Avma>>) {
    for frame in frames {
        if let FrameAddress::InstructionPointer(_) = frame {
            chain.push(context::USER);
        }
        chain.push(frame.address().0);
    }
}

/// Truncates a call chain to at most `max_addresses` addresses, behind which it then has the marker of
/// [`TruncationReason::AddressLimit`]. Context and truncation markers do not count. Returns true if the chain was longer.
pub fn truncate_chain(chain: &mut Vec<u64>, max_addresses: u16) -> bool {
    let mut addresses = 0;
    let end = chain.iter().position(|&value| {
        addresses += usize::from(value < context::MAX && TruncationReason::from_marker(value).is_none());
        addresses > usize::from(max_addresses)
    });
    if let Some(end) = end {
        chain.truncate(end);
        // The marker is an address of user space.
        if chain.iter().rev().find(|value| **value >= context::MAX) != Some(&context::USER) {
            chain.push(context::USER);
        }
        chain.push(TruncationReason::AddressLimit(max_addresses).marker());
    }
    end.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_chain_keeps_its_inner_addresses_and_says_at_which_limit_it_ends() {
        let chain = [context::KERNEL, 1, 2, context::USER, 3, 4, TruncationReason::CopyTooSmall.marker()];
        let cut_to = |most| {
            let mut cut = chain.to_vec();
            let was_longer = truncate_chain(&mut cut, most);
            assert_eq!(was_longer, cut != chain);
            cut
        };
        let mark = |limit| TruncationReason::AddressLimit(limit).marker();
        assert_eq!(cut_to(4), chain);
        assert_eq!(cut_to(3), [&chain[..5], &[mark(3)]].concat());
        assert_eq!(cut_to(2), [&chain[..4], &[mark(2)]].concat());
        assert_eq!(cut_to(1), [&chain[..2], &[context::USER, mark(1)]].concat());
    }
}
