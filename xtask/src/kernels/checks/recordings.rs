//! Recordings that are more than samples of one program: where it waits, windows of a flight recorder, cgroups, and other machines.

use anyhow::{Context, ensure};

use super::Check;
use super::shares::{PART, shares_of};
use crate::kernels::answer::one_line;
use crate::kernels::text;

/// Nanoseconds that the sleeping program sleeps.
const SLEEP: u64 = 1_000_000_000;

/// Returns the checks.
pub(super) fn checks() -> Vec<Check> {
    vec![
        off_cpu(),
        window(),
        cgroup("cgroup v2", "cgroup2"),
        cgroup("cgroup v1", "cgroup -o perf_event"),
        from_guest(),
        from_host(),
    ]
}

fn off_cpu() -> Check {
    let script = "run record prof record --off-cpu -o r.data -- sleep 1\n\
                  run folded prof -q flame --off-cpu --folded -i r.data\n";
    Check::new(
        "--off-cpu",
        "a second of sleep, with the kernel's function that waits",
        script,
        |_, answer| {
            let stacks = text::folded(answer.text("folded")?);
            let asleep = stacks.iter().filter(|(stack, _)| {
                stack.contains(&"[blocked: sleep]") && stack.iter().any(|frame| frame.contains("nanosleep"))
            });
            let asleep = text::weight(asleep);
            ensure!(
                asleep.abs_diff(SLEEP) < SLEEP / 100,
                "{asleep} ns: {}",
                one_line(answer.text("record")?)
            );
            Ok(())
        },
    )
}

fn window() -> Check {
    let script = "prof record --overwrite -e cpu-clock -o w.data -- shares alone 1000 > log 2>&1 & recorder=$!\n\
                  sleep 0.6\n\
                  run dump prof dump $recorder\n\
                  wait $recorder\n\
                  run log cat log\n\
                  first=$(ls w.data.* | head -n 1)\n\
                  run files ls\n\
                  run folded prof -q flame --folded --weight samples -i $first\n";
    Check::new(
        "--overwrite and dump",
        "a dump with the functions, and another at the end",
        script,
        |_, answer| {
            answer.text("dump")?;
            let files = answer.text("files")?;
            ensure!(
                files.matches("w.data.").count() >= 2,
                "{}; {}",
                one_line(files),
                one_line(answer.text("log")?)
            );
            shares_of(&text::folded(answer.text("folded")?), Some("work"), PART)
        },
    )
}

/// A cgroup is sampled at once, or after the command that the refusal names.
fn cgroup(name: &str, file_system: &str) -> Check {
    let script = format!(
        "mkdir hierarchy\n\
         mount -t {file_system} cgroup hierarchy\n\
         mkdir hierarchy/lab\n\
         sh -c 'echo $$ > hierarchy/lab/cgroup.procs; exec shares alone 3000' > /dev/null & busy=$!\n\
         record() {{ prof record -e cpu-clock -a -G lab -d 0.5 -o r.data; }}\n\
         run first record\n\
         if [ ! -e r.data ]; then\n\
             run advice sh -c \"$(record 2>&1 | sed -n 's/.*try: //p' | sed 's/sudo //' | head -n 1)\"\n\
             run first record\n\
         fi\n\
         run folded prof -q flame --folded --weight samples -i r.data\n\
         wait $busy\n\
         rmdir hierarchy/lab\n\
         umount hierarchy\n"
    );
    Check::new(name, "the program in the cgroup alone, in 60/30/10 %", script, |_, answer| {
        if let Ok(advice) = answer.run("advice") {
            ensure!(advice.status == 0, "the advice: {}", one_line(&advice.text));
        }
        answer.text("first")?;
        let stacks = text::folded(answer.text("folded")?);
        let others = text::weight(stacks.iter().filter(|(stack, _)| stack.first() != Some(&"shares")));
        ensure!(others == 0, "{others} samples of other programs");
        shares_of(&stacks, Some("work"), PART)
    })
}

fn from_guest() -> Check {
    let script = "run record prof record -e cpu-clock -o r.data -- shares alone 200\n\
                  run archive prof archive -q -o r.archive -i r.data\n\
                  run folded prof -q flame --folded -i r.archive\n\
                  send r.archive\n";
    Check::new("the guest's recording, read on the host", "the same stacks", script, |_, answer| {
        let there = answer.text("folded")?;
        let here = answer.read_on_host("r.archive")?;
        same_stacks(there, &here)
    })
}

fn from_host() -> Check {
    let script = "run folded prof -q flame --folded -i /host/archive\nrun there cat /host/folded\n";
    let name = "the host's recording, read in the guest";
    let check = Check::new(name, "the same stacks", script, |_, answer| {
        same_stacks(answer.text("folded")?, answer.text("there")?)
    });
    Check { reads_host_recording: true, ..check }
}

/// Compares what two machines read in one recording.
fn same_stacks(one: &str, other: &str) -> anyhow::Result<()> {
    let sorted = |printed: &str| {
        let mut lines: Vec<String> = printed.trim().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (one, other) = (sorted(one), sorted(other));
    ensure!(!one.is_empty(), "no stacks");
    if one != other {
        let first = one.iter().zip(&other).find(|(one, other)| one != other);
        let (one, other) = first.context("one has more stacks")?;
        anyhow::bail!("one machine reads {one}, the other {other}");
    }
    Ok(())
}
