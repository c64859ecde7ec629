//! The signals that reach a recording: those that end it, and those that are meant for its command.

use host::sys::signals::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGPWR, SIGQUIT, SIGSTKFLT, SIGTERM, SIGUSR1, SIGUSR2,
    SIGVTALRM, SIGXCPU, real_time,
};

/// Signals that end a recording and its command.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Signals that would end this process, and that terminals and programs send to a whole process group: Ctrl-\ makes a Java virtual
/// machine print its threads. The command gets them itself. Beside a command, a recording goes on; without one, they end it.
const FOR_COMMANDS: [i32; 10] =
    [SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGXCPU];

/// Returns all signals that a recording reads instead of being ended by them.
pub fn signals_of_recordings() -> Vec<i32> {
    ENDING.into_iter().chain(FOR_COMMANDS).chain(real_time()).collect()
}

/// Returns true if a signal ends a recording, also while its command runs.
pub fn ends_with_command(signal: i32) -> bool {
    ENDING.contains(&signal)
}
