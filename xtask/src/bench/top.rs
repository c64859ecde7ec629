//! What a live view costs that is left open: CPU time and memory beside perf's, while two CPUs are busy.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::key_latency;
use super::measure::median;
use super::table::{Table, mebibytes};
use super::tools::Tools;
use crate::terminal::InTerminal;
use crate::{fixtures, workspace};

/// Names are found and caches are filled after this time.
const SETTLED: Duration = Duration::from_secs(10);
/// It is looked at for so long.
const LOOK: Duration = Duration::from_secs(20);

/// A busy loop, gone with this value.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `prof top` of the whole system with frame pointers and with complete stacks, and `perf top -g`.
pub(super) fn top(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    for program in ["perf", "script"] {
        if workspace::output(Command::new(program).arg("--version")).is_err() {
            println!("skipped: top needs {program}");
            return Ok(());
        }
    }
    let shares = fixtures::program("shares")?;
    let busy = |_| Command::new(&shares).args(["alone", "10000000"]).stdout(Stdio::null()).spawn().map(Busy);
    let _busy: Vec<Busy> = (0..2).map(busy).collect::<Result<_, _>>()?;
    key_latency::key_latency(tools, table)?;
    let prof = tools.prof.display();
    let ways = [
        (format!("{prof} top -F 997 --call-graph fp"), "frame pointers", "no more than perf's"),
        (format!("{prof} top -F 997 --call-graph auto"), "complete stacks", "below 2 %, 100 MiB"),
    ];
    let mut ours = [Vec::new(), Vec::new()];
    let mut theirs = Vec::new();
    for _ in 0..runs {
        for ((command, ..), costs) in ways.iter().zip(&mut ours) {
            costs.push(look(command)?);
        }
        theirs.push(look("perf top -g -F 997")?);
    }
    let (their_cpu, their_memory) = medians(&theirs)?;
    for ((_, how, demanded), costs) in ways.iter().zip(&ours) {
        let (cpu, memory) = medians(costs)?;
        table.row(
            format!("top of two busy CPUs at 997 Hz, {how}: CPU time, memory"),
            format!("{cpu:.2} %, {}", mebibytes(memory)),
            format!("{their_cpu:.2} %, {} (-g)", mebibytes(their_memory)),
            format!("{:.2} times perf's CPU time", cpu / their_cpu.max(0.01)),
            *demanded,
        );
    }
    Ok(())
}

/// The share of a CPU in per cent that a live view takes, and its memory in KiB.
fn look(command: &str) -> anyhow::Result<(f64, u64)> {
    let view = InTerminal::start(command)?;
    thread::sleep(SETTLED);
    let ended = || format!("{command} has ended by itself");
    let (before, begin) = (view.cpu_time().with_context(ended)?, Instant::now());
    thread::sleep(LOOK);
    let taken = view.cpu_time().with_context(ended)?.saturating_sub(before);
    let share = 100.0 * taken.as_secs_f64() / begin.elapsed().as_secs_f64();
    let memory = view.resident().with_context(ended)?;
    // perf ends with a signal's code where it does not hear the key.
    view.leave(b"q")?;
    Ok((share, memory))
}

fn medians(costs: &[(f64, u64)]) -> anyhow::Result<(f64, u64)> {
    let cpu = median(costs.iter().map(|&(cpu, _)| cpu).collect());
    let memory = median(costs.iter().map(|&(_, memory)| memory).collect());
    cpu.zip(memory).context("no runs")
}
