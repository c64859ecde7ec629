//! The first picture of programs with much debug information: a new process, files in the page cache, inlined calls
//! included; beside `perf script` without them.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use super::measure::{measure, peak, wall};
use super::table::{Table, mebibytes, seconds};
use super::tools::Tools;
use crate::fixtures;
use crate::workspace;

/// Units of the program, rounds of its work, and the demanded time.
const PROGRAMS: &[(usize, usize, &str)] =
    &[(40, 50, "below 0.5 s, at most perf's"), (330, 8, "below 3 s with 500 MB")];

pub(super) fn symbols(tools: &Tools, runs: usize, table: &mut Table) -> anyhow::Result<()> {
    for &(units, rounds, demanded) in PROGRAMS {
        let program = link(tools, units, rounds)?;
        let debug = debug_bytes(&program)?;
        let recording = tools.scratch.join("symbols.data");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-B", "-N", "-e", "cpu-clock", "-F", "49999", "-m", "4M", "-o"]);
        workspace::output(perf.arg(&recording).arg("--").arg(&program))?;
        let input = recording.as_os_str();
        let places =
            workspace::output(Command::new(&tools.prof).args(["script", "-F", "ip", "-i"]).arg(input))?;
        let mut places: Vec<&str> = places.split_ascii_whitespace().collect();
        places.sort_unstable();
        places.dedup();

        let svg = tools.scratch.join("symbols.svg");
        let flame = tools.prof([&"flame", &"-i", &recording, &"-o", &svg]);
        let mut script = ["perf", "script", "--no-inline", "-i"].map(OsString::from).to_vec();
        script.push(input.to_owned());
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..=runs {
            ours.push(measure(&tools.scratch, &flame)?);
            theirs.push(measure(&tools.scratch, &script)?);
        }
        // The first of each filled the page cache.
        let (ours, theirs) = (&ours[1..], &theirs[1..]);
        let (our_wall, their_wall) = (wall(ours)?, wall(theirs)?);
        let what =
            format!("first SVG, {:.0} MB of debug information, {} places", debug as f64 / 1e6, places.len());
        table.row(
            format!("{what}: time"),
            seconds(our_wall),
            format!("{} (script --no-inline)", seconds(their_wall)),
            format!("{:.2} of perf's", our_wall.as_secs_f64() / their_wall.as_secs_f64()),
            demanded,
        );
        let our_peak = peak(ours)?;
        table.row(
            format!("{what}: peak memory, the file's pages included"),
            mebibytes(our_peak),
            String::new(),
            format!("{:.2} of the debug sections", our_peak as f64 * 1024.0 / debug as f64),
            "below 2 of what is touched",
        );
    }
    Ok(())
}

/// A program of `units` units, whose `work` functions are all called `rounds` times.
fn link(tools: &Tools, units: usize, rounds: usize) -> anyhow::Result<PathBuf> {
    let folder = tools.scratch.join("units");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let unit = folder.join("unit.o");
    let source = fixtures::source("unit").with_extension("cpp");
    workspace::run(Command::new("g++").args(["-O2", "-g", "-c", "-o"]).args([&unit, &source]))?;
    let (mut declared, mut called, mut objects) = (String::new(), String::new(), Vec::new());
    for number in 0..units {
        let object = folder.join(format!("{number}.o"));
        let renamed = format!("work=work_{number}");
        workspace::run(Command::new("objcopy").args(["--redefine-sym", &renamed]).args([&unit, &object]))?;
        objects.push(object);
        // Writing to memory does not fail.
        let _ = writeln!(declared, "int work_{number}(int);");
        let _ = writeln!(called, "sum += work_{number}(60);");
    }
    let main = folder.join("main.c");
    let text = format!(
        "{declared}int main(void) {{ unsigned sum = 0; for (int round = 0; round < {rounds}; round++) {{\n{called}}}\n\
         return sum == 1; }}\n"
    );
    std::fs::write(&main, text).with_context(|| main.display().to_string())?;
    let entry = folder.join("main.o");
    workspace::run(Command::new("gcc").args(["-c", "-o"]).args([&entry, &main]))?;
    let program = tools.scratch.join(format!("units-{units}"));
    workspace::run(Command::new("g++").arg("-o").args([&program, &entry]).args(&objects))?;
    for object in objects {
        std::fs::remove_file(&object).with_context(|| object.display().to_string())?;
    }
    Ok(program)
}

/// The size of a program's debug sections.
fn debug_bytes(program: &std::path::Path) -> anyhow::Result<u64> {
    let sections = workspace::output(Command::new("size").arg("-A").arg(program))?;
    let debug = sections.lines().filter(|line| line.starts_with(".debug_"));
    Ok(debug.filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()).sum())
}
