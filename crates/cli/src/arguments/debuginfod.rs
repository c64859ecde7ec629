//! Debug files from servers.

use analysis::{Notices, Servers};
use anyhow::Context;
use clap::Args;
use host::debuginfod::{self, FetchError};

use crate::console::Console;

/// Whether debug files are fetched.
#[derive(Args, Default)]
#[command(next_help_heading = "Names")]
pub struct DebuginfodArguments {
    /// Fetch missing debug files of hot objects from debuginfod servers (DEBUGINFOD_URLS, which alone asks for it, too)
    #[arg(long)]
    debuginfod: bool,
}

impl DebuginfodArguments {
    /// True if debug files are to be fetched, as these or the environment ask for it. Where the environment asks a build that
    /// cannot, that is a detail.
    ///
    /// # Errors
    /// Where these ask a build that cannot.
    pub fn fetches(&self, console: &Console) -> anyhow::Result<bool> {
        if debuginfod::HAS_CLIENT || !debuginfod::is_requested(self.debuginfod) {
            return Ok(debuginfod::is_requested(self.debuginfod));
        }
        if self.debuginfod {
            return Err(FetchError::NoClient).context("cannot fetch debug files");
        }
        console.detail(&format!("DEBUGINFOD_URLS is not used: {}", FetchError::NoClient));
        Ok(false)
    }

    /// The servers that are asked.
    pub fn servers(&self) -> Servers {
        if self.debuginfod { Servers::Any } else { Servers::OfEnvironment }
    }
}
