//! Code that processes generate while they run: their jitdumps, and the language runtimes that write it.

pub mod jit_dumps;
pub mod runtimes;

use std::time::Duration;

/// The longest time to wait for all maps of a recording, and for all its dumps, where file systems do not answer. One that is slow, as
/// over a network, answers within a second.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time to wait for one in a view that goes on: what comes later is there at the next look.
pub(crate) const LIVE_READ_TIMEOUT: Duration = Duration::from_millis(200);
