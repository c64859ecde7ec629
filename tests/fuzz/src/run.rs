//! Mutating for as long as asked, and keeping what went wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::mutator::{Rng, mutate};
use crate::targets::Target;

/// The longest that one input below 1 MB may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// The most memory that all inputs together may have taken, in kB.
pub(crate) const MEMORY: u64 = 1 << 20;
/// How many inputs lie between two looks at the memory.
const LOOK_EVERY: u64 = 16;

/// How to run a target.
#[derive(Clone, Debug)]
pub struct Options {
    /// For how long.
    pub time: Duration,
    /// The first number of the sequence: the same number gives the same inputs.
    pub seed: u64,
    /// More sound inputs.
    pub corpus: Vec<Vec<u8>>,
    /// Where inputs go that something went wrong with.
    pub findings: PathBuf,
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figures {
    /// How many inputs.
    pub inputs: u64,
    /// The longest that one took.
    pub longest: Duration,
    /// The most memory taken, in kB.
    pub memory: u64,
}

/// Runs `target` on mutated inputs.
///
/// # Errors
/// At the first panic, or input that took too long or too much memory: it lies in the folder of findings.
pub fn run(target: &Target, options: &Options) -> anyhow::Result<Figures> {
    let mut seeds = (target.seeds)();
    seeds.extend(options.corpus.iter().cloned());
    let mut rng = Rng::new(options.seed);
    let start = Instant::now();
    let current = Arc::new(Mutex::new((Instant::now(), Vec::new())));
    watch(target.name, Arc::downgrade(&current), options.findings.clone());
    let mut figures = Figures { inputs: 0, longest: Duration::ZERO, memory: 0 };
    while start.elapsed() < options.time {
        let seed = seeds.get(rng.below(seeds.len())).map_or(&[][..], Vec::as_slice);
        let other = seeds.get(rng.below(seeds.len())).map_or(&[][..], Vec::as_slice);
        let input = mutate(seed, other, &mut rng);
        let begun = Instant::now();
        if let Ok(mut current) = current.lock() {
            *current = (begun, input.clone());
        }
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
            bail!("panic; the input is {}", keep(&options.findings, target.name, "panic", &input)?.display());
        }
        figures.longest = figures.longest.max(begun.elapsed());
        figures.inputs += 1;
        if figures.inputs.is_multiple_of(LOOK_EVERY) {
            figures.memory = peak_memory();
            if figures.memory > MEMORY {
                let input = keep(&options.findings, target.name, "memory", &input)?;
                bail!(
                    "{} kB of memory; the input is {} or one shortly before",
                    figures.memory,
                    input.display()
                );
            }
        }
    }
    figures.memory = peak_memory();
    Ok(figures)
}

/// Ends the process when an input takes too long: a loop cannot be stopped from inside. Ends itself with the run.
///
/// What counts is the processor's time: the machine may have others to serve. What waits for something gets longer.
fn watch(name: &'static str, current: Weak<Mutex<(Instant, Vec<u8>)>>, findings: PathBuf) {
    std::thread::spawn(move || {
        // The input that was under way at the last look, and the time used when that was seen first.
        let mut seen = (Instant::now(), Duration::ZERO);
        loop {
            std::thread::sleep(Duration::from_millis(250));
            let Some(current) = current.upgrade() else { return };
            let Ok(current) = current.lock() else { return };
            let used = cpu_time();
            if current.0 != seen.0 {
                seen = (current.0, used);
            }
            let slow = used.saturating_sub(seen.1) > PATIENCE || current.0.elapsed() > 30 * PATIENCE;
            if slow && current.1.len() < 1 << 20 {
                match keep(&findings, name, "slow", &current.1) {
                    Ok(path) => eprintln!("more than {PATIENCE:?}; the input is {}", path.display()),
                    Err(error) => eprintln!("more than {PATIENCE:?}; {error:#}"),
                }
                std::process::exit(1);
            }
        }
    });
}

/// The processor's time that this process has used.
fn cpu_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let part = |time: TimeVal| Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or(0));
    part(usage.user_time()) + part(usage.system_time())
}

/// Writes an input into the folder of its target's findings.
pub(crate) fn keep(findings: &Path, name: &str, what: &str, input: &[u8]) -> anyhow::Result<PathBuf> {
    let folder = findings.join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let path = folder.join(format!("{what}-{hash:016x}.bin"));
    std::fs::write(&path, input).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The most memory that this process ever had resident, in kB (`VmHWM` of `/proc/self/status`); 0 where the system
/// does not say.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
