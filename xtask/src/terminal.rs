//! Runs a live view in a pseudoterminal.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Number of the last drawn bytes that are kept.
const TAIL_BYTES: usize = 1 << 16;
/// Time limit for starting, drawing and ending.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The last bytes that were drawn.
#[derive(Default)]
struct Drawn {
    tail: Mutex<Vec<u8>>,
    more: Condvar,
}

/// A program that runs in a terminal of script(1).
pub(crate) struct InTerminal {
    script: Child,
    input: Option<ChildStdin>,
    reader: JoinHandle<()>,
    drawn: Arc<Drawn>,
    /// The pid of the program.
    pid: i32,
}

impl InTerminal {
    /// Starts a shell command.
    pub(crate) fn start(command: &str) -> anyhow::Result<Self> {
        let mut script = Command::new("script")
            .args(["-qec", &format!("stty rows 40 cols 120; exec {command}"), "/dev/null"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("script (of util-linux) gives programs a terminal")?;
        let mut output = script.stdout.take().context("no output")?;
        let input = script.stdin.take();
        let drawn = Arc::<Drawn>::default();
        let seen = Arc::clone(&drawn);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                let mut tail = lock(&seen.tail);
                tail.extend_from_slice(&buffer[..length]);
                let surplus = tail.len().saturating_sub(TAIL_BYTES);
                tail.drain(..surplus);
                seen.more.notify_all();
            }
        });
        let begin = Instant::now();
        let pid = loop {
            if let Some(pid) = child_of(script.id()) {
                break pid;
            }
            anyhow::ensure!(begin.elapsed() < TIMEOUT, "{command} did not start");
            thread::sleep(Duration::from_millis(10));
        };
        Ok(Self { script, input, reader, drawn, pid })
    }

    /// Returns the resident memory, in kB; `None` if the program has ended.
    pub(crate) fn resident(&self) -> Option<u64> {
        self.status("VmRSS:")
    }

    /// Returns the anonymous memory, in kB. Pages of files do not count, because the kernel can drop them.
    pub(crate) fn anonymous(&self) -> Option<u64> {
        self.status("RssAnon:")
    }

    fn status(&self, field: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// Returns the user and system time of all threads so far, including ended ones; `None` if the program has ended.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        // Fields 14 and 15, in hundredths of a second (proc(5)). The second field, a name, may contain anything.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
    }

    /// Raises the priority of the terminal and of this process, if that is permitted, so that their delays are not measured.
    pub(crate) fn raise_priority(&self) {
        for pid in [std::process::id(), self.script.id()] {
            let mut renice = Command::new("renice");
            let _ = renice.args(["-n", "-20", "-p", &pid.to_string()]).stdout(Stdio::null()).status();
        }
    }

    /// Sends a key, waits until `shown` is drawn, and returns how long that took. Each cell of `shown` must differ from what was there
    /// before, because unchanged cells are not drawn again.
    pub(crate) fn press(&mut self, key: &[u8], shown: &[u8]) -> anyhow::Result<Duration> {
        lock(&self.drawn.tail).clear();
        let begin = Instant::now();
        self.input.as_mut().context("no input")?.write_all(key)?;
        let missing = |tail: &mut Vec<u8>| {
            !shown.is_empty() && !tail.windows(shown.len()).any(|window| window == shown)
        };
        let waited = self.drawn.more.wait_timeout_while(lock(&self.drawn.tail), TIMEOUT, missing);
        let (_tail, result) = waited.unwrap_or_else(PoisonError::into_inner);
        let shown = String::from_utf8_lossy(shown);
        anyhow::ensure!(!result.timed_out(), "{shown:?} did not come to the screen");
        Ok(begin.elapsed())
    }

    /// Sends a key and waits for the end of the program, after the time limit with SIGTERM. Returns its status and the last drawn bytes.
    pub(crate) fn leave(mut self, key: &[u8]) -> anyhow::Result<(ExitStatus, Vec<u8>)> {
        let mut input = self.input.take().context("no input")?;
        input.write_all(key)?;
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.script.try_wait()? {
                break status;
            }
            if begin.elapsed() > TIMEOUT {
                // Fails if the program has just ended.
                let _ = kill(Pid::from_raw(self.pid), Signal::SIGTERM);
                break self.script.wait()?;
            }
            thread::sleep(Duration::from_millis(20));
        };
        drop(input);
        let _ = self.reader.join();
        let tail = std::mem::take(&mut *lock(&self.drawn.tail));
        Ok((status, tail))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn child_of(process: u32) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
