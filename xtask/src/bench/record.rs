//! What recording costs: CPU time beyond the command's own, and wall time of the shortest command.

use std::ffi::OsString;

use anyhow::Context;

use super::measure::{Cost, cpu, measure, measure_apart, median, wall};
use super::programs::{self, INSTALLED};
use super::table::{Table, seconds};
use super::tools::Tools;
use crate::fixtures;

/// CPU time of the recorder beyond the command's own, which burns exactly a second by its own clock.
pub(super) fn cost(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let shares = fixtures::program("shares")?;
    let command = [shares.as_os_str(), "alone".as_ref(), "1000".as_ref()].map(OsString::from);
    let ways: [(&str, &[&str], &str); 2] =
        [("fp", &["-g"], "at most +5 ms"), ("auto", &["--call-graph", "dwarf,8192"], "below 1 % at 997 Hz")];
    for (hertz, (how, their_how, demanded)) in
        ["997", "9997"].into_iter().flat_map(|hertz| ways.map(|way| (hertz, way)))
    {
        let (our_file, their_file) = (tools.scratch.join("cost.prof"), tools.scratch.join("cost.perf"));
        let mut ours = tools.prof([
            &"record",
            &"-q",
            &"-F",
            &hertz,
            &"-e",
            &"cpu-clock",
            &"--call-graph",
            &how,
            &"-o",
            &our_file,
            &"--",
        ]);
        ours.extend_from_slice(&command);
        let mut theirs =
            ["perf", "record", "-q", "-F", hertz, "-e", "cpu-clock"].map(OsString::from).to_vec();
        theirs.extend(their_how.iter().map(OsString::from));
        theirs.push("-o".into());
        theirs.extend([their_file.as_os_str().to_owned(), "--".into()]);
        theirs.extend_from_slice(&command);

        let (mut alone, mut our_costs, mut their_costs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..runs {
            alone.push(measure(&tools.scratch, &command)?);
            our_costs.push(measure(&tools.scratch, &ours)?);
            their_costs.push(measure(&tools.scratch, &theirs)?);
        }
        let own = cpu(&alone)?;
        let beyond = |costs: &[Cost]| Ok::<f64, anyhow::Error>(cpu(costs)?.as_secs_f64() - own.as_secs_f64());
        let (our_beyond, their_beyond) = (beyond(&our_costs)? * 1e3, beyond(&their_costs)? * 1e3);
        table.row(
            format!("record at {hertz} Hz, {how}, a second of CPU: CPU time beyond the command's"),
            format!("{our_beyond:.1} ms"),
            format!("{their_beyond:.1} ms"),
            format!("{:+.1} ms", our_beyond - their_beyond),
            demanded,
        );
    }
    Ok(())
}

/// So often in a row, programs take some seconds.
const ROUNDS: &str = "for round in 1 2 3 4; do \"$@\"; done; true";

/// CPU time of the recorder itself, for real programs that take some seconds.
pub(super) fn own(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let file = tools.scratch.join("own.data");
    let with = |program: &[&str], how: &str| -> Vec<OsString> {
        let common = ["record", "-q", "-F", "997", "-e", "cpu-clock", "--call-graph", how, "-o"];
        let words = program.iter().chain(&common).map(OsString::from);
        words.chain([file.clone().into(), "--".into()]).collect()
    };
    let ours = |how| [&[tools.prof.clone().into_os_string()], &with(&[], how)[..]].concat();
    let ways = [("fp", "fp", ""), ("auto", "dwarf,8192", "below 1 %")];
    for (name, args) in INSTALLED.iter().filter(|(name, _)| *name != "rustc") {
        let Some(once) = programs::command(tools, name, args)? else {
            println!("skipped: {name} is not installed");
            continue;
        };
        let command = [&["sh", "-c", ROUNDS, "sh"].map(OsString::from)[..], &once].concat();
        for (how, their_how, demanded) in ways {
            let (mut our_shares, mut their_shares, mut taken) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..runs {
                let share = |recorder: &[OsString]| {
                    let (own, command) = measure_apart(&tools.scratch, recorder, &command)?;
                    Ok::<_, anyhow::Error>((100.0 * own.as_secs_f64() / command.as_secs_f64(), command))
                };
                let (our_share, command) = share(&ours(how))?;
                our_shares.push(our_share);
                taken.push(command);
                their_shares.push(share(&with(&["perf"], their_how))?.0);
            }
            let our_share = median(our_shares).context("no runs")?;
            let their_share = median(their_shares).context("no runs")?;
            let taken = median(taken).context("no runs")?.as_secs_f64();
            table.row(
                format!(
                    "record {name} ({taken:.1} s of CPU) at 997 Hz, {how}: own CPU time, of the command's"
                ),
                format!("{our_share:.2} %"),
                format!("{their_share:.2} % ({their_how})"),
                format!("{:+.2} points", our_share - their_share),
                demanded,
            );
        }
    }
    Ok(())
}

/// Wall time of recording `true`.
pub(super) fn start(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let (our_file, their_file) = (tools.scratch.join("true.prof"), tools.scratch.join("true.perf"));
    let command = [OsString::from("true")];
    let ours = tools.prof([&"record", &"-q", &"-o", &our_file, &"--", &"true"]);
    let mut theirs = ["perf", "record", "-q", "-g", "-o"].map(OsString::from).to_vec();
    theirs.extend([their_file.into_os_string(), "--".into(), "true".into()]);
    let (mut alone, mut our_costs, mut their_costs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        alone.push(measure(&tools.scratch, &command)?);
        our_costs.push(measure(&tools.scratch, &ours)?);
        their_costs.push(measure(&tools.scratch, &theirs)?);
    }
    let (own, our_wall, their_wall) = (wall(&alone)?, wall(&our_costs)?, wall(&their_costs)?);
    table.row(
        format!("record `true` ({} alone): wall time", seconds(own)),
        seconds(our_wall),
        seconds(their_wall),
        format!("{:.1} times faster", their_wall.as_secs_f64() / our_wall.as_secs_f64()),
        "about as long as `true`",
    );
    Ok(())
}
