//! Opens and reads files, source files as their readers, and memory of processes, for another process of this program (hidden: it is
//! started with a socket as standard input).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;

use analysis::Notices;
use host::slow_files::{self, Patience, SilentFileSystem};
use host::sys::{fork, schedule};
use model::Harm;

use crate::console::Console;

/// The name of the hidden command.
pub const COMMAND: &str = "file-helper";
/// Time to wait for file systems while recording, in milliseconds and seconds: the rings fill meanwhile, at 997 Hz with stacks of 64 KiB
/// in 128 ms. Local networks answer in milliseconds.
const WHILE_RECORDING: Patience =
    Patience { answer: Duration::from_millis(50), total: Duration::from_secs(2) };
/// Time to wait for processes while recording: there is one that does not answer only where somebody wants it, and a busy machine must not
/// look like that.
const FOR_MEMORY: Patience = Patience { answer: Duration::from_millis(250), total: Duration::from_secs(2) };
/// Time to wait for file systems while reading, in seconds: enough for a disk to spin up, and for 1 GB of objects (80 s) through a network of
/// 100 Mbit/s.
const WHILE_READING: Patience = Patience { answer: Duration::from_secs(5), total: Duration::from_secs(120) };

/// Answers requests until the other end of the socket is closed.
///
/// # Errors
/// Those of the socket.
pub fn run() -> anyhow::Result<ExitCode> {
    let socket = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    // Who asks cannot go on meanwhile, and memory changes.
    schedule::prefer_low_latency();
    slow_files::serve(&socket)?;
    Ok(ExitCode::SUCCESS)
}

/// Lets a recorder ask file systems and processes that may not answer.
pub fn enable_while_recording() {
    slow_files::enable(&[COMMAND], WHILE_RECORDING);
    slow_files::ask_for_memory(FOR_MEMORY);
}

/// Lets a reader ask file systems that may not answer. A reader that is going to be `confined` cannot start processes: it has one for
/// each of two file systems, and one for the mappings of processes. Waits for threads of a recorder, which last no longer than one of its
/// questions: a fork needs one thread.
///
/// # Errors
/// A process cannot be started.
pub fn enable_while_reading(confined: bool) -> io::Result<()> {
    fork::wait_for_other_threads(FOR_MEMORY.answer);
    slow_files::enable(&[COMMAND], WHILE_READING);
    slow_files::ask_for_memory(WHILE_READING);
    slow_files::prepare(if confined { 3 } else { 0 })
}

/// Warns of file systems and processes that did not answer so far.
pub fn warn_of_silence(console: &Console) {
    let hint = "programs on it may lack build ids, names and callers";
    let warn = |system: &SilentFileSystem| console.warn(Harm::Names, &format!("{system}; {hint}"));
    slow_files::silent_file_systems().iter().for_each(warn);
    if let Some((count, longest)) = slow_files::silent_processes() {
        let others = if count > 1 { format!(" and {} others", count - 1) } else { String::new() };
        console.warn(
            Harm::Names,
            &format!("the memory of process {longest}{others} could not be read in time; stacks may lack names and callers"),
        );
    }
}
