//! Control groups: the hierarchy that carries `perf_event`, and the paths in it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More than any machine has; a bound for loops that somebody may have mounted.
const MAX_CGROUPS: usize = 65_536;

/// Finds the mount point of the hierarchy whose groups perf events understand: version 1's `perf_event` where that
/// exists,
/// else version 2.
pub fn hierarchy() -> Option<PathBuf> {
    mount_point(&fs::read_to_string("/proc/mounts").ok()?)
}

/// `cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0`
fn mount_point(mounts: &str) -> Option<PathBuf> {
    let find = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (path, found, options) = (words.next()?, words.next()?, words.next()?);
            let has = option.is_none_or(|option| options.split(',').any(|one| one == option));
            (found == kind && has).then(|| PathBuf::from(path))
        })
    };
    find("cgroup", Some("perf_event")).or_else(|| find("cgroup2", None))
}

/// Opens a group by its path from the hierarchy's root, with or without the first slash, or by its whole path.
///
/// # Errors
/// `ENOENT` where there is no such group, or no hierarchy.
pub fn open(path: &Path) -> io::Result<File> {
    let root = hierarchy().ok_or(io::ErrorKind::NotFound)?;
    let inside = if path.starts_with(&root) {
        path.to_owned()
    } else {
        root.join(path.strip_prefix("/").unwrap_or(path))
    };
    let folder = File::open(&inside)?;
    if folder.metadata()?.is_dir() { Ok(folder) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// All groups: the number that samples carry, and the path from the root. The number is the inode of the folder
/// (kernfs makes its file handle from that).
pub fn all() -> Vec<(u64, String)> {
    let Some(root) = hierarchy() else { return Vec::new() };
    let (mut found, mut waiting) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = waiting.pop().filter(|_| found.len() < MAX_CGROUPS) {
        let Ok(metadata) = fs::symlink_metadata(&folder) else { continue };
        let inside = folder.strip_prefix(&root).unwrap_or(&folder);
        found.push((metadata.ino(), format!("/{}", inside.display())));
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        waiting.extend(
            entries
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_with_perf_event_is_found() {
        let both =
            "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount_point(both), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        let first = format!("{both}cgroup /sys/fs/cgroup/perf_event cgroup rw,relatime,perf_event 0 0\n");
        assert_eq!(mount_point(&first), Some(PathBuf::from("/sys/fs/cgroup/perf_event")));
        assert_eq!(mount_point("proc /proc proc rw 0 0\n"), None);
    }
}
