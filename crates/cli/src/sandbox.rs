//! Files of others are read in a process that can do nothing but read them and write our output.

use std::io::Write;
use std::process::ExitCode;

use analysis::Notices;
use anyhow::{Context, bail};
use host::sys::sandbox as host_sandbox;
use host::sys::spawn::ExitStatus;

use crate::console::Console;
use crate::is_broken_pipe;
use crate::output::Output;

/// Set to anything, this lets files be read in the process itself: valgrind and debuggers cannot work in a confined one.
const UNCONFINED: &str = "PROF_UNCONFINED";

/// Returns true if files shall be read with all our rights.
pub fn is_switched_off() -> bool {
    std::env::var_os(UNCONFINED).is_some()
}

/// Runs `work`, which writes the result into the output, in a confined child process ([`host_sandbox::run`]), and gives the
/// output its name once that went well. What went wrong in the child, it has said itself: then the exit code tells.
/// Where debug files are to be fetched (`fetches`), it runs in our own process: that needs the network and a cache.
///
/// # Errors
/// Where no process can be started, where it was killed, and where the output cannot take its name.
pub fn produce(
    console: &Console,
    mut output: Output,
    fetches: bool,
    work: impl FnOnce(&mut Output) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    if fetches || is_switched_off() {
        work(&mut output)?;
        return output.finish().map(|()| ExitCode::SUCCESS);
    }
    let status = host_sandbox::run(|confined| {
        if let Err(error) = confined {
            console
                .detail(&format!("files are read with all our rights, as they cannot be given up: {error}"));
        }
        let result = work(&mut output).and_then(|()| Ok(output.flush()?));
        match result {
            Err(error) if !is_broken_pipe(&error) => {
                console.error(&error);
                1
            }
            _ => 0,
        }
    })
    .context("cannot start a process to read the recording in")?;
    match status {
        ExitStatus::Code(0) => output.finish().map(|()| ExitCode::SUCCESS),
        ExitStatus::Code(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        ExitStatus::Signal(signal) => bail!("reading the recording was ended by signal {signal}"),
    }
}
