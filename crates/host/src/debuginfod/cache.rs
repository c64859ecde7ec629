//! The folder that all debuginfod clients of a user share: `BUILDID/debuginfo` and `BUILDID/executable`. An empty file
//! says that no server had it when it was written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::BuildId;

use super::Artifact;
use crate::files::{NewFile, make_folders};

/// The time for which servers are believed not to have a file, unless `cache_miss_s` in the cache says otherwise.
const MISS_LIFETIME: Duration = Duration::from_secs(600);

pub(super) enum CacheEntry {
    File(PathBuf),
    /// No server had it a short while ago.
    Miss,
    /// Not there; this is its place.
    Nothing(PathBuf),
}

/// The file, where the cache has it.
pub(crate) fn cached_file(cache: &Path, build_id: &BuildId, artifact: Artifact) -> Option<PathBuf> {
    match look_up(cache, build_id, artifact) {
        CacheEntry::File(path) => Some(path),
        CacheEntry::Miss | CacheEntry::Nothing(_) => None,
    }
}

pub(super) fn look_up(cache: &Path, build_id: &BuildId, artifact: Artifact) -> CacheEntry {
    let path = cache.join(build_id.to_string()).join(artifact.name());
    let Ok(metadata) = fs::metadata(&path) else { return CacheEntry::Nothing(path) };
    if metadata.len() > 0 {
        return CacheEntry::File(path);
    }
    let limit = fs::read_to_string(cache.join("cache_miss_s")).ok().and_then(|text| text.trim().parse().ok());
    let age = metadata.modified().ok().and_then(|time| time.elapsed().ok());
    match age {
        Some(age) if age < limit.map_or(MISS_LIFETIME, Duration::from_secs) => CacheEntry::Miss,
        _ => CacheEntry::Nothing(path),
    }
}

/// A new file for the cache, which nobody sees before it is whole.
pub(super) fn create(path: &Path) -> io::Result<NewFile> {
    if let Some(folder) = path.parent() {
        make_folders(folder)?;
    }
    Ok(NewFile::create_at(path, 0o600)?)
}

/// Notes that no server has it.
pub(super) fn record_miss(path: &Path) -> io::Result<()> {
    create(path)?.persist()
}
