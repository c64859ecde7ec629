//! Creates a folder for results, and keeps an older one of the same name.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::destination_error::DestinationError;
use super::folder::{make_folders, open_folder};
use super::trust::Trusted;
use crate::sys::directory::Directory;
use crate::sys::system;

/// Creates the folder `path` with mode 0700; an empty one of that name stays. Another becomes `NAME.old`, and the one that had this name is removed with the
/// files in it that `is_replaceable` names; the others make it stay, and this fails.
///
/// # Errors
/// Those of `mkdirat(2)`, `renameat(2)` and `unlinkat(2)`; `EPERM` if the older folder belongs to somebody else.
pub fn make_new_folder(path: &Path, is_replaceable: impl Fn(&OsStr) -> bool) -> Result<(), DestinationError> {
    let trusted = Trusted::for_this_process();
    let (parent, name) = open_folder(path, &trusted)?;
    let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::AlreadyExists))?;
    if let Ok(entry) = parent.look_at(&name) {
        let entry = entry.metadata()?;
        if !entry.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
        }
        if entry.uid() != system::effective_user() && !trusted.owns(&entry) {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied).into());
        }
        if parent.enter(&name)?.names(|file| file != b"." && file != b"..")?.is_empty() {
            return Ok(());
        }
        let old = CString::new([name.to_bytes(), b".old"].concat()).map_err(io::Error::from)?;
        remove(&parent, &old, is_replaceable)?;
        parent.rename(&name, &old)?;
    }
    make_folders(path).map(drop)
}

/// Removes a folder whose files may all be removed; does nothing if there is none.
fn remove(
    parent: &Directory,
    name: &CString,
    is_replaceable: impl Fn(&OsStr) -> bool,
) -> Result<(), DestinationError> {
    let folder = match parent.enter(name) {
        Ok(folder) => folder,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let files = folder.names(|file| file != b"." && file != b"..")?;
    if let Some(other) = files.iter().find(|file| !is_replaceable(OsStr::from_bytes(file.to_bytes()))) {
        let text = format!(
            "{0} has other files, for example {1}; try: mv {0} ELSEWHERE",
            name.to_string_lossy(),
            other.to_string_lossy()
        );
        return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, text).into());
    }
    for file in &files {
        folder.remove(file)?;
    }
    Ok(parent.remove_directory(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_older_folder_is_kept_once_and_foreign_files_are_never_removed() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("runs");
        let is_ours = |name: &OsStr| name == "ours";
        for round in 0..3 {
            make_new_folder(&path, is_ours).unwrap();
            fs::write(path.join("ours"), format!("{round}")).unwrap();
        }
        let old = temporary.path().join("runs.old");
        assert_eq!(fs::read_to_string(old.join("ours")).unwrap(), "1");
        make_new_folder(&path, is_ours).unwrap();
        make_new_folder(&path, is_ours).unwrap();
        assert_eq!(fs::read_to_string(old.join("ours")).unwrap(), "2", "an empty folder replaces none");
        fs::write(path.join("ours"), "").unwrap();
        fs::write(old.join("theirs"), "").unwrap();
        assert!(make_new_folder(&path, is_ours).unwrap_err().to_string().contains("theirs"));
        assert!(old.join("theirs").exists() && path.join("ours").exists());
        fs::write(temporary.path().join("file"), "").unwrap();
        assert!(make_new_folder(&temporary.path().join("file"), is_ours).is_err());
    }
}
