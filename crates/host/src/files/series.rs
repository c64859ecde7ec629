//! A series of files with timestamps in their names: `NAME.20261122T230113`.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::destination::NameInFolder;
use super::destination_error::DestinationError;
use super::new_file::NewFile;
use super::trust::Trusted;

/// Length of a timestamp: `20261122T230113`.
const STAMP_BYTES: usize = 15;

/// Creates the files of a series, and removes the oldest if there are too many.
#[derive(Debug)]
pub struct FileSeries {
    path: PathBuf,
    trusted: Trusted,
    at: NameInFolder,
    max_files: Option<usize>,
    /// The files of the series, the oldest first. Empty without a maximum.
    names: VecDeque<CString>,
}

impl FileSeries {
    /// Opens the series of `path`, which keeps at most `max_files` files, including those of earlier runs.
    ///
    /// # Errors
    /// The path cannot be the name of a file.
    pub fn find(path: &Path, max_files: Option<usize>) -> Result<Self, DestinationError> {
        let at = NameInFolder::find(path)?;
        let mut series = Self {
            path: path.to_owned(),
            trusted: Trusted::for_this_process(),
            at,
            max_files,
            names: VecDeque::new(),
        };
        series.scan();
        Ok(series)
    }

    /// Returns the path without a timestamp.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lists the existing files of the series.
    fn scan(&mut self) {
        if self.max_files.is_none() {
            return;
        }
        let prefix = [self.at.name.to_bytes(), b"."].concat();
        // If the folder cannot be listed, no old files are removed.
        let mut names = self.at.folder.names(|name| sort_key(&prefix, name).is_some()).unwrap_or_default();
        names.sort_by_cached_key(|name| sort_key(&prefix, name.to_bytes()));
        self.names = names.into();
    }

    /// Creates a nameless file of the series. Opens the folder again if it was removed.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(&mut self, mode: u32) -> Result<NewFile, DestinationError> {
        if self.at.folder.is_removed() {
            self.at = NameInFolder::find(&self.path)?;
            self.scan();
        }
        let place = NameInFolder { folder: self.at.folder.try_clone()?, name: self.at.name.clone() };
        Ok(NewFile::create(place, mode)?)
    }

    /// Names a file of the series with the timestamp `stamp` (`20261122T230113`), and a number if that name exists. Returns its path.
    ///
    /// # Errors
    /// Those of `linkat(2)`.
    pub fn name(&mut self, file: &mut NewFile, stamp: &str) -> io::Result<PathBuf> {
        let base = self.at.name.to_bytes();
        let names = (1..=u32::MAX).filter_map(|number| {
            let behind = if number == 1 { String::new() } else { format!("-{number}") };
            CString::new([base, format!(".{stamp}{behind}").as_bytes()].concat()).ok()
        });
        let name = file.take_new_name(names)?;
        let path = self.path.with_file_name(OsStr::from_bytes(name.to_bytes()));
        if self.max_files.is_some() {
            self.names.push_back(name);
        }
        Ok(path)
    }

    /// Removes the oldest files that exceed the maximum. Files of other users are neither removed nor counted.
    ///
    /// # Errors
    /// Those of `unlinkat(2)`.
    pub fn remove_oldest(&mut self) -> io::Result<()> {
        let Some(max_files) = self.max_files else { return Ok(()) };
        let (folder, trusted) = (&self.at.folder, &self.trusted);
        self.names.retain(|name| {
            let entry = folder.look_at(name).and_then(|entry| entry.metadata());
            entry.is_ok_and(|entry| entry.is_file() && trusted.owns(&entry))
        });
        while self.names.len() > max_files.max(1) {
            let Some(oldest) = self.names.pop_front() else { break };
            self.at.folder.remove(&oldest)?;
        }
        Ok(())
    }
}

/// Returns the sort key of a name: timestamp, and number within the second. `None` for other names.
fn sort_key(prefix: &[u8], name: &[u8]) -> Option<(String, u32)> {
    let rest = std::str::from_utf8(name.strip_prefix(prefix)?).ok()?;
    let (stamp, behind) = rest.split_at_checked(STAMP_BYTES)?;
    let (date, time) = stamp.split_once('T')?;
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(date, 8) || !digits(time, 6) {
        return None;
    }
    let number = match behind.strip_prefix('-') {
        Some(number) if digits(number, number.len()) => number.parse().ok()?,
        None if behind.is_empty() => 1,
        _ => return None,
    };
    Some((stamp.to_owned(), number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const STAMP: &str = "20261122T230113";

    fn make(series: &mut FileSeries, stamp: &str) -> PathBuf {
        let mut file = series.create(0o600).unwrap();
        let path = series.name(&mut file, stamp).unwrap();
        series.remove_oldest().unwrap();
        path
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn never_two_of_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut series = FileSeries::find(&folder.path().join("out"), None).unwrap();
        fs::write(folder.path().join(format!("out.{STAMP}")), "precious").unwrap();
        for number in 2..5 {
            let made = make(&mut series, STAMP);
            assert_eq!(made, folder.path().join(format!("out.{STAMP}-{number}")));
        }
        assert_eq!(fs::read(folder.path().join(format!("out.{STAMP}"))).unwrap(), b"precious");
        assert_eq!(names(folder.path()).len(), 4);
    }

    #[test]
    fn the_oldest_go_also_those_of_an_earlier_run_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let others =
            ["out", "out.old", "out.20261122", "out.20261122T23011x", "out.20261122T230113-x", "out2"];
        for name in others.into_iter().chain(["out.20251122T000000", "out.20251122T000000-2"]) {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("out.20240101T000000")).unwrap();
        let mut series = FileSeries::find(&folder.path().join("out"), Some(2)).unwrap();
        make(&mut series, STAMP);
        let left = names(folder.path());
        assert!(left.contains(&"out.20251122T000000-2".to_owned()), "{left:?}");
        assert!(!left.contains(&"out.20251122T000000".to_owned()), "{left:?}");
        // The clock of the wall goes back for an hour each year: what was made last is not the oldest.
        let last = make(&mut series, "20261122T220000");
        make(&mut series, "20261122T220001");
        assert!(last.exists());
        let left = names(folder.path());
        assert_eq!(left.len(), others.len() + 1 + 2, "{left:?}");
    }

    #[test]
    fn a_folder_that_comes_back_is_found_again() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("dumps");
        fs::create_dir(&folder).unwrap();
        let mut series = FileSeries::find(&folder.join("out"), Some(3)).unwrap();
        make(&mut series, STAMP);
        fs::remove_dir_all(&folder).unwrap();
        let error = series.create(0o600).unwrap_err();
        assert!(error.to_string().contains("mkdir -p"), "{error}");
        fs::create_dir(&folder).unwrap();
        assert!(make(&mut series, STAMP).exists());
    }
}
