//! What OpenTelemetry's conventions want to know of code: identities of objects beside their build ids of GNU, and languages of generated
//! code.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use elf::ReadAt;
use export::exchange::ObjectIds;
use host::objects::{HostObject, ObjectStore, SearchPaths};
use model::{Space, SpaceId};
use sha2::{Digest, Sha256};

use crate::Analysis;
use crate::runtimes::Runtimes;

/// Bytes of head and tail that are hashed (`process.executable.build_id.htlhash` in OpenTelemetry's specification of mappings).
const HASHED_BYTES: u64 = 4096;
/// Bytes of the hash that count.
const HASH_BYTES: usize = 16;
/// The type of Go's note with its build id (`ELF_NOTE_GOBUILDID_TAG` in Go's linker).
const GO_BUILD_ID: u32 = 4;
/// The longest build id of Go; they have 83 bytes.
const MAX_GO_BYTES: usize = 256;

/// Reads the identities of the objects that samples lie in, as far as these are found and are those that were recorded.
pub fn object_ids(analysis: &Analysis, paths: &SearchPaths) -> HashMap<SpaceId, ObjectIds> {
    let store = ObjectStore::new(paths.clone())
        .with_retained_files(Arc::clone(&analysis.held))
        .with_recorded_files(Arc::clone(&analysis.files));
    let profiles = analysis.events.iter().chain(&analysis.thread_time).map(|event| &event.profile);
    let sampled: HashSet<SpaceId> =
        profiles.flat_map(|profile| profile.stacks.places()).map(|entry| entry.space).collect();
    let ids = sampled.into_iter().filter_map(|id| {
        let Some(Space::Object(identity)) = analysis.spaces.find(id) else { return None };
        let object = store.open(identity, &analysis.pids(id)).ok()?;
        let ids = ids_of(&object);
        store.close(identity);
        (!object.source().has_changed()).then_some((id, ids))
    });
    ids.collect()
}

/// Returns the kinds of generated code, as `profile.frame.type` names them, by the runtimes of the processes.
pub fn generated_code_kinds(analysis: &Analysis) -> HashMap<SpaceId, &'static str> {
    let runtimes = Runtimes::new(&analysis.spaces, &analysis.seen_in);
    let kind = |(id, space)| Some((id, runtimes.runtime_of(space)?.frame_type()?));
    analysis.spaces.iter().filter_map(kind).collect()
}

fn ids_of(object: &HostObject) -> ObjectIds {
    let note = object.section(".note.go.buildid").and_then(|section| object.section_bytes(section).ok());
    ObjectIds {
        go: note.and_then(go_build_id).unwrap_or_default(),
        content_hash: content_hash(object.source()),
    }
}

/// Returns the build id in a note of Go: sizes of name and text, type, `Go` padded to four bytes, the text.
fn go_build_id(note: &[u8]) -> Option<String> {
    let number = |at: usize| {
        let bytes = note.get(at..).and_then(|rest| rest.first_chunk()).copied();
        bytes.map(u32::from_ne_bytes)
    };
    let (length, kind) = (number(4)? as usize, number(8)?);
    let is_go = kind == GO_BUILD_ID && note.get(12..16) == Some(b"Go\0\0") && length <= MAX_GO_BYTES;
    let text = note.get(16..16 + length).filter(|_| is_go)?;
    let text = str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()))?;
    Some(text.to_owned())
}

/// Returns the hash of the first and the last page of a file, and its length.
fn content_hash(file: &impl ReadAt) -> String {
    let size = file.size();
    let mut hash = Sha256::new();
    hash.update(file.copy(0..size.min(HASHED_BYTES)));
    hash.update(file.copy(size.saturating_sub(HASHED_BYTES)..size));
    hash.update(size.to_be_bytes());
    hash.finalize().iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_specification() {
        // sha256 of the text twice and its length as eight bytes, which Python's hashlib gave.
        let short = b"hello".to_vec();
        assert_eq!(content_hash(&short), "b2c90e0c61910efa8c079b70039694de");
        let long = vec![b'x'; 10_000];
        assert_eq!(content_hash(&long), "fb39c505654c767408f679aa18bd5114");
    }

    #[test]
    fn notes_of_go_are_read_and_no_others() {
        let note = |kind: u32, name: &[u8; 4], text: &[u8]| {
            [&4_u32.to_ne_bytes()[..], &(text.len() as u32).to_ne_bytes(), &kind.to_ne_bytes(), name, text]
                .concat()
        };
        assert_eq!(go_build_id(&note(GO_BUILD_ID, b"Go\0\0", b"a/b")).as_deref(), Some("a/b"));
        assert_eq!(go_build_id(&note(3, b"Go\0\0", b"a/b")), None);
        assert_eq!(go_build_id(&note(GO_BUILD_ID, b"GNU\0", b"a/b")), None);
        assert_eq!(go_build_id(&note(GO_BUILD_ID, b"Go\0\0", b"\x1b[m")), None);
        assert_eq!(go_build_id(&note(GO_BUILD_ID, b"Go\0\0", b"a/b")[..17]), None);
    }
}
