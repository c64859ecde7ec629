//! The sums of waits beside the kernel's counts: `/proc/PID/task/TID/schedstat` before and after a recording of a running program.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::measure::{measure, median};
use super::table::Table;
use super::tools::Tools;
use crate::fixtures;

/// A pool of workers in Python that hand a lock around.
const LOCK: &str = "
import threading, time
lock = threading.Lock()
def work():
    while True:
        with lock: sum(i * i for i in range(3000))
        time.sleep(0.0005)
for _ in range(3): threading.Thread(target=work).start()
";

/// Two worker threads of Node, which answer the main thread's messages.
const MESSAGES: &str = "
const { Worker, isMainThread, parentPort } = require('worker_threads');
const answer = \"const { parentPort } = require('worker_threads'); let s = 0; \
    parentPort.on('message', () => { for (let i = 0; i < 30000; i++) s += i * i; parentPort.postMessage(s); });\";
for (let i = 0; i < 2; i++) {
    const worker = new Worker(answer, { eval: true });
    worker.on('message', () => worker.postMessage(1));
    worker.postMessage(1);
}
";

/// Time that a program gets to start.
const START: Duration = Duration::from_secs(1);

/// The length of a recording. The kernel's counts are read before it starts and after it ends; in three seconds these edges were 3.6 %
/// of the runnable time of two threads with 10,000 switches a second.
const SECONDS: &str = "10";

/// A program that goes on for ever, ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Time on the CPU and runnable, in nanoseconds.
type Times = [f64; 2];

/// Adds a row for each program: by how much the sums of a recording differ from the kernel's counts.
pub(super) fn waits(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let ping_pong = fixtures::program("ping_pong")?.display().to_string();
    let rounds = u64::MAX.to_string();
    let programs: [(&str, &[&str]); 5] = [
        ("two threads that only switch", &[&ping_pong, &rounds, "0"]),
        ("two threads, 100,000 switches a second", &[&ping_pong, &rounds, "17000"]),
        ("two threads, 10,000 switches a second", &[&ping_pong, &rounds, "190000"]),
        ("a lock in Python", &["python3", "-c", LOCK]),
        ("messages in Node", &["node", "-e", MESSAGES]),
    ];
    for (name, command) in programs {
        let mut differences = [Vec::new(), Vec::new()];
        for _ in 0..runs {
            let (counted, summed) = recorded(tools, command).with_context(|| format!("{command:?}"))?;
            for ((differences, counted), summed) in differences.iter_mut().zip(counted).zip(summed) {
                differences.push(100.0 * (summed / counted.max(1.0) - 1.0));
            }
        }
        let [running, runnable] = differences.map(|all| median(all).unwrap_or(f64::NAN));
        table.row(
            format!("{name}: sums of `--off-cpu` less schedstat"),
            format!("CPU {running:+.1} %, runnable {runnable:+.1} %"),
            "–",
            "",
            "2 % and 5 %",
        );
    }
    Ok(())
}

/// Records a running program; returns what the kernel counted and what the recording says, each for a second.
fn recorded(tools: &Tools, command: &[&str]) -> anyhow::Result<(Times, Times)> {
    let [program, arguments @ ..] = command else { unreachable!("programs have a name") };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let running = Running(command.spawn()?);
    std::thread::sleep(START);
    let (file, folded) = (tools.scratch.join("waits.prof"), tools.scratch.join("waits.folded"));
    let pid = running.0.id().to_string();
    let (before, start) = (counts(&pid)?, Instant::now());
    measure(
        &tools.scratch,
        &tools.prof([&"record", &"-q", &"--off-cpu", &"-o", &file, &"-p", &pid, &"-d", &SECONDS]),
    )?;
    let (after, time) = (counts(&pid)?, start.elapsed());
    drop(running);
    let counted = [0, 1].map(|class| (after[class] - before[class]) / time.as_secs_f64());
    measure(
        &tools.scratch,
        &tools.prof([&"flame", &"-q", &"--off-cpu", &"--folded", &"-o", &folded, &file]),
    )?;
    let seconds: f64 = SECONDS.parse()?;
    Ok((counted, sums(&folded)?.map(|sum| sum / seconds)))
}

/// Adds up the kernel's counts of the threads of a process.
fn counts(pid: &str) -> anyhow::Result<Times> {
    let mut sums = [0.0; 2];
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat"))?;
        for (sum, number) in sums.iter_mut().zip(text.split(' ')) {
            *sum += number.parse::<f64>()?;
        }
    }
    Ok(sums)
}

/// Adds up folded stacks of time by what the thread did.
fn sums(folded: &Path) -> anyhow::Result<Times> {
    let mut sums = [0.0; 2];
    for line in fs::read_to_string(folded)?.lines() {
        let (stack, time) = line.rsplit_once(' ').context("no folded stacks")?;
        let class = match stack {
            waits if ["[blocked", "[waiting", "[unknown"].iter().any(|state| waits.contains(state)) => {
                continue;
            }
            ready if ready.contains("[runnable") => 1,
            _ => 0,
        };
        sums[class] += time.parse::<f64>()?;
    }
    Ok(sums)
}
