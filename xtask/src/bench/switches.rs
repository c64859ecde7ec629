//! What recording where threads wait costs a program that switches between threads.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Context;

use super::measure::{measure, median};
use super::table::Table;
use super::tools::Tools;
use crate::fixtures;

/// Programs: rounds, of two switches each, and computation in each round. The first does nothing but switch; the second
/// switches some 100,000 times a second, for five seconds: most of the first one goes by before switches are sampled, and before the
/// kernel has switched off its hooks for their records.
const PROGRAMS: [(u64, Duration, &str); 2] =
    [(100_000, Duration::ZERO, "at most perf's"), (250_000, Duration::from_micros(17), "at most 3 % slower")];

/// Time per switch of two threads on one CPU: bare, recorded by prof, and by perf.
pub(super) fn switches(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let program = fixtures::program("ping_pong")?;
    let (our_file, their_file) = (tools.scratch.join("switches.prof"), tools.scratch.join("switches.perf"));
    let said = tools.scratch.join("switches.said");
    for (rounds, computed, demanded) in PROGRAMS {
        let words: Vec<OsString> = ["sh", "-c", "\"$0\" \"$1\" \"$2\" > \"$3\""].map(OsString::from).into();
        let own = [program.clone().into(), rounds.to_string().into(), computed.as_nanos().to_string().into()];
        let command = [words, own.into(), vec![said.clone().into()]].concat();
        let ours = tools.prof([&"record", &"-q", &"--off-cpu", &"-o", &our_file, &"--"]);
        let perf = ["perf", "record", "-q", "-g", "-e", "sched:sched_switch", "-o"].map(OsString::from);
        let theirs = [&perf[..], &[their_file.clone().into(), "--".into()]].concat();
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..runs {
            for (recorder, times) in [&[][..], &ours, &theirs].into_iter().zip(&mut times) {
                measure(&tools.scratch, &[recorder, &command].concat())?;
                let text = std::fs::read_to_string(&said)?;
                // `caller wall running runnable`, in nanoseconds.
                let wall: f64 = text.split(' ').nth(1).context("ping_pong said nothing")?.parse()?;
                times.push(wall / (2 * rounds) as f64);
            }
        }
        let [bare, our_time, their_time] = times.map(|times| median(times).unwrap_or(f64::NAN));
        let slower = |time: f64| 100.0 * (time / bare - 1.0);
        table.row(
            format!("two threads, {:.0} switches a second: time per switch, {bare:.0} ns bare", 1e9 / bare),
            format!("{our_time:.0} ns ({:+.1} %)", slower(our_time)),
            format!("{their_time:.0} ns ({:+.1} %)", slower(their_time)),
            format!("{:+.0} ns", our_time - their_time),
            demanded,
        );
    }
    Ok(())
}
