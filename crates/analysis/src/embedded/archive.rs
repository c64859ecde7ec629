//! Archives: recordings with the names and code of all sampled addresses, which can be read on other machines.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use model::{Name, Resolution, Space, StackEntry};
use profile::{Shape, Show};
use symbolizer::archived::{ArchivedCode, ArchivedNames, encode_code};

pub use super::sections::{code, names};
use super::sections::{encode_names, pack_small};
use crate::Analysis;
use crate::annotate::{Annotator, sampled_functions};
use crate::samples::events::weight_of;

/// Bytes of code that are collected for each byte that may be written: code packs to a half or less.
const GATHERED_PER_PACKED_BYTE: usize = 3;
/// Bytes that a place in code takes beside its own, about.
const BYTES_PER_POSITION: usize = 8;

/// Packs the names of an analysis into a section ([`perfdata::sections::id::NAMES`]).
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
    pack_small(&encode_names(entries), endian)
}

/// Packs the code of sampled functions into a section ([`perfdata::sections::id::CODE`]), hottest first, as many as fit into `max_bytes`.
/// `None` where there is none to be had.
pub fn pack_code(
    analysis: &Analysis,
    annotator: &Annotator<'_>,
    max_bytes: usize,
    endian: decoder::Endian,
) -> Option<Vec<u8>> {
    let mut pieces: Vec<ArchivedCode> = Vec::new();
    let mut known = HashSet::new();
    let mut left = max_bytes.saturating_mul(GATHERED_PER_PACKED_BYTE);
    'events: for event in &analysis.events {
        let weight = weight_of(&event.event.attr);
        let view = analysis.view(&event.profile, Show::default(), weight, &Shape::default());
        for function in sampled_functions(analysis, &view) {
            if !known.insert((function.space, function.start)) {
                continue;
            }
            let Some(piece) = annotator.code_of(&function) else { continue };
            let bytes = piece.bytes.len() + BYTES_PER_POSITION * (piece.frames.len() + piece.callees.len());
            let Some(rest) = left.checked_sub(bytes) else { break 'events };
            left = rest;
            pieces.push(piece);
        }
    }
    while !pieces.is_empty() {
        let section = pack_small(&encode_code(&pieces), endian);
        if section.len() <= max_bytes {
            return Some(section);
        }
        pieces.truncate(pieces.len() * 3 / 4);
    }
    None
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
        Space::JavaScript { name } | Space::TaskLabel { name } => name.to_string(),
        Space::Python { file, function } => format!("{function} ({file})"),
        Space::Unmapped { pid, .. } => format!("unmapped memory of process {pid}"),
        Space::Truncated(_) | Space::State(_) | Space::Foreign(_) => {
            profile::module_of(space).unwrap_or_else(|| Name::from("?")).to_string()
        }
    }
}
