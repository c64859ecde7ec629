//! The cache shared by all debuginfod clients of a user: `BUILDID/debuginfo` and `BUILDID/executable`. An empty file means that no
//! server had the file at the time of its modification.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::BuildId;

use super::Artifact;
use crate::files::{NewFile, make_folders};
use crate::slow_files;

/// How long a miss stays valid, unless the file `cache_miss_s` in the cache says otherwise.
const MISS_LIFETIME: Duration = Duration::from_secs(600);

/// The state of a file in the cache.
pub(super) enum CacheEntry {
    File(PathBuf),
    /// No server had it within the last [`MISS_LIFETIME`].
    Miss,
    /// The cache has no entry; the file belongs at this path.
    Nothing(PathBuf),
}

/// Returns the path of a file that is in the cache.
pub(crate) fn cached_file(cache: &Path, build_id: &BuildId, artifact: Artifact) -> Option<PathBuf> {
    let path = cache.join(build_id.to_string()).join(artifact.name());
    // An empty file records a miss. The home folder may lie on a file system that does not answer.
    slow_files::open(&path).is_ok().then_some(path)
}

/// Looks up a file in the cache.
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

/// Creates a new file for the cache, which becomes visible when it is complete.
pub(super) fn create(path: &Path) -> io::Result<NewFile> {
    if let Some(folder) = path.parent() {
        make_folders(folder)?;
    }
    Ok(NewFile::create_at(path, 0o600)?)
}

/// Records that no server has the file.
pub(super) fn record_miss(path: &Path) -> io::Result<()> {
    create(path)?.persist()
}
