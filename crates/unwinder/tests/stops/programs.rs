//! Fixture programs, built once per test from `tests/fixtures`.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A built program, deleted with its folder at the end.
pub(crate) struct Program {
    folder: TempDir,
}

impl Program {
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }
}

/// Builds `tests/fixtures/SOURCE` with a command such as `gcc -O2`. `None`, and a line that says so, where the compiler, or
/// gdb, is not installed.
pub(crate) fn build(command: &str, source: &str) -> Option<Program> {
    let gdb = Command::new("gdb").arg("--version").output();
    if gdb.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        eprintln!("skipped: gdb is not installed");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = Program { folder };
    let mut words = command.split(' ');
    let compiler = words.next().unwrap();
    let source = format!("{}/tests/fixtures/{source}", env!("CARGO_MANIFEST_DIR"));
    let status = Command::new(compiler).args(words).arg("-o").arg(program.path()).arg(source).status();
    match status {
        Ok(status) => assert!(status.success(), "{command}"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {compiler} is not installed");
            return None;
        }
        Err(error) => panic!("{command}: {error}"),
    }
    Some(program)
}
