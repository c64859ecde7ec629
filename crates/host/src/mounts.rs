//! Finds the mount of an open file and its type without calling the file system, which may not answer: `/proc/PID/mountinfo`
//! and `/proc/PID/fdinfo` (proc(5)).

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use model::Pid;

use crate::procfs;

/// The mounts in the mount namespaces of a process and of ours.
#[derive(Debug)]
pub(crate) struct Mounts {
    /// Ids of all mounts. They are unique on the machine.
    all: HashSet<u32>,
    /// Ids of FUSE mounts.
    fuse: HashSet<u32>,
}

impl Mounts {
    /// Reads the mounts of a process, if we may, and ours. A process in a chroot does not list mounts above its root, but we may.
    pub(crate) fn of_process(pid: Pid) -> Self {
        let lists = [procfs::shared_path(pid, "mountinfo").ok(), Some("/proc/self/mountinfo".into())];
        // Paths may be in any encoding.
        let text =
            |path: PathBuf| fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let lists: Vec<String> = lists.into_iter().flatten().filter_map(text).collect();
        let all = lists.iter().flat_map(|list| list.lines()).filter_map(id_of_mount).collect();
        let fuse = lists.iter().flat_map(|list| fuse_mounts(list)).collect();
        Self { all, fuse }
    }

    /// Returns true if the file was opened by a path in one of the two namespaces: a descriptor can be passed on from any other one,
    /// or from none.
    pub(crate) fn contains(&self, file: &File) -> bool {
        mount_of(file).is_some_and(|mount| self.all.contains(&mount))
    }

    /// Returns true if a FUSE program serves this file.
    pub(crate) fn is_fuse(&self, file: &File) -> bool {
        mount_of(file).is_some_and(|mount| self.fuse.contains(&mount))
    }
}

/// Returns the ids of FUSE mounts in lines such as `36 35 0:45 / /mnt rw,noatime master:1 - fuse.sshfs host:/ rw`.
fn fuse_mounts(list: &str) -> impl Iterator<Item = u32> {
    list.lines().filter_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let kind = source.split(' ').next()?;
        let is_fuse = kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.");
        id_of_mount(mount).filter(|_| is_fuse)
    })
}

fn id_of_mount(line: &str) -> Option<u32> {
    line.split(' ').next()?.parse().ok()
}

fn mount_of(file: &File) -> Option<u32> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::perf_event::own_pid;

    #[test]
    fn file_systems_of_programs_are_known_by_their_types() {
        let list = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                    30 22 0:27 / /a\\040-\\040b rw - fuse.sshfs me@there:/ rw,user_id=0\n\
                    31 22 0:28 / /b rw shared:2 master:3 - fuse x rw\n\
                    32 22 0:29 / /c rw - fuseblk /dev/sdb rw\n\
                    33 22 0:30 / /d rw - fusectl none rw\n\
                    nonsense\n";
        assert_eq!(fuse_mounts(list).collect::<Vec<_>>(), [30, 31, 32]);
    }

    #[test]
    fn the_mount_of_a_file_is_among_ours() {
        let mount = mount_of(&File::open("/proc/self/status").unwrap()).unwrap();
        let list = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = list.lines().find(|line| line.starts_with(&format!("{mount} "))).unwrap();
        assert!(line.contains(" - proc "), "{line}");
        assert!(!Mounts::of_process(own_pid()).is_fuse(&File::open("/proc/self/status").unwrap()));
    }
}
