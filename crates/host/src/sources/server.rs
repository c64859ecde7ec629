//! The process that opens and reads source files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::protocol::{SourceRequest, write_answer};
use super::{MAX_SOURCE_BYTES, SourceError, door};
use crate::sys::identity::{self, Identity};
use crate::sys::system;

/// Answers requests on a socket until its other end is closed. As root, reads each file with the rights of the users that the
/// request names; as another user, with those of that user alone, without capabilities. Must be called while there is one thread.
///
/// # Errors
/// Those of the socket, and of dropping capabilities.
pub fn serve(socket: &File) -> io::Result<()> {
    let is_root = system::effective_user() == 0;
    if !is_root {
        identity::drop_all_capabilities()?;
    }
    let mut identities = HashMap::new();
    let (mut input, mut output) = (socket, socket);
    loop {
        let request = match SourceRequest::read(&mut input) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            request => request?,
        };
        let opened = match is_root {
            true => open_for_all(&request, &mut identities),
            false => door::open(&request.path),
        };
        let answer = opened.and_then(|file| {
            let mut bytes = Vec::new();
            let read = file.take(MAX_SOURCE_BYTES).read_to_end(&mut bytes);
            read.map(|_| bytes).map_err(|error| door::reason(&error))
        });
        write_answer(&mut output, &answer)?;
    }
}

/// Opens a file as each of the users, who must all get the same one.
fn open_for_all(
    request: &SourceRequest,
    identities: &mut HashMap<u32, Identity>,
) -> Result<File, SourceError> {
    let mut opened = None;
    for &user in &request.users {
        let identity = identities.entry(user).or_insert_with(|| Identity::of_user(user));
        let file = identity.run(|| open_as_is(&request.path)).map_err(|error| door::reason(&error))??;
        match &opened {
            Some((_, known)) if *known != file.1 => return Err(SourceError::NotASource),
            Some(_) => {}
            None => opened = Some(file),
        }
    }
    opened.map(|(file, _)| file).ok_or(SourceError::Forbidden)
}

/// Opens a file, and returns its device and inode, too.
fn open_as_is(path: &Path) -> Result<(File, (u64, u64)), SourceError> {
    let file = door::open(path)?;
    let metadata = file.metadata().map_err(|error| door::reason(&error))?;
    Ok((file, (metadata.dev(), metadata.ino())))
}
