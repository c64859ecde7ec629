//! Finds the mount of a file and its type without calling the file system, which may not answer: `/proc/PID/mountinfo` and
//! `/proc/PID/fdinfo` (proc(5)).

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use model::Pid;

use crate::procfs::{self, PathView};
use crate::sys::memory_file;
use crate::sys::perf_event::own_pid;
use crate::sys::poll::PollSet;

/// Types of file systems that a program or another machine serves, which may not answer. Their subtypes follow a dot: `fuse.sshfs`.
const MAY_NOT_ANSWER: [&[u8]; 11] =
    [b"fuse", b"fuseblk", b"nfs", b"nfs4", b"cifs", b"smb3", b"9p", b"ceph", b"autofs", b"afs", b"lustre"];
/// Number of bytes that are read of `/proc/self/fdinfo/FD`: three lines, of position, flags and mount, take at most 70.
const FDINFO_BYTES: usize = 128;

/// Number of bytes that a list of mounts is expected to have: some 30 mounts. Longer ones take more calls.
const LIST_BYTES: usize = 8 << 10;

/// The id of a mount, which is unique on the machine.
pub(crate) type MountId = u32;

/// The mounts in the mount namespaces of a process and of ours.
#[derive(Default, Debug)]
pub(crate) struct Mounts {
    /// The mounts of other file systems than those below.
    local: HashSet<MountId>,
    slow: Vec<SlowMount>,
}

/// One mount of a file system that may not answer.
#[derive(Clone, Debug)]
struct SlowMount {
    id: MountId,
    /// The id of the mount that it lies on.
    parent: MountId,
    system: FileSystem,
}

/// A file system that may not answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileSystem {
    /// The numbers of its device. All mounts of one file system have the same.
    pub(crate) device: (u32, u32),
    /// The type of the file system, such as `fuse.sshfs`.
    pub(crate) kind: Vec<u8>,
    /// The path of its mount, in the view of who mounted it.
    pub(crate) place: Vec<u8>,
}

/// The mounts that a process sees, and the open lists from which they were read.
struct KnownMounts {
    mounts: Arc<Mounts>,
    lists: Vec<File>,
}

impl Mounts {
    /// Returns the mounts in the view of a process, if we may read them, and ours. A process in a chroot does not list mounts above its
    /// root, but we may. The lists are read again after they have changed, which takes one `poll(2)` to know.
    pub(crate) fn of_process(pid: Pid) -> Arc<Self> {
        let view = if pid == own_pid() { None } else { procfs::path_view(pid).ok() };
        Self::of_view(pid, view.as_ref())
    }

    /// Does the same as [`Mounts::of_process`] for a process whose view was read; `None` if it could not be.
    pub(crate) fn of_view(pid: Pid, view: Option<&PathView>) -> Arc<Self> {
        static KNOWN: Mutex<Option<HashMap<Option<PathView>, KnownMounts>>> = Mutex::new(None);
        // Most processes have our own view, whose list is known.
        let view = view.filter(|_| pid != own_pid()).filter(|&view| Some(view) != PathView::own()).cloned();
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        if let Some(found) = known.get(&view).filter(|found| !found.have_changed()) {
            return Arc::clone(&found.mounts);
        }
        if known.len() >= PathView::MAX {
            known.clear();
        }
        let theirs = view.as_ref().and_then(|_| procfs::shared_path(pid, "mountinfo").ok());
        let paths = [theirs, Some("/proc/self/mountinfo".into())];
        let lists: Vec<File> = paths.into_iter().flatten().filter_map(|path| File::open(path).ok()).collect();
        let mut mounts = Self::default();
        for list in &lists {
            let mut text = Vec::with_capacity(LIST_BYTES);
            if (&*list).read_to_end(&mut text).is_ok() {
                mounts.add(&text);
            }
        }
        let mounts = Arc::new(mounts);
        known.insert(view, KnownMounts { mounts: Arc::clone(&mounts), lists });
        mounts
    }

    /// Adds the mounts in lines such as `36 35 0:45 / /mnt rw,noatime master:1 - fuse.sshfs host:/ rw`.
    fn add(&mut self, list: &[u8]) {
        for line in list.split(|&byte| byte == b'\n') {
            let Some(mount) = parse(line) else { continue };
            let base = mount.system.kind.split(|&byte| byte == b'.').next().unwrap_or_default();
            if MAY_NOT_ANSWER.contains(&base) {
                self.slow.push(mount);
            } else {
                self.local.insert(mount.id);
            }
        }
    }

    /// Returns true if the file was opened by a path in one of the two namespaces: a descriptor can be passed on from any other one,
    /// or from none.
    pub(crate) fn contains(&self, file: &File) -> bool {
        self.contains_mount(mount_of(file))
    }

    /// Does the same as [`Mounts::contains`] for a file that lies on this mount.
    pub(crate) fn contains_mount(&self, id: Option<MountId>) -> bool {
        id.is_some_and(|id| self.local.contains(&id) || self.slow.iter().any(|mount| mount.id == id))
    }

    /// Returns true if no file system is mounted that may not answer.
    pub(crate) fn are_local(&self) -> bool {
        self.slow.is_empty()
    }

    /// Learns the mount of files in memory, which readers without rights cannot: it is in no list.
    pub(crate) fn learn_memory_mount() {
        memory_mount();
    }

    /// Returns true if following a link of `/proc` to a file, even with `O_PATH`, may call a file system: NFS and its like look
    /// whether the file is still there; FUSE does not.
    pub(crate) fn may_call_for_links(&self) -> bool {
        self.slow.iter().any(|mount| !mount.system.is_fuse() && mount.system.kind != b"autofs")
    }

    /// Returns the file system of a file that is open with `O_PATH`, if that may not answer: one of those types, or one that is not in
    /// the lists, as it was unmounted while in use or lies in a namespace that we may not read.
    pub(crate) fn slow_system(&self, file: &File) -> Option<FileSystem> {
        self.slow_system_of_mount(mount_of(file))
    }

    /// Does the same as [`Mounts::slow_system`] for a file that lies on this mount.
    pub(crate) fn slow_system_of_mount(&self, id: Option<MountId>) -> Option<FileSystem> {
        // Files in memory lie on a mount of the kernel's own, which is in no list.
        if id.is_some_and(|id| self.local.contains(&id) || Some(id) == *memory_mount()) {
            return None;
        }
        let known = self.slow.iter().find(|mount| Some(mount.id) == id).map(|mount| mount.system.clone());
        Some(known.unwrap_or_else(FileSystem::unknown))
    }

    /// Returns the file system that may not answer and may be mounted at `name` in an open folder: even opening its root with `O_PATH`
    /// may call NFS. Names of mount points are unique in their folders, but the list says only the mount of the folder.
    fn slow_system_at(&self, folder: &File, name: &OsStr) -> Option<FileSystem> {
        if self.slow.is_empty() {
            return None;
        }
        let id = mount_of(folder)?;
        let is_there = |mount: &&SlowMount| {
            mount.parent == id
                && mount.system.place.rsplit(|&byte| byte == b'/').next() == Some(name.as_bytes())
        };
        self.slow.iter().find(is_there).map(|mount| mount.system.clone())
    }

    /// Returns the file system that may not answer of an open file or, with a name, at that name in an open folder.
    pub(crate) fn slow_on_the_way(&self, file: &File, name: Option<&OsStr>) -> Option<FileSystem> {
        match name {
            Some(name) => self.slow_system_at(file, name),
            None => self.slow_system(file),
        }
    }

    /// Returns the file system with these device numbers, if that may not answer.
    pub(crate) fn slow_device(&self, device: (u32, u32)) -> Option<FileSystem> {
        self.slow.iter().find(|mount| mount.system.device == device).map(|mount| mount.system.clone())
    }

    /// Returns true if a FUSE program serves this file.
    pub(crate) fn is_fuse(&self, file: &File) -> bool {
        let id = mount_of(file);
        self.slow.iter().any(|mount| Some(mount.id) == id && mount.system.is_fuse())
    }
}

impl FileSystem {
    /// Returns true if a program serves the file system (FUSE).
    pub(crate) fn is_fuse(&self) -> bool {
        self.kind == b"fuse" || self.kind == b"fuseblk" || self.kind.starts_with(b"fuse.")
    }

    /// Returns a file system that stands for all that are not in the lists.
    pub(crate) fn unknown() -> Self {
        Self { device: (0, 0), kind: Vec::new(), place: Vec::new() }
    }
}

impl KnownMounts {
    /// Returns true if a list has changed since the last call (proc(5): `POLLERR`).
    fn have_changed(&self) -> bool {
        let mut set = PollSet::default();
        for list in &self.lists {
            set.add(list.as_fd());
        }
        set.wait(Some(Duration::ZERO)).is_err() || (0..self.lists.len()).any(|index| set.ready(index).hung_up)
    }
}

fn parse(line: &[u8]) -> Option<SlowMount> {
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse().ok();
    let end = words.iter().position(|word| *word == b"-")?;
    let mut device = words.get(2)?.split(|&byte| byte == b':');
    let device = (number(device.next()?)?, number(device.next()?)?);
    let (kind, place) = (words.get(end + 1)?.to_vec(), unescaped(words.get(4)?));
    let system = FileSystem { device, kind, place };
    Some(SlowMount { id: number(words.first()?)?, parent: number(words.get(1)?)?, system })
}

/// Replaces `\040` and the like by the characters with these octal numbers.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let (mut result, mut rest) = (Vec::new(), word);
    while let Some((&byte, after)) = rest.split_first() {
        let digits =
            after.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(character) => {
                result.push(character);
                rest = &after[3..];
            }
            None => {
                result.push(byte);
                rest = after;
            }
        }
    }
    result
}

fn memory_mount() -> &'static Option<MountId> {
    static MOUNT: OnceLock<Option<MountId>> = OnceLock::new();
    MOUNT.get_or_init(|| mount_of(&memory_file::create(c"prof").ok()?))
}

/// Returns the mount that an open file lies on; `None` if `/proc` does not tell.
pub(crate) fn mount_of(file: &File) -> Option<MountId> {
    let mut text = [0; FDINFO_BYTES];
    let read = File::open(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?.read(&mut text).ok()?;
    let mut lines = text[..read].split(|&byte| byte == b'\n');
    std::str::from_utf8(lines.find_map(|line| line.strip_prefix(b"mnt_id:"))?).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_that_may_not_answer_are_known_by_their_types() {
        let list = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                    30 22 0:27 / /a\\040-\\040b rw - fuse.sshfs me@there:/ rw,user_id=0\n\
                    31 22 0:28 / /b rw shared:2 master:3 - fuse x rw\n\
                    32 22 0:29 / /c rw - fuseblk /dev/sdb rw\n\
                    33 22 0:30 / /d rw - fusectl none rw\n\
                    34 22 0:31 / /e rw - nfs4 there:/ rw\n\
                    35 22 0:32 / /f rw - autofs systemd-1 rw\n\
                    nonsense\n";
        let mut mounts = Mounts::default();
        mounts.add(list);
        assert_eq!(mounts.local, HashSet::from([22, 33]));
        let ids = mounts.slow.iter().map(|mount| mount.id);
        assert_eq!(ids.collect::<Vec<_>>(), [30, 31, 32, 34, 35]);
        assert_eq!(mounts.slow_device((0, 27)).unwrap().place, b"/a - b");
        assert_eq!(mounts.slow_device((0, 30)), None);
    }

    #[test]
    fn the_mount_of_a_file_is_among_ours() {
        let file = File::open("/proc/self/status").unwrap();
        let mount = mount_of(&file).unwrap();
        let list = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = list.lines().find(|line| line.starts_with(&format!("{mount} "))).unwrap();
        assert!(line.contains(" - proc "), "{line}");
        let mounts = Mounts::of_process(own_pid());
        assert!(!mounts.is_fuse(&file));
        assert_eq!(mounts.slow_system(&file), None);
        assert!(Arc::ptr_eq(&mounts, &Mounts::of_process(own_pid())), "read once");
        assert_eq!(mounts.slow_system(&memory_file::create(c"prof").unwrap()), None);
    }
}
