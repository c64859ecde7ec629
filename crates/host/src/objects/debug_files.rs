//! Finds the files with the debug information of an object.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use elf::{Object, SymbolSource};
use model::{BuildId, Reason};

use super::{FileBytes, ObjectBytes, ObjectStore};
use crate::slow_files;

/// The debug files found for one object.
#[derive(Debug)]
pub struct DebugFiles<S = ObjectBytes> {
    /// The separate debug file.
    pub debug: Option<Arc<Object<S>>>,
    /// The file to which dwz moved common entries.
    pub supplementary: Option<Arc<Object<S>>>,
    /// The package of split units (`.dwp`).
    pub package: Option<Arc<Object<S>>>,
    /// The path at which `debug` was found.
    pub debug_path: Option<PathBuf>,
    /// Files that exist but do not belong to the object, with the reason.
    pub rejected: Vec<(PathBuf, Reason)>,
}

impl<S> Default for DebugFiles<S> {
    fn default() -> Self {
        let rejected = Vec::new();
        Self { debug: None, supplementary: None, package: None, debug_path: None, rejected }
    }
}

impl<S: FileBytes> ObjectStore<S> {
    /// Finds the debug files of an object that was opened at `path`: first in build-id folders, then by `.gnu_debuglink`. Then finds
    /// the dwz file and the package of split units of what was found.
    pub fn debug_files(&self, object: &Object<S>, path: &Path) -> DebugFiles<S> {
        let mut files = DebugFiles::default();
        if !object.has_contents(".debug_info") {
            self.find_debug(object, path, &mut files);
        }
        let main = files.debug.as_deref().unwrap_or(object);
        let main_path = files.debug_path.as_deref().unwrap_or(path).to_owned();
        if let Some(link) = main.alt_link() {
            let (link_path, build_id) = (PathBuf::from(OsStr::from_bytes(&link.path)), link.build_id);
            files.supplementary =
                self.find_supplementary(&link_path, build_id, &main_path, &mut files.rejected);
        }
        files.package = [path, &main_path].into_iter().find_map(|path| {
            let mut package = path.as_os_str().to_owned();
            package.push(".dwp");
            self.open_file(Path::new(&package)).ok().map(Arc::new)
        });
        files
    }

    fn find_debug(&self, object: &Object<S>, path: &Path, files: &mut DebugFiles<S>) {
        let build_id = object.build_id();
        let by_id = build_id.iter().flat_map(|build_id| self.paths().debug_by_build_id(build_id));
        let link = object.debug_link();
        let by_link = link.iter().flat_map(|link| self.paths().by_debug_link(path, &link.file_name));
        for candidate in by_id.chain(by_link) {
            let found = match self.open_file(&candidate) {
                Ok(found) => found,
                Err(Reason::FileMissing) => continue,
                Err(reason) => {
                    files.rejected.push((candidate, reason));
                    continue;
                }
            };
            let belongs = match (build_id, found.build_id()) {
                (Some(wanted), Some(has)) if has.same_object(&wanted) => Ok(()),
                (Some(recorded), found) if found.is_some() => Err(Reason::BuildIdDiffers { recorded, found }),
                _ => match link.as_ref().map(|link| Ok(self.checksum(&found, &candidate)? == link.crc)) {
                    Some(Ok(true)) => Ok(()),
                    Some(Err(reason)) => Err(reason),
                    _ => Err(Reason::FileChanged),
                },
            };
            if let Err(reason) = belongs {
                files.rejected.push((candidate, reason));
                continue;
            }
            // A file with symbols alone is used only if no later candidate has debug information.
            let is_complete = found.has_contents(".debug_info");
            if is_complete || (files.debug.is_none() && found.has_symbol_table(SymbolSource::Full)) {
                files.debug = Some(Arc::new(found));
                files.debug_path = Some(candidate);
            }
            if is_complete {
                return;
            }
        }
    }

    /// Computes the checksum of a whole file, to check a file without build id.
    ///
    /// # Errors
    /// The file is too large, or mostly holes: anybody can create a sparse file of any size.
    fn checksum(&self, file: &Object<S>, path: &Path) -> Result<u32, Reason> {
        const READ_BYTES: usize = 1 << 20;
        // Memory is released after each step. Files of one step are not checked for holes.
        const STEP_BYTES: u64 = 16 << 20;
        const STAT_BLOCK_BYTES: u64 = 512; // st_blocks of stat(2)
        let length = file.source().size();
        let on_disk = slow_files::open(path)
            .and_then(|file| file.facts())
            .map_or(0, |file| file.blocks.saturating_mul(STAT_BLOCK_BYTES));
        let is_hollow = length > STEP_BYTES && on_disk < length / 16;
        if length > self.max_checksummed_bytes() || is_hollow {
            return Err(Reason::FileUnreadable(format!(
                "its checksum is not computed, since it has {length} bytes, {on_disk} of them on disk"
            )));
        }
        let (mut checksum, mut at, mut bytes) = (0, 0, vec![0; READ_BYTES]);
        loop {
            let read = file.source().read_at(at, &mut bytes);
            if read == 0 {
                break;
            }
            checksum = elf::debug_link_crc(checksum, &bytes[..read]);
            at += read as u64;
            if at.is_multiple_of(STEP_BYTES) {
                file.source().release_memory();
            }
        }
        Ok(checksum)
    }

    fn find_supplementary(
        &self,
        link: &Path,
        build_id: Option<BuildId>,
        from: &Path,
        rejected: &mut Vec<(PathBuf, Reason)>,
    ) -> Option<Arc<Object<S>>> {
        let mut candidates = Vec::new();
        if link.is_absolute() {
            if self.paths().symfs.is_some() {
                candidates.push(self.paths().in_symfs(link));
            }
            candidates.push(link.to_owned());
        } else {
            let real = slow_files::real_path(from);
            candidates.extend(real.parent().map(|folder| folder.join(link)));
        }
        // A tree of debug files may have been moved as a whole.
        if let Some(name) = link.file_name() {
            candidates.extend(self.paths().debug_dirs.iter().map(|root| root.join(".dwz").join(name)));
        }
        candidates.extend(build_id.iter().flat_map(|build_id| self.paths().debug_by_build_id(build_id)));
        for candidate in candidates {
            match self.open_file(&candidate) {
                Ok(found) => match (build_id, found.build_id()) {
                    (Some(wanted), Some(has)) if has.same_object(&wanted) => return Some(Arc::new(found)),
                    (None, _) => return Some(Arc::new(found)),
                    (Some(recorded), found) => {
                        rejected.push((candidate, Reason::BuildIdDiffers { recorded, found }))
                    }
                },
                Err(Reason::FileMissing) => {}
                Err(reason) => rejected.push((candidate, reason)),
            }
        }
        None
    }

    /// Opens a `.dwo` file. `path` is absolute or relative to `folder`, in which the compiler ran. If the file is not there, looks
    /// beside the object.
    pub fn split_unit(&self, path: &[u8], folder: Option<&[u8]>, object: &Path) -> Option<Object<S>> {
        let path = Path::new(OsStr::from_bytes(path));
        let stated = Path::new(OsStr::from_bytes(folder.unwrap_or_default())).join(path);
        let mut candidates = Vec::new();
        if stated.is_absolute() {
            candidates.push(self.paths().in_symfs(&stated));
        }
        if let Some(folder) = object.parent() {
            candidates.extend(path.is_relative().then(|| folder.join(path)));
            candidates.extend(path.file_name().map(|name| folder.join(name)));
        }
        candidates.into_iter().find_map(|candidate| self.open_file(&candidate).ok())
    }
}
