//! The source files that debug information names, as a listing shows them.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use analysis::symbols::SourceOwners;
use export::SourceText;
use host::sources::{SourceError, SourceHelper};

use crate::commands::file_helper;

/// Maximum size of all source files of a listing together.
const MAX_TOTAL_BYTES: usize = 64 << 20;

/// Parses `FROM=TO` of `--source-dir`.
pub(crate) fn parse_replacement(text: &str) -> Result<(String, PathBuf), String> {
    let (from, to) = text.split_once('=').ok_or("not of the form FROM=TO")?;
    Ok((from.to_owned(), PathBuf::from(to)))
}

/// Cached source files, by their paths in debug information.
pub(crate) struct SourceFiles<'a> {
    folders: &'a [(String, PathBuf)],
    helper: Option<SourceHelper>,
    read: RefCell<HashMap<String, Option<Arc<SourceText>>>>,
    size: RefCell<usize>,
    /// The number of files that are not shown, and the first of them, by the reason.
    refused: RefCell<BTreeMap<SourceError, (usize, String)>>,
}

impl<'a> SourceFiles<'a> {
    /// Creates an empty cache, and starts the process that reads for it: before the sandbox, in which none can be started. `folders`
    /// are pairs of path prefixes and their replacements.
    pub(crate) fn new(folders: &'a [(String, PathBuf)]) -> Self {
        Self {
            folders,
            // Without the process, no file is shown, and that is said.
            helper: SourceHelper::start(&[file_helper::COMMAND]).ok(),
            read: RefCell::default(),
            size: RefCell::default(),
            refused: RefCell::default(),
        }
    }

    /// Returns a file; `None` if it is not shown. `owners` say who answers for the files that name it.
    pub(crate) fn text(&self, path: &str, owners: &SourceOwners) -> Option<Arc<SourceText>> {
        if let Some(known) = self.read.borrow().get(path) {
            return known.clone();
        }
        let replaced = self.folders.iter().find_map(|(from, to)| {
            let rest = path.strip_prefix(from.as_str())?;
            Some(to.join(rest.trim_start_matches('/')))
        });
        let place = replaced.unwrap_or_else(|| PathBuf::from(path));
        let text = match self.bytes(&place, owners.of(path)) {
            Ok(bytes) => Some(Arc::new(SourceText::new(bytes))),
            Err(error) => {
                let mut refused = self.refused.borrow_mut();
                refused.entry(error).or_insert_with(|| (0, place.display().to_string())).0 += 1;
                None
            }
        };
        self.read.borrow_mut().insert(path.to_owned(), text.clone());
        text
    }

    fn bytes(&self, place: &std::path::Path, users: &[u32]) -> Result<Vec<u8>, SourceError> {
        let mut size = self.size.borrow_mut();
        if *size >= MAX_TOTAL_BYTES {
            return Err(SourceError::NoRoom);
        }
        let bytes = self.helper.as_ref().ok_or(SourceError::NoAnswer)?.read(users, place)?;
        *size += bytes.len();
        Ok(bytes)
    }

    /// Says which files are not shown, except those that do not exist.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let refused = self.refused.borrow();
        let said = refused.iter().filter_map(|(error, (count, first))| {
            let why = match error {
                SourceError::Missing => return None,
                SourceError::Forbidden => {
                    "the owner of the program or debug file that names it may not read it"
                }
                SourceError::NotASource => "it is no regular file with this name",
                SourceError::NoAnswer => "source files could not be read within 2 s",
                SourceError::NoRoom => "the source files of a listing may have 64 MiB together",
            };
            let first = export::printable(first);
            let others = if *count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            Some(format!("the source {first}{others} is not shown: {why}"))
        });
        said.collect()
    }
}
