//! Unwound stacks as the user part of a call chain.

use decoder::context;
use model::{Avma, FrameAddress, TruncationReason};
use unwinder::{Innermost, NoMemory, ReadMemory, StackEnd, Unwinder, UnwoundStack};

use crate::mechanisms::Mechanisms;
use crate::process_maps::{MappedObjects, ProcessMaps};
use crate::user_state::UserState;

/// Unwinds samples into call chains; one per thread.
#[derive(Debug)]
pub struct ChainUnwinder {
    unwinder: Unwinder,
    frame_limit: usize,
    mechanisms: Mechanisms,
    stack: UnwoundStack,
}

impl Default for ChainUnwinder {
    fn default() -> Self {
        Self::new(Unwinder::FRAME_LIMIT, Mechanisms::all())
    }
}

/// The end of a user stack, and whether memory read later was needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainEnd {
    /// The end of the stack.
    pub end: StackEnd,
    /// True if memory that was read after the sample was needed.
    pub late: bool,
}

/// The unwinder, with those of the mechanisms that are its own.
fn unwinder(frame_limit: usize, mechanisms: Mechanisms) -> Unwinder {
    Unwinder::new(frame_limit)
        .with_earlier_stacks(mechanisms.contains(Mechanisms::EARLIER_STACKS))
        .with_code_without_tables(mechanisms.contains(Mechanisms::WITHOUT_TABLES))
}

impl ChainUnwinder {
    /// One that ends stacks at `frame_limit` frames.
    pub(crate) fn new(frame_limit: usize, mechanisms: Mechanisms) -> Self {
        let unwinder = unwinder(frame_limit, mechanisms);
        Self { unwinder, frame_limit, mechanisms, stack: UnwoundStack::default() }
    }

    /// Forgets the rules of all places, if there are more than `most`: those in use are found again.
    pub(crate) fn forget_places_beyond(&mut self, most: usize) {
        if self.unwinder.remembered_places() > most {
            self.unwinder = unwinder(self.frame_limit, self.mechanisms);
        }
    }

    /// Appends the user part of a sample's call chain: `PERF_CONTEXT_USER`, the sampled instruction, the return addresses.
    /// Where a signal interrupted the thread, the marker comes again: the address after it is an instruction pointer,
    /// too. An incomplete stack ends in the marker of its reason ([`model::TruncationReason::marker`]).
    pub fn unwind<M: ReadMemory>(
        &mut self,
        maps: &ProcessMaps,
        state: &UserState<'_>,
        beyond: &mut M,
        chain: &mut Vec<u64>,
    ) -> ChainEnd {
        self.walk(&mut MappedObjects::all(maps).at(state.time), state, beyond);
        extend(chain, self.stack.addresses());
        if let StackEnd::Truncated(reason) = self.stack.end {
            chain.push(reason.marker());
        }
        ChainEnd { end: self.stack.end, late: self.stack.frames_from_copy < self.stack.frames.len() }
    }

    /// Appends the frames that a copy holds, by what of the objects is to be had at once, without the mark of the reason why
    /// there are no more. `None` where something else would be needed to say.
    pub(crate) fn unwind_at_once(
        &mut self,
        objects: &mut MappedObjects<'_>,
        state: &UserState<'_>,
        chain: &mut Vec<u64>,
    ) -> Option<StackEnd> {
        self.walk(objects, state, &mut NoMemory);
        if objects.lacking {
            return None;
        }
        extend(chain, self.stack.addresses());
        Some(self.stack.end)
    }

    fn walk<M: ReadMemory>(
        &mut self,
        objects: &mut MappedObjects<'_>,
        state: &UserState<'_>,
        beyond: &mut M,
    ) {
        let innermost = Innermost { registers: &state.registers, stack: state.stack, thread: state.thread };
        self.unwinder.unwind(objects.space(), objects, &innermost, beyond, &mut self.stack);
    }

    /// Returns true if threads begin in the function of a return address ([`Unwinder::is_first`]).
    pub(crate) fn is_first(&mut self, maps: &ProcessMaps, return_address: Avma) -> Option<bool> {
        self.unwinder.is_first(&maps.space, &mut MappedObjects::all(maps), return_address)
    }

    /// The stack that was unwound last.
    pub fn stack(&self) -> &UnwoundStack {
        &self.stack
    }
}

/// Appends frames, each instruction pointer behind its marker.
pub(crate) fn extend(chain: &mut Vec<u64>, frames: impl Iterator<Item = FrameAddress<Avma>>) {
    for frame in frames {
        if let FrameAddress::InstructionPointer(_) = frame {
            chain.push(context::USER);
        }
        chain.push(frame.address().0);
    }
}

/// Cuts a chain to at most `most` addresses; marks do not count.
pub fn cut(chain: &mut Vec<u64>, most: usize) {
    let mut addresses = 0;
    let end = chain.iter().position(|&value| {
        addresses += usize::from(value < context::MAX && TruncationReason::from_marker(value).is_none());
        addresses > most
    });
    if let Some(end) = end {
        chain.truncate(end);
        // A mark of what would have followed says nothing.
        while chain.last().is_some_and(|&value| value >= context::MAX) {
            chain.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_chain_keeps_its_inner_addresses_and_their_marks() {
        let chain = [context::KERNEL, 1, 2, context::USER, 3, 4, TruncationReason::CopyTooSmall.marker()];
        let cut_to = |most| {
            let mut chain = chain.to_vec();
            cut(&mut chain, most);
            chain
        };
        assert_eq!(cut_to(4), chain);
        assert_eq!(cut_to(3), chain[..5]);
        assert_eq!(cut_to(2), chain[..3]);
        assert_eq!(cut_to(0), []);
    }
}
