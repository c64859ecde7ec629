//! A program in the background of many tests. It is gone when the process of the tests is, however that ends.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// Reads until the process of the tests, which alone holds the other end of the pipe, closes it or ends. Then kills the program
/// with its children, which are its process group, and removes its folder.
const KEEPER: &str = r#"
    setsid "$@" </dev/null &
    read -r _
    kill -9 -$! $!
    wait
    rm -rf "$0" || { sleep 1; rm -rf "$0"; }"#;

/// A program, gone with this value or with the process of the tests.
pub(crate) struct Background(Child);

impl Background {
    /// Starts a program, whose temporary files are in this folder, too.
    pub(crate) fn start<A: AsRef<OsStr>>(folder: TempDir, command: &[A], stdout: Stdio) -> Self {
        let folder = folder.keep();
        let shell = Command::new("sh")
            .args(["-c", KEEPER])
            .arg(&folder)
            .args(command)
            .env("TMPDIR", &folder)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(Stdio::null())
            // Ctrl-C in a terminal is for the tests: the shell goes on and cleans up.
            .process_group(0)
            .spawn()
            .unwrap();
        Self(shell)
    }

    /// The standard output, where it is a pipe.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.0.stdout.take()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
