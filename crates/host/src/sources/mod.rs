//! Source files that debug information names, through one door.
//!
//! Debug information may name any file of the machine. So a process of its own ([`serve`]) opens source files, as the users who
//! answer for the files that name them, judges each by the open descriptor, reads it, and sends its bytes. Its client
//! ([`SourceHelper`]) needs no rights, and leaves the process behind if a file system does not answer.

mod client;
mod door;
mod protocol;
mod server;

pub use client::SourceHelper;
pub use protocol::SourceError;
pub use server::serve;

/// Maximum number of bytes read of a source file: generated ones have some megabytes.
pub const MAX_SOURCE_BYTES: u64 = 16 << 20;
