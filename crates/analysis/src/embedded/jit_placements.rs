//! The addresses and load times of sampled functions of jitdumps, as a section of a recording: the jitdumps may be deleted before
//! the recording is read.
//!
//! The form, in bytes of little-endian numbers: for each dump its process, the process's generation, the length of the path and the
//! number of placements (u32 each), the path, and the placements (time, first address, size, offset in the dump; u64 each).

use std::collections::HashMap;

use decoder::Endian;
use generated::Placement;
use model::{Avma, Name, Pid, Space, Timestamp};
use perfdata::read::Reader;
use perfdata::sections;
use symbolizer::archived::HeldBytes;

use super::sections::{UnpackedSection, pack_fast};

const PLACEMENT_BYTES: usize = 32;

/// The placements that a recording has, by the space of their jitdump. Those of one dump are in the order of the dump.
pub(crate) type EmbeddedPlacements = HashMap<Space, Vec<Placement>>;

/// Packs placements of generated functions, by the jitdump that tells of them, into a section
/// ([`sections::id::GENERATED_CODE`]). `None` where there are none.
pub fn pack(placements: &[(&Space, Vec<Placement>)], endian: Endian) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (space, placements) in placements {
        encode_dump(&mut bytes, space, placements);
    }
    (!bytes.is_empty()).then(|| pack_fast(&bytes, endian))
}

/// Reads the placements that a recording carries, up to the first thing that is wrong.
pub(crate) fn read(recording: &Reader) -> EmbeddedPlacements {
    // Names of the same file are read later, and say what is damaged.
    UnpackedSection::of(recording, sections::id::GENERATED_CODE, "generated code")
        .map_or_else(EmbeddedPlacements::default, |section| parse(&section.bytes, section.held))
}

fn encode_dump(out: &mut Vec<u8>, space: &Space, placements: &[Placement]) {
    let Space::JitDump { pid, generation, path } = space else { return };
    let path = path.as_bytes();
    let (Ok(length), Ok(count)) = (u32::try_from(path.len()), u32::try_from(placements.len())) else {
        return;
    };
    if count == 0 {
        return;
    }
    for number in [pid.0.cast_unsigned(), *generation, length, count] {
        out.extend(number.to_le_bytes());
    }
    out.extend(path);
    for Placement { time, start, size, offset } in placements {
        for number in [time.0, start.0, *size, *offset] {
            out.extend(number.to_le_bytes());
        }
    }
}

fn parse(mut bytes: &[u8], mut held: HeldBytes) -> EmbeddedPlacements {
    let mut dumps = EmbeddedPlacements::default();
    while let Some((space, placements)) = parse_dump(&mut bytes, &mut held) {
        dumps.insert(space, placements);
    }
    dumps
}

fn parse_dump(bytes: &mut &[u8], held: &mut HeldBytes) -> Option<(Space, Vec<Placement>)> {
    let mut number = || bytes.split_off(..4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let (pid, generation, length, count) = (number()?, number()?, number()?, number()?);
    let path = bytes.split_off(..length as usize)?;
    held.take_entry::<(Space, Vec<Placement>)>().and_then(|()| held.take(path.len())).ok()?;
    let path = Name::new(path);
    let placements = bytes.split_off(..(count as usize).checked_mul(PLACEMENT_BYTES)?)?;
    held.take(placements.len()).ok()?;
    let placements = placements.as_chunks::<PLACEMENT_BYTES>().0.iter().filter_map(placement).collect();
    Some((Space::JitDump { pid: Pid(pid.cast_signed()), generation, path }, placements))
}

/// One placement; `None` where its last address or byte does not exist.
fn placement(bytes: &[u8; PLACEMENT_BYTES]) -> Option<Placement> {
    let mut numbers = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let (time, start, size, offset) = (numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?);
    let last = size.checked_sub(1)?;
    start.checked_add(last)?;
    offset.checked_add(last)?;
    Some(Placement { time: Timestamp(time), start: Avma(start), size, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> EmbeddedPlacements {
        super::parse(bytes, HeldBytes::new(1 << 20))
    }

    fn space(generation: u32) -> Space {
        Space::JitDump { pid: Pid(7), generation, path: Name::from("/tmp/jit-7.dump") }
    }

    fn placed(time: u64, start: u64, size: u64, offset: u64) -> Placement {
        Placement { time: Timestamp(time), start: Avma(start), size, offset }
    }

    #[test]
    fn placements_are_read_as_they_were_written() {
        let dumps = [
            (space(1), vec![placed(10, 0x1000, 16, 100), placed(5, u64::MAX, 1, 200)]),
            (space(2), vec![placed(0, 0x2000, 1 << 40, 300)]),
            (space(3), Vec::new()),
        ];
        let mut bytes = Vec::new();
        dumps.iter().for_each(|(space, placements)| encode_dump(&mut bytes, space, placements));
        let parsed = parse(&bytes);
        assert_eq!(parsed, dumps[..2].iter().cloned().collect());
        for length in 0..bytes.len() {
            assert!(parse(&bytes[..length]).iter().all(|(space, placements)| parsed[space] == *placements));
        }
        // More placements than the section has bytes for.
        bytes[12..16].fill(0xff);
        assert!(parse(&bytes).is_empty());
    }

    #[test]
    fn dumps_that_take_more_than_is_allowed_are_left_out() {
        let mut bytes = Vec::new();
        (0..100).for_each(|number| encode_dump(&mut bytes, &space(number), &[placed(1, 1, 1, 1)]));
        assert_eq!(parse(&bytes).len(), 100);
        assert!((10..100).contains(&super::parse(&bytes, HeldBytes::new(10_000)).len()));
    }

    #[test]
    fn placements_without_a_last_byte_are_left_out() {
        let mut bytes = Vec::new();
        let whole = placed(1, 0x1000, 16, 100);
        encode_dump(&mut bytes, &space(1), &[placed(1, 0x1000, 0, 0), placed(1, u64::MAX, 2, 0), whole]);
        encode_dump(&mut bytes, &space(2), &[placed(1, 1, 2, u64::MAX)]);
        assert_eq!(parse(&bytes), [(space(1), vec![whole]), (space(2), vec![])].into());
    }
}
