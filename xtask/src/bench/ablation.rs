//! `cargo xtask ablation [--runs N] [--busy] [PROGRAM…]`: measures what each source of stack frames, and each saving, brings.
//!
//! Records every program with all mechanisms, and then without each of them. `--busy` keeps all CPUs busy meanwhile. Of two
//! mechanisms that do the same, each looks useless while the other is there: measure again after removing one for good.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::measure::median;
use super::programs::{self, INSTALLED};
use super::tools::{self, Tools};
use crate::{fixtures, workspace};

/// The mechanisms, by their names for `prof record --without` (`stacks::Mechanisms`).
const MECHANISMS: &[&str] =
    &["kernel-walk", "live-memory", "without-tables", "fresh-maps", "in-ring", "pace"];

/// The sampling rate in Hz, and the number of samples that a recording should have.
const SAMPLES_PER_CPU_SECOND: f64 = 4_999.0;
const WANTED_SAMPLES: f64 = 25_000.0;

/// The interval at which the peak of prof's memory is read.
const PEAK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The figures of one recording.
#[derive(Clone, Copy)]
struct Figures {
    samples: f64,
    lost: f64,
    /// Complete stacks, per cent.
    complete: f64,
    /// CPU time of the recorder, seconds.
    own: f64,
    /// CPU time of the command, seconds.
    command: f64,
    /// Peak resident set of the recorder, kB.
    peak: f64,
}

/// Runs the command with these arguments, and prints the table.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let (mut runs, mut busy, mut chosen) = (1, false, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--runs" => runs = args.next().context("--runs takes a number")?.parse().context("--runs")?,
            "--busy" => busy = true,
            name => chosen.push(name),
        }
    }
    let tools = prepare()?;
    let programs = programs(&tools)?;
    if let Some(unknown) = chosen.iter().find(|name| programs.iter().all(|(known, _)| known != *name)) {
        let known: Vec<&str> = programs.iter().map(|(name, _)| name.as_str()).collect();
        bail!("no program is called {unknown}; there are {}", known.join(", "));
    }
    let _load = if busy { keep_cpus_busy()? } else { Vec::new() };
    println!("`cargo xtask ablation` on {}\n", tools::machine());
    println!(
        "| program | without | samples | lost | complete | own CPU per sample | the program's CPU | peak |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (name, command) in
        programs.iter().filter(|(name, _)| chosen.is_empty() || chosen.contains(&name.as_str()))
    {
        let rounds = rounds_for(&tools, command)?;
        let mut all: Vec<Vec<Figures>> = vec![Vec::new(); MECHANISMS.len() + 1];
        for _ in 0..runs {
            all[0].push(record(&tools, None, rounds, command)?);
            for (mechanism, figures) in MECHANISMS.iter().zip(&mut all[1..]) {
                figures.push(record(&tools, Some(mechanism), rounds, command)?);
            }
        }
        let of_all = medians(&all[0]).context("no runs")?;
        print_row(name, "–", &of_all, &of_all);
        for (mechanism, figures) in MECHANISMS.iter().zip(&all[1..]) {
            print_row(name, mechanism, &medians(figures).context("no runs")?, &of_all);
        }
    }
    Ok(())
}

/// Builds `prof` with the feature that lets it leave mechanisms out, in a target folder of its own: other release builds lack it.
fn prepare() -> anyhow::Result<Tools> {
    let root = workspace::root();
    let target = root.join("target/ablation");
    workspace::run(
        Command::new("cargo")
            .args(["build", "--quiet", "--release", "--package", "prof-cli", "--features", "ablation"])
            .arg("--target-dir")
            .arg(&target)
            .current_dir(&root),
    )?;
    let scratch = root.join("target/bench");
    std::fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    Ok(Tools { prof: target.join("release/prof"), inferno: PathBuf::new(), scratch })
}

/// Returns the programs to record: installed ones, and fixtures that need a certain mechanism.
fn programs(tools: &Tools) -> anyhow::Result<Vec<(String, Vec<OsString>)>> {
    let mut programs = Vec::new();
    for (name, args) in INSTALLED {
        match programs::command(tools, name, args)? {
            Some(command) => programs.push(((*name).to_owned(), command)),
            None => eprintln!("skipped: {name} is not installed"),
        }
    }
    let built = |name: &str, build: &str, flags: &[&str], args: &[&str]| {
        let program = fixtures::program_by("gcc", name, build, flags)?;
        let words = std::iter::once(program.into_os_string()).chain(args.iter().map(OsString::from));
        Ok::<Vec<OsString>, anyhow::Error>(words.collect())
    };
    let optimized = ["-O2", "-fomit-frame-pointer", "-pthread"];
    let plain = ["-O0", "-pthread"];
    programs.push(("-O0".to_owned(), built("paths", "O0", &plain, &["2", "1000"])?));
    programs.push(("deep".to_owned(), built("deep", "nofp", &optimized, &["3000", "1000"])?));
    programs.push(("threads".to_owned(), built("workers", "nofp", &optimized, &["1000", "2"])?));
    programs.push(("moved".to_owned(), built("moved", "nofp", &optimized, &["1000"])?));
    let script = "for i in $(seq 400); do /bin/true; /bin/date > /dev/null; done";
    programs.push(("short".to_owned(), ["bash", "-c", script].map(OsString::from).to_vec()));
    let go = tools.scratch.join("ablation-go");
    let source = fixtures::source("garbage").with_extension("go");
    match Command::new("go").args(["build", "-o"]).args([&go, &source]).output() {
        Ok(output) if output.status.success() => {
            programs.push(("go".to_owned(), vec![go.into(), "1000".into()]))
        }
        _ => eprintln!("skipped: go is not installed"),
    }
    let java = fixtures::source("Shares").with_extension("java");
    match Command::new("java").arg("-version").stderr(Stdio::null()).status() {
        Ok(status) if status.success() => {
            programs.push(("java".to_owned(), vec!["java".into(), java.into(), "1000".into()]));
        }
        _ => eprintln!("skipped: java is not installed"),
    }
    Ok(programs)
}

/// Returns how often a command has to run to get [`WANTED_SAMPLES`].
fn rounds_for(tools: &Tools, command: &[OsString]) -> anyhow::Result<usize> {
    let once = record(tools, None, 1, command)?;
    Ok((WANTED_SAMPLES / once.samples.max(1.0)).ceil().clamp(1.0, 100.0) as usize)
}

fn record(
    tools: &Tools,
    without: Option<&str>,
    rounds: usize,
    command: &[OsString],
) -> anyhow::Result<Figures> {
    let script = format!("for round in $(seq {rounds}); do \"$@\"; done");
    let errors = tools.scratch.join("ablation.stderr");
    let mut prof = Command::new(&tools.prof);
    prof.args(["record", "-v", "-e", "cpu-clock", "-F", &format!("{SAMPLES_PER_CPU_SECOND}"), "-o"]);
    prof.arg(tools.scratch.join("ablation.data"));
    prof.args(without.iter().flat_map(|without| ["--without", without]));
    prof.args(["--", "sh", "-c", &script, "sh"]).args(command);
    prof.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&errors)?);
    let peak = wait_for_peak(&mut prof.spawn()?)?;
    let output = std::fs::read_to_string(&errors)?;
    parse_figures(&output, peak).with_context(|| format!("prof record output:\n{output}"))
}

/// Waits for the end of a process, and returns the peak of its resident set, in kB.
fn wait_for_peak(child: &mut Child) -> anyhow::Result<f64> {
    let status = Path::new("/proc").join(child.id().to_string()).join("status");
    let mut peak = 0.0;
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        peak = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(peak);
        std::thread::sleep(PEAK_POLL_INTERVAL);
        if start.elapsed() > Duration::from_secs(300) {
            child.kill()?;
        }
    }
    Ok(peak)
}

/// Parses the figures from the last lines of `prof record -v`.
fn parse_figures(output: &str, peak: f64) -> Option<Figures> {
    let number = |before: &str, after: &str| {
        let line = output.lines().find(|line| line.contains(after))?;
        let text = line.split(after).next()?;
        let text = if before.is_empty() { text } else { text.rsplit(before).next()? };
        text.trim().replace(',', "").parse::<f64>().ok()
    };
    Some(Figures {
        samples: number("prof: ", " samples (")?,
        lost: number(", ", " lost").or_else(|| number("s), ", " lost"))?,
        complete: number("stacks ", " % complete")?,
        own: number("own CPU time ", " ms, ")? / 1000.0,
        command: output.rsplit("of the command's ").next()?.split(' ').next()?.parse().ok()?,
        peak,
    })
}

fn medians(figures: &[Figures]) -> Option<Figures> {
    let of = |field: fn(&Figures) -> f64| median(figures.iter().map(field).collect());
    Some(Figures {
        samples: of(|figures| figures.samples)?,
        lost: of(|figures| figures.lost)?,
        complete: of(|figures| figures.complete)?,
        own: of(|figures| figures.own)?,
        command: of(|figures| figures.command)?,
        peak: of(|figures| figures.peak)?,
    })
}

fn print_row(program: &str, without: &str, figures: &Figures, all: &Figures) {
    let per_sample = |figures: &Figures| 1e6 * figures.own / figures.samples.max(1.0);
    let change = |now: f64, before: f64| match before {
        0.0 => String::new(),
        _ => format!(" ({:+.0} %)", 100.0 * (now / before - 1.0)),
    };
    println!(
        "| {program} | {without} | {:.0} | {:.0} | {:.1} % ({:+.1}) | {:.1} µs{} | {:.1} s{} | {:.0} MB |",
        figures.samples,
        figures.lost,
        figures.complete,
        figures.complete - all.complete,
        per_sample(figures),
        change(per_sample(figures), per_sample(all)),
        figures.command,
        change(figures.command, all.command),
        figures.peak / 1000.0,
    );
}

/// Starts a process per CPU that keeps it busy until the returned value is dropped.
fn keep_cpus_busy() -> anyhow::Result<Vec<BusyLoop>> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    (0..cpus).map(|_| Ok(BusyLoop(Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?))).collect()
}

struct BusyLoop(Child);

impl Drop for BusyLoop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
