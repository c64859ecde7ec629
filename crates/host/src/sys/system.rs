//! Basic facts from the C library: page size, CPUs, clock ticks, user, `uname(2)`.

use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::sync::OnceLock;

/// Returns the page size in bytes.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Returns the number of configured CPUs, including offline ones.
pub fn configured_cpus() -> u32 {
    // SAFETY: sysconf touches no memory of ours.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1)
}

/// Returns the number of clock ticks per second (`USER_HZ`), at least 1.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().clamp(1, 1_000_000_000)
}

/// Returns true if `/proc` shows processes by the numbers that they have for us. It shows those of the pid namespace in which it was
/// mounted: after `unshare --pid` without a mount these are other processes'. Read once.
pub fn shows_our_pids() -> bool {
    static SHOWS: OnceLock<bool> = OnceLock::new();
    *SHOWS.get_or_init(|| match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => has_one_number(&status),
        // `/proc/self` leads nowhere in a namespace that we are not in. Where nothing is mounted, nothing is read by a number.
        Err(_) => !std::path::Path::new("/proc/stat").exists(),
    })
}

/// Returns true if a process has one number from the namespace of `/proc` down to its own (`NSpid`, Linux 4.1).
fn has_one_number(status: &str) -> bool {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_none_or(|numbers| numbers.split_ascii_whitespace().count() == 1)
}

/// Returns the effective user id of this process.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The names that `uname(2)` returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SystemName {
    /// The host name.
    pub host: OsString,
    /// The kernel's release, for example `6.1.0-18-amd64`.
    pub release: OsString,
    /// The architecture, for example `x86_64`.
    pub machine: OsString,
}

impl SystemName {
    /// Reads the names with `uname(2)`.
    pub fn read() -> Self {
        let name = rustix::system::uname();
        let text = |text: &CStr| OsString::from_vec(text.to_bytes().to_vec());
        Self { host: text(name.nodename()), release: text(name.release()), machine: text(name.machine()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_several_numbers_is_in_another_namespace_than_proc() {
        assert!(shows_our_pids(), "the tests run where /proc was mounted");
        assert!(has_one_number("Name:\tx\nNSpid:\t77\nNSsid:\t1\n") && has_one_number("Name:\tx\n"));
        assert!(!has_one_number("NSpid:\t77\t2\n"));
    }
}
