//! Acts as another user: `setresuid(2)`, `setresgid(2)`, `setgroups(2)`.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::process;

use super::check;
use super::sandbox::drop_capabilities;
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
    let own_group = rustix::process::getegid().as_raw();
    if (user, group) == (system::effective_user(), own_group) {
        return Ok(());
    }
    if system::effective_user() != 0 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // Raw system calls, because the C library changes all threads.
    // SAFETY: a list of no groups.
    unsafe {
        done(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
    }
    set_effective_group(group)?;
    set_effective_user(user)
}

/// The user that owns what nobody is known to own (`overflowuid` of proc(5)), and its group.
pub const NOBODY: u32 = 65_534;
/// Maximum number of groups of a user: `NGROUPS_MAX` of limits.h.
const MAX_GROUPS: usize = 65_536;
/// Maximum size of a user's entry in the database: that of glibc's own callers.
const MAX_ENTRY_BYTES: usize = 1 << 20;

/// A user with the groups that a login would give it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    user: u32,
    group: u32,
    groups: Vec<u32>,
}

impl Identity {
    /// Looks a user up in the databases of users and groups (`getpwuid(3)`, `getgrouplist(3)`), which may ask a server. A user that
    /// they do not know has no group of anybody else.
    pub fn of_user(user: u32) -> Self {
        let mut bytes = vec![0; 1024];
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut found = std::ptr::null_mut();
        loop {
            // SAFETY: the C library writes the structure and the bytes that it points into, and says where in `found`.
            let error = unsafe {
                let at = bytes.as_mut_ptr();
                libc::getpwuid_r(user, entry.as_mut_ptr(), at, bytes.len(), &raw mut found)
            };
            if error != libc::ERANGE || bytes.len() >= MAX_ENTRY_BYTES {
                break;
            }
            bytes.resize(2 * bytes.len(), 0);
        }
        if found.is_null() {
            return Self { user, group: NOBODY, groups: Vec::new() };
        }
        // SAFETY: `found` points to the structure, which was written; its strings lie in `bytes`, which live on.
        let (name, group) = unsafe { (CStr::from_ptr((*found).pw_name), (*found).pw_gid) };
        let mut groups: Vec<u32> = vec![0; 32];
        loop {
            let mut count = libc::c_int::try_from(groups.len()).unwrap_or(libc::c_int::MAX);
            // SAFETY: the C library writes at most `count` numbers.
            let listed =
                unsafe { libc::getgrouplist(name.as_ptr(), group, groups.as_mut_ptr(), &raw mut count) };
            if listed >= 0 {
                groups.truncate(usize::try_from(count).unwrap_or(0));
                return Self { user, group, groups };
            }
            if groups.len() >= MAX_GROUPS {
                return Self { user, group, groups: Vec::new() };
            }
            groups.resize(2 * groups.len(), 0);
        }
    }

    /// Runs `work` with the effective user, group and groups of this user, and without effective capabilities unless that is root.
    /// That user can neither signal nor trace the process meanwhile. Must be called by root while there is one thread. Ends the
    /// process if root cannot be restored.
    ///
    /// # Errors
    /// `EINVAL` if our user namespace does not know an id, `EPERM` without the right to change ids. `work` was not run then.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        if self.user == 0 {
            return Ok(work());
        }
        let result = self.enter().map(|()| work());
        // The user first: the group needs its capabilities. The groups stay until the next change, because root needs none.
        if set_effective_user(0).and_then(|()| set_effective_group(0)).is_err() {
            process::abort();
        }
        result
    }

    fn enter(&self) -> io::Result<()> {
        // SAFETY: the kernel reads a list of numbers.
        done(unsafe { libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) })?;
        set_effective_group(self.group)?;
        set_effective_user(self.user)
    }
}

fn set_effective_group(group: u32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    done(unsafe { libc::syscall(libc::SYS_setresgid, UNCHANGED, libc::c_long::from(group), UNCHANGED) })
}

fn set_effective_user(user: u32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    done(unsafe { libc::syscall(libc::SYS_setresuid, UNCHANGED, libc::c_long::from(user), UNCHANGED) })
}

/// Drops all capabilities of the calling thread, which a program file may have given to a user.
///
/// # Errors
/// Those of `capset(2)`.
pub fn drop_all_capabilities() -> io::Result<()> {
    drop_capabilities(&[])
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
    fn groups_are_those_of_a_login() {
        let root = Identity::of_user(0);
        assert!(root.group == 0 && root.groups.contains(&0), "{root:?}");
        let unknown = 4_000_000_000;
        assert_eq!(Identity::of_user(unknown), Identity { user: unknown, group: NOBODY, groups: Vec::new() });
    }

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
