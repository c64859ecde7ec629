//! Recordings that travel: the names of all addresses that were sampled, added to the recording.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use model::{Name, Resolution, Space, StackEntry};
use perfdata::read::Reader;
use perfdata::sections;
use profile::{Shape, Show};
use symbolizer::NameStyle;
use symbolizer::archived::{ArchivedCode, ArchivedNames, encode, encode_code, parse_code};
use zlib_rs::{DeflateConfig, InflateConfig, ReturnCode, compress_bound, compress_slice, decompress_slice};

use crate::Analysis;
use crate::annotate::{Annotator, sampled_functions};

/// Bytes of unpacked names that are read at the most.
const MOST_BYTES: u64 = 1 << 30;
/// Names pack to a fifth; what claims to unpack to more than this many times its size is not believed.
const MOST_RATIO: u64 = 64;
/// Unpacked bytes that are always allowed, as they cost nothing: one name of 4 KiB may be a single letter.
const ALWAYS_BYTES: u64 = 1 << 20;
/// Bytes before packed names: the number of bytes that they unpack to, u64.
const HEADER: usize = 8;
/// Code packs to a half or less; so many bytes are gathered for each that may be written.
const UNPACKED_PER_PACKED: usize = 3;
/// Bytes that a place in code takes beside its own, about.
const BYTES_PER_PLACE: usize = 8;

/// Packs the names of an analysis into a section ([`sections::id::NAMES`]).
///
/// The analysis should have been asked for names as linkers know them, with lines: what is read elsewhere may then be shown in
/// any way.
pub fn pack(analysis: &Analysis, endian: decoder::Endian) -> Vec<u8> {
    // By space, so that neighbours are alike and pack well; an address of several events is told once.
    let mut entries: BTreeMap<&StackEntry, (&Space, &Resolution)> = BTreeMap::new();
    for event in &analysis.events {
        for entry in event.profile.stacks.places() {
            if let Some(found) = analysis.resolve(entry) {
                entries.insert(entry, (analysis.spaces.get(entry.space), found));
            }
        }
    }
    let entries = entries.into_iter().map(|(entry, (space, found))| (entry, space, found));
    packed(&encoded(entries), endian)
}

/// Packs the names of these entries, each of which comes once, while something waits for it.
pub(crate) fn pack_soon<'a>(
    entries: impl Iterator<Item = (&'a StackEntry, &'a Space, &'a Resolution)>,
    endian: decoder::Endian,
) -> Vec<u8> {
    pack_bytes(&encoded(entries), endian)
}

fn encoded<'a>(entries: impl Iterator<Item = (&'a StackEntry, &'a Space, &'a Resolution)>) -> Vec<u8> {
    let mut ordered: Vec<_> = entries.collect();
    ordered.sort_by_key(|(entry, ..)| (entry.space, entry.offset, **entry));
    encode(ordered.iter().map(|(entry, space, found)| (*space, *entry, *found)))
}

/// Packs bytes that are small, while something waits for them.
pub(crate) fn pack_bytes(bytes: &[u8], endian: decoder::Endian) -> Vec<u8> {
    packed_as(bytes, DeflateConfig::best_speed(), endian)
}

/// Packs the code of sampled functions into a section ([`sections::id::CODE`]), hottest first, as many as fit into `most_bytes`.
/// `None` where there is none to be had.
pub fn pack_code(
    analysis: &Analysis,
    annotator: &Annotator<'_>,
    most_bytes: usize,
    endian: decoder::Endian,
) -> Option<Vec<u8>> {
    let mut pieces: Vec<ArchivedCode> = Vec::new();
    let mut known = HashSet::new();
    let mut left = most_bytes.saturating_mul(UNPACKED_PER_PACKED);
    'events: for event in &analysis.events {
        let weight = crate::events::weight_of(&event.event.attr);
        let view = analysis.view(&event.profile, Show::default(), weight, &Shape::default());
        for function in sampled_functions(analysis, &view) {
            if !known.insert((function.space, function.start)) {
                continue;
            }
            let Some(piece) = annotator.code_of(&function) else { continue };
            let bytes = piece.bytes.len() + BYTES_PER_PLACE * (piece.frames.len() + piece.callees.len());
            let Some(rest) = left.checked_sub(bytes) else { break 'events };
            left = rest;
            pieces.push(piece);
        }
    }
    while !pieces.is_empty() {
        let section = packed(&encode_code(&pieces), endian);
        if section.len() <= most_bytes {
            return Some(section);
        }
        pieces.truncate(pieces.len() * 3 / 4);
    }
    None
}

fn packed(bytes: &[u8], endian: decoder::Endian) -> Vec<u8> {
    packed_as(bytes, DeflateConfig::best_compression(), endian)
}

fn packed_as(bytes: &[u8], config: DeflateConfig, endian: decoder::Endian) -> Vec<u8> {
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
pub(crate) fn unpack_section(recording: &Reader, section: u32, what: &str) -> (Vec<u8>, Option<String>) {
    let Some(section) = recording.features().section(section) else {
        return (Vec::new(), None);
    };
    let refused = |why: String| (Vec::new(), Some(why));
    let Some((size, packed)) = section.split_first_chunk::<HEADER>() else {
        return refused(format!("the section of {what} is cut off"));
    };
    let size = recording.endian().u64(*size);
    let most = (packed.len() as u64).saturating_mul(MOST_RATIO).clamp(ALWAYS_BYTES, MOST_BYTES);
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

/// The contents of an archive for one space of code.
pub struct ArchivedSpace {
    /// The description of the space.
    pub what: String,
    /// Sampled addresses whose function is known.
    pub addresses: usize,
}

/// Lists what an archive holds: places with the number of their addresses, then functions, then source files.
pub fn contents(names: &ArchivedNames) -> (Vec<ArchivedSpace>, Vec<Arc<str>>, Vec<Arc<str>>) {
    let held = names
        .contents()
        .into_iter()
        .map(|of| ArchivedSpace { what: describe(of.space), addresses: of.addresses });
    let (functions, files) = names.names();
    (held.collect(), functions, files)
}

fn describe(space: &Space) -> String {
    let with_id = |name: String, build_id: &Option<model::BuildId>| match build_id {
        Some(build_id) => format!("{name} (build id {build_id})"),
        None => name,
    };
    match space {
        Space::Object(identity) => with_id(identity.path.to_string(), &identity.build_id),
        Space::Vdso { build_id } => with_id("[vdso]".to_owned(), build_id),
        Space::Kernel { build_id, .. } => with_id("the kernel".to_owned(), build_id),
        Space::KernelModule { name, build_id, .. } => with_id(name.to_string(), build_id),
        Space::KernelSymbol { name } => name.to_string(),
        Space::Jit { pid, .. } => format!("generated code of process {pid}"),
        Space::JitDump { pid, path, .. } => format!("generated code of process {pid} ({path})"),
        Space::Unmapped { pid, .. } => format!("unmapped memory of process {pid}"),
        Space::Truncated(_) | Space::State(_) | Space::Foreign(_) => {
            profile::module_of(space).unwrap_or_else(|| Name::from("?")).to_string()
        }
    }
}
