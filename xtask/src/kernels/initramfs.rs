//! An initial file system as the kernel unpacks it: a cpio archive in the "new ASCII" format
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::path::{Path, PathBuf};

use anyhow::Context;

/// File types of `st_mode`.
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// An archive that is being written.
#[derive(Default)]
pub(super) struct Initramfs {
    bytes: Vec<u8>,
    folders: Vec<PathBuf>,
    entries: u32,
}

impl Initramfs {
    /// Adds a program.
    pub(super) fn program(&mut self, path: &str, file: &Path) -> anyhow::Result<()> {
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        self.add(Path::new(path), FILE | 0o755, &bytes);
        Ok(())
    }

    /// Adds a text that may be executed.
    pub(super) fn script(&mut self, path: &str, text: &str) {
        self.add(Path::new(path), FILE | 0o755, text.as_bytes());
    }

    /// Adds a file that is read only.
    pub(super) fn file(&mut self, path: &str, bytes: &[u8]) {
        self.add(Path::new(path), FILE | 0o644, bytes);
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, path: &str, target: &Path) {
        self.add(Path::new(path), LINK | 0o777, target.as_os_str().as_encoded_bytes());
    }

    /// Adds the files and links below a folder of the host whose paths below `root` are wanted.
    pub(super) fn tree(
        &mut self,
        root: &Path,
        below: &Path,
        wanted: &dyn Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        let folder = root.join(below);
        let mut entries: Vec<_> = std::fs::read_dir(&folder)
            .with_context(|| folder.display().to_string())?
            .collect::<Result<_, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let path = below.join(entry.file_name());
            let name = path.to_string_lossy();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.tree(root, &path, wanted)?;
            } else if kind.is_symlink() && wanted(&name) {
                self.link(&name, &std::fs::read_link(entry.path())?);
            } else if kind.is_file() && wanted(&name) {
                self.program(&name, &entry.path())?;
            }
        }
        Ok(())
    }

    /// Adds an empty folder.
    pub(super) fn folder(&mut self, path: &str) {
        let path = Path::new(path);
        if !self.folders.iter().any(|folder| folder == path) {
            self.folders.push(path.to_owned());
            self.add(path, FOLDER | 0o755, &[]);
        }
    }

    /// Ends the archive.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.entry(Path::new("TRAILER!!!"), 0, &[]);
        self.bytes
    }

    /// Adds an entry after its folders.
    fn add(&mut self, path: &Path, mode: u32, content: &[u8]) {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.folder(&parent.to_string_lossy());
        }
        self.entry(path, mode, content);
    }

    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) {
        let name = path.as_os_str().as_encoded_bytes();
        self.entries += 1;
        let links = if mode & FOLDER == FOLDER { 2 } else { 1 };
        // Magic, inode, mode, user, group, links, time, size, four numbers of devices, size of the name with its NUL, checksum.
        let fields =
            [self.entries, mode, 0, 0, links, 0, content.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    /// Header with name, and content, begin at multiples of four.
    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_follows_its_folders_and_ends_at_a_multiple_of_four() {
        let mut initramfs = Initramfs::default();
        initramfs.script("a/b", "hello");
        initramfs.script("a/c", "");
        let bytes = initramfs.into_bytes();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8(bytes).unwrap();
        // The headers end in a checksum of zero.
        let at = |entry: &str| text.find(&format!("00000000{entry}")).unwrap();
        assert!(at("a\0") < at("a/b\0") && at("a/b\0") < text.find("hello").unwrap());
        assert_eq!(text.matches("070701").count(), 4);
        // The folder takes 110 bytes of header and two of name.
        assert!(text[112..].starts_with("07070100000002"), "{text}");
    }
}
