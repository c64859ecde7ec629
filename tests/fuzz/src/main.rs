//! `prof-fuzz TARGET… [--secs N] [--seed N] [--corpus DIR]…`, `prof-fuzz --list`, `prof-fuzz commands --prof PATH [--count N] …`: see
//! `cargo xtask fuzz`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use prof_fuzz::commands;
use prof_fuzz::run::{Figures, Options, run};
use prof_fuzz::{TARGETS, Target};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match fuzz(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn fuzz(args: &[String]) -> anyhow::Result<()> {
    let mut names = Vec::new();
    let (mut prof, mut count) = (None, 100_000);
    let mut options = Options {
        time: Duration::from_secs(60),
        seed: 1,
        corpus: Vec::new(),
        findings: PathBuf::from("target/fuzz"),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--secs" => options.time = Duration::from_secs(value()?.parse().context("--secs")?),
            "--seed" => options.seed = value()?.parse().context("--seed")?,
            "--prof" => prof = Some(PathBuf::from(value()?)),
            "--count" => count = value()?.parse().context("--count")?,
            "--list" => {
                TARGETS.iter().for_each(|target| println!("{}", target.name));
                return Ok(());
            }
            "--corpus" => collect(Path::new(value()?), &mut options.corpus)?,
            name => names.push(name),
        }
    }
    if names.is_empty() {
        let all: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        bail!("name targets, or all, or commands: {}", all.join(" "));
    }
    if names == ["commands"] {
        let Options { seed, corpus, findings, .. } = options;
        let prof = prof.context("--prof PATH says which program")?;
        report("commands", &commands::run(&commands::Options { prof, count, seed, corpus, findings })?);
        return Ok(());
    }
    let chosen: Vec<&Target> =
        TARGETS.iter().filter(|target| names.contains(&"all") || names.contains(&target.name)).collect();
    if let Some(unknown) =
        names.iter().find(|name| **name != "all" && !TARGETS.iter().any(|t| t.name == **name))
    {
        bail!("no target is called {unknown}");
    }
    for target in chosen {
        report(target.name, &run(target, &options).with_context(|| target.name)?);
    }
    Ok(())
}

fn report(name: &str, figures: &Figures) {
    let Figures { inputs, longest, memory } = figures;
    let (longest, memory) = (longest.as_secs_f64() * 1e3, memory / 1024);
    println!("{name:<14} {inputs:>9} inputs, longest {longest:>6.1} ms, memory {memory} MiB");
}

/// All files below 1 MB in `folder` and the folders in it.
fn collect(folder: &Path, corpus: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, corpus)?;
        } else if path.metadata().is_ok_and(|data| data.len() < 1 << 20) {
            corpus.push(std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
        }
    }
    Ok(())
}
