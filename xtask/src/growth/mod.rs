//! `cargo xtask growth [SHAPE]`: compares instructions and memory of `prof` for recordings four times as long.
//!
//! valgrind's dhat counts instructions and the peak of allocated bytes, which are reproducible on any machine. Quadratic work takes
//! sixteen times as many.

mod shapes;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, bail};

use crate::workspace;
use shapes::{SHAPES, Shape};

/// Maximum ratio of instructions for four times the input: four, plus a logarithm and tables that have just grown.
const MAX_INSTRUCTION_RATIO: f64 = 6.0;
/// Maximum ratio of memory of the process for four times the input.
const MAX_MEMORY_RATIO: f64 = 4.5;
/// Memory of a process in addition to its allocations: code, and stacks of threads.
const PROCESS_BYTES: u64 = 4 << 20;

/// The commands that read the recordings.
pub(crate) const COMMANDS: [&[&str]; 2] = [&["flame"], &["script"]];

/// The cost of a run.
#[derive(Clone, Copy)]
struct Cost {
    instructions: u64,
    bytes: u64,
}

/// Compares each shape, or those whose names contain all given words. Skipped without valgrind.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    run_commands(args, &COMMANDS)
}

/// As [`run`], by some commands only.
pub(crate) fn run_commands(args: &[String], commands: &[&[&str]]) -> anyhow::Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("skipped: valgrind, which counts instructions, is not installed");
        return Ok(());
    }
    let (prof, words) = match args {
        [flag, prof, words @ ..] if flag == "--prof" => (PathBuf::from(prof), words),
        // Ratios are those of any build.
        words => (workspace::tested(&workspace::root())?.join("prof"), words),
    };
    let folder = tempfile::tempdir().context("cannot make a folder for recordings")?;
    let is_wanted = |shape: &&Shape| words.iter().all(|word| shape.name.contains(word.as_str()));
    let jobs: Vec<(&Shape, &[&str])> = SHAPES
        .iter()
        .filter(is_wanted)
        .flat_map(|shape| commands.iter().map(move |&command| (shape, command)))
        .collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> anyhow::Result<()> {
        while let Some((shape, command)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !compare(&prof, shape, command, folder.path())? {
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    match failed.into_inner() {
        0 => Ok(()),
        failed => bail!("{failed} recordings take more than they should when they are four times as long"),
    }
}

/// Prints the ratios of a shape, and returns true if they are within the limits.
fn compare(prof: &Path, shape: &Shape, command: &[&str], folder: &Path) -> anyhow::Result<bool> {
    // The cost of starting and of one sample is subtracted.
    let start = cost(prof, shape, 1, command, folder)?;
    let once = cost(prof, shape, shape.number, command, folder)?;
    let four = cost(prof, shape, 4 * shape.number, command, folder)?;
    let above = |cost: Cost| cost.instructions.saturating_sub(start.instructions) as f64;
    let instructions = above(four) / above(once);
    let bytes = (four.bytes + PROCESS_BYTES) as f64 / (once.bytes + PROCESS_BYTES) as f64;
    let is_fine = instructions <= MAX_INSTRUCTION_RATIO && bytes <= MAX_MEMORY_RATIO;
    println!(
        "{:<52} {:<6} {instructions:>5.2} × {:>6.1} M instructions, {bytes:>5.2} × {:>6.2} MB{}",
        shape.name,
        command.join(" "),
        above(once) / 1e6,
        once.bytes as f64 / 1e6,
        if is_fine { "" } else { "   TOO MUCH" }
    );
    Ok(is_fine)
}

fn cost(prof: &Path, shape: &Shape, number: u64, command: &[&str], folder: &Path) -> anyhow::Result<Cost> {
    let stem = format!("{}-{}-{number}", shape.name.replace(' ', "-"), command.join("-"));
    let recording = folder.join(format!("{stem}.data"));
    let counts = folder.join(format!("{stem}.json"));
    let mut records = Vec::new();
    (shape.records)(number, &mut records);
    let mut file = BufWriter::new(File::create(&recording)?);
    shapes::write(&records, &mut file)?;
    drop(file.into_inner().context("cannot write a recording")?);
    let output = Command::new("valgrind")
        .args(["--tool=dhat", &format!("--dhat-out-file={}", counts.display())])
        .arg(prof)
        .args(command)
        .arg("-i")
        .arg(&recording)
        // All work must happen in the process that valgrind watches, which must be able to write the counts.
        .env("PROF_UNCONFINED", "1")
        .stdout(std::process::Stdio::null())
        .output()
        .context("cannot run valgrind")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("prof {} of {}: {stderr}", command.join(" "), shape.name);
    }
    let cost = parse(&std::fs::read_to_string(&counts)?, &stderr);
    std::fs::remove_file(&recording)?;
    std::fs::remove_file(&counts)?;
    cost.with_context(|| format!("cannot understand what dhat says: {stderr}"))
}

/// Parses the number of instructions (the time at the end in dhat's file) and the peak of allocated bytes (printed). Fewer than a
/// million instructions mean that something else was counted.
fn parse(counts: &str, stderr: &str) -> Option<Cost> {
    let line = counts.lines().find_map(|line| line.strip_prefix(",\"te\":"))?;
    let peak = stderr.lines().find_map(|line| line.split_once("At t-gmax:"))?.1;
    let instructions = line.trim().parse().ok().filter(|&instructions| instructions > 1_000_000)?;
    let bytes = peak.trim().split(' ').next()?.replace(',', "");
    Some(Cost { instructions, bytes: bytes.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_dhat_writes_them() {
        let stderr =
            "==1== Total:     9,000,000 bytes in 5 blocks\n==1== At t-gmax: 1,234,567 bytes in 3 blocks\n";
        let cost =
            parse("{\"dhatFileVersion\":2\n,\"pid\":1\n,\"te\":172797132\n,\"tg\":5\n", stderr).unwrap();
        assert_eq!((cost.instructions, cost.bytes), (172_797_132, 1_234_567));
        assert!(parse("", stderr).is_none());
    }
}
