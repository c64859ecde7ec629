//! Samples lost, and CPU time per sample, with rings that are too small for the rate and on a flooded machine.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::measure::{last_stderr, measure, median};
use super::table::Table;
use super::tools::Tools;
use crate::{fixtures, workspace};

/// Two busy threads at 40,000 Hz, with rings of 8 KiB and with each tool's own default.
pub(super) fn loss(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let paths = fixtures::program("paths")?;
    let command = [paths.as_os_str(), "2".as_ref(), "2000".as_ref()].map(OsString::from);
    for (ring, flag) in [("rings of 8 KiB", Some("8K")), ("default rings", None)] {
        let (our_file, their_file) = (tools.scratch.join("loss.prof"), tools.scratch.join("loss.perf"));
        let mut ours = tools.prof([
            &"record",
            &"--call-graph",
            &"fp",
            &"-F",
            &"40000",
            &"-e",
            &"cpu-clock",
            &"-o",
            &our_file,
        ]);
        let mut theirs =
            ["perf", "record", "-g", "-F", "40000", "-e", "cpu-clock", "-o"].map(OsString::from).to_vec();
        theirs.push(their_file.clone().into_os_string());
        for side in [&mut ours, &mut theirs] {
            side.extend(flag.iter().flat_map(|size| ["-m".into(), OsString::from(size)]));
            side.push("--".into());
            side.extend_from_slice(&command);
        }
        let (mut our_shares, mut their_shares) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            measure(&tools.scratch, &ours)?;
            our_shares.push(our_share(&last_stderr(&tools.scratch))?);
            measure(&tools.scratch, &theirs)?;
            their_shares.push(their_share(&their_file)?);
        }
        let (our_share, their_share) =
            (median(our_shares).context("no runs")?, median(their_shares).context("no runs")?);
        table.row(
            format!("two busy threads at 40,000 Hz, {ring}: samples lost"),
            format!("{our_share:.2} %"),
            format!("{their_share:.2} %"),
            format!("{:+.2} points", our_share - their_share),
            "no more than perf",
        );
    }
    Ok(())
}

/// Kinds of `fixtures/programs/flood.c` with their arguments, the events to sample, and what it is called here.
const FLOODS: &[(&[&str], &[&str], &str)] = &[
    (&["mixed", "3000"], &["-e", "cpu-clock", "-F", "25000"], "-a at 25,000 Hz, mixed load"),
    (&["forks", "3000"], &["-e", "cpu-clock", "-F", "25000"], "-a at 25,000 Hz, fork storm"),
    (&["busy", "3000", "1000"], &["-e", "cpu-clock", "-F", "25000"], "-a at 25,000 Hz, 1,000 busy threads"),
    (&["faults", "3000"], &["-e", "page-faults", "-c", "1"], "every page fault, two flooders"),
    (&["switches", "3000"], &["-e", "sched:sched_switch", "-c", "1"], "every sched_switch, two flooders"),
];
/// How long each recorder runs, in seconds; the flood begins when it has settled.
const SECONDS: &str = "4";
const SETTLED: Duration = Duration::from_millis(500);

/// The whole machine while it is flooded, with the same rings for both, and with each tool's own default.
pub(super) fn floods(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let flood = fixtures::program("flood")?;
    for (kind, events, name) in FLOODS {
        for (ring, flag) in [("rings of 512 KiB", Some("512K")), ("default rings", None)] {
            let (our_file, their_file) = (tools.scratch.join("flood.prof"), tools.scratch.join("flood.perf"));
            let mut ours =
                tools.prof([&"record", &"-a", &"--call-graph", &"fp", &"-d", &SECONDS, &"-o", &our_file]);
            let mut theirs = ["perf", "record", "-a", "-g", "-B", "-N", "-o"].map(OsString::from).to_vec();
            theirs.push(their_file.clone().into_os_string());
            for side in [&mut ours, &mut theirs] {
                side.extend(flag.iter().flat_map(|size| ["-m".into(), OsString::from(size)]));
                side.extend(events.iter().map(OsString::from));
            }
            theirs.extend(["--", "sleep", SECONDS].map(OsString::from));
            let (mut our_runs, mut their_runs) = (Vec::new(), Vec::new());
            for _ in 0..runs {
                let cost = flooded(tools, &ours, &flood, kind)?;
                our_runs.push((our_counts(&last_stderr(&tools.scratch))?, cost));
                let cost = flooded(tools, &theirs, &flood, kind)?;
                their_runs.push((their_counts(&their_file)?, cost));
            }
            let lost = |runs: &[((f64, f64), Duration)]| {
                median(
                    runs.iter()
                        .map(|((samples, lost), _)| 100.0 * lost / (samples + lost).max(1.0))
                        .collect(),
                )
            };
            let cost = |runs: &[((f64, f64), Duration)]| {
                median(
                    runs.iter()
                        .map(|((samples, _), cpu)| 1e6 * cpu.as_secs_f64() / samples.max(1.0))
                        .collect(),
                )
            };
            let (our_lost, their_lost) =
                (lost(&our_runs).context("no runs")?, lost(&their_runs).context("no runs")?);
            table.row(
                format!("{name}, {ring}: samples lost"),
                format!("{our_lost:.2} %"),
                format!("{their_lost:.2} %"),
                format!("{:+.2} points", our_lost - their_lost),
                "no more than perf",
            );
            let (our_cost, their_cost) =
                (cost(&our_runs).context("no runs")?, cost(&their_runs).context("no runs")?);
            table.row(
                format!("{name}, {ring}: CPU time per sample"),
                format!("{our_cost:.2} µs"),
                format!("{their_cost:.2} µs"),
                format!("{:.2} times perf's", our_cost / their_cost),
                "no more than perf's",
            );
        }
    }
    Ok(())
}

/// The CPU time of a recorder, under whose eyes the machine is flooded.
fn flooded(tools: &Tools, recorder: &[OsString], flood: &Path, kind: &[&str]) -> anyhow::Result<Duration> {
    std::thread::scope(|scope| {
        let measured = scope.spawn(|| measure(&tools.scratch, recorder));
        std::thread::sleep(SETTLED);
        let flood = Command::new(flood).args(kind).stdout(Stdio::null()).status();
        let cost = measured.join().map_err(|_| anyhow::anyhow!("the measurement panicked"))??;
        anyhow::ensure!(flood?.success(), "flood failed");
        Ok(cost.cpu)
    })
}

/// From our summary: `prof: 12,345 samples (…), 67 lost, …`.
fn our_share(stderr: &str) -> anyhow::Result<f64> {
    let (samples, lost) = our_counts(stderr)?;
    Ok(100.0 * lost / (samples + lost).max(1.0))
}

/// Samples that came, and that were lost.
pub(super) fn our_counts(stderr: &str) -> anyhow::Result<(f64, f64)> {
    let line = stderr.lines().find(|line| line.contains(" samples (")).context("prof printed no summary")?;
    let number = |text: &str| text.replace(',', "").parse::<f64>();
    let words: Vec<&str> = line.split_whitespace().collect();
    let before = |word: &str| {
        words
            .windows(2)
            .find(|pair| pair[1].trim_end_matches(',') == word)
            .and_then(|pair| number(pair[0]).ok())
            .with_context(|| format!("no figure of {word} in {line:?}"))
    };
    Ok((before("samples")?, before("lost")?))
}

/// From the records of perf's file. The LOST_SAMPLES that perf writes at the end holds the true sum and replaces the
/// LOST records that the rings had room for.
fn their_share(file: &Path) -> anyhow::Result<f64> {
    let (samples, lost) = their_counts(file)?;
    Ok(100.0 * lost / f64::max(samples + lost, 1.0))
}

/// Samples that came, and that were lost.
fn their_counts(file: &Path) -> anyhow::Result<(f64, f64)> {
    let dump = workspace::output(
        Command::new("sh")
            .args(["-c", "perf report -D -i \"$1\" 2>/dev/null | grep -a PERF_RECORD_", "sh"])
            .arg(file),
    )?;
    let (mut samples, mut lost, mut summed) = (0.0, 0.0, 0.0);
    for line in dump.lines() {
        if line.contains("PERF_RECORD_SAMPLE") {
            samples += 1.0;
        } else if line.contains("PERF_RECORD_LOST_SAMPLES") {
            summed += last_number(line);
        } else if line.contains("PERF_RECORD_LOST:") {
            lost += last_number(line);
        }
    }
    Ok((samples, if summed > 0.0 { summed } else { lost }))
}

fn last_number(text: &str) -> f64 {
    text.split(|c: char| !c.is_ascii_digit())
        .rfind(|part| !part.is_empty())
        .map_or(0.0, |n| n.parse().unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::our_share;

    #[test]
    fn the_share_is_read_from_the_summary() {
        let line = "prof: 1,500 samples (997 Hz cpu-clock, 2 CPUs, 12.4 s), 500 lost → prof.data (1.2 MB)\n";
        assert_eq!(our_share(line).unwrap(), 25.0);
        assert!(our_share("nothing").is_err());
    }
}
