//! The commands that look at the machine: `doctor`, `list`, `stat`, `top --once`, for root and users.

use anyhow::ensure;

use super::{Check, Rights, has_pmu};
use crate::kernels::answer::one_line;
use crate::kernels::kernel::Kernel;
use crate::kernels::text;

/// What a command prints of a machine without a PMU, and must not of one that has it.
const NO_PMU: [&str; 3] = ["often have no PMU", "no hardware counters", "has no PMU"];

/// Returns the checks.
pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![doctor_as_root(), doctor_after_throttling()];
    for rights in [Rights::Root, Rights::User { paranoid: 2 }] {
        checks.extend([list(), stat(), top()].map(|check| check.with_rights(rights.clone())));
    }
    checks
}

fn doctor_as_root() -> Check {
    Check::new(
        "doctor",
        "all is ok, but counters where there are none",
        "run doctor prof doctor -v\n",
        |kernel, answer| {
            let doctor = answer.text("doctor")?;
            for line in
                doctor.lines().filter(|line| line.starts_with("limited") || line.starts_with("broken"))
            {
                let is_true = line.contains("hardware counters") && !has_pmu(kernel);
                ensure!(is_true, "{line}");
            }
            // Debian's kernels for arm64 have the watchdog that lets CPUs watch each other, which takes no counter.
            ensure!(!has_pmu(kernel) || !doctor.contains("NMI watchdog"), "{}", one_line(doctor));
            says_what_there_is(kernel, doctor)
        },
    )
}

/// The kernel lowers the limit of the rate when interrupts take long.
fn doctor_after_throttling() -> Check {
    let script = "cd /proc/sys/kernel\n\
                  set_to perf_cpu_time_max_percent 25\n\
                  set_to perf_event_max_sample_rate 500\n\
                  run doctor prof doctor -v\n\
                  run record prof record -o $folder/r.data -- shares alone 200\n\
                  set_to perf_event_max_sample_rate 100000\n\
                  set_to perf_cpu_time_max_percent 0\n";
    let expects = "the limit is called by its name, and a recording keeps to it";
    Check::new("doctor and record at 500 Hz at most", expects, script, |_, answer| {
        let doctor = answer.text("doctor")?;
        ensure!(doctor.contains("perf_event_max_sample_rate"), "{}", one_line(doctor));
        ensure!(!doctor.contains("does not support"), "{}", one_line(doctor));
        let record = answer.text("record")?;
        let samples = text::figure(record, "samples")?;
        // At the limit itself, the kernel throttles every tick: half of it is used.
        ensure!((40.0..=70.0).contains(&samples), "{}", one_line(record));
        Ok(())
    })
}

fn list() -> Check {
    Check::new("list", "the events that there are", "run list $as prof list\n", |kernel, answer| {
        let list = answer.text("list")?;
        let cycles = list.lines().find(|line| line.trim_start().starts_with("cycles")).unwrap_or_default();
        ensure!(cycles.contains("not here") != has_pmu(kernel), "{}", one_line(cycles));
        says_what_there_is(kernel, list)
    })
}

fn stat() -> Check {
    let script = "run stat $as prof stat -- shares alone 200\n";
    Check::new("stat", "200 ms of CPU time, and cycles where they are counted", script, |kernel, answer| {
        let stat = answer.text("stat")?;
        let clock = text::figure(stat, "msec")?;
        ensure!((200.0..260.0).contains(&clock), "{}", one_line(stat));
        ensure!(
            stat.contains("cycles")
                && (!has_pmu(kernel)
                    || ["cycles", "cycles:u"].iter().any(|name| text::figure(stat, name).is_ok())),
            "{}",
            one_line(stat)
        );
        says_what_there_is(kernel, stat)
    })
}

fn top() -> Check {
    let script = "shares alone 3000 > /dev/null & busy=$!\n\
                  if [ \"$as\" ]; then $as shares alone 3000 > /dev/null & busy=$!; fi\n\
                  run top $as prof top --once -p $busy\n";
    Check::new("top", "the busy program's functions", script, |_, answer| {
        let top = answer.text("top")?;
        for function in ["sixty", "thirty", "ten"] {
            ensure!(top.contains(function), "no {function}: {}", one_line(top));
        }
        Ok(())
    })
}

/// Checks that nothing is said of a missing PMU where there is one.
fn says_what_there_is(kernel: &Kernel, printed: &str) -> anyhow::Result<()> {
    for line in printed.lines().filter(|_| has_pmu(kernel)) {
        ensure!(!NO_PMU.iter().any(|wrong| line.contains(wrong)), "{line}");
    }
    Ok(())
}
