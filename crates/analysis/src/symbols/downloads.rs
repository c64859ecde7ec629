//! Downloads debug files of a profile's hottest objects from debuginfod servers.
//!
//! This happens before symbolization: files arrive in a cache folder that the object store searches anyway.

use std::collections::HashMap;
use std::path::Path;

use host::debuginfod::{Artifact, Client, FetchError, Settings};
use host::objects::{DebugFiles, HostObject, ObjectStore, SearchPaths};
use model::{BuildId, Harm, ObjectIdentity, Pid, Space, SpaceId, SpaceTable};
use profile::Profile;

use crate::Notices;

/// An object is downloaded only if it has at least one in this many of all frames.
const MIN_SHARE_DIVISOR: u64 = 100;

/// Fetches what is missing of hot objects, the hottest first, and says what came and what did not.
pub fn fetch(
    profiles: &[&Profile],
    spaces: &SpaceTable,
    pids: impl Fn(SpaceId) -> Vec<Pid>,
    paths: &SearchPaths,
    settings: Settings,
    notices: &dyn Notices,
) {
    let store = ObjectStore::new(paths.clone());
    let mut downloads =
        Downloads { client: Client::new(settings), store: &store, notices, fetched: Vec::new() };
    for (space, identity) in hot_objects(profiles, spaces) {
        if let Err(error) = downloads.fetch_missing(identity, &pids(space)) {
            let name = model::Name::new(identity.path.base_name());
            match error {
                FetchError::NotFound | FetchError::RecentlyNotFound | FetchError::SkippedServer => {
                    notices.detail(&format!("{name}: {error}"));
                }
                FetchError::TimeLimit(_) => {
                    notices.warn(
                        Harm::Names,
                        &format!("no debug files for {name} and less hot objects: {error}"),
                    );
                    break;
                }
                _ => notices.warn(Harm::Names, &format!("no debug files for {name}: {error}")),
            }
        }
    }
    if !downloads.fetched.is_empty() {
        notices.say(&format!("fetched by debuginfod: {}", downloads.fetched.join(", ")));
    }
}

/// The objects that have a good share of the frames, most first.
fn hot_objects<'s>(profiles: &[&Profile], spaces: &'s SpaceTable) -> Vec<(SpaceId, &'s ObjectIdentity)> {
    let mut frames: HashMap<SpaceId, u64> = HashMap::new();
    let mut all = 0_u64;
    for (_, entry, count) in profiles.iter().flat_map(|profile| profile.places()) {
        all = all.saturating_add(count);
        let sum = frames.entry(entry.space).or_default();
        *sum = sum.saturating_add(count);
    }
    let mut hot: Vec<_> = frames
        .into_iter()
        .filter(|(_, count)| count.saturating_mul(MIN_SHARE_DIVISOR) >= all)
        .filter_map(|(space, count)| match spaces.get(space) {
            Space::Object(identity) => Some((space, identity, count)),
            _ => None,
        })
        .collect();
    hot.sort_by_key(|&(space, _, count)| (std::cmp::Reverse(count), space));
    hot.into_iter().map(|(space, identity, _)| (space, identity)).collect()
}

struct Downloads<'a> {
    client: Client,
    store: &'a ObjectStore,
    notices: &'a dyn Notices,
    fetched: Vec<String>,
}

impl Downloads<'_> {
    /// Fetches the object, where its file is gone, its debug file, and the one that dwz made of that.
    fn fetch_missing(&mut self, identity: &ObjectIdentity, pids: &[Pid]) -> Result<(), FetchError> {
        let opened = self.store.open_with_path(identity, pids);
        self.store.close(identity);
        let (object, path) = match (opened, identity.build_id) {
            (Ok(found), _) => found,
            (Err(_), Some(build_id)) => {
                self.fetch(identity, &build_id, Artifact::Executable)?;
                let opened = self.store.open_with_path(identity, pids);
                self.store.close(identity);
                match opened {
                    Ok(found) => found,
                    Err(_) => return Ok(()),
                }
            }
            (Err(_), None) => return Ok(()),
        };
        let Some(build_id) = object.build_id() else { return Ok(()) };
        let mut files = self.store.debug_files(&object, &path);
        if !has_debug_information(&object, &files) {
            self.fetch(identity, &build_id, Artifact::DebugInfo)?;
            files = self.store.debug_files(&object, &path);
        }
        let main: &HostObject = files.debug.as_deref().unwrap_or(&object);
        if let (Some(link), None) = (main.alt_link(), &files.supplementary)
            && let Some(build_id) = link.build_id
        {
            self.fetch(identity, &build_id, Artifact::DebugInfo)?;
        }
        Ok(())
    }

    fn fetch(
        &mut self,
        identity: &ObjectIdentity,
        build_id: &BuildId,
        artifact: Artifact,
    ) -> Result<(), FetchError> {
        let name = model::Name::new(identity.path.base_name());
        let what = match artifact {
            Artifact::DebugInfo => "debug information of",
            Artifact::Executable => "file",
        };
        let title = format!("fetching the {what} {name}");
        // The length is not known before the first byte has arrived.
        let mut bar = self.notices.progress(&title, None);
        let mut known = None;
        let mut bytes = 0;
        let path = self.client.fetch(build_id, artifact, &mut |done, size| {
            if known != size {
                known = size;
                bar = self.notices.progress(&title, size);
            }
            bytes = done;
            bar.set(done);
        })?;
        if bytes > 0 {
            self.fetched.push(format!("{what} {name} ({})", megabytes(bytes)));
            self.notices.detail(&format!("{}", Path::new(&path).display()));
        }
        Ok(())
    }
}

fn has_debug_information(object: &HostObject, files: &DebugFiles) -> bool {
    let files = [Some(object), files.debug.as_deref()];
    files.into_iter().flatten().any(|file| file.has_contents(".debug_info"))
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
