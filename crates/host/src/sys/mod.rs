//! Safe wrappers of system calls. The only `unsafe` code of the project.
#![expect(unsafe_code, reason = "the one module that talks to the kernel and the C library")]

pub mod clock;
pub mod device;
pub mod directory;
mod fatal_signals;
pub mod file_map;
pub mod file_system;
pub mod fork;
pub mod identity;
pub mod inherited;
pub mod limits;
pub mod memory;
pub mod memory_file;
pub mod mount;
pub mod namespace;
pub mod peer;
pub mod perf_event;
pub mod pidfd;
pub mod poll;
pub mod process_memory;
pub mod resolve;
pub mod ring;
pub mod sandbox;
pub mod schedule;
pub mod signals;
pub mod spawn;
pub mod system;
pub mod terminal;
pub mod timed_child;

use std::io;

/// Converts the result of a C function that returns −1 and sets `errno` on failure.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
