//! The compressed sections that prof adds to recordings: the number of bytes that they unpack to (u64), then a zlib stream.

use model::{Resolution, Space, StackEntry};
use perfdata::read::Reader;
use perfdata::sections;
use symbolizer::NameStyle;
use symbolizer::archived::{ArchivedCode, ArchivedNames, HeldBytes, encode, parse_code};
use zlib_rs::{DeflateConfig, Inflate, InflateFlush, Status, compress_bound, compress_slice};

/// Number of bytes before a zlib stream: the size that it unpacks to, as u64.
const HEADER_BYTES: usize = 8;
/// The window of the zlib streams that we write, as a power of two of bytes: 32 KiB, the largest that RFC 1950 allows.
const WINDOW_BITS: u8 = 15;

/// Packs the names of these entries, each of which comes once, at zlib's fastest level: a caller waits for the result.
pub(super) fn pack_names_fast<'a>(
    entries: impl Iterator<Item = (&'a StackEntry, &'a Space, &'a Resolution)>,
    endian: decoder::Endian,
) -> Vec<u8> {
    pack_fast(&encode_names(entries), endian)
}

pub(super) fn encode_names<'a>(
    entries: impl Iterator<Item = (&'a StackEntry, &'a Space, &'a Resolution)>,
) -> Vec<u8> {
    let mut ordered: Vec<_> = entries.collect();
    ordered.sort_by_key(|(entry, ..)| (entry.space, entry.offset, **entry));
    encode(ordered.iter().map(|(entry, space, found)| (*space, *entry, *found)))
}

/// Packs a small number of bytes at zlib's fastest level: a caller waits for the result.
pub(super) fn pack_fast(bytes: &[u8], endian: decoder::Endian) -> Vec<u8> {
    pack_with(bytes, DeflateConfig::best_speed(), endian)
}

pub(super) fn pack_small(bytes: &[u8], endian: decoder::Endian) -> Vec<u8> {
    pack_with(bytes, DeflateConfig::best_compression(), endian)
}

fn pack_with(bytes: &[u8], config: DeflateConfig, endian: decoder::Endian) -> Vec<u8> {
    let mut packed = vec![0; compress_bound(bytes.len())];
    let (packed, _) = compress_slice(&mut packed, bytes, config);
    let mut section = endian.u64_bytes(bytes.len() as u64).to_vec();
    section.extend_from_slice(packed);
    section
}

/// Reads the names that a recording carries, and a sentence for each damage that was found in them.
pub fn names(recording: &Reader, style: NameStyle) -> (ArchivedNames, Option<String>) {
    let Some(section) = UnpackedSection::of(recording, sections::id::NAMES, "names") else {
        return (ArchivedNames::default(), None);
    };
    let (names, damage) = ArchivedNames::parse(&section.bytes, style, section.held);
    (names, section.error.or_else(|| damage.map(|damage| damage.to_string())))
}

/// Reads the code that a recording carries, and a sentence for each damage that was found in it.
pub fn code(recording: &Reader, style: NameStyle) -> (Vec<ArchivedCode>, Option<String>) {
    let Some(section) = UnpackedSection::of(recording, sections::id::CODE, "code") else {
        return (Vec::new(), None);
    };
    let (code, damage) = parse_code(&section.bytes, style, section.held);
    (code, section.error.or_else(|| damage.map(|damage| damage.to_string())))
}

/// A section, unpacked as far as it goes.
pub(super) struct UnpackedSection {
    pub(super) bytes: Vec<u8>,
    /// The memory that what is decoded from it may take.
    pub(super) held: HeldBytes,
    /// A sentence on the damage that was found while it was unpacked; `None` where there is none.
    error: Option<String>,
}

impl UnpackedSection {
    /// Unpacks a section of a recording, which messages call `what`; `None` where there is none.
    pub(super) fn of(recording: &Reader, id: u32, what: &str) -> Option<Self> {
        let section = recording.features().section(id)?;
        let held = sections::most_held(id, section.len())?;
        Some(Self::unpack(section, HeldBytes::new(held), recording.endian(), what))
    }

    fn unpack(section: &[u8], mut held: HeldBytes, endian: decoder::Endian, what: &str) -> Self {
        let refused = |why| Self { bytes: Vec::new(), held: HeldBytes::new(0), error: Some(why) };
        let Some((size, packed)) = section.split_first_chunk::<HEADER_BYTES>() else {
            return refused(format!("the section of {what} is cut off"));
        };
        let size = endian.u64(*size);
        let unpacked = usize::try_from(size).ok().filter(|size| held.take(*size).is_ok());
        let Some(mut bytes) = unpacked.map(|size| vec![0; size]) else {
            let packed = packed.len();
            return refused(format!("{what} of {size} bytes are more than is unpacked from {packed} bytes"));
        };
        let mut inflate = Inflate::new(true, WINDOW_BITS);
        let status = inflate.decompress(packed, &mut bytes, InflateFlush::Finish);
        let error = match status {
            Ok(Status::StreamEnd) if inflate.total_in() < packed.len() as u64 => {
                return refused(format!("the section of {what} goes on after its end"));
            }
            Ok(Status::StreamEnd) if inflate.total_out() < size => {
                Some(format!("{what} are shorter than stated"))
            }
            Ok(Status::StreamEnd) => None,
            Ok(_) => Some(format!("{what} cannot be unpacked: they are cut off, or longer than stated")),
            Err(error) => Some(format!("{what} cannot be unpacked ({})", error.as_str())),
        };
        bytes.truncate(usize::try_from(inflate.total_out()).unwrap_or(0));
        Self { bytes, held, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::Endian;

    fn unpack(section: &[u8], held: u64) -> (Vec<u8>, Option<String>) {
        let section = UnpackedSection::unpack(section, HeldBytes::new(held), Endian::Little, "names");
        (section.bytes, section.error)
    }

    #[test]
    fn a_section_that_packs_a_thousandfold_does_not_take_that_much_memory() {
        // A table of empty strings, each of which is a byte here and 48 in memory.
        for (count, complaint) in [(60 << 20, "more than is unpacked"), (30 << 20, "more than is read")] {
            let mut table = vec![2];
            let mut left: usize = count;
            while left >= 0x80 {
                table.push(left as u8 | 0x80);
                left >>= 7;
            }
            table.push(left as u8);
            table.resize(table.len() + count + 1, 0);
            let section = pack_fast(&table, Endian::Little);
            assert!(section.len() < count / 100);
            let held = HeldBytes::new(sections::most_held(sections::id::NAMES, section.len()).unwrap());
            let section = UnpackedSection::unpack(&section, held, Endian::Little, "names");
            let (names, damage) = ArchivedNames::parse(&section.bytes, NameStyle::Linkage, section.held);
            let said = section.error.unwrap_or_else(|| damage.unwrap().to_string());
            assert!(names.is_empty() && said.contains(complaint), "{said}");
        }
    }

    #[test]
    fn sections_come_back_or_it_is_said_what_is_wrong() {
        let content: Vec<u8> = (0..5000_u32).map(|number| (number / 7) as u8).collect();
        let packed = pack_small(&content, Endian::Little);
        let said = |section: &[u8]| unpack(section, 6000).1.unwrap_or_default();
        assert_eq!(unpack(&packed, 6000), (content.clone(), None));
        assert_eq!(unpack(&packed, 4999).0, Vec::<u8>::new());
        assert!(unpack(&packed, 4999).1.unwrap().contains("more than is unpacked"));
        let cut = unpack(&packed[..packed.len() - 20], 6000);
        assert!(content.starts_with(&cut.0) && cut.1.is_some());
        // Rubbish after the stream would make it look as if it packed less.
        let padded = [&packed[..], &[0; 100]].concat();
        assert_eq!(unpack(&padded, 6000).0, Vec::<u8>::new());
        assert!(said(&padded).contains("goes on after its end"));
        let stated = |size: u64| [&size.to_le_bytes()[..], &packed[8..]].concat();
        assert!(said(&stated(5001)).contains("shorter than stated"));
        assert!(said(&stated(4999)).contains("longer than stated"));
        assert!(said(&packed[..7]).contains("cut off"));
        assert!(said(&[&8_u64.to_le_bytes()[..], &[0xff; 8]].concat()).contains("cannot be unpacked"));
    }
}
