//! What complete stacks cost: samples lost at high rates, the size of the file, and the way from stack copies to an SVG.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::Context;

use super::loss::our_counts;
use super::measure::{last_stderr, measure, median};
use super::table::{Table, seconds};
use super::tools::Tools;
use crate::fixtures;

/// `paths`, two threads of it, with and without frame pointers.
const WITH: &[&str] = &["-O2", "-g", "-fno-omit-frame-pointer", "-pthread"];
const WITHOUT: &[&str] = &["-O2", "-g", "-fomit-frame-pointer", "-pthread"];

/// A program without frame pointers, ours unwound while recording, theirs copied to disk.
pub(super) fn stacks(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let without = fixtures::program_by("gcc", "paths", "nofp", WITHOUT)?;
    lost(tools, &without, runs, table)?;
    let with = fixtures::program_by("gcc", "paths", "fp", WITH)?;
    size(tools, &without, &with, table)?;
    flame(tools, &without, runs, table)
}

fn busy(program: &Path, milliseconds: &str) -> Vec<OsString> {
    vec![program.into(), "2".into(), milliseconds.into()]
}

fn ours(tools: &Tools, hertz: &str, how: &str, file: &Path, command: &[OsString]) -> Vec<OsString> {
    let record: [&dyn AsRef<OsStr>; 10] =
        [&"record", &"-e", &"cpu-clock", &"-F", &hertz, &"--call-graph", &how, &"-o", &file, &"--"];
    [tools.prof(record), command.to_vec()].concat()
}

fn theirs(hertz: &str, how: &str, file: &Path, command: &[OsString]) -> Vec<OsString> {
    let record = ["perf", "record", "-e", "cpu-clock", "-F", hertz, "--call-graph", how, "-o"];
    let mut line: Vec<OsString> = record.map(OsString::from).to_vec();
    line.extend([file.into(), "--".into()]);
    line.extend_from_slice(command);
    line
}

fn lost(tools: &Tools, program: &Path, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let (our_file, their_file) = (tools.scratch.join("stacks.prof"), tools.scratch.join("stacks.perf"));
    let command = busy(program, "1000");
    for (hertz, demanded) in [("9997", "none, where perf loses some"), ("49999", "at most 5 %")] {
        let (mut our_shares, mut their_shares) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            measure(&tools.scratch, &ours(tools, hertz, "auto", &our_file, &command))?;
            let (samples, lost) = our_counts(&last_stderr(&tools.scratch))?;
            our_shares.push(100.0 * lost / (samples + lost).max(1.0));
            // perf 6.1 stops at an assertion of its own now and then.
            let _ = measure(&tools.scratch, &theirs(hertz, "dwarf", &their_file, &command));
            if let Ok(came) = their_samples(&last_stderr(&tools.scratch)) {
                // The program takes the same CPU time, and so has the same number of samples.
                their_shares.push((100.0 - 100.0 * came / (samples + lost).max(1.0)).max(0.0));
            }
        }
        let our_share = median(our_shares).context("no runs")?;
        let their_share = median(their_shares);
        table.row(
            format!("two busy threads at {hertz} Hz, complete stacks: samples lost"),
            format!("{our_share:.2} %"),
            their_share.map_or("failed".to_owned(), |share| format!("{share:.2} % (dwarf)")),
            their_share.map_or(String::new(), |share| format!("{:+.2} points", our_share - share)),
            demanded,
        );
    }
    Ok(())
}

/// From perf's last line: `… wrote 1.2 MB FILE (1234 samples) ]`.
fn their_samples(stderr: &str) -> anyhow::Result<f64> {
    let before = stderr.rsplit_once(" samples)").map(|(before, _)| before);
    let number = before.and_then(|before| before.rsplit_once('(')).map(|(_, number)| number);
    number
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("perf did not say how many: {stderr}"))
}

fn size(tools: &Tools, without: &Path, with: &Path, table: &mut Table) -> anyhow::Result<()> {
    let (our_file, their_file) = (tools.scratch.join("stacks.prof"), tools.scratch.join("stacks.perf"));
    let size = |line: &[OsString], file: &Path| {
        measure(&tools.scratch, line)?;
        Ok::<f64, anyhow::Error>(std::fs::metadata(file)?.len() as f64)
    };
    let unwound = size(&ours(tools, "997", "auto", &our_file, &busy(without, "3000")), &our_file)?;
    let walked = size(&ours(tools, "997", "fp", &our_file, &busy(with, "3000")), &our_file)?;
    let copied = size(&theirs("997", "dwarf", &their_file, &busy(without, "3000")), &their_file).ok();
    table.row(
        "two busy threads at 997 Hz for 3 s, complete stacks: size of the file".to_owned(),
        format!("{:.2} MB ({:.2} times that with frame pointers)", unwound / 1e6, unwound / walked),
        copied.map_or("failed".to_owned(), |copied| format!("{:.1} MB (dwarf)", copied / 1e6)),
        copied.map_or(String::new(), |copied| format!("{:.3} of perf's", unwound / copied)),
        "at most 1.5 times that with frame pointers",
    );
    Ok(())
}

/// Some 34,000 samples with copies of 8 KiB: of a small program, and of what takes perf a minute, an optimized program with
/// debug information of all its inlined functions. That is `prof` itself, drawing the former.
fn flame(tools: &Tools, program: &Path, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    let [small, inlined, svg] =
        ["copies.perf", "inlined.perf", "prof.svg"].map(|name| tools.scratch.join(name));
    let without_inlined = (&["--no-inline"][..], "perf script without inlined functions", "faster");
    let scripts = [(&[][..], "perf script", "faster"), without_inlined];
    draw("a small program", tools, &busy(program, "1700"), &small, scripts, runs, table)?;
    let itself = "for _ in 1 2 3 4 5 6 7; do \"$0\" flame -i \"$1\" -o \"$2\" || exit; done";
    let mut itself: Vec<OsString> = ["sh", "-c", itself].map(OsString::from).to_vec();
    itself.extend([&tools.prof, &small, &svg].map(|path| path.as_os_str().to_owned()));
    let scripts = [(&[][..], "perf script", "at least 10 times faster"), without_inlined];
    draw("prof itself", tools, &itself, &inlined, scripts, runs, table)
}

/// Records `command` into `file` by perf, and draws that, while perf prints it by each of `scripts`: flags, what that is, and
/// what is demanded.
fn draw(
    what: &str,
    tools: &Tools,
    command: &[OsString],
    file: &Path,
    scripts: [(&[&str], &str, &'static str); 2],
    runs: usize,
    table: &mut Table,
) -> anyhow::Result<()> {
    let mut record = theirs("9997", "dwarf,8192", file, command);
    // With its own rings perf would lose half of them.
    record.splice(2..2, ["-m", "8M"].map(OsString::from));
    if measure(&tools.scratch, &record).is_err() {
        println!("skipped: drawing stack copies of {what}: perf failed\n{}", last_stderr(&tools.scratch));
        return Ok(());
    }
    let samples = their_samples(&last_stderr(&tools.scratch))?;
    let bytes = std::fs::metadata(file)?.len() as f64 / 1e6;
    let flame = tools.prof([&"flame", &"-i", &file, &"-o", &tools.scratch.join("prof.svg")]);
    let mut our_walls = Vec::new();
    for _ in 0..runs {
        our_walls.push(measure(&tools.scratch, &flame)?.wall);
    }
    let our_wall = median(our_walls).context("no runs")?;
    for (flags, by, demanded) in scripts {
        let mut script: Vec<OsString> = ["perf", "script"].map(OsString::from).to_vec();
        script.extend(flags.iter().map(OsString::from));
        script.extend(["-i".into(), file.as_os_str().to_owned()]);
        let their_wall = measure(&tools.scratch, &script)?.wall;
        table.row(
            format!("stack copies of {what} to SVG, {samples:.0} samples ({bytes:.0} MB): time"),
            seconds(our_wall),
            format!("{} ({by})", seconds(their_wall)),
            format!("{:.1} times faster", their_wall.as_secs_f64() / our_wall.as_secs_f64()),
            demanded,
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::their_samples;

    #[test]
    fn perfs_count_is_in_its_last_line() {
        let line = "[ perf record: Woken up 9 times to write data ]\n\
                    [ perf record: Captured and wrote 168.413 MB d.perf (19951 samples) ]\n";
        assert_eq!(their_samples(line).unwrap(), 19951.0);
        assert!(their_samples("nothing").is_err());
    }
}
