//! Resource limits: `getrlimit(2)`, `setrlimit(2)`.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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
    get(Resource::Nofile)
}

/// Returns the number of bytes this process may lock in memory (`RLIMIT_MEMLOCK`).
pub fn locked_memory() -> Limit {
    get(Resource::Memlock)
}

/// Lowers the limit of private memory of this process and its children (`RLIMIT_DATA`) to `bytes`, unless it is lower already. Mapped
/// files do not count.
///
/// # Errors
/// Those of `setrlimit(2)`.
pub fn lower_data_limit(bytes: u64) -> io::Result<()> {
    let Limit { current, maximum } = get(Resource::Data);
    set(Resource::Data, Limit { current: bytes.min(current), maximum: bytes.min(maximum) })
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
    set(Resource::Nofile, limit)
}

fn set(resource: Resource, limit: Limit) -> io::Result<()> {
    let known = |limit| Some(limit).filter(|&limit| limit < u64::MAX);
    Ok(setrlimit(resource, Rlimit { current: known(limit.current), maximum: known(limit.maximum) })?)
}

fn get(resource: Resource) -> Limit {
    let Rlimit { current, maximum } = getrlimit(resource);
    Limit { current: current.unwrap_or(u64::MAX), maximum: maximum.unwrap_or(u64::MAX) }
}
