//! Build ids of files that a running process has mapped.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::{BuildId, Pid};

use super::bytes;
use crate::procfs::MapEntry;

/// Reads the build id of a mapped file, in the mount namespace of its process; `None` if the path refers to another file by now,
/// or the file cannot be read.
pub fn build_id_of_mapping(pid: Pid, map: &MapEntry) -> Option<BuildId> {
    let path = Path::new(std::ffi::OsStr::from_bytes(&map.path));
    let path = Path::new("/proc").join(pid.to_string()).join("root").join(path.strip_prefix("/").ok()?);
    // Devices are not compared, because overlay and btrfs show different ones in maps and in stat(2).
    let same = fs::metadata(&path).is_ok_and(|file| file.ino() == map.inode);
    if same { bytes::build_id(&path) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::executable_maps;
    use crate::sys::perf_event::own_pid;
    use std::time::Duration;

    #[test]
    fn the_c_library_is_found_through_our_own_mappings() {
        let (maps, _) = executable_maps(own_pid(), false, Duration::from_secs(5)).unwrap();
        let library = maps.iter().find(|map| map.path.ends_with(b"/libc.so.6")).unwrap();
        assert!(build_id_of_mapping(own_pid(), library).is_some());
        let other = MapEntry { inode: library.inode ^ 1, ..library.clone() };
        assert_eq!(build_id_of_mapping(own_pid(), &other), None);
        let vdso = maps.iter().find(|map| map.path == b"[vdso]").unwrap();
        assert_eq!(build_id_of_mapping(own_pid(), vdso), None);
    }
}
