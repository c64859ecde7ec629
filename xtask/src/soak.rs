//! `cargo xtask soak [MINUTES [RATE]]`: runs `prof top` in a terminal while thousands of short processes run: RATE per second, or as
//! many as the machine can start. Its memory must not grow, and it must restore the terminal.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::terminal::InTerminal;

/// Interval between measurements of memory.
const MEASURE_INTERVAL: Duration = Duration::from_secs(5);
/// Growth that the allocator may cause, in kB.
const SLACK_KB: u64 = 16 << 10;
/// Number of threads that start processes.
const STORM_THREADS: u32 = 4;
/// The escape sequences that leave the alternate screen and show the cursor.
const RESTORED: [&[u8]; 2] = [b"\x1b[?1049l", b"\x1b[?25h"];

pub(super) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let minutes: f64 =
        arguments.first().map_or(Ok(30.0), |text| text.parse()).context("MINUTES is a number")?;
    let rate: Option<f64> =
        arguments.get(1).map(|text| text.parse()).transpose().context("RATE is a number")?;
    let pause =
        rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(f64::from(STORM_THREADS) / rate.max(1.0)));
    let status = Command::new("cargo").args(["build", "--release", "-p", "prof-cli"]).status()?;
    ensure!(status.success(), "prof does not build");

    let over = Arc::new(AtomicBool::new(false));
    let forks = Arc::new(AtomicU64::new(0));
    let storm: Vec<_> = (0..STORM_THREADS).map(|_| storm(pause, &over, &forks)).collect();
    let result = watch(Duration::from_secs_f64(minutes * 60.0));
    over.store(true, Ordering::Relaxed);
    for thread in storm {
        let _ = thread.join();
    }
    println!("{} processes came and went", forks.load(Ordering::Relaxed));
    result
}

/// Starts a thread that starts processes, one per `pause`.
fn storm(pause: Duration, over: &Arc<AtomicBool>, forks: &Arc<AtomicU64>) -> thread::JoinHandle<()> {
    let (over, forks) = (Arc::clone(over), Arc::clone(forks));
    thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            if Command::new("/bin/true").status().is_ok() {
                forks.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(pause);
        }
    })
}

fn watch(duration: Duration) -> anyhow::Result<()> {
    // A copy, which the next build does not replace.
    let prof = Path::new("target/release/prof.soak");
    std::fs::copy("target/release/prof", prof)?;
    let prof = prof.canonicalize()?;
    let top = InTerminal::start(&format!("{} top", prof.display()))?;
    let mut sizes = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < duration {
        thread::sleep(MEASURE_INTERVAL);
        let size = top.anonymous().zip(top.resident());
        let (anonymous, resident) = size.context("prof top has ended by itself")?;
        let seconds = begin.elapsed().as_secs_f64();
        println!("{seconds:>6.0} s {anonymous:>8} kB, with pages of files {resident:>8} kB");
        sizes.push(anonymous);
    }
    let (status, tail) = top.leave(b"q")?;
    ensure!(status.success(), "prof top ended with {status}");
    for sequence in RESTORED {
        let found = tail.windows(sequence.len()).any(|window| window == sequence);
        ensure!(found, "the terminal was not restored: {sequence:?} is missing");
    }
    // The first third is the warm-up.
    let third = sizes.len() / 3;
    let most = |sizes: &[u64]| sizes.iter().copied().max().unwrap_or(0);
    let [first, middle, last] =
        [0..third, third..2 * third, 2 * third..sizes.len()].map(|part| most(&sizes[part]));
    println!("at most {first} kB in the first third, {middle} kB in the second, {last} kB in the last");
    ensure!(last <= middle + middle / 10 + SLACK_KB, "memory grows");
    Ok(())
}
