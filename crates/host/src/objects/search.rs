//! The paths at which objects and their debug files are searched.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use model::BuildId;

use crate::debuginfod::{self, Artifact};
use crate::slow_files;

/// The folders in which objects and debug files are searched.
#[derive(Clone, Debug)]
pub struct SearchPaths {
    /// Replaces `/` in paths of the recording (`--symfs`).
    pub symfs: Option<PathBuf>,
    /// Folders with `.build-id/xx/….debug` and with debug files at the paths of their objects: those from `--debug-dir`, then
    /// `/usr/lib/debug`.
    pub debug_dirs: Vec<PathBuf>,
    /// perf's build-id cache (`~/.debug`).
    pub build_id_cache: Option<PathBuf>,
    /// The cache of debuginfod clients (`~/.cache/debuginfod_client`).
    pub debuginfod_cache: Option<PathBuf>,
    /// True if the recording was made on this host, so that files are opened through processes that still live.
    pub this_host: bool,
    /// True if the recording says that it was made on this host, so that kernel and vDSO of this machine are used even without a
    /// build id.
    pub own_images: bool,
}

impl SearchPaths {
    /// Returns the given folders followed by the default ones. Reads `HOME`, `PERF_BUILDID_DIR`, `XDG_CACHE_HOME` and
    /// `DEBUGINFOD_CACHE_PATH`.
    pub fn from_environment(symfs: Option<PathBuf>, debug_dirs: Vec<PathBuf>, this_host: bool) -> Self {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = set("HOME");
        let under_home = |name| home.as_ref().map(|home: &PathBuf| home.join(name));
        let mut debug_dirs = debug_dirs;
        debug_dirs.push(PathBuf::from("/usr/lib/debug"));
        Self {
            debug_dirs,
            build_id_cache: set("PERF_BUILDID_DIR").or_else(|| under_home(".debug")),
            debuginfod_cache: set("DEBUGINFOD_CACHE_PATH")
                .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("debuginfod_client")))
                .or_else(|| under_home(".cache/debuginfod_client")),
            symfs,
            this_host,
            own_images: this_host,
        }
    }

    /// Returns a path of the recording below [`SearchPaths::symfs`], if that is set.
    pub(crate) fn in_symfs(&self, path: &Path) -> PathBuf {
        match &self.symfs {
            Some(root) => join_below(root, path),
            None => path.to_owned(),
        }
    }

    /// Lists candidate paths of the debug file with this build id.
    pub(crate) fn debug_by_build_id(&self, build_id: &BuildId) -> Vec<PathBuf> {
        let (folder, rest) = split_build_id(build_id);
        let mut candidates = Vec::new();
        for root in &self.debug_dirs {
            let file = format!(".build-id/{folder}/{rest}.debug");
            if self.symfs.is_some() {
                candidates.push(self.in_symfs(root).join(&file));
            }
            candidates.push(root.join(file));
        }
        if let Some(cache) = &self.build_id_cache {
            candidates.push(cache.join(format!(".build-id/{folder}/{rest}/debug")));
        }
        candidates.extend(self.downloaded(build_id, Artifact::DebugInfo));
        candidates
    }

    /// Lists candidate paths of a copy of the object with this build id.
    pub(crate) fn object_by_build_id(&self, build_id: &BuildId) -> Vec<PathBuf> {
        let (folder, rest) = split_build_id(build_id);
        let mut candidates = Vec::new();
        if let Some(cache) = &self.build_id_cache {
            candidates.push(cache.join(format!(".build-id/{folder}/{rest}/elf")));
            candidates.push(cache.join(format!(".build-id/{folder}/{rest}/vdso")));
        }
        candidates.extend(self.debug_dirs.iter().map(|root| root.join(format!(".build-id/{folder}/{rest}"))));
        candidates.extend(self.downloaded(build_id, Artifact::Executable));
        candidates
    }

    /// Lists candidate paths of the `vmlinux` with this build id: build-id folders, and the usual names of kernels and their debug
    /// files.
    pub(crate) fn kernels(&self, build_id: &BuildId) -> Vec<PathBuf> {
        let mut candidates = self.debug_by_build_id(build_id);
        candidates.extend(self.object_by_build_id(build_id));
        let root = self.in_symfs(Path::new("/"));
        for folder in self.debug_dirs.iter().chain([&root]) {
            candidates.push(folder.join("vmlinux"));
            let named = entries(&folder.join("boot"));
            candidates.extend(
                named.filter(|path| {
                    path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"vmlinux"))
                }),
            );
            for release in entries(&folder.join("lib/modules")) {
                candidates.extend([release.join("vmlinux"), release.join("build/vmlinux")]);
            }
        }
        candidates
    }

    fn downloaded(&self, build_id: &BuildId, artifact: Artifact) -> Option<PathBuf> {
        debuginfod::cached_file(self.debuginfod_cache.as_deref()?, build_id, artifact)
    }

    /// Lists candidate paths of the file that `.gnu_debuglink` of `object` names (GDB manual, "Debugging Information in Separate
    /// Files"). Empty for a name that contains a folder.
    pub(crate) fn by_debug_link(&self, object: &Path, name: &[u8]) -> Vec<PathBuf> {
        let name = Path::new(OsStr::from_bytes(name));
        let mut parts = name.components();
        let (Some(Component::Normal(_)), None) = (parts.next(), parts.next()) else { return Vec::new() };
        // Packages install debug files at the real path (/usr/bin), not at that of a link (/bin).
        let real = slow_files::real_path(object);
        let mut candidates = Vec::new();
        for folder in [real.parent(), object.parent()].into_iter().flatten() {
            for candidate in [folder.join(name), folder.join(".debug").join(name)] {
                // An object may name itself as its debug file.
                if candidate != real && candidate != object && !candidates.contains(&candidate) {
                    candidates.push(candidate);
                }
            }
            candidates.extend(self.debug_dirs.iter().map(|root| join_below(root, folder).join(name)));
        }
        candidates
    }
}

/// Lists the entries of a folder; none if it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Splits a build id into the two parts of a path in `.build-id`: `ab/cdef…`.
fn split_build_id(build_id: &BuildId) -> (String, String) {
    let mut folder = build_id.to_string();
    let rest = folder.split_off(2);
    (folder, rest)
}

/// Appends `path` to `root` as if `root` were `/`. `..` does not lead out of it.
pub(crate) fn join_below(root: &Path, path: &Path) -> PathBuf {
    let mut joined = root.to_owned();
    let mut depth = 0_usize;
    for part in path.components() {
        match part {
            Component::Normal(name) => {
                joined.push(name);
                depth += 1;
            }
            Component::ParentDir if depth > 0 => {
                joined.pop();
                depth -= 1;
            }
            _ => {}
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_symfs() {
        let below = |path| join_below(Path::new("/sysroot"), Path::new(path));
        assert_eq!(below("/usr/lib/libc.so"), Path::new("/sysroot/usr/lib/libc.so"));
        assert_eq!(below("/../../etc/../usr/./bin/x"), Path::new("/sysroot/usr/bin/x"));
        assert_eq!(below("relative"), Path::new("/sysroot/relative"));
    }

    #[test]
    fn a_debug_link_is_a_name_only() {
        let paths = SearchPaths {
            symfs: None,
            debug_dirs: vec![PathBuf::from("/usr/lib/debug")],
            build_id_cache: None,
            debuginfod_cache: None,
            this_host: false,
            own_images: false,
        };
        let found = paths.by_debug_link(Path::new("/no/such/bin/prog"), b"prog.debug");
        assert_eq!(found[0], Path::new("/no/such/bin/prog.debug"));
        assert_eq!(found[1], Path::new("/no/such/bin/.debug/prog.debug"));
        assert_eq!(found[2], Path::new("/usr/lib/debug/no/such/bin/prog.debug"));
        assert!(paths.by_debug_link(Path::new("/bin/x"), b"../../etc/passwd").is_empty());
        assert!(paths.by_debug_link(Path::new("/bin/x"), b"/etc/passwd").is_empty());
    }
}
