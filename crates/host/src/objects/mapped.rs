//! Reads what identifies the files that running processes have mapped: build id, size, and times.

use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::{BuildId, Pid};

use super::bytes::build_id_of;
use super::retained_files::{
    MappedFile, MappingLocation, find_by_link, find_by_path, links, opened_links, without_deleted_suffix,
};
use crate::mounts::{FileSystem, Mounts};
use crate::procfs::{self, PathView};
use crate::slow_files::{self, FileFacts, OpenFile};
use crate::sys::perf_event::own_pid;

/// A mapping of a file, as a record describes it.
#[derive(Clone, Copy, Debug)]
pub struct FileMapping<'a> {
    /// The process that mapped the file.
    pub pid: Pid,
    /// The first address (Avma).
    pub start: u64,
    /// The address after the last byte (Avma).
    pub end: u64,
    /// The offset in the file, in bytes.
    pub page_offset: u64,
    /// The device of the file system, major and minor.
    pub device: (u32, u32),
    /// The inode of the file.
    pub inode: u64,
    /// The path in the mount namespace of the process; empty if it is not known.
    pub path: &'a [u8],
}

/// The facts by which the contents of a file are told from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileState {
    /// The build id; `None` if the file has none.
    pub build_id: Option<BuildId>,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
    /// The time of the last change of contents, name or rights, in nanoseconds since 1970.
    pub changed: i64,
    /// True if an unprivileged user may have made the recorded path lead to it: then path and build id do not say what it is.
    pub is_foreign: bool,
}

/// The file of a mapping.
enum Found {
    /// A file on this machine, not yet open for reading.
    Here(MappedFile),
    /// A file that another process has opened, because its file system may not answer.
    There(OpenFile),
}

/// Reads mapped files. It keeps the root folders of some processes open, by which the files of a container are found after its
/// processes have ended.
#[derive(Default, Debug)]
pub struct MappedFileReader {
    /// Open root folders by the views that they belong to, the most recently used last.
    roots: Vec<(PathView, File)>,
}

impl MappedFileReader {
    /// Opens the file of a mapping through its process or, if that has ended, by its path, and reads what identifies it. `known` is
    /// the result of an earlier call for the same file, which holds while size and times are the same. `None` if the file with this
    /// inode is not found or cannot be read.
    ///
    /// Waits a limited time for a file system that may not answer.
    pub fn read(&mut self, mapping: &FileMapping<'_>, known: Option<&FileState>) -> Option<FileState> {
        let view = self.learn_root(mapping.pid);
        let (found, is_foreign) = self.find(mapping, view.as_ref())?;
        let FileFacts { size, modified, changed, .. } = match &found {
            Found::Here(file) => FileFacts::from(&file.metadata),
            Found::There(file) => file.facts().ok()?,
        };
        let state = FileState { build_id: None, size, modified, changed, is_foreign };
        let is_same = |known: &&FileState| FileState { build_id: None, is_foreign, ..**known } == state;
        if let Some(known) = known.filter(is_same) {
            return Some(FileState { is_foreign, ..*known });
        }
        let file = match found {
            Found::Here(file) => OpenFile::Here(file.open()?),
            Found::There(file) => file,
        };
        Some(FileState { build_id: build_id_of(file, size), ..state })
    }

    /// Finds the file, and returns whether it is foreign. `view` is that of the process, `None` if it has ended.
    fn find(&self, mapping: &FileMapping<'_>, view: Option<&PathView>) -> Option<(Found, bool)> {
        let FileMapping { pid, start, end, .. } = *mapping;
        let mounts = Mounts::of_view(pid, view);
        if let Some(system) = mounts.slow_device(mapping.device) {
            // A program of any user may serve its files, and say of them what it likes.
            let is_foreign = system.is_fuse() || view.is_some_and(|view| view.is_foreign);
            return self.open_there(&system, mapping).map(|file| (Found::There(file), is_foreign));
        }
        // Devices are not compared, because overlay and btrfs show different ones in records and in stat(2).
        let is_it = |_: &File, metadata: &Metadata| {
            metadata.ino() == mapping.inode && metadata.len() > mapping.page_offset
        };
        let path = without_deleted_suffix(mapping.path);
        let by_path = |root, view: Option<&PathView>| {
            find_by_path(root, view.is_some_and(|view| view.is_foreign), path, &mounts, &is_it)
        };
        let found = match view {
            Some(view) => {
                let known = self.roots.iter().find(|(known, _)| known == view);
                let (root, is_foreign) = (known.map(|(_, root)| root), view.is_foreign);
                let at = MappingLocation { pid, start, end, root, is_foreign };
                find_by_link(&at, path, &mounts, &is_it).or_else(|| by_path(root, Some(view)))
            }
            // Its root may be that of an earlier process.
            None => by_path(None, None)
                .or_else(|| self.roots.iter().rev().find_map(|(view, root)| by_path(Some(root), Some(view)))),
        };
        if let Some(file) = found {
            let is_foreign = file.is_foreign;
            return Some((Found::Here(file), is_foreign));
        }
        // The mount may have been detached, or lie in a namespace that we cannot read. Then the path does not say what it is.
        let at = MappingLocation { pid, start, end, root: None, is_foreign: true };
        let unlisted = opened_links(&at).find_map(|file| mounts.slow_system(&file))?;
        self.open_there(&unlisted, mapping).map(|file| (Found::There(file), true))
    }

    /// Has another process open the file of a mapping, in the same ways.
    fn open_there(&self, system: &FileSystem, mapping: &FileMapping<'_>) -> Option<OpenFile> {
        let FileMapping { pid, start, end, .. } = *mapping;
        let at = MappingLocation { pid, start, end, root: None, is_foreign: false };
        // What a link leads to can be known without FUSE. So whoever keeps the lock of its memory holds up nobody's file system.
        let linked: Vec<File> = if system.is_fuse() { opened_links(&at).collect() } else { Vec::new() };
        let links = links(&at).filter(|_| !system.is_fuse()).chain(linked.iter().map(path_here));
        let by_link = links.map(|link| (link, Path::new("")));
        let root_of_process = procfs::shared_path(pid, "root").ok();
        let kept = self.roots.iter().rev().map(|(_, root)| path_here(root));
        let roots = root_of_process.into_iter().chain(kept).chain([PathBuf::from("/")]);
        let by_path = roots.map(|root| (root, without_deleted_suffix(mapping.path)));
        let is_it = |facts: FileFacts| facts.inode == mapping.inode && facts.size > mapping.page_offset;
        // Who does not answer to the first refuses the others at once, so that the file is counted by its path.
        by_link
            .chain(by_path)
            .filter_map(|(root, path)| slow_files::ask(system, &root, path).ok())
            .find(|file| file.facts().is_ok_and(is_it))
    }

    /// Opens the root folder of a process, if its view of paths is another than ours, and returns that view; `None` if it is ours,
    /// or the process has ended.
    fn learn_root(&mut self, pid: Pid) -> Option<PathView> {
        let view = procfs::path_view(pid).ok()?;
        if PathView::own() == Some(&view) {
            return Some(view);
        }
        let known = self.roots.iter().position(|(known, _)| *known == view);
        let entry = match known {
            Some(place) => self.roots.remove(place),
            None => (view.clone(), procfs::root_folder(pid).ok()?),
        };
        if self.roots.len() >= PathView::MAX {
            self.roots.remove(0);
        }
        self.roots.push(entry);
        Some(view)
    }
}

/// Returns a path by which another process opens a file that is open here.
fn path_here(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", own_pid(), file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_memory::{MapEntry, executable_maps};
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    fn mapping(map: &MapEntry) -> FileMapping<'_> {
        FileMapping {
            pid: own_pid(),
            start: map.start,
            end: map.end,
            page_offset: map.page_offset,
            device: map.device,
            inode: map.inode,
            path: &map.path,
        }
    }

    /// Returns a mapping of a process that does not exist, so that its file is found by its path.
    fn by_path(path: &Path, inode: u64) -> FileMapping<'_> {
        let path = path.as_os_str().as_bytes();
        FileMapping { pid: Pid(i32::MAX), start: 0, end: 0x1000, page_offset: 0, device: (0, 0), inode, path }
    }

    #[test]
    fn the_c_library_is_found_through_our_own_mappings() {
        let (maps, _) = executable_maps(own_pid(), false).unwrap();
        let library = maps.iter().find(|map| map.path.ends_with(b"/libc.so.6")).unwrap();
        let mut reader = MappedFileReader::default();
        let state = reader.read(&mapping(library), None).unwrap();
        assert!(state.build_id.is_some() && state.size > 4096);
        let other = MapEntry { inode: library.inode ^ 1, ..library.clone() };
        assert_eq!(reader.read(&mapping(&other), None), None);
        let vdso = maps.iter().find(|map| map.path == b"[vdso]").unwrap();
        assert_eq!(reader.read(&mapping(vdso), None), None);
    }

    #[test]
    fn a_file_is_read_again_when_it_was_written_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        let mut reader = MappedFileReader::default();
        let first = reader.read(&by_path(&path, inode), None).unwrap();
        assert!(first.build_id.is_some());
        // A state with another id shows whether the file is read.
        let known = FileState { build_id: BuildId::from_bytes(&[1]), ..first };
        assert_eq!(reader.read(&by_path(&path, inode), Some(&known)), Some(known));
        fs::write(&path, "no object").unwrap();
        let second = reader.read(&by_path(&path, inode), Some(&known)).unwrap();
        assert_eq!((second.build_id, second.size), (None, 9));
        let beyond = FileMapping { page_offset: 4096, ..by_path(&path, inode) };
        assert_eq!(reader.read(&beyond, None), None, "nothing of this file was mapped there");
    }
}
