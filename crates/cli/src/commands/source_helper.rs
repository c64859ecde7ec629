//! Reads source files for another process of this program (hidden: it is started with a socket as standard input).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

/// The name of the hidden command.
pub const COMMAND: &str = "source-helper";

/// Answers requests until the other end of the socket is closed.
///
/// # Errors
/// Those of the socket.
pub fn run() -> anyhow::Result<ExitCode> {
    let socket = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    host::sources::serve(&socket)?;
    Ok(ExitCode::SUCCESS)
}
