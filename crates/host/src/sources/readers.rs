//! Opens a source file with the rights of those who may read it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::door;
use crate::sys::identity::{self, Identity};
use crate::sys::system;

/// The users that source files were opened as.
#[derive(Default)]
pub(crate) struct Readers(HashMap<u32, Identity>);

impl Readers {
    /// Opens a file as root with the rights of each of the users, who must all get the same one; as another user with those of that user
    /// alone, without capabilities, which the process loses. Must be called while there is one thread.
    ///
    /// # Errors
    /// Those of opening it, `PermissionDenied` without users, `InvalidInput` for what is no source file.
    pub(crate) fn open(&mut self, users: &[u32], path: &Path) -> io::Result<File> {
        if system::effective_user() != 0 {
            identity::drop_all_capabilities()?;
            return door::open(path);
        }
        let mut opened = None;
        for &user in users {
            let identity = self.0.entry(user).or_insert_with(|| Identity::of_user(user));
            let file = identity.run(|| door::open(path))??;
            let place = file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))?;
            match &opened {
                Some((_, known)) if *known != place => {
                    return Err(io::Error::from_raw_os_error(libc::EINVAL));
                }
                Some(_) => {}
                None => opened = Some((file, place)),
            }
        }
        opened.map(|(file, _)| file).ok_or_else(|| io::Error::from_raw_os_error(libc::EACCES))
    }
}
