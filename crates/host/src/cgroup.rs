//! Control groups: the hierarchy that carries `perf_event`, and the paths in it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::MAX_CGROUPS;

/// Returns the mount point of the hierarchy that perf events use: `perf_event` of version 1 if it is mounted, else version 2.
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

/// Opens a group by its path below the root of the hierarchy, with or without a leading slash, or by its full path.
///
/// # Errors
/// `ENOENT` if there is no such group, or no hierarchy.
pub fn open(path: &Path) -> io::Result<File> {
    let root = hierarchy().ok_or(io::ErrorKind::NotFound)?;
    let folder = File::open(below(&root, path))?;
    if folder.metadata()?.is_dir() { Ok(folder) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    if path.starts_with(root) { path.to_owned() } else { root.join(path.strip_prefix("/").unwrap_or(path)) }
}

/// Returns the file and the name of a controller that is to be written into it with `+`, if perf events of the group at `path` need that.
/// In version 2 perf events are for every group, but the kernel sets groups up for them only when a controller is enabled above them
/// (`cgroup_calc_subtree_ss_mask()` in kernel/cgroup/cgroup.c); until then `perf_event_open` fails with ENOENT.
pub fn without_controllers(path: &Path) -> Option<(PathBuf, String)> {
    let root = hierarchy()?;
    without_controllers_below(&root, &below(&root, path))
}

fn without_controllers_below(root: &Path, group: &Path) -> Option<(PathBuf, String)> {
    let mut above: Vec<&Path> =
        group.ancestors().skip(1).take_while(|folder| folder.starts_with(root)).collect();
    above.reverse();
    above.into_iter().find_map(|folder| {
        // Version 1 has no such file.
        let file = folder.join("cgroup.subtree_control");
        let is_empty = fs::read_to_string(&file).ok()?.trim().is_empty();
        let known = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        let controller =
            known.split_whitespace().find(|name| *name == "pids").or(known.split_whitespace().next());
        is_empty.then(|| (file, controller.unwrap_or("pids").to_owned()))
    })
}

/// Lists all groups: the id that samples carry, and the path below the root. The id is the inode of the folder, from which
/// kernfs makes its file handle.
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
    fn the_highest_group_without_controllers_is_found() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("a/b");
        fs::create_dir_all(&group).unwrap();
        let find = || without_controllers_below(root.path(), &group);
        assert_eq!(find(), None, "version 1");
        let set = |folder: &str, file: &str, text: &str| {
            fs::write(root.path().join(folder).join(file), text).unwrap()
        };
        for folder in ["", "a", "a/b"] {
            set(folder, "cgroup.subtree_control", "\n");
            set(folder, "cgroup.controllers", "cpu pids\n");
        }
        assert_eq!(find(), Some((root.path().join("cgroup.subtree_control"), "pids".to_owned())));
        set("", "cgroup.subtree_control", "cpu\n");
        set("a", "cgroup.controllers", "cpu\n");
        assert_eq!(find(), Some((root.path().join("a/cgroup.subtree_control"), "cpu".to_owned())));
        set("a", "cgroup.subtree_control", "cpu\n");
        assert_eq!(find(), None, "the group itself needs none");
    }

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
