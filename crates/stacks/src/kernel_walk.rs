//! The kernel's own walk over a thread's frame pointers. The kernel made it when it took the sample, over all of the stack, where a
//! copy holds only a part.

use decoder::Sample;
use unwinder::{ReadMemory, UnwoundStack};

use crate::user_state::{UserState, user_part};

/// The number of high bits that do not belong to a user address. Return addresses in a copy use them where pointers are
/// authenticated.
const BITS_ABOVE_ADDRESS: u32 = 16;

/// Returns the return addresses that the kernel found beyond the outermost frame of `stack`, innermost first. Returns `None` where the
/// two walks have no frame in common in the copy.
pub(crate) fn callers_beyond<'a>(
    sample: &Sample<'a>,
    state: &UserState<'_>,
    stack: &UnwoundStack,
) -> Option<impl Iterator<Item = u64> + use<'a>> {
    let last = stack.frames.last()?.address.address().0;
    let differ = |one: u64, other: u64| (one ^ other) << BITS_ABOVE_ADDRESS != 0;
    // The marker and the instruction pointer come first, then the return address above each frame pointer.
    let walked = user_part(sample).skip(2);
    let mut frame_pointer = state.registers.frame_pointer()?;
    let mut passed = None;
    for (index, return_address) in walked.clone().enumerate() {
        if stack.frame_pointer_beyond_copy == Some(frame_pointer) {
            passed = Some(index);
            break;
        }
        let word = |address: Option<u64>| address.and_then(|address| state.stack.word(address));
        let (Some(above), Some(next)) = (word(frame_pointer.checked_add(8)), word(Some(frame_pointer)))
        else {
            break;
        };
        if differ(above, return_address) {
            return None;
        }
        if stack.frame_pointer_beyond_copy.is_none() && !differ(last, return_address) {
            passed = Some(index + 1);
        }
        frame_pointer = next;
    }
    Some(walked.skip(passed?))
}

/// The return address above the sampled frame pointer, by the kernel's walk. A thread that is about to touch the page of its stack
/// pointer for the first time has no copy, but the rest of its stack can be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstWord {
    pub(crate) address: u64,
    pub(crate) word: u64,
}

impl FirstWord {
    /// Returns `None` where the kernel found no caller.
    pub(crate) fn from_sample(sample: &Sample<'_>, state: &UserState<'_>) -> Option<Self> {
        let address = state.registers.frame_pointer()?.checked_add(8)?;
        Some(Self { address, word: user_part(sample).nth(2)? })
    }
}

impl ReadMemory for FirstWord {
    fn read_word(&mut self, address: u64) -> Option<u64> {
        (address == self.address).then_some(self.word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::values::U64s;
    use decoder::{Endian, context};
    use model::{Avma, FrameAddress};
    use unwinder::{Architecture, Frame, Registers, StackCopy};

    /// The return addresses that the kernel found beyond: `links` are frame pointers with the return addresses above them, the first of which is
    /// the sampled one; from the frame pointer `beyond` on nothing was copied.
    fn found(
        links: &[(u64, u64)],
        beyond: u64,
        last: u64,
        frame_pointer_beyond_copy: Option<u64>,
    ) -> Option<Vec<u64>> {
        let mut bytes = vec![0; 0x100];
        for (index, &(place, return_address)) in links.iter().enumerate().filter(|(_, link)| link.0 < beyond)
        {
            let next = links.get(index + 1).map_or(0, |link| link.0);
            bytes[place as usize..][..8].copy_from_slice(&next.to_le_bytes());
            bytes[place as usize + 8..][..8].copy_from_slice(&return_address.to_le_bytes());
        }
        let chain = [context::USER, 7].into_iter().chain(links.iter().map(|link| link.1));
        let chain: Vec<u8> = chain.flat_map(u64::to_le_bytes).collect();
        let sample = Sample { callchain: Some(U64s::new(&chain, Endian::Little)), ..Sample::default() };
        let mut registers = Registers::new(Architecture::X86_64);
        registers.set(Architecture::X86_64.frame_pointer(), links[0].0);
        let stack = StackCopy { start: 0, bytes: &bytes };
        let state = UserState { registers, stack, thread: model::Tid(1), time: None };
        let frame = Frame { address: FrameAddress::ReturnAddress(Avma(last)), stack_pointer: 0 };
        let mut stack = UnwoundStack::default();
        stack.frames.push(frame);
        stack.frame_pointer_beyond_copy = frame_pointer_beyond_copy;
        callers_beyond(&sample, &state, &stack).map(Iterator::collect)
    }

    #[test]
    fn ways_meet_by_the_frame_pointer_or_by_the_outermost_return_address() {
        let links = [(0x10, 1), (0x40, 2), (0x80, 2), (0x8000, 2), (0x9000, 3)];
        // The same function calls itself: what was found last is the outermost of its frames in the copy.
        assert_eq!(found(&links, 0x100, 2, None), Some(vec![2, 3]));
        assert_eq!(found(&links, 0x100, 1, None), Some(vec![2, 2, 2, 3]));
        assert_eq!(found(&links, 0x100, 5, None), None);
        assert_eq!(found(&links, 0x100, 5, Some(0x8000)), Some(vec![2, 3]));
        assert_eq!(found(&links, 0x100, 5, Some(0x10)), Some(vec![1, 2, 2, 2, 3]));
        assert_eq!(found(&links, 0x100, 5, Some(0x9000)), None, "on a stack that was not copied");
    }
}
