//! Recordings that travel: the names of all addresses that were sampled, added to the recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Name, Resolution, Space, StackEntry};
use perfdata::read::Reader;
use perfdata::sections;
use symbolizer::NameStyle;
use symbolizer::archived::{ArchivedNames, encode};
use zlib_rs::{DeflateConfig, InflateConfig, ReturnCode, compress_bound, compress_slice, decompress_slice};

use crate::Analysis;

/// Bytes of unpacked names that are read at the most.
const MOST_BYTES: u64 = 1 << 30;
/// Names pack to a fifth; what claims to unpack to more than this many times its size is not believed.
const MOST_RATIO: u64 = 64;
/// What stands before packed names: how many bytes they unpack to, u64.
const HEADER: usize = 8;

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
    let mut ordered: Vec<_> = entries.into_iter().collect();
    ordered.sort_by_key(|(entry, _)| (entry.space, entry.offset));
    let names = encode(ordered.iter().map(|(entry, (space, found))| (*space, *entry, *found)));
    let mut packed = vec![0; compress_bound(names.len())];
    let (bytes, _) = compress_slice(&mut packed, &names, DeflateConfig::best_compression());
    let mut section = endian.u64_bytes(names.len() as u64).to_vec();
    section.extend_from_slice(bytes);
    section
}

/// Reads the names that a recording carries, and says what of them is damaged.
pub fn names(recording: &Reader, style: NameStyle) -> (ArchivedNames, Option<String>) {
    let Some(section) = recording.features().section(sections::id::NAMES) else {
        return (ArchivedNames::default(), None);
    };
    let refused = |why: String| (ArchivedNames::default(), Some(why));
    let Some((size, packed)) = section.split_first_chunk::<HEADER>() else {
        return refused("the section of names is cut off".to_owned());
    };
    let size = recording.endian().u64(*size);
    let most = (packed.len() as u64).saturating_mul(MOST_RATIO).min(MOST_BYTES);
    if size > most {
        return refused(format!(
            "names of {size} bytes are more than {} packed bytes may hold",
            packed.len()
        ));
    }
    let mut unpacked = vec![0; size as usize];
    let (bytes, code) = decompress_slice(&mut unpacked, packed, InflateConfig::default());
    let error = (code != ReturnCode::Ok).then(|| format!("names cannot be unpacked ({code:?})"));
    let (names, damage) = ArchivedNames::parse(bytes, style);
    (names, damage.map(|damage| damage.to_string()).or(error))
}

/// What an archive holds of one place that code was in.
pub struct Held {
    /// What it is.
    pub what: String,
    /// Sampled addresses whose function is known.
    pub addresses: usize,
}

/// Lists what an archive holds: places with the number of their addresses, then functions, then source files.
pub fn contents(names: &ArchivedNames) -> (Vec<Held>, Vec<Arc<str>>, Vec<Arc<str>>) {
    let held =
        names.contents().into_iter().map(|of| Held { what: describe(of.space), addresses: of.addresses });
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
