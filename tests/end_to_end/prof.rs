//! Running `prof`, with an end in sight.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{OnceLock, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::programs::skip;

/// Nothing here takes as long, even on a loaded machine; what does hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code; 128 and the signal's number where a signal ended it.
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Fails the test where the command failed.
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self
    }
}

/// The command under test.
pub(crate) fn prof<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prof"));
    // Any perf of the user's may have put programs of tests into the cache in the home folder.
    command.args(args).env("PERF_BUILDID_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/no-cache"));
    command
}

/// Recorders run in company, except in tests that measure a recording alone, or that record beside an event that asks for build ids:
/// the kernel then marks the mappings of everybody's perf as if they carried some, and perf 6.1 dies of its own file.
pub(crate) static RECORDERS: RwLock<()> = RwLock::new(());

/// Runs a command without input to its end.
pub(crate) fn run(command: &mut Command) -> Run {
    let _in_company = RECORDERS.read();
    run_alone(command)
}

/// As [`run`], where the caller has seen to [`RECORDERS`].
pub(crate) fn run_alone(command: &mut Command) -> Run {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    finish(child)
}

/// Waits for a child with piped outputs.
pub(crate) fn finish(mut child: Child) -> Run {
    fn drain(mut from: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            bytes
        })
    }
    let stdout = drain(child.stdout.take().unwrap());
    let stderr = drain(child.stderr.take().unwrap());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            let threads = threads_of(child.id());
            let _ = child.kill();
            panic!("hangs:\n{threads}");
        }
        thread::sleep(Duration::from_millis(1));
    };
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let stderr = String::from_utf8_lossy(&stderr.join().unwrap()).into_owned();
    Run { code, stdout: stdout.join().unwrap(), stderr }
}

/// What the threads of a process and of its children do, as `ps` says it.
fn threads_of(pid: u32) -> String {
    let listed = Command::new("ps").args(["-eLo", "pid,ppid,tid,stat,wchan:24,comm"]).output();
    let listed =
        listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default();
    let pid = pid.to_string();
    let is_one = |line: &&str| line.split_whitespace().take(2).any(|number| number == pid);
    listed.lines().filter(is_one).collect::<Vec<_>>().join("\n")
}

/// A folder of the test's own.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns true if this machine lets us record; where it does not, the test is skipped. Where perf may and we may not, that is
/// a failure of ours.
pub(crate) fn may_record() -> bool {
    static REFUSAL: OnceLock<Option<String>> = OnceLock::new();
    let refusal = REFUSAL.get_or_init(refusal_to_record);
    if let Some(refusal) = refusal {
        skip(&format!("recording is not permitted here: {refusal}"));
    }
    refusal.is_none()
}

/// Returns why this machine does not let us record, if it does not.
fn refusal_to_record() -> Option<String> {
    let folder = folder();
    let output = folder.path().join("may.data");
    let run = run(prof(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&output).args(["--", "true"]));
    if run.code == 0 {
        return None;
    }
    let perf = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-o"])
        .arg(folder.path().join("perf.data"))
        .args(["--", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let perf_may = perf.is_ok_and(|status| status.success());
    let forbidden = ["EPERM", "EACCES", "ENOSYS", "perf_event_paranoid"];
    assert!(!perf_may && forbidden.iter().any(|word| run.stderr.contains(word)), "{}", run.stderr);
    Some(run.stderr.trim().to_owned())
}

/// Records a command into `prof.data` of a folder, with `-F 4999 -e cpu-clock`, and returns the file's path and the run.
pub(crate) fn record(folder: &Path, flags: &[&str], command: &[&OsStr]) -> (PathBuf, Run) {
    let file = folder.join("prof.data");
    let run = run(prof(["record", "-F", "4999", "-e", "cpu-clock"])
        .args(flags)
        .arg("-o")
        .arg(&file)
        .arg("--")
        .args(command)
        .current_dir(folder));
    (file, run)
}

/// What goes before a command's words for its recorder to stand still while it runs, so that small rings overflow: how
/// far a running recorder falls behind is the machine's matter.
pub(crate) const UNREAD: [&str; 4] = ["sh", "-c", "kill -STOP $PPID; \"$@\"; kill -CONT $PPID", "sh"];

/// `prof flame --folded` of a file.
pub(crate) fn folded(file: &Path, flags: &[&str]) -> Run {
    run(prof(["flame", "--folded", "-i"]).arg(file).args(flags))
}

/// The number before a word of the summary: `12,345 samples (…), 0 lost`.
pub(crate) fn figure(stderr: &str, word: &str) -> u64 {
    let words: Vec<&str> = stderr.split_whitespace().collect();
    words
        .windows(2)
        .filter(|pair| pair[1].trim_end_matches(',') == word)
        .find_map(|pair| pair[0].replace(',', "").parse().ok())
        .unwrap_or_else(|| panic!("no figure of {word} in {stderr:?}"))
}

/// Waits until `condition` holds.
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
