//! Samples whose stacks were unwound while they were still in the ring, so that their stack copies, most of the bytes of a
//! recording, are not copied out of it.
//!
//! Such a sample waits for its turn in the order of time as an [`UNWOUND_SAMPLE`]: the sample as it will be forwarded, and
//! behind it, as [`UnwoundWith`], the mappings with which its stack was unwound.

use decoder::offsets::{KIND, SIZE};
use decoder::{RawRecord, Sample, kind};
use model::{Avma, Pid, TruncationReason};
use stacks::{is_user_marker, user_part};
use unwinder::AddressSpace;

use crate::records::UNWOUND_SAMPLE;

/// The mappings and stacks with which a stack was unwound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UnwoundWith {
    pub(super) pid: Pid,
    /// The mappings of the process: [`tracker::Generation::as_u64`].
    pub(super) generation: u64,
    /// True if the stack was deeper than its copy, and completed by an earlier stack of the process.
    pub(super) beyond_copy: bool,
    /// The number of bytes between the sample and this: what the stack holds of functions of an interpreter
    /// ([`crate::python_stacks`], [`crate::javascript_stacks`]).
    pub(super) interpreter_bytes: u64,
}

/// Bytes of an [`UnwoundWith`] behind a record.
const UNWOUND_WITH_BYTES: usize = 24;

/// Turns the sample that begins at `start`, the last of `records`, into an [`UNWOUND_SAMPLE`]. Returns false, and changes nothing,
/// where the record would become too large.
pub(super) fn mark_unwound(records: &mut Vec<u8>, start: usize, with: UnwoundWith) -> bool {
    let Ok(size) = u16::try_from(records.len() - start + UNWOUND_WITH_BYTES) else { return false };
    let header = records.get_mut(start..).unwrap_or_default();
    for (offset, bytes) in [(KIND, &UNWOUND_SAMPLE.to_ne_bytes()[..]), (SIZE, &size.to_ne_bytes())] {
        if let Some(field) = header.get_mut(offset..offset + bytes.len()) {
            field.copy_from_slice(bytes);
        }
    }
    records.extend(with.generation.to_ne_bytes());
    records.extend(with.pid.0.to_ne_bytes());
    records.extend(u32::from(with.beyond_copy).to_ne_bytes());
    records.extend(with.interpreter_bytes.to_ne_bytes());
    true
}

/// An [`UNWOUND_SAMPLE`] in its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UnwoundSample<'a> {
    /// The sample.
    pub(super) raw: RawRecord<'a>,
    /// The registers and the stack that it was unwound with.
    pub(super) with: UnwoundWith,
    /// The words of its stack that may tell of functions of an interpreter.
    pub(super) interpreter: &'a [u8],
}

/// Splits an [`UNWOUND_SAMPLE`] into its parts; `None` for any other record.
pub(super) fn split_unwound<'a>(record: &RawRecord<'a>) -> Option<UnwoundSample<'a>> {
    if record.kind != UNWOUND_SAMPLE {
        return None;
    }
    let (body, with) = record.body.split_last_chunk::<UNWOUND_WITH_BYTES>()?;
    let (generation, rest) = with.split_first_chunk::<8>()?;
    let (pid, rest) = rest.split_first_chunk::<4>()?;
    let (beyond_copy, interpreter_bytes) = rest.split_first_chunk::<4>()?;
    let interpreter_bytes = u64::from_ne_bytes(*interpreter_bytes.first_chunk()?);
    let with = UnwoundWith {
        pid: Pid(i32::from_ne_bytes(*pid)),
        generation: u64::from_ne_bytes(*generation),
        beyond_copy: beyond_copy.iter().any(|byte| *byte != 0),
        interpreter_bytes,
    };
    let (body, interpreter) =
        body.split_at_checked(body.len().checked_sub(usize::try_from(interpreter_bytes).ok()?)?)?;
    Some(UnwoundSample { raw: RawRecord { kind: kind::SAMPLE, body, ..*record }, with, interpreter })
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
    fn an_unwound_sample_is_split_into_what_it_was_made_of() {
        let record = |kind: u32, size: u16| {
            let header = [kind.to_ne_bytes().as_slice(), &2_u16.to_ne_bytes(), &size.to_ne_bytes()].concat();
            [header, vec![0xaa; 16]].concat()
        };
        for beyond_copy in [false, true] {
            let with = UnwoundWith { pid: Pid(77), generation: 1 << 40, beyond_copy, interpreter_bytes: 8 };
            let mut records = [vec![1; 8], record(kind::SAMPLE, 24), vec![7; 8]].concat();
            assert!(mark_unwound(&mut records, 8, with));
            assert_eq!(records[..40], [vec![1; 8], record(UNWOUND_SAMPLE, 56), vec![7; 8]].concat());
            let (unwound, size) = RawRecord::parse(&records[8..], Endian::NATIVE).unwrap();
            let found = split_unwound(&unwound).unwrap();
            let mut bytes = Vec::new();
            found.raw.encode(Endian::NATIVE, &mut bytes).unwrap();
            assert_eq!((size, found.with, bytes), (56, with, record(kind::SAMPLE, 24)));
            assert_eq!(found.interpreter, [7; 8]);
        }
        let with = UnwoundWith { pid: Pid(77), generation: 1, beyond_copy: false, interpreter_bytes: 0 };
        let body = &[0; 24];
        assert!(split_unwound(&RawRecord { kind: UNWOUND_SAMPLE, misc: 0, body }).is_some());
        assert_eq!(split_unwound(&RawRecord { kind: kind::SAMPLE, misc: 0, body }), None);
        assert_eq!(split_unwound(&RawRecord { kind: UNWOUND_SAMPLE, misc: 0, body: &body[..8] }), None);
        let body = &[1; 32];
        assert_eq!(split_unwound(&RawRecord { kind: UNWOUND_SAMPLE, misc: 0, body }), None, "too many bytes");
        assert!(!mark_unwound(&mut vec![0; 65_535], 0, with), "the size has 16 bits");
    }

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
