//! debuginfod: objects and debug files by build id, over HTTP (debuginfod(8), "WEBAPI").
//!
//! Downloads go into the cache of elfutils' client, in its layout (debuginfod_find_debuginfo(3), "CACHE"), so both clients find the
//! files of the other. A file that no server has is not requested again within ten minutes. A file is used only if it is an object
//! with the requested build id.

#[cfg_attr(not(feature = "debuginfod"), expect(dead_code, reason = "only the client writes"))]
mod cache;
#[cfg(feature = "debuginfod")]
mod client;
#[cfg(not(feature = "debuginfod"))]
#[path = "client_absent.rs"]
mod client;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

use model::Reason;

pub use client::Client;
pub use settings::{Settings, is_requested};

pub(crate) use cache::cached_file;

/// True if this build can download files (feature `debuginfod`). Cached files are found without it.
pub const HAS_CLIENT: bool = cfg!(feature = "debuginfod");

/// The kind of file to fetch for a build id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Artifact {
    /// The separate debug file, or the supplementary file of dwz.
    DebugInfo,
    /// The object itself.
    Executable,
}

impl Artifact {
    /// Returns its name in URLs and in the cache.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::DebugInfo => "debuginfo",
            Self::Executable => "executable",
        }
    }
}

/// The reason why a file was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// This build has no client.
    #[error(
        "this prof was built without the cargo feature `debuginfod`; try: cargo install --path crates/cli"
    )]
    NoClient,
    /// No server has the file.
    #[error("no debuginfod server has it")]
    NotFound,
    /// No server had the file a short while ago, so none was asked again.
    #[error("no debuginfod server had it a few minutes ago: they are asked again later")]
    RecentlyNotFound,
    /// A server was skipped because it could not be reached before; the others do not have the file.
    #[error("not asked for, as the debuginfod server could not be reached")]
    SkippedServer,
    /// The time limit for all downloads is exceeded.
    #[error("the {} s for downloads are over (DEBUGINFOD_MAXTIME=SECONDS allows more)", .0.as_secs())]
    TimeLimit(Duration),
    /// The file exceeds the maximum size.
    #[error("{url} is larger than {limit} bytes (DEBUGINFOD_MAXSIZE=BYTES allows more)")]
    TooLarge {
        /// The address of the file.
        url: String,
        /// The maximum size, in bytes.
        limit: u64,
    },
    /// The downloaded file is not the requested one.
    #[error("{url} is not used: {reason}")]
    WrongFile {
        /// The address of the file.
        url: String,
        /// The reason.
        reason: Reason,
    },
    /// A server could not be reached, or the download was interrupted.
    #[error("{url}: {why}")]
    Server {
        /// The address that was asked for.
        url: String,
        /// The error of the transfer.
        why: String,
    },
    /// The cache cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
}
