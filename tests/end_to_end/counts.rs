//! What samples stand for, and how many are missing: groups that are read with each sample, and lost samples.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::folded::Folded;
use super::prof::{Run, UNREAD, figure, folded, folder, may_record, prof, run};
use super::programs;

/// Records a command into `prof.data` of `folder`.
fn record(folder: &Path, flags: &[&str], command: &[&OsStr]) -> (PathBuf, Run) {
    let file = folder.join("prof.data");
    let run =
        run(prof(["record"]).args(flags).arg("-o").arg(&file).arg("--").args(command).current_dir(folder));
    (file, run)
}

fn total(file: &Path, event: &str) -> u64 {
    Folded::parse(folded(file, &["--event", event]).ok().text()).total()
}

#[test]
fn members_of_a_group_weigh_what_each_task_has_counted() {
    let Some(program) = programs::c("touch") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let command = [program.as_os_str(), OsStr::new("60")];
    let (file, run) = record(folder.path(), &["-e", "page-faults", "-c", "1"], &command);
    run.ok();
    let faults = total(&file, "page-faults");
    assert!(faults > 4 * 60 * 256, "{faults}");
    for rate in [&["-F", "997"][..], &["-c", "1000000"]] {
        let flags = [&["-e", "{cpu-clock,page-faults}:S"], rate].concat();
        let (file, run) = record(folder.path(), &flags, &command);
        if run.stderr.contains("before Linux 6.12") {
            return programs::skip("groups that are read are not inherited here");
        }
        run.ok();
        // What a task does behind its last sample is not seen: a millisecond of four processes.
        let read = total(&file, "page-faults");
        assert!((faults - faults / 10..=faults).contains(&read), "{rate:?}: {read} of {faults}");
    }
}

#[test]
fn the_live_view_reads_groups_too() {
    let Some(program) = programs::c("touch") else { return };
    if !may_record() {
        return;
    }
    let events = ["top", "--json", "-e", "{cpu-clock,page-faults}:S", "--delay-secs", "30", "--"];
    let top = run(prof(events).arg(program).arg("60")).ok();
    let value: serde_json::Value = serde_json::from_str(top.text()).unwrap();
    let event = &value["events"][1];
    assert_eq!((event["name"].as_str(), event["unit"].as_str()), (Some("page-faults"), Some("page-faults")));
    let faults = 4 * 60 * 256;
    let seen = event["total"].as_u64().unwrap();
    assert!(
        (faults - faults / 10..faults + faults / 10).contains(&seen),
        "{seen} of {faults}: {}",
        top.text()
    );
}

#[test]
fn lost_samples_of_a_large_group_are_counted() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let events = format!("{{cpu-clock{}}}:S", ",page-faults".repeat(29));
    let flags = ["-e", &events, "-F", "4999", "-m", "8K", "--call-graph", "no", "--strict"];
    let command: Vec<&OsStr> = UNREAD.iter().map(OsStr::new).collect();
    let shares = [program.as_os_str(), OsStr::new("alone"), OsStr::new("200")];
    let (_, run) = record(folder.path(), &flags, &[&command[..], &shares].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(figure(&run.stderr, "lost") > 100, "{}", run.stderr);
}

#[test]
fn a_kernel_that_does_not_count_lost_samples_tells_of_them_in_its_rings() {
    let Some(program) = programs::c("shares") else { return };
    let Some(older) = programs::c_built("older_kernel", "preloaded", &["-shared", "-fPIC"]) else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let flags = ["-e", "cpu-clock", "-F", "4999", "-m", "8K", "--call-graph", "no", "--strict"];
    // What comes behind the loss has room again, and the kernel says what had none.
    let again = "kill -STOP $PPID; \"$@\"; kill -CONT $PPID; sleep 0.3; \"$@\"";
    let words = ["sh", "-c", again, "sh"].map(OsStr::new);
    let shares = [program.as_os_str(), OsStr::new("alone"), OsStr::new("200")];
    let file = folder.path().join("prof.data");
    let recorded = |strict: &[&str]| {
        let mut command = prof(["record", "-v"]);
        command.args(strict).arg("-o").arg(&file).arg("--").args(words).args(shares);
        run(command.env("LD_PRELOAD", &older).current_dir(folder.path()))
    };
    let run = recorded(&flags);
    if !run.stderr.contains("does not know PERF_FORMAT_LOST (6.0)") {
        return programs::skip("nothing can be preloaded into prof here");
    }
    assert_eq!(run.code, 1, "{}", run.stderr);
    let lost = figure(&run.stderr, "lost");
    assert!(lost > 100, "{}", run.stderr);
    let shown = self::run(prof(["flame", "-o", "x.svg", "-i"]).arg(&file).current_dir(folder.path())).ok();
    let svg = std::fs::read_to_string(folder.path().join("x.svg")).unwrap();
    assert!(svg.contains(&format!("{} lost", grouped(lost))), "{}{lost}", shown.stderr);
}

/// `1,234`
fn grouped(number: u64) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), number % 1000),
    }
}

#[test]
fn the_live_view_tells_of_lost_samples_while_it_runs() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    // Stops its recorder for a moment, and goes on much longer.
    let words = "kill -STOP $PPID; \"$@\" 300; kill -CONT $PPID; exec \"$@\" 60000";
    for chains in ["no", "auto"] {
        let flags = [
            "top",
            "--json",
            "--count",
            "4",
            "--delay-secs",
            "0.5",
            "-e",
            "cpu-clock",
            "-F",
            "4999",
            "-m",
            "16K",
        ];
        let mut top = prof(flags);
        let top =
            top.args(["--call-graph", chains, "--", "sh", "-c", words, "sh"]).arg(&program).arg("alone");
        let top = run(top).ok();
        let intervals: Vec<serde_json::Value> =
            top.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(intervals.len(), 4);
        assert!(intervals.iter().all(|interval| interval["ended"] == false), "{chains}");
        let lost: u64 = intervals.iter().map(|interval| interval["lost"].as_u64().unwrap()).sum();
        assert!(lost > 50, "{chains}: {lost}");
    }
}

#[test]
fn pinned_and_exclusive_are_the_leaders_alone() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("shares") else { return };
    let folder = folder();
    for modifier in ["D", "e"] {
        let event = format!("{{cpu-clock,page-faults}}:{modifier}");
        let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("60")];
        let (file, run) = record(folder.path(), &["-e", &event, "-F", "999", "--strict"], &command);
        run.ok();
        assert!(total(&file, "cpu-clock") > 20);
    }
}

#[test]
fn the_refusal_that_tells_is_told() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_stack").unwrap_or_default();
    let Ok(limit) = limit.trim().parse::<u16>() else {
        return programs::skip("no limit of call chains is known here");
    };
    let too_long = (limit + 1).to_string();
    let (_, run) = record(folder.path(), &["-vv", "--max-stack", &too_long], &[OsStr::new("true")]);
    assert_eq!(run.code, 1);
    for part in ["kernel.perf_event_max_stack", &format!("={too_long}"), "was refused: type", "EOVERFLOW"] {
        assert!(run.stderr.contains(part), "no {part}: {}", run.stderr);
    }
}
