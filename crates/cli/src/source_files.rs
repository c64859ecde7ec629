//! Source files, which debug information names.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a source file that are read at the most.
const MAX_SOURCE_BYTES: u64 = 16 << 20;

/// Parses what `--source-dir` takes.
pub(crate) fn parse_replacement(text: &str) -> Result<(String, PathBuf), String> {
    let (from, to) = text.split_once('=').ok_or("not of the form FROM=TO")?;
    Ok((from.to_owned(), PathBuf::from(to)))
}

/// Source files by the paths of debug information.
pub(crate) struct SourceFiles<'a> {
    folders: &'a [(String, PathBuf)],
    read: RefCell<HashMap<String, Option<Arc<[String]>>>>,
}

impl<'a> SourceFiles<'a> {
    /// Nothing is read yet. `folders` says what is looked for elsewhere than debug information says.
    pub(crate) fn new(folders: &'a [(String, PathBuf)]) -> Self {
        Self { folders, read: RefCell::default() }
    }

    /// The lines of a file; `None` where there is none.
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

/// Reads a regular file, up to a bound: debug information may name anything. A link must lead to a file of the same kind.
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
