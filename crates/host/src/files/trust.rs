//! The users whose links and pipes are followed, and the owner of results.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};

use crate::sys::system;

/// `S_IWOTH`, `S_IWGRP` and `S_ISVTX` of `inode(7)`.
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// Users who are trusted to place links and pipes: root, the effective user, and for root the user who invoked `sudo`.
#[derive(Clone, Debug)]
pub(super) struct Trusted {
    users: Vec<u32>,
}

impl Trusted {
    /// Determines them from the effective user and `SUDO_UID`.
    pub(super) fn for_this_process() -> Self {
        let own = system::effective_user();
        // Only root can have been started by sudo; any user can set the variable.
        let sudo = sudo_user().filter(|_| own == 0).map(|(user, _)| user);
        Self { users: [0, own].into_iter().chain(sudo).collect() }
    }

    /// Returns true if `user` is trusted.
    pub(super) fn contains(&self, user: u32) -> bool {
        self.users.contains(&user)
    }

    pub(super) fn owns(&self, what: &Metadata) -> bool {
        self.contains(what.uid())
    }

    /// Returns true if only trusted users can rename the files of trusted users in a folder. Groups count as trusted, because folders
    /// of a user are often writable by a group of that user alone.
    pub(super) fn keeps_names(&self, folder: &Metadata) -> bool {
        self.owns(folder) && (folder.mode() & OTHERS_WRITE == 0 || folder.mode() & STICKY != 0)
    }

    /// Returns true if a trusted user has placed a link or pipe: it is theirs, and nobody else can have given it this name by a rename
    /// or a hard link.
    pub(super) fn is_placed_by_trusted(&self, what: &Metadata, folder: &Metadata) -> bool {
        let is_shared = folder.mode() & (OTHERS_WRITE | GROUP_WRITES) != 0;
        self.owns(what) && self.keeps_names(folder) && (!is_shared || what.nlink() == 1)
    }
}

/// Returns user and group of whoever invoked `sudo`.
fn sudo_user() -> Option<(u32, u32)> {
    let id = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    Some((id("SUDO_UID")?, id("SUDO_GID")?))
}

/// Under `sudo`, gives a file to the invoking user, who could not remove a file of root.
///
/// # Errors
/// Those of `fchown(2)`, except on a file system without owners.
pub(super) fn give_to_sudo_user(file: &File) -> io::Result<()> {
    let Some((user, group)) = sudo_user() else { return Ok(()) };
    match fchown(file, Some(user), Some(group)) {
        // EPERM: we are not root, and the variables do not come from sudo.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_link_is_believed_where_nobody_else_can_have_put_it() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/", &link).unwrap();
        let look = |mode: u32, trusted: &Trusted| {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            trusted.is_placed_by_trusted(
                &fs::symlink_metadata(&link).unwrap(),
                &fs::metadata(folder.path()).unwrap(),
            )
        };
        let own = Trusted::for_this_process();
        let somebody = Trusted { users: vec![u32::MAX] };
        for mode in [0o700, 0o755, 0o775, 0o1777] {
            assert!(look(mode, &own), "{mode:o}");
            assert!(!look(mode, &somebody), "{mode:o}");
        }
        assert!(!look(0o777, &own), "anybody may rename it");
        fs::hard_link(&link, folder.path().join("second")).unwrap();
        assert!(look(0o755, &own));
        assert!(!look(0o1777, &own) && !look(0o775, &own), "somebody else's name for it");
    }

    #[test]
    fn in_the_folder_of_another_user_nothing_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        symlink("/", folder.path().join("link")).unwrap();
        if !is_root() {
            println!("skipped: only root gives a folder away");
            return;
        }
        std::os::unix::fs::chown(folder.path(), Some(65534), None).unwrap();
        let of = |path| fs::symlink_metadata(path).unwrap();
        let own = Trusted::for_this_process();
        assert!(!own.is_placed_by_trusted(&of(folder.path().join("link")), &of(folder.path().to_owned())));
    }

    fn is_root() -> bool {
        system::effective_user() == 0
    }
}
