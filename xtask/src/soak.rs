//! `cargo xtask soak [MINUTES]`: `prof top` in a terminal of its own, under processes that come and go by the thousand.
//! Its memory must stay flat, and it must give the terminal back.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use crate::terminal::InTerminal;

/// How often memory is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// What an allocator may keep for itself, in kB.
const SLACK: u64 = 16 << 10;
/// What leaves the alternate screen and shows the cursor again.
const RESTORED: [&[u8]; 2] = [b"\x1b[?1049l", b"\x1b[?25h"];

pub(super) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let minutes: f64 =
        arguments.first().map_or(Ok(30.0), |text| text.parse()).context("MINUTES is a number")?;
    let status = Command::new("cargo").args(["build", "--release", "-p", "prof-cli"]).status()?;
    ensure!(status.success(), "prof does not build");

    let over = Arc::new(AtomicBool::new(false));
    let forks = Arc::new(AtomicU64::new(0));
    let storm: Vec<_> = (0..4).map(|_| storm(&over, &forks)).collect();
    let result = watch(Duration::from_secs_f64(minutes * 60.0));
    over.store(true, Ordering::Relaxed);
    for thread in storm {
        let _ = thread.join();
    }
    println!("{} processes came and went", forks.load(Ordering::Relaxed));
    result
}

/// Starts processes as fast as one thread can.
fn storm(over: &Arc<AtomicBool>, forks: &Arc<AtomicU64>) -> thread::JoinHandle<()> {
    let (over, forks) = (Arc::clone(over), Arc::clone(forks));
    thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            if Command::new("/bin/true").status().is_ok() {
                forks.fetch_add(1, Ordering::Relaxed);
            }
        }
    })
}

fn watch(duration: Duration) -> anyhow::Result<()> {
    let prof = PathBuf::from("target/release/prof").canonicalize()?;
    let top = InTerminal::start(&format!("{} top", prof.display()))?;
    let mut sizes = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < duration {
        thread::sleep(LOOK);
        let size = top.resident().context("prof top has ended by itself")?;
        println!("{:>6.0} s {:>8} kB", begin.elapsed().as_secs_f64(), size);
        sizes.push(size);
    }
    let (status, tail) = top.leave(b"q")?;
    ensure!(status.success(), "prof top ended with {status}");
    for sequence in RESTORED {
        let found = tail.windows(sequence.len()).any(|window| window == sequence);
        ensure!(found, "the terminal was not given back: {sequence:?} is missing");
    }
    // The first third is for warming up.
    let third = sizes.len() / 3;
    let most = |sizes: &[u64]| sizes.iter().copied().max().unwrap_or(0);
    let (middle, last) = (most(&sizes[third..2 * third]), most(&sizes[2 * third..]));
    println!("at most {middle} kB in the second third, {last} kB in the last");
    ensure!(last <= middle + middle / 10 + SLACK, "memory grows");
    Ok(())
}
