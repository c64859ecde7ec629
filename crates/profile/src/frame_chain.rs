//! Stores each distinct sequence of frames once: all addresses in a function without inlined calls have the same frames.

use crate::async_rust::Fold;
use crate::frame::FrameId;
use crate::index::Index;

/// The number of a sequence of frames in its [`Chains`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainId(u32);

/// Sequences of frames, outermost first.
#[derive(Default, Debug)]
pub(crate) struct Chains {
    /// The frames of all sequences, one sequence after the other.
    frames: Vec<(FrameId, Fold)>,
    /// By sequence: the position in `frames` where it ends.
    ends: Vec<usize>,
    index: Index,
}

impl Chains {
    /// Returns the number of a sequence. Adds the sequence if it is new.
    pub(crate) fn intern(&mut self, chain: &[(FrameId, Fold)]) -> ChainId {
        let next = self.ends.len() as u32;
        let (frames, ends) = (&self.frames, &self.ends);
        let is = |number: u32| slice(frames, ends, number) == chain;
        let number = self.index.find_or_add(self.index.hash_of(&chain), is, next);
        if number == next {
            // There are at most as many sequences as places, whose numbers have 32 bits.
            self.frames.extend_from_slice(chain);
            self.ends.push(self.frames.len());
        }
        ChainId(number)
    }

    /// Returns the frames of a sequence.
    pub(crate) fn get(&self, id: ChainId) -> &[(FrameId, Fold)] {
        slice(&self.frames, &self.ends, id.0)
    }
}

fn slice<'f>(frames: &'f [(FrameId, Fold)], ends: &[usize], number: u32) -> &'f [(FrameId, Fold)] {
    let number = number as usize;
    let start = number.checked_sub(1).map_or(0, |before| ends[before]);
    &frames[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sequences_are_one() {
        let mut chains = Chains::default();
        let frame = (FrameId::default(), Fold::Keep);
        let (none, one) = (chains.intern(&[]), chains.intern(&[frame]));
        assert_eq!((chains.intern(&[]).0, chains.intern(&[frame]).0), (none.0, one.0));
        assert_eq!((chains.get(none), chains.get(one)), (&[][..], &[frame][..]));
        assert_eq!(chains.frames.len(), 1);
    }
}
