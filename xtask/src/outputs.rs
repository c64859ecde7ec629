//! `cargo xtask outputs PROF OUT [DIR…]`: writes all that a binary says of every recording below folders, to compare two binaries
//! byte for byte with `diff -r`.
//!
//! A file holds what one command printed: standard output, standard error, exit status. Texts that name the binary's path or the
//! time at which it ran would differ; there are none.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, bail};

use crate::{corpus, workspace};

/// The commands, each with the name of its file.
const COMMANDS: &[(&str, &[&str])] = &[
    ("script", &["script"]),
    ("flame.svg", &["flame", "-o", "-"]),
    ("flame.folded", &["flame", "--folded", "-o", "-"]),
    ("report", &["report"]),
    ("report.tree", &["report", "--tree"]),
    ("report.json", &["report", "--json"]),
    ("explain", &["explain"]),
    ("explain.json", &["explain", "--json"]),
    ("view.html", &["view", "-o", "-"]),
    ("folded", &["export", "--format", "folded"]),
    ("pprof", &["export", "--format", "pprof"]),
    ("speedscope", &["export", "--format", "speedscope"]),
    ("firefox", &["export", "--format", "firefox"]),
    ("perfetto", &["export", "--format", "perfetto"]),
    ("json", &["export", "--format", "json"]),
    ("otlp", &["export", "--format", "otlp"]),
];

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let [prof, out, folders @ ..] = args else { bail!("usage: cargo xtask outputs PROF OUT [DIR…]") };
    let folders = match folders {
        [] => vec![workspace::root().join("../shared/corpus")],
        folders => folders.iter().map(PathBuf::from).collect(),
    };
    let mut jobs = Vec::new();
    for folder in &folders {
        for file in corpus::recordings(folder)? {
            let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string().replace('/', "_");
            jobs.push((Path::new(out).join(name), file));
        }
    }
    let prof = fs::canonicalize(prof).with_context(|| prof.clone())?;
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((out, file)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            write_all(&prof, file, out)?;
        }
        anyhow::Ok(())
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a thread failed"))?)
    })?;
    println!("{} recordings, {} commands each", jobs.len(), COMMANDS.len());
    Ok(())
}

/// Writes what every command prints about a recording into a folder.
fn write_all(prof: &Path, recording: &Path, out: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    for (name, args) in COMMANDS {
        let file = |suffix: &str| {
            let path = out.join(format!("{name}{suffix}"));
            File::create(&path).with_context(|| path.display().to_string())
        };
        let mut command = Command::new(prof);
        command.args(*args).arg("-i").arg(recording).current_dir(out);
        command.stdin(Stdio::null()).stdout(file("")?).stderr(file(".stderr")?);
        let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
        fs::write(out.join(format!("{name}.status")), status.to_string())?;
    }
    Ok(())
}
