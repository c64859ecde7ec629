//! The full guest: perf and `prof` read each other's recordings and count the same, and Python's functions have names.

use anyhow::{Context, ensure};

use super::counters::{counted_as, parsed};
use super::shares::{PART, shares_of};
use super::{Check, has_pmu};
use crate::kernels::answer::one_line;
use crate::kernels::machine::Machine;
use crate::kernels::text;

/// Returns the checks.
pub(super) fn checks() -> Vec<Check> {
    let checks = [perf_reads_ours(), we_read_perfs(), counts().on(has_pmu), python()];
    checks.map(|check| check.in_machine(Machine::Full)).into()
}

/// perf finds the kernel by our record of its mapping.
fn perf_reads_ours() -> Check {
    let script = "run record prof record -e cpu-clock -o r.data -- dd if=/dev/zero of=/dev/null bs=64k count=10000\n\
                  perf script -i r.data -F ip,sym > script 2> errors\n\
                  run errors cat errors\n\
                  run frames grep -c . script\n\
                  run read grep -c vfs_read script\n\
                  run unknown grep -c 'ffff.*unknown' script\n";
    Check::new("perf reads our recording", "the kernel's functions, none unknown", script, |_, answer| {
        answer.text("record")?;
        let count =
            |name: &str| -> anyhow::Result<u32> { Ok(answer.run(name)?.text.trim().parse().unwrap_or(0)) };
        let (frames, read, unknown) = (count("frames")?, count("read")?, count("unknown")?);
        let errors = one_line(&answer.run("errors")?.text);
        ensure!(read > 20, "{read} of {frames} frames are vfs_read: {errors}");
        ensure!(
            unknown * 100 < frames,
            "{unknown} of {frames} frames of the kernel are unknown to perf: {errors}"
        );
        Ok(())
    })
}

fn we_read_perfs() -> Check {
    let script = "run perf perf record -e cpu-clock -F 997 --call-graph fp -o perf.data -- shares-fp alone 500\n\
                  run folded prof -q flame --folded --weight samples -i perf.data\n";
    Check::new("we read perf's recording", "its functions in 60/30/10 %", script, |_, answer| {
        answer.text("perf")?;
        shares_of(&text::folded(answer.text("folded")?), Some("work"), PART)
    })
}

/// The same program takes the same instructions under both.
fn counts() -> Check {
    let script = "run perf perf stat -x , -e cycles:u,instructions:u -- counts 3000000\n\
                  run prof prof stat -j -e cycles:u,instructions:u -- counts 3000000\n";
    Check::new(
        "perf stat and prof stat",
        "the same cycles and instructions within 0.2 %",
        script,
        |_, answer| {
            for event in ["cycles:u", "instructions:u"] {
                let theirs = counted(answer.text("perf")?, event)?;
                let [ours] = counted_as(&parsed(answer.text("prof")?)?, [event])?;
                ensure!((ours / theirs - 1.0).abs() < 0.002, "{event}: {ours}, perf counts {theirs}");
            }
            Ok(())
        },
    )
}

/// Returns the count of an event in rows of `perf stat -x ,`: `3000,,cycles:u,…`.
fn counted(printed: &str, event: &str) -> anyhow::Result<f64> {
    let row = printed.lines().find(|line| line.split(',').any(|column| column == event));
    let count = row.and_then(|row| row.split(',').next()?.parse().ok());
    count.with_context(|| format!("no {event}: {}", one_line(printed)))
}

fn python() -> Check {
    let script = "run record prof record --runtimes=python -e cpu-clock -o r.data -- python3 /fixtures/shares.py 1\n\
                  run folded prof -q flame --folded --weight samples -i r.data\n";
    Check::new("Python", "its functions by name", script, |_, answer| {
        let record = one_line(answer.text("record")?);
        let stacks = text::folded(answer.text("folded")?);
        for function in ["sixty", "thirty", "ten"] {
            let seen = stacks.iter().filter(|(stack, _)| stack.iter().any(|frame| frame.contains(function)));
            let seen = text::weight(seen);
            ensure!(seen > 20, "{seen} of {} samples are in {function}: {record}", text::weight(&stacks));
        }
        Ok(())
    })
}
