//! Mutated recordings through the program as users run it: `prof script` and `prof flame`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use nix::sys::resource::{UsageWho, getrusage};

use crate::mutator::{Rng, mutate};
use crate::run::{Figures, MEMORY, PATIENCE, keep};

/// A command that computes nothing and does not end, either, hangs.
const DEADLOCK: Duration = Duration::from_secs(60);

/// What is typed, but for the input.
const COMMANDS: [&[&str]; 2] = [&["script", "-i"], &["flame", "--folded", "-i"]];

/// How to run the program.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program.
    pub prof: PathBuf,
    /// How many recordings it is given.
    pub count: u64,
    /// The first number of the sequence: the same number gives the same recordings.
    pub seed: u64,
    /// Sound recordings.
    pub corpus: Vec<Vec<u8>>,
    /// Where recordings go that something went wrong with.
    pub findings: PathBuf,
}

/// Gives both commands mutated recordings. Goes on after a finding: a program that ended harms nothing.
///
/// # Errors
/// Where the program cannot be run; at the end, with the number of findings, where there were any.
pub fn run(options: &Options) -> anyhow::Result<Figures> {
    let is_recording = |bytes: &&Vec<u8>| bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP");
    let corpus: Vec<&[u8]> = options.corpus.iter().filter(is_recording).map(Vec::as_slice).collect();
    if corpus.is_empty() {
        bail!("there are no recordings to mutate: name a folder with --corpus");
    }
    let mut rng = Rng::new(options.seed);
    let folder = options.findings.join("commands");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let process = std::process::id();
    let (input, stderr) = (folder.join(format!("input-{process}")), folder.join(format!("stderr-{process}")));
    let mut figures = Figures { inputs: 0, longest: Duration::ZERO, memory: 0 };
    let mut findings = 0;
    while figures.inputs < options.count {
        let mut pick = || corpus.get(rng.below(corpus.len())).copied().unwrap_or_default();
        let (seed, other) = (pick(), pick());
        let bytes = mutate(seed, other, &mut rng);
        std::fs::write(&input, &bytes).with_context(|| format!("cannot write {}", input.display()))?;
        for command in COMMANDS {
            let ran = run_once(&options.prof, command, &input, &stderr)?;
            figures.longest = figures.longest.max(ran.time);
            if let Some(what) = ran.what_is_wrong(&mut figures.memory) {
                let path = keep(&options.findings, "commands", what, &bytes)?;
                println!("{what}: prof {} {}", command.join(" "), path.display());
                findings += 1;
            }
        }
        figures.inputs += 1;
    }
    for scratch in [input, stderr] {
        std::fs::remove_file(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    }
    match findings {
        0 => Ok(figures),
        _ => bail!("{findings} findings in {} recordings, in {}", figures.inputs, folder.display()),
    }
}

/// How a command ended.
struct Ran {
    status: Option<ExitStatus>,
    /// Of the processor: others want it, too.
    time: Duration,
    /// The most that any command so far took, in kB.
    memory: u64,
    panicked: bool,
}

impl Ran {
    fn what_is_wrong(&self, most_memory: &mut u64) -> Option<&'static str> {
        let grown = self.memory > (*most_memory).max(MEMORY);
        *most_memory = self.memory;
        match self.status {
            None => Some("hang"),
            _ if self.time > PATIENCE => Some("slow"),
            // What a signal ended has no code.
            Some(status) if status.code().is_none() => Some("abort"),
            _ if self.panicked => Some("panic"),
            _ if grown => Some("memory"),
            _ => None,
        }
    }
}

fn run_once(prof: &Path, command: &[&str], input: &Path, stderr: &Path) -> anyhow::Result<Ran> {
    let messages = File::create(stderr).with_context(|| format!("cannot create {}", stderr.display()))?;
    let before = processor_time()?;
    let mut child = Command::new(prof)
        .args(command)
        .arg(input)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(messages)
        .spawn()
        .with_context(|| format!("cannot run {}", prof.display()))?;
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if start.elapsed() > DEADLOCK {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let time = processor_time()?.saturating_sub(before);
    let memory = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    let said = std::fs::read(stderr).with_context(|| format!("cannot read {}", stderr.display()))?;
    let panicked = String::from_utf8_lossy(&said).contains("panicked at");
    Ok(Ran { status, time, memory: u64::try_from(memory).unwrap_or(0), panicked })
}

/// What all commands so far took together.
fn processor_time() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = |time: nix::sys::time::TimeVal| {
        let (seconds, rest) = (time.tv_sec(), time.tv_usec());
        Duration::from_secs(seconds.unsigned_abs()) + Duration::from_micros(rest.unsigned_abs())
    };
    Ok(micros(usage.user_time()) + micros(usage.system_time()))
}
