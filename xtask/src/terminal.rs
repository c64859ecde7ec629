//! A program in a terminal of its own, for live views.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How many bytes of what was drawn last are kept.
const TAIL: usize = 4096;
/// So long a program may take to appear, or to leave.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running program, whose terminal script(1) keeps.
pub(crate) struct InTerminal {
    script: Child,
    drawn: JoinHandle<Vec<u8>>,
    /// The program.
    pid: i32,
}

impl InTerminal {
    /// Starts it; `command` is a shell's.
    pub(crate) fn start(command: &str) -> anyhow::Result<Self> {
        let mut script = Command::new("script")
            .args(["-qec", &format!("stty rows 40 cols 120; exec {command}"), "/dev/null"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("script (of util-linux) gives programs a terminal")?;
        let mut output = script.stdout.take().context("no output")?;
        let drawn = thread::spawn(move || {
            let mut tail = Vec::new();
            let mut buffer = [0; 1 << 16];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                tail.extend_from_slice(&buffer[..length]);
                let surplus = tail.len().saturating_sub(TAIL);
                tail.drain(..surplus);
            }
            tail
        });
        let begin = Instant::now();
        let pid = loop {
            if let Some(pid) = child_of(script.id()) {
                break pid;
            }
            anyhow::ensure!(begin.elapsed() < PATIENCE, "{command} did not start");
            thread::sleep(Duration::from_millis(10));
        };
        Ok(Self { script, drawn, pid })
    }

    /// The resident memory, in kB; `None` when it has ended.
    pub(crate) fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    /// User and system time of all its threads so far, those that ended included; `None` when it has ended itself.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        // The 14th and 15th field, in hundredths of a second (proc(5)); the second one, a name, may hold anything.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
    }

    /// Presses a key and waits for the end, of which it is reminded by a signal; the last bytes that were drawn.
    pub(crate) fn leave(mut self, key: &[u8]) -> anyhow::Result<(ExitStatus, Vec<u8>)> {
        let mut input = self.script.stdin.take().context("no input")?;
        input.write_all(key)?;
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.script.try_wait()? {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                // Where it has just left, there is nobody to remind.
                let _ = kill(Pid::from_raw(self.pid), Signal::SIGTERM);
                break self.script.wait()?;
            }
            thread::sleep(Duration::from_millis(20));
        };
        drop(input);
        Ok((status, self.drawn.join().unwrap_or_default()))
    }
}

fn child_of(process: u32) -> Option<i32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
