//! Reads recordings in a sandboxed process that can only read files and write our output.

use std::io::Write;
use std::process::ExitCode;

use analysis::Notices;
use anyhow::{Context, bail};
use host::sys::sandbox as host_sandbox;
use host::sys::spawn::ExitStatus;

use crate::commands::file_helper;
use crate::console::Console;
use crate::is_broken_pipe;
use crate::output::Output;

/// The environment variable that disables the sandbox, for valgrind and debuggers, which cannot work in it.
const UNCONFINED: &str = "PROF_UNCONFINED";

/// Returns true if the sandbox is disabled.
pub fn is_switched_off() -> bool {
    std::env::var_os(UNCONFINED).is_some()
}

/// Runs `work`, which writes the result to `output`, in a sandboxed child process, then finishes the output. If `work` fails, the
/// child prints the error, and this returns its exit code. With `fetches`, `work` runs in this process, because downloading debug
/// files needs the network and writes to a cache.
///
/// # Errors
/// The child cannot be started or was killed, or the output cannot be finished.
pub fn produce(
    console: &Console,
    output: Output,
    fetches: bool,
    work: impl FnOnce(&mut Output) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    judge(console, output, fetches, |output| work(output).map(|()| false))
}

/// The exit code if a threshold was passed.
const PASSED: u8 = 3;

/// As [`produce`], where `work` also says whether a threshold was passed: then the exit code is 3, and the output is finished, too.
///
/// # Errors
/// As [`produce`].
pub fn judge(
    console: &Console,
    mut output: Output,
    fetches: bool,
    work: impl FnOnce(&mut Output) -> anyhow::Result<bool>,
) -> anyhow::Result<ExitCode> {
    let code = |passed: bool| if passed { PASSED } else { 0 };
    let confined = !fetches && !is_switched_off();
    file_helper::enable_while_reading(confined).context("cannot start a process to open files")?;
    if !confined {
        let passed = work(&mut output)?;
        file_helper::warn_of_silence(console);
        return output.finish().map(|()| ExitCode::from(code(passed)));
    }
    let status = host_sandbox::run(|confined| {
        if let Err(error) = confined {
            console.detail(&format!("reading files without a sandbox: {error}"));
        }
        let result = work(&mut output).and_then(|passed| Ok(output.flush().map(|()| passed)?));
        file_helper::warn_of_silence(console);
        console.finish();
        match result {
            Err(error) if !is_broken_pipe(&error) => {
                console.error(&error);
                1
            }
            Ok(passed) => code(passed),
            Err(_) => 0,
        }
    })
    .context("cannot start a process to read the recording")?;
    if matches!(status, ExitStatus::Code(_)) {
        console.forget_problems();
    }
    match status {
        ExitStatus::Code(0) => output.finish().map(|()| ExitCode::SUCCESS),
        ExitStatus::Code(done) if done == i32::from(PASSED) => {
            output.finish().map(|()| ExitCode::from(PASSED))
        }
        ExitStatus::Code(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        ExitStatus::Signal(signal) => bail!("signal {signal} ended the process that read the recording"),
    }
}
