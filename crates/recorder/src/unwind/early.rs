//! Stacks that are unwound while their samples are still in the ring: their copies, most of what a recording moves, are
//! never moved again. Such a sample waits for its turn as it will be handed on, in a record of a type of our own with a note behind it
//! of the mappings by which its stack was found.

use decoder::offsets::SIZE;
use decoder::{RawRecord, Sample, kind};
use model::{Avma, Pid, TruncationReason};
use stacks::{is_user_mark, user_part};
use unwinder::AddressSpace;

use crate::records::UNWOUND_SAMPLE;

/// The method by which a stack was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FoundBy {
    pub(super) pid: Pid,
    /// The mappings: [`tracker::Generation::as_u64`].
    pub(super) generation: u64,
    /// By an earlier stack of the process, beyond the copy.
    pub(super) late: bool,
}

/// Of [`FoundBy`] behind a record, bytes.
const NOTE: usize = 16;

/// Makes the sample that begins at `start` and ends with `records` an [`UNWOUND_SAMPLE`]. Says whether there was room for the note.
pub(super) fn note(records: &mut Vec<u8>, start: usize, found_by: FoundBy) -> bool {
    let Ok(size) = u16::try_from(records.len() - start + NOTE) else { return false };
    let header = records.get_mut(start..).unwrap_or_default();
    for (offset, bytes) in [(0, &UNWOUND_SAMPLE.to_ne_bytes()[..]), (SIZE, &size.to_ne_bytes())] {
        if let Some(place) = header.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
    records.extend(found_by.generation.to_ne_bytes());
    records.extend(found_by.pid.0.to_ne_bytes());
    records.extend(u32::from(found_by.late).to_ne_bytes());
    true
}

/// The sample without its note, and what that says; `None` where there is none.
pub(super) fn without_note<'a>(early: &RawRecord<'a>) -> Option<(RawRecord<'a>, FoundBy)> {
    if early.kind != UNWOUND_SAMPLE {
        return None;
    }
    let (body, note) = early.body.split_last_chunk::<NOTE>()?;
    let (generation, rest) = note.split_first_chunk::<8>()?;
    let (pid, late) = rest.split_first_chunk::<4>()?;
    let (pid, generation) = (Pid(i32::from_ne_bytes(*pid)), u64::from_ne_bytes(*generation));
    let found_by = FoundBy { pid, generation, late: late.iter().any(|byte| *byte != 0) };
    Some((RawRecord { kind: kind::SAMPLE, body, ..*early }, found_by))
}

/// Appends the user part of the chain that was found early, as far as it lies in code by the mappings `space`; says whether all
/// of it does.
pub(super) fn extend_within(space: &AddressSpace, sample: &Sample<'_>, chain: &mut Vec<u64>) -> bool {
    let mut behind_mark = false;
    for value in user_part(sample) {
        let is_mark = is_user_mark(&value);
        if !is_mark {
            // A return address may be the end of its mapping.
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
    fn a_sample_loses_its_note() {
        let record = |kind: u32, size: u16| {
            let header = [kind.to_ne_bytes().as_slice(), &2_u16.to_ne_bytes(), &size.to_ne_bytes()].concat();
            [header, vec![0xaa; 16]].concat()
        };
        for late in [false, true] {
            let found_by = FoundBy { pid: Pid(77), generation: 1 << 40, late };
            let mut records = [vec![1; 8], record(kind::SAMPLE, 24)].concat();
            assert!(note(&mut records, 8, found_by));
            assert_eq!(records[..32], [vec![1; 8], record(UNWOUND_SAMPLE, 40)].concat());
            let (early, size) = RawRecord::parse(&records[8..], Endian::NATIVE).unwrap();
            let (raw, found) = without_note(&early).unwrap();
            let mut bytes = Vec::new();
            raw.encode(Endian::NATIVE, &mut bytes).unwrap();
            assert_eq!((size, found, bytes), (40, found_by, record(kind::SAMPLE, 24)));
        }
        let found_by = FoundBy { pid: Pid(77), generation: 1, late: false };
        let body = &[0; 24];
        assert!(without_note(&RawRecord { kind: UNWOUND_SAMPLE, misc: 0, body }).is_some());
        assert_eq!(without_note(&RawRecord { kind: kind::SAMPLE, misc: 0, body }), None);
        assert_eq!(without_note(&RawRecord { kind: UNWOUND_SAMPLE, misc: 0, body: &body[..8] }), None);
        assert!(!note(&mut vec![0; 65_535], 0, found_by), "a record is no longer than that");
    }

    #[test]
    fn a_chain_ends_where_no_code_is_any_more() {
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
