//! Samples whose stacks were unwound while they were still in the ring, so that their stack copies, most of the bytes of a
//! recording, are not copied out of it.
//!
//! Such a sample waits for its turn in the order of time as it will be forwarded, among the records of its chunk. An
//! [`UnwoundSample`] beside these says with which mappings its stack was unwound. The kernel writes none of that, so that no record
//! can be taken for an unwound sample.

use decoder::Sample;
use model::{Avma, Pid, TruncationReason};
use python::Activation;
use stacks::{IndexedWords, MappedRuntime, SampledStack, StackWalker, is_user_marker, user_part};
use tracker::Generation;
use unwinder::AddressSpace;

/// A sample of a chunk, and the mappings and stacks with which its stack was unwound.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct UnwoundSample {
    /// The offset of the sample among the records of its chunk, in bytes.
    pub(crate) offset: usize,
    pub(super) pid: Pid,
    /// The mappings of the process.
    pub(super) generation: Generation,
    pub(super) words: StackWords,
}

/// The words of a stack that may tell of functions of an interpreter. Allocates for processes that have mapped one only.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct StackWords {
    pub(super) activations: Vec<Activation>,
    pub(super) javascript: Vec<IndexedWords>,
}

impl StackWords {
    /// Collects the words of the stack that `walker` walked last.
    pub(super) fn of(walker: &StackWalker, sampled: &SampledStack<'_>, runtime: &MappedRuntime) -> Self {
        let mut words = Self::default();
        match runtime {
            MappedRuntime::Python(_) => walker.push_activations(sampled, &mut words.activations),
            MappedRuntime::JavaScript(v8) => walker.push_javascript_words(sampled, v8, &mut words.javascript),
        }
        words
    }

    pub(super) fn is_empty(&self) -> bool {
        self.activations.is_empty() && self.javascript.is_empty()
    }
}

/// Appends the user part of the sample's call chain up to the first address that is in no executable mapping of `space`; appends
/// the marker [`TruncationReason::MappingUnknown`] in its place, and returns false, where there is one.
pub(super) fn extend_within(space: &AddressSpace, sample: &Sample<'_>, chain: &mut Vec<u64>) -> bool {
    let mut behind_mark = false;
    for value in user_part(sample) {
        let is_mark = is_user_marker(&value);
        if !is_mark {
            // A return address may be right behind its mapping. The address after a context marker is an instruction pointer.
            let lookup = if behind_mark { value } else { value.saturating_sub(1) };
            if space.find(Avma(lookup)).is_none_or(|mapping| !mapping.executable) {
                chain.push(TruncationReason::MappingUnknown.marker());
                return false;
            }
        }
        behind_mark = is_mark;
        chain.push(value);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::values::U64s;
    use decoder::{Endian, context};
    use model::FileOffset;

    #[test]
    fn a_chain_ends_at_an_address_without_code() {
        let mut space = AddressSpace::default();
        space.insert(unwinder::Mapping {
            range: Avma(0x1000)..Avma(0x2000),
            file_offset: FileOffset(0),
            object: None,
            executable: true,
        });
        let found = |chain: &[u64]| {
            let chain: Vec<u8> = chain.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let callchain = Some(U64s::new(&chain, Endian::NATIVE));
            let (mut found, sample) = (Vec::new(), Sample { callchain, ..Sample::default() });
            (extend_within(&space, &sample, &mut found), found)
        };
        let whole = [context::USER, 0x1000, 0x2000, context::USER, 0x1fff, 0x1001];
        assert_eq!(found(&whole), (true, whole.to_vec()));
        let mark = TruncationReason::MappingUnknown.marker();
        assert_eq!(found(&[context::USER, 0x1000, 0x1000]).1, [context::USER, 0x1000, mark]);
        assert_eq!(found(&[context::USER, 0x2000]), (false, vec![context::USER, mark]));
    }
}
