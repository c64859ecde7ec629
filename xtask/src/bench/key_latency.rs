//! How long the live view takes to answer a key, where it has the most to do: at 10,000 Hz, on busy CPUs, while a compiler
//! shows ever new stacks.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::measure::median;
use super::table::{Table, seconds};
use super::tools::Tools;
use crate::terminal::InTerminal;

/// The window is full, and there are as many stacks as there will be.
const SETTLED: Duration = Duration::from_secs(20);
/// Between two keys, so that they come at all moments of what is done every second.
const PAUSE: Duration = Duration::from_millis(317);
/// Keys, and what they bring to the screen: views, a row of the help, a question, a message.
const KEYS: &[(&str, &str)] = &[
    ("4", "4 flame graph"),
    ("3", "3 callers"),
    ("2", "2 processes"),
    ("1", "1 functions"),
    ("f", "frozen"),
    ("f", ""),
    ("e", "only one event"),
    ("S", "save as: "),
    ("\x1b", ""),
];
/// So often all of them.
const ROUNDS: usize = 10;

/// A compiler at work for as long as it is looked at, gone with this value.
struct CompilerLoop(Child);

impl CompilerLoop {
    fn start(folder: &Path) -> anyhow::Result<Self> {
        let build =
            "while :; do rm -rf \"$0\"; cargo build -q --offline -p prof-cli --target-dir \"$0\"; done";
        let mut shell = Command::new("sh");
        shell.args(["-c", build]).arg(folder).process_group(0);
        Ok(Self(shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }
}

impl Drop for CompilerLoop {
    fn drop(&mut self) {
        // With the compilers that it has started.
        if let Ok(group) = i32::try_from(self.0.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = self.0.wait();
    }
}

/// Presses every key some times.
pub(super) fn key_latency(tools: &Tools, table: &mut Table) -> anyhow::Result<()> {
    let folder = Path::new("target/bench/build");
    let build = CompilerLoop::start(folder)?;
    let mut view = InTerminal::start(&format!("{} top -F 10000", tools.prof.display()))?;
    view.raise_priority();
    thread::sleep(SETTLED);
    let mut answers = Vec::new();
    for (key, shown) in KEYS.iter().cycle().take(ROUNDS * KEYS.len()) {
        thread::sleep(PAUSE);
        let took = view.press(key.as_bytes(), shown.as_bytes())?;
        if !shown.is_empty() {
            answers.push((took, *shown));
        }
    }
    let memory = view.resident().context("prof top has ended by itself")?;
    drop(build);
    let begin = Instant::now();
    view.leave(b"q")?;
    let left = begin.elapsed();
    let _ = std::fs::remove_dir_all(folder);
    let middle = median(answers.iter().map(|(took, _)| *took).collect()).context("no keys")?;
    let (worst, shown) = answers.iter().max().context("no keys")?;
    table.row(
        format!("top: {} keys to the screen at 10,000 Hz while a compiler works", answers.len()),
        format!("{}, at worst {} ({shown})", seconds(middle), seconds(*worst)),
        "–",
        format!("{} MiB, left after {}", memory >> 10, seconds(left)),
        "below 100 ms",
    );
    Ok(())
}
