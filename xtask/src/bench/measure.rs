//! What a command takes: wall time, CPU time, peak memory, of it and all that it starts and waits for.
//!
//! The kernel sums this up for all waited-for children of a process, so each measurement is a process of its own:
//! `xtask measure FILE COMMAND…` runs the command and writes the figures to FILE.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// The time and memory that one run took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Peak resident set of the largest process.
    pub(crate) peak_kib: u64,
}

/// The chore behind [`measure`].
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let [file, program, rest @ ..] = args else { bail!("takes a file and a command") };
    let start = Instant::now();
    let status = Command::new(program).args(rest).status().with_context(|| program.clone())?;
    let wall = start.elapsed();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu = |usage: &Usage| usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    let (code, ours) = (status.code().unwrap_or(BY_SIGNAL), getrusage(UsageWho::RUSAGE_SELF)?);
    let figures = [i64::try_from(wall.as_micros())?, cpu(&usage), usage.max_rss(), cpu(&ours), code.into()];
    std::fs::write(file, figures.map(|figure| figure.to_string()).join(" "))?;
    Ok(())
}

/// Stands for the exit code of a command that a signal has ended.
const BY_SIGNAL: i32 = -1;

/// perf 6.1 stops at an assertion of its own now and then, where another recorder runs beside it: it is done again, so often.
const MOST_TRIES: u32 = 5;

/// Runs a command in silence, without input, and returns what it took; what it printed to stderr goes to `FILE.stderr`
/// beside `scratch`.
pub(crate) fn measure(scratch: &Path, command: &[OsString]) -> anyhow::Result<Cost> {
    let figures = scratch.join("measure");
    let errors = scratch.join("measure.stderr");
    let mut tries = 1;
    loop {
        let _ = std::fs::remove_file(&figures);
        let status = Command::new(std::env::current_exe()?)
            .arg("measure")
            .arg(&figures)
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&errors)?)
            .status()?;
        match read(&figures) {
            Some((cost, _, 0)) => return Ok(cost),
            Some((_, _, BY_SIGNAL))
                if tries < MOST_TRIES && command.first().is_some_and(|program| program == "perf") =>
            {
                eprintln!("perf was ended by a signal; once more");
                tries += 1;
            }
            _ => bail!("{command:?}: {status}\n{}", std::fs::read_to_string(&errors).unwrap_or_default()),
        }
    }
}

/// CPU time that a recorder takes itself, and that of the command which it runs.
pub(crate) fn measure_apart(
    scratch: &Path,
    recorder: &[OsString],
    command: &[OsString],
) -> anyhow::Result<(Duration, Duration)> {
    let figures = scratch.join("measure.command");
    let measured = [std::env::current_exe()?.into(), "measure".into(), figures.clone().into_os_string()];
    let all = measure(scratch, &[recorder, &measured, command].concat())?;
    let (cost, measuring, _) = read(&figures).context("the command was not measured")?;
    Ok((all.cpu.saturating_sub(cost.cpu + measuring), cost.cpu))
}

/// What a command took, what measuring it took, and its exit code.
fn read(figures: &Path) -> Option<(Cost, Duration, i32)> {
    let text = std::fs::read_to_string(figures).ok()?;
    let numbers: Vec<i64> = text.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [wall, cpu, peak, measuring, code] = *numbers.as_slice() else { return None };
    let micros = |value: i64| Duration::from_micros(value.unsigned_abs());
    let cost = Cost { wall: micros(wall), cpu: micros(cpu), peak_kib: peak.unsigned_abs() };
    Some((cost, micros(measuring), i32::try_from(code).ok()?))
}

/// Reads the text that the last measured command printed to stderr.
pub(crate) fn last_stderr(scratch: &Path) -> String {
    std::fs::read_to_string(scratch.join("measure.stderr")).unwrap_or_default()
}

/// The middle one; of an even number the upper of the two.
pub(crate) fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> Option<T> {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values.get(values.len() / 2).copied()
}

/// The median wall time.
///
/// # Errors
/// Without runs.
pub(super) fn wall(costs: &[Cost]) -> anyhow::Result<Duration> {
    median(costs.iter().map(|cost| cost.wall).collect()).context("no runs")
}

/// The median CPU time.
///
/// # Errors
/// Without runs.
pub(super) fn cpu(costs: &[Cost]) -> anyhow::Result<Duration> {
    median(costs.iter().map(|cost| cost.cpu).collect()).context("no runs")
}

/// The median peak memory, KiB.
///
/// # Errors
/// Without runs.
pub(super) fn peak(costs: &[Cost]) -> anyhow::Result<u64> {
    median(costs.iter().map(|cost| cost.peak_kib).collect()).context("no runs")
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![3, 1, 2]), Some(2));
        assert_eq!(median(vec![5.0, 1.0, 2.0, 9.0]), Some(5.0));
        assert_eq!(median(Vec::<u8>::new()), None);
    }
}
