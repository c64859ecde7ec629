//! `prof -- COMMAND`, `prof PID` and `prof ./FILE`: the commands that they stand for.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::IsTerminal;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

use crate::beside::has_desktop;
use crate::commands::record::DEFAULT_OUTPUT;
use crate::is_recording;

/// Seconds for which a process is recorded.
const SECONDS: &str = "10";

/// The commands of `prof` that a command line without one stands for, in turn.
pub struct Commands {
    /// The command line that records into the usual file; `None` where a recording is there.
    record: Option<Vec<OsString>>,
    /// The command line that shows the recording.
    show: Vec<OsString>,
}

impl Commands {
    /// Returns what a command line stands for by its first word; `None` if that is a command or nothing that can be recorded or shown.
    pub fn of(words: &[OsString]) -> Option<Self> {
        let is_flag =
            |word: &OsString| matches!(word.to_str(), Some("-q" | "--quiet" | "-v" | "-vv" | "--verbose"));
        let flags = words.iter().skip(1).take_while(|word| is_flag(word)).count();
        let (before, words) = words.split_at_checked(flags + 1)?;
        let line = |own: &[&str], rest: &[OsString]| {
            let own = own.iter().map(OsString::from);
            before.iter().cloned().chain(own).chain(rest.iter().cloned()).collect::<Vec<_>>()
        };
        let (word, rest) = words.split_first()?;
        let is_command = word == "--" && !rest.is_empty();
        let is_number = !word.is_empty() && word.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        let is_path = word.as_encoded_bytes().contains(&b'/');
        let record = if is_command {
            line(&["record", "--"], rest)
        } else if is_number && rest.is_empty() {
            line(&["record", "--with-children", "-d", SECONDS, "-p"], words)
        } else if is_path && is_recording(word) {
            let show = if shows_page() { line(&["view"], words) } else { line(&["explain"], words) };
            return Some(Self { record: None, show });
        } else if is_path && may_run(word) {
            line(&["record", "--"], words)
        } else {
            return None;
        };
        // The command's own output stays as it is.
        let show: &[&str] = if shows_page() {
            &["view", DEFAULT_OUTPUT]
        } else {
            &["explain", "-o", "/dev/stderr", DEFAULT_OUTPUT]
        };
        Some(Self { record: Some(record), show: line(show, &[]) })
    }

    /// Runs the commands by `run`. Returns the exit code of the first, but that of the second where only that fails. What is not recorded
    /// is not shown.
    pub fn run(self, run: impl Fn(Vec<OsString>) -> ExitCode) -> ExitCode {
        let Some(record) = self.record else { return run(self.show) };
        let identity = || fs::metadata(DEFAULT_OUTPUT).ok().map(|file| (file.dev(), file.ino()));
        let before = identity();
        let recorded = run(record);
        if identity() == before {
            return recorded;
        }
        let shown = run(self.show);
        if recorded == ExitCode::SUCCESS { shown } else { recorded }
    }
}

/// Returns true if a page is seen at once.
fn shows_page() -> bool {
    has_desktop() && std::io::stdout().is_terminal()
}

fn may_run(path: &OsStr) -> bool {
    fs::metadata(Path::new(path)).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
