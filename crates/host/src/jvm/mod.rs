//! Asking a running Java virtual machine for a perf map, by HotSpot's attach protocol.
//!
//! Whoever profiles is often root, and the process may lie about all that it is. So all is done with the rights of its user, names
//! are looked up below its own root, and a thread that does not come to an end is left behind.

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

/// The time that a virtual machine has for all of it.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// The outcome of asking a virtual machine: the time that it took to write its map.
pub type AttachOutcome = Result<Duration, AttachError>;

/// Asks a virtual machine to write `/tmp/perf-PID.map` (the command `Compiler.perfmap`, of Java 17 or newer), on a thread of
/// its own. The outcome comes within [`TIMEOUT`], unless a file system does not answer.
///
/// A machine that nobody has attached to yet gets SIGQUIT, which is how one asks it to listen. That ends a process which does not
/// handle it, and makes a machine that may not be attached to print its threads: both are seen beforehand.
///
/// # Errors
/// Where there can be no thread.
pub fn request_perf_map(pid: Pid) -> io::Result<Receiver<AttachOutcome>> {
    let (outcome, received) = channel();
    let begin = Instant::now();
    let work = move || {
        let asked = attach::request_perf_map(pid, begin + TIMEOUT).map(|()| begin.elapsed());
        // Whoever asked may have gone.
        let _ = outcome.send(asked);
    };
    thread::Builder::new().name("prof-jvm".to_owned()).spawn(work)?;
    Ok(received)
}
