//! Acts as another user: `setresuid(2)`, `setresgid(2)`, `setgroups(2)`.

use std::io;

use super::check;
use super::system;

/// The argument that leaves an id unchanged.
const UNCHANGED: libc::c_long = -1;

/// Changes the effective user and group of the calling thread alone: it then creates files and sends signals as that user, without
/// effective capabilities. The thread must end afterwards. That user can neither signal nor trace the thread: its real and saved
/// user stay, and the kernel forbids tracing after a change of credentials.
///
/// # Errors
/// `EPERM` if `user` is not ours and we are not root. Those of the calls; the thread may then be changed in part.
pub fn act_as(user: u32, group: u32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    let own_group = unsafe { libc::getegid() };
    if (user, group) == (system::effective_user(), own_group) {
        return Ok(());
    }
    if system::effective_user() != 0 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // Raw system calls, because the C library changes all threads.
    // SAFETY: a list of no groups; no memory is involved in the others.
    unsafe {
        done(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
        done(libc::syscall(libc::SYS_setresgid, UNCHANGED, libc::c_long::from(group), UNCHANGED))?;
        done(libc::syscall(libc::SYS_setresuid, UNCHANGED, libc::c_long::from(user), UNCHANGED))
    }
}

fn done(result: libc::c_long) -> io::Result<()> {
    check(libc::c_int::try_from(result).unwrap_or(-1)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::thread;

    #[test]
    fn one_thread_acts_as_another_user() {
        if system::effective_user() != 0 {
            println!("skipped: only root may act as others");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let (path, hidden) = (folder.path().join("file"), secret.clone());
        let other = thread::spawn(move || {
            act_as(12_345, 12_346).unwrap();
            assert_eq!(act_as(1, 1).unwrap_err().raw_os_error(), Some(libc::EPERM));
            fs::write(&path, "").unwrap();
            assert_eq!(fs::read(&hidden).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            fs::metadata(&path).unwrap()
        });
        let made = other.join().unwrap();
        assert_eq!((made.uid(), made.gid()), (12_345, 12_346));
        assert_eq!(system::effective_user(), 0);
        fs::read(&secret).unwrap();
    }
}
