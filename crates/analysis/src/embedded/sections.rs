//! The compressed sections that prof adds to recordings: the number of bytes that they unpack to (u64), then a zlib stream.

use model::{Resolution, Space, StackEntry};
use perfdata::read::Reader;
use perfdata::sections;
use symbolizer::NameStyle;
use symbolizer::archived::{ArchivedCode, ArchivedNames, encode, parse_code};
use zlib_rs::{DeflateConfig, InflateConfig, ReturnCode, compress_bound, compress_slice, decompress_slice};

/// Bytes of unpacked names that are read at the most.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;
/// Names pack to a fifth; what claims to unpack to more than this many times its size is not believed.
const MAX_COMPRESSION_RATIO: u64 = 64;
/// Unpacked bytes that are always allowed, as they cost nothing: one name of 4 KiB may be a single letter.
const ALWAYS_ALLOWED_BYTES: u64 = 1 << 20;
/// Bytes before packed names: the number of bytes that they unpack to, u64.
const HEADER_BYTES: usize = 8;

/// Packs the names of these entries, each of which comes once, while something waits for it.
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

/// Packs bytes that are small, while something waits for them.
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

/// Reads the names that a recording carries, and says what of them is damaged.
pub fn names(recording: &Reader, style: NameStyle) -> (ArchivedNames, Option<String>) {
    let (bytes, error) = unpack_section(recording, sections::id::NAMES, "names");
    if bytes.is_empty() {
        return (ArchivedNames::default(), error);
    }
    let (names, damage) = ArchivedNames::parse(&bytes, style);
    (names, damage.map(|damage| damage.to_string()).or(error))
}

/// Reads the code that a recording carries, and says what of it is damaged.
pub fn code(recording: &Reader, style: NameStyle) -> (Vec<ArchivedCode>, Option<String>) {
    let (bytes, error) = unpack_section(recording, sections::id::CODE, "code");
    if bytes.is_empty() {
        return (Vec::new(), error);
    }
    let (code, damage) = parse_code(&bytes, style);
    (code, damage.map(|damage| damage.to_string()).or(error))
}

/// Unpacks a section, as far as it goes; nothing where there is none.
pub(super) fn unpack_section(recording: &Reader, section: u32, what: &str) -> (Vec<u8>, Option<String>) {
    let Some(section) = recording.features().section(section) else {
        return (Vec::new(), None);
    };
    let refused = |why: String| (Vec::new(), Some(why));
    let Some((size, packed)) = section.split_first_chunk::<HEADER_BYTES>() else {
        return refused(format!("the section of {what} is cut off"));
    };
    let size = recording.endian().u64(*size);
    let most = (packed.len() as u64)
        .saturating_mul(MAX_COMPRESSION_RATIO)
        .clamp(ALWAYS_ALLOWED_BYTES, MAX_UNPACKED_BYTES);
    if size > most {
        return refused(format!(
            "{what} of {size} bytes are more than {} packed bytes may hold",
            packed.len()
        ));
    }
    let mut unpacked = vec![0; size as usize];
    let (bytes, code) = decompress_slice(&mut unpacked, packed, InflateConfig::default());
    let error = (code != ReturnCode::Ok).then(|| format!("{what} cannot be unpacked ({code:?})"));
    let length = bytes.len();
    unpacked.truncate(length);
    (unpacked, error)
}
