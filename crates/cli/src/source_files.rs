//! Reads the source files that debug information names.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum size read of a source file.
const MAX_SOURCE_BYTES: u64 = 16 << 20;

/// Parses `FROM=TO` of `--source-dir`.
pub(crate) fn parse_replacement(text: &str) -> Result<(String, PathBuf), String> {
    let (from, to) = text.split_once('=').ok_or("not of the form FROM=TO")?;
    Ok((from.to_owned(), PathBuf::from(to)))
}

/// Cached source files, by their paths in debug information.
pub(crate) struct SourceFiles<'a> {
    folders: &'a [(String, PathBuf)],
    read: RefCell<HashMap<String, Option<Arc<[String]>>>>,
}

impl<'a> SourceFiles<'a> {
    /// Creates an empty cache. `folders` are pairs of path prefixes and their replacements.
    pub(crate) fn new(folders: &'a [(String, PathBuf)]) -> Self {
        Self { folders, read: RefCell::default() }
    }

    /// Returns the lines of a file; `None` if it cannot be read.
    pub(crate) fn lines(&self, path: &str) -> Option<Arc<[String]>> {
        if let Some(known) = self.read.borrow().get(path) {
            return known.clone();
        }
        let replaced = self.folders.iter().find_map(|(from, to)| {
            let rest = path.strip_prefix(from.as_str())?;
            Some(to.join(rest.trim_start_matches('/')))
        });
        let lines = read_lines(replaced.unwrap_or_else(|| PathBuf::from(path)));
        self.read.borrow_mut().insert(path.to_owned(), lines.clone());
        lines
    }
}

/// Reads up to [`MAX_SOURCE_BYTES`] of a regular file. Debug information may name any file, so a link must lead to a file with the
/// same extension.
fn read_lines(path: PathBuf) -> Option<Arc<[String]>> {
    if !path.is_absolute() || !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return None;
    }
    if path.canonicalize().ok()?.extension() != path.extension() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_SOURCE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}
