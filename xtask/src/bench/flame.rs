//! From a recording to an SVG: time and peak memory.

use std::ffi::OsString;
use std::path::Path;

use super::measure::{measure, peak, wall};
use super::table::{Table, mebibytes, seconds};
use super::tools::Tools;
use crate::fixtures;

/// A second of a real program: what counts is how long the symbols take.
pub(super) fn small(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let input = tools.scratch.join("small.data");
    let paths = fixtures::program("paths")?;
    let command = [paths.as_os_str(), "2".as_ref(), "1000".as_ref()];
    fixtures::record_with_perf(&input, 997, &command)?;
    compare(tools, &input, "2,000 samples", "faster", runs, table)
}

/// 1.5 million samples, some 300 MB.
pub(super) fn big(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let input = fixtures::big_recording()?;
    compare(tools, &input, "1.5 million samples", "at least 20 times faster", runs, table)
}

fn compare(
    tools: &Tools,
    input: &Path,
    samples: &str,
    demanded: &str,
    runs: usize,
    table: &mut Table,
) -> anyhow::Result<()> {
    tools.install_inferno()?;
    let size = std::fs::metadata(input)?.len() as f64 / 1e6;
    let (our_svg, their_svg) = (tools.scratch.join("prof.svg"), tools.scratch.join("perf.svg"));
    let flame = tools.prof([&"flame", &"-i", &input, &"-o", &our_svg]);
    let pipeline = tools.pipeline(input, &their_svg);
    let script: Vec<OsString> =
        ["perf".as_ref(), "script".as_ref(), "-i".as_ref(), input.as_os_str()].map(OsString::from).to_vec();

    let (mut ours, mut theirs, mut scripts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        ours.push(measure(&tools.scratch, &flame)?);
        theirs.push(measure(&tools.scratch, &pipeline)?);
    }
    // Memory hardly varies, and a run of perf script is long.
    scripts.push(measure(&tools.scratch, &script)?);

    let (our_wall, their_wall) = (wall(&ours)?, wall(&theirs)?);
    table.row(
        format!("recording to SVG, {samples} ({size:.0} MB): time"),
        seconds(our_wall),
        format!("{} (script, collapse, flamegraph)", seconds(their_wall)),
        format!("{:.1} times faster", their_wall.as_secs_f64() / our_wall.as_secs_f64()),
        demanded,
    );
    let (our_peak, their_peak) = (peak(&ours)?, peak(&scripts)?);
    table.row(
        format!("recording to SVG, {samples}: peak memory"),
        mebibytes(our_peak),
        format!("{} (script alone)", mebibytes(their_peak)),
        format!("{:.2} of perf's", our_peak as f64 / their_peak as f64),
        "at most 1",
    );
    Ok(())
}
