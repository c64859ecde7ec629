//! debuginfod: objects and debug files by build id, over HTTP (debuginfod(8), "WEBAPI").
//!
//! What comes is kept in the cache of elfutils' own client, in its layout (debuginfod_find_debuginfo(3), "CACHE"):
//! both find what the other fetched, and what no server has is not asked for again within ten minutes. A file is used
//! only if it is an object with the build id that was asked for.

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

/// True if servers can be asked: the feature `debuginfod`. What lies in the cache is found without it.
pub const HAS_CLIENT: bool = cfg!(feature = "debuginfod");

/// The kind of file to fetch for a build id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Artifact {
    /// The separate debug file, also the one that dwz made.
    DebugInfo,
    /// The object itself.
    Executable,
}

impl Artifact {
    /// Its name in URLs and in the cache.
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
    /// There is no client in this build.
    #[error(
        "this prof was built without the cargo feature `debuginfod`; try: cargo install --path crates/cli"
    )]
    NoClient,
    /// Every server answered that it has none.
    #[error("no debuginfod server has it")]
    NotFound,
    /// Every server answered so a short while ago, and was not asked again.
    #[error("no debuginfod server had it a few minutes ago: they are asked again later")]
    RecentlyNotFound,
    /// A server could not be reached before, and was not asked again; those that were have none.
    #[error("not asked for, as the debuginfod server could not be reached")]
    SkippedServer,
    /// The time that was allowed for all downloads together is used up.
    #[error("the {} s for downloads are over (DEBUGINFOD_MAXTIME=SECONDS allows more)", .0.as_secs())]
    TimeLimit(Duration),
    /// The file is larger than allowed.
    #[error("{url} is larger than {limit} bytes (DEBUGINFOD_MAXSIZE=BYTES allows more)")]
    TooLarge {
        /// The address of the file.
        url: String,
        /// The largest size that is allowed.
        limit: u64,
    },
    /// The file that came is not the one that was asked for.
    #[error("{url} is not used: {reason}")]
    WrongFile {
        /// The address that it came from.
        url: String,
        /// The fault of the file.
        reason: Reason,
    },
    /// A server could not be asked, or broke off.
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
