//! Call chains of last branches (`--call-graph lbr`): the processor kept the calls that have not returned.

use alloc::vec::Vec;

use decoder::{Attr, BranchSampleFormat, Sample, context};

/// Returns true if the branches of an event's samples are a call stack.
pub(super) fn are_calls(attr: &Attr) -> bool {
    attr.branch_sample_format.contains(BranchSampleFormat::CALL_STACK)
}

/// The call chain of a sample: what the kernel walked up to the user's instruction, then the calls, innermost first.
/// `None` where there are no calls, so that the kernel's own walk is all there is.
pub(super) fn chain(sample: &Sample<'_>) -> Option<Vec<u64>> {
    let branches = sample.branch_stack.filter(|branches| !branches.is_empty())?;
    let is_user = |value: &u64| *value == context::USER;
    let walked = || sample.callchain.into_iter().flat_map(|chain| chain.iter());
    let mut chain: Vec<u64> = walked().take_while(|value| !is_user(value)).collect();
    // Where the thread was in user space; else at least in which function: the last call led there.
    let innermost = walked().skip_while(|value| !is_user(value)).nth(1);
    let innermost = innermost.or_else(|| branches.iter().next().map(|branch| branch.to))?;
    chain.extend([context::USER, innermost]);
    // A branch record has the start of the branch instruction. A call chain has an address behind that.
    chain.extend(branches.iter().map(|branch| branch.from.saturating_add(1)));
    Some(chain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use decoder::{Endian, RawRecord, Record, RecordLayout, SampleFormat};

    /// A sample with this call chain and these branches, encoded as the kernel does and decoded again.
    fn chain_of(walked: &[u64], branches: &[(u64, u64)]) -> Option<Vec<u64>> {
        let attr = Attr {
            sample_format: SampleFormat::IP | SampleFormat::CALLCHAIN | SampleFormat::BRANCH_STACK,
            branch_sample_format: BranchSampleFormat::CALL_STACK | BranchSampleFormat::USER,
            ..Attr::default()
        };
        assert!(are_calls(&attr));
        let mut words = vec![0x40_1000, walked.len() as u64];
        words.extend(walked);
        words.push(branches.len() as u64);
        words.extend(branches.iter().flat_map(|&(from, to)| [from, to, 0]));
        let mut record = Vec::new();
        record.extend(9_u32.to_le_bytes());
        record.extend(2_u16.to_le_bytes());
        record.extend((8 + 8 * words.len() as u16).to_le_bytes());
        record.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let layout = RecordLayout::new(&attr, Endian::Little);
        let (raw, _) = RawRecord::parse(&record, Endian::Little).unwrap();
        let Ok(Record::Sample(sample)) = layout.decode(&raw) else { panic!("no sample") };
        chain(&sample)
    }

    #[test]
    fn calls_take_the_place_of_the_walk_in_user_space() {
        let kernel = [context::KERNEL, 0xffff_8000_0000_1000];
        let walked = [&kernel[..], &[context::USER, 0x40_1000, 0xbad]].concat();
        let calls = [(0x40_2000, 0x40_0ff0), (0x40_3000, 0x40_1ff0)];
        let expected = [&kernel[..], &[context::USER, 0x40_1000, 0x40_2001, 0x40_3001]].concat();
        assert_eq!(chain_of(&walked, &calls), Some(expected));
    }

    #[test]
    fn without_calls_the_walk_is_all_there_is() {
        assert_eq!(chain_of(&[context::USER, 0x40_1000], &[]), None);
        // Without a walk, the last call says in which function the thread was.
        let expected = vec![context::USER, 0x40_0ff0, 0x40_2001];
        assert_eq!(chain_of(&[], &[(0x40_2000, 0x40_0ff0)]), Some(expected));
    }
}
