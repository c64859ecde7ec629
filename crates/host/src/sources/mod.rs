//! Source files that debug information names, through one door.
//!
//! Debug information may name any file of the machine. So a process of its own ([`crate::slow_files::serve`]) opens source files, as the
//! users who answer for the files that name them, judges each by the open descriptor, and reads it. Its client ([`SourceHelper`]) needs no
//! rights, and leaves the process behind if a file system does not answer.

mod client;
mod door;
mod readers;

use std::time::Duration;

pub use client::{SourceError, SourceHelper};
pub(crate) use readers::Readers;

/// Maximum time to wait for all files of a listing together, or to look at a file that another user's process names. A local disk needs a
/// millisecond for each, a distant network some 100 ms.
pub const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes read of a source file: generated ones have some megabytes.
pub const MAX_SOURCE_BYTES: usize = 16 << 20;
