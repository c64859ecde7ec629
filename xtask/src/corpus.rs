//! `cargo xtask corpus [DIR]`: compares how `prof` and perf read every recording in a folder.
//!
//! Prints one line per difference: in the number of records of each type (`perf report --stats`), or in the samples of `perf script`
//! (order, thread, time, period, event). A file that perf cannot read gets a line that says how `prof` reads or refuses it. Names are
//! not compared, because they depend on the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::{records, workspace};

/// Time limit for a command, which otherwise counts as hanging.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let root = workspace::root();
    let folder = match args {
        [] => root.join("../shared/corpus"),
        [folder] => PathBuf::from(folder),
        _ => bail!("usage: cargo xtask corpus [DIR]"),
    };
    let files = recordings(&folder)?;
    let arguments = ["build", "--quiet", "--package", "prof-cli"];
    workspace::run(Command::new("cargo").args(arguments).current_dir(&root))?;
    let corpus = Corpus {
        prof: root.join("target/debug/prof"),
        // perf would name things from its cache: this folder stays empty.
        cache: root.join("target/corpus/no-cache"),
    };
    let mut tally = Tally::default();
    for file in &files {
        let name = file.strip_prefix(&folder).unwrap_or(file).display().to_string();
        corpus.compare(file, &mut |text| println!("{name}: {text}"), &mut tally)?;
    }
    let Tally { equal, different, alone, refused, failed } = tally;
    println!(
        "{} recordings: {equal} equal to perf's reading, {different} different, {alone} that only prof reads, \
         {refused} refused by both, {failed} that only perf reads",
        files.len()
    );
    if different + failed > 0 {
        bail!("{} recordings are read otherwise than by perf", different + failed);
    }
    Ok(())
}

/// Lists the recordings below a folder, of which there must be some.
pub(crate) fn recordings(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    find(folder, &mut files)?;
    files.sort();
    if files.is_empty() {
        bail!("there is no recording below {}", folder.display());
    }
    Ok(files)
}

/// Finds recordings: files with the magic, and folders of `perf record --threads`.
fn find(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.join("data").is_file() && is_recording(&path.join("data")) {
            files.push(path);
        } else if path.is_dir() {
            find(&path, files)?;
        } else if is_recording(&path) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_recording(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && (&magic == b"PERFILE2" || &magic == b"2ELIFREP")
}

#[derive(Default)]
struct Tally {
    equal: usize,
    different: usize,
    alone: usize,
    refused: usize,
    failed: usize,
}

struct Corpus {
    prof: PathBuf,
    cache: PathBuf,
}

/// The fields of samples that are compared.
const FIELDS: &str = "comm,tid,time,period,event";

impl Corpus {
    fn compare(&self, file: &Path, say: &mut dyn FnMut(&str), tally: &mut Tally) -> anyhow::Result<()> {
        let ours = self.ours(file, &["-F", "comm,tid,event"])?;
        let theirs = self.perf(file, &["script", "-f", "--max-stack", "65535", "-F", "comm,tid,event"])?;
        let by_perf = theirs.status.success();
        match (ours.status.success(), by_perf) {
            (false, false) => {
                tally.refused += 1;
                say(&format!("refused by both: {}", reason(&ours)));
            }
            (false, true) => {
                tally.failed += 1;
                say(&format!("only perf reads it: {}", reason(&ours)));
            }
            (true, false) => {
                tally.alone += 1;
                let samples = lines(&ours).len();
                say(&format!("only prof reads it, {samples} samples; perf: {}", reason(&theirs)));
                if !ours.stderr.is_empty() {
                    say(&reason(&ours));
                }
            }
            (true, true) => {
                let mut differences = self.samples(file, &ours, &theirs)?;
                differences.extend(self.records(file)?);
                match differences.is_empty() {
                    true => tally.equal += 1,
                    false => tally.different += 1,
                }
                differences.iter().for_each(|difference| say(difference));
            }
        }
        Ok(())
    }

    /// Compares samples by comm, thread and event, and by time and period if the recording has them.
    fn samples(&self, file: &Path, ours: &Output, theirs: &Output) -> anyhow::Result<Vec<String>> {
        let mut differences: Vec<String> =
            first_difference(&lines(ours), &lines(theirs)).into_iter().collect();
        let ours = self.ours(file, &["-F", FIELDS])?;
        let theirs = self.perf(file, &["script", "-f", "--max-stack", "65535", "-F", FIELDS])?;
        if ours.status.success() && theirs.status.success() && differences.is_empty() {
            differences.extend(first_difference(&lines(&ours), &lines(&theirs)));
        }
        Ok(differences)
    }

    /// Compares the number of records by type with those of `perf report --stats`.
    fn records(&self, file: &Path) -> anyhow::Result<Vec<String>> {
        let stats = self.perf(file, &["report", "-f", "--stats"])?;
        let mut ours: BTreeMap<&str, u64> = BTreeMap::new();
        let counted = records::each(file, |entry, _, _| {
            *ours.entry(records::name(entry).unwrap_or_default()).or_default() += 1;
            Ok(())
        });
        if !stats.status.success() || counted.is_err() {
            return Ok(Vec::new());
        }
        let theirs = counts_of_stats(&String::from_utf8_lossy(&stats.stdout));
        let different = theirs.iter().filter(|(kind, count)| ours.get(kind.as_str()).unwrap_or(&0) != *count);
        Ok(different
            .map(|(kind, count)| {
                format!("{kind}: {} records, perf counts {count}", ours.get(kind.as_str()).unwrap_or(&0))
            })
            .collect())
    }

    fn ours(&self, file: &Path, args: &[&str]) -> anyhow::Result<Output> {
        run_with_timeout(Command::new(&self.prof).arg("script").args(args).arg("-i").arg(file))
    }

    fn perf(&self, file: &Path, args: &[&str]) -> anyhow::Result<Output> {
        let mut perf = Command::new("perf");
        run_with_timeout(perf.arg("--buildid-dir").arg(&self.cache).args(args).arg("-i").arg(file))
            .context("perf is needed (Debian: linux-perf)")
    }
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    // perf pads names to columns. From a pipe it also prints call chains.
    text.lines()
        .filter(|line| !line.starts_with('\t'))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|line| !line.is_empty())
        .collect()
}

fn first_difference(ours: &[String], theirs: &[String]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("{} samples, perf prints {}", ours.len(), theirs.len()));
    }
    let (index, (ours, theirs)) =
        ours.iter().zip(theirs).enumerate().find(|(_, (ours, theirs))| ours != theirs)?;
    Some(format!("sample {index} is `{ours}`, perf prints `{theirs}`"))
}

/// `          SAMPLE events:       2090  (72.4%)`, totals first, then the same for each event.
fn counts_of_stats(text: &str) -> BTreeMap<String, u64> {
    let totals = text.trim_start().lines().skip(1).take_while(|line| line.contains(" events:"));
    let count = |line: &str| {
        let (kind, count) = line.split_once(" events:")?;
        Some((kind.trim().to_owned(), count.split_whitespace().next()?.parse().ok()?))
    };
    totals.filter_map(count).filter(|(kind, _)| kind != "TOTAL").collect()
}

/// Returns the error message of a failed command on one line.
fn reason(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(3).collect();
    match said.is_empty() {
        true => output.status.to_string(),
        false => said.join("; "),
    }
}

/// Runs a command, and kills it at the time limit. Its output goes to files, because a full pipe would block it.
fn run_with_timeout(command: &mut Command) -> anyhow::Result<Output> {
    let folder = workspace::root().join("target/corpus");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let paths = [folder.join("stdout"), folder.join("stderr")];
    let file = |path: &Path| std::fs::File::create(path).with_context(|| path.display().to_string());
    command.stdin(Stdio::null()).stdout(file(&paths[0])?).stderr(file(&paths[1])?);
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > TIMEOUT {
            eprintln!("{command:?} hangs and is killed");
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let [stdout, stderr] = paths.map(std::fs::read);
    Ok(Output { status, stdout: stdout?, stderr: stderr? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting() {
        let stats = "\nAggregated stats:\n  TOTAL events:  5\n  SAMPLE events:  3  (60.0%)\n  COMM events:  2\ncycles stats:\n  SAMPLE events: 3\n";
        let counts = counts_of_stats(stats);
        assert_eq!(counts.get("SAMPLE"), Some(&3));
        assert_eq!(counts.len(), 2);
    }
}
