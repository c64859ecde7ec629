//! Resource limits: `getrlimit(2)`, `setrlimit(2)`.

use std::io;

use super::check;

/// A resource limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The soft limit, which is in force; `u64::MAX` means unlimited.
    pub current: u64,
    /// The hard limit, to which the soft one can be raised.
    pub maximum: u64,
}

/// Returns the number of file descriptors this process may have open (`RLIMIT_NOFILE`).
pub fn open_files() -> Limit {
    get(libc::RLIMIT_NOFILE)
}

/// Returns the number of bytes this process may lock in memory (`RLIMIT_MEMLOCK`).
pub fn locked_memory() -> Limit {
    get(libc::RLIMIT_MEMLOCK)
}

/// Lowers the limit of private memory of this process and its children (`RLIMIT_DATA`) to `bytes`, unless it is lower already. Mapped
/// files do not count.
///
/// # Errors
/// Those of `setrlimit(2)`.
pub fn lower_data_limit(bytes: u64) -> io::Result<()> {
    let Limit { current, maximum } = get(libc::RLIMIT_DATA);
    let wanted = libc::rlimit { rlim_cur: bytes.min(current), rlim_max: bytes.min(maximum) };
    // SAFETY: the kernel reads the structure before the call returns.
    check(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const wanted) }).map(drop)
}

/// Raises the limit of file descriptors to the hard limit, and with `CAP_SYS_RESOURCE` to `needed` if that is more. Returns the limit
/// afterwards.
pub fn raise_open_files(needed: u64) -> Limit {
    let limit = open_files();
    let all = Limit { current: limit.maximum, ..limit };
    let more = Limit { current: needed, maximum: needed };
    if limit.current < limit.maximum {
        // On failure the limit stays.
        let _ = set_open_files(all);
    }
    if limit.maximum < needed {
        let _ = set_open_files(more);
    }
    open_files()
}

/// Sets the limit of file descriptors, to restore the previous one for a child.
///
/// # Errors
/// Those of `setrlimit(2)`.
pub fn set_open_files(limit: Limit) -> io::Result<()> {
    let wanted = libc::rlimit { rlim_cur: limit.current, rlim_max: limit.maximum };
    // SAFETY: the kernel reads the structure before the call returns.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) }).map(drop)
}

#[cfg(target_env = "musl")]
type Resource = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Resource = libc::__rlimit_resource_t;

fn get(resource: Resource) -> Limit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the structure; the resources used here are known to every kernel.
    unsafe { libc::getrlimit(resource, &raw mut limit) };
    Limit { current: limit.rlim_cur, maximum: limit.rlim_max }
}
