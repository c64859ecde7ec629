//! `--debuginfod`: downloads of debug files.

use analysis::{Notices, Servers};
use anyhow::Context;
use clap::Args;
use host::debuginfod::{self, FetchError};

use crate::console::Console;

/// Arguments for downloads of debug files.
#[derive(Args, Default)]
#[command(next_help_heading = "Names")]
pub struct DebuginfodArguments {
    /// Download missing debug files [default: if DEBUGINFOD_URLS is set]
    #[arg(long)]
    debuginfod: bool,
}

impl DebuginfodArguments {
    /// Returns true if `--debuginfod` or the environment requests downloads and this build supports them.
    ///
    /// # Errors
    /// `--debuginfod` is given, but this build has no client.
    pub fn fetches(&self, console: &Console) -> anyhow::Result<bool> {
        if debuginfod::HAS_CLIENT || !debuginfod::is_requested(self.debuginfod) {
            return Ok(debuginfod::is_requested(self.debuginfod));
        }
        if self.debuginfod {
            return Err(FetchError::NoClient).context("cannot download debug files");
        }
        console.detail(&format!("DEBUGINFOD_URLS is ignored: {}", FetchError::NoClient));
        Ok(false)
    }

    /// Returns the servers to use.
    pub fn servers(&self) -> Servers {
        if self.debuginfod { Servers::Any } else { Servers::OfEnvironment }
    }
}
