//! Requests a perf map from a running Java virtual machine, with HotSpot's attach protocol.
//!
//! The profiler often runs as root, and the process may only look like a virtual machine. So a thread with the rights of the
//! process's user does all the work and resolves names below the process's root. If the thread does not end, it is abandoned.

mod attach;
mod error;
mod options;
mod process;

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use model::Pid;

pub use error::AttachError;

/// Time limit for the whole request.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// The outcome of a request: how long writing the map took.
pub type AttachOutcome = Result<Duration, AttachError>;

/// Requests that a virtual machine writes `/tmp/perf-PID.map` (the command `Compiler.perfmap`, Java 17 or newer). Starts a thread
/// for it, and returns the receiver of the outcome, which comes within [`TIMEOUT`] unless a file system does not answer.
///
/// A virtual machine that nobody has attached to yet gets SIGQUIT. SIGQUIT ends a process that does not handle it, and makes a
/// virtual machine with disabled attaching print its threads, so both are checked first. One that does not answer in time keeps the file
/// `.attach_pidPID` in its `/tmp`, without which it would print them later; the next request removes it.
///
/// # Errors
/// The thread cannot be started.
pub fn request_perf_map(pid: Pid) -> io::Result<Receiver<AttachOutcome>> {
    let (outcome, received) = channel();
    let begin = Instant::now();
    let work = move || {
        let asked = attach::request_perf_map(pid, begin + TIMEOUT).map(|()| begin.elapsed());
        // The receiver may have been dropped.
        let _ = outcome.send(asked);
    };
    thread::Builder::new().name("prof-jvm".to_owned()).spawn(work)?;
    Ok(received)
}
