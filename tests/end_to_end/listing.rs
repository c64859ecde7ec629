//! `prof list`, `prof doctor`, and what a typo behind `-e` is told.

use std::process::{Command, Stdio};

use super::prof::{folder, prof, run};
use super::programs::{has, skip};
use super::unprivileged::as_nobody;

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_list_has_what_it_says_and_nothing_else() {
    let all = run(&mut prof(["list"])).ok();
    for needed in ["cycles, cpu-cycles", "L1-dcache-load-misses", "page-faults, faults", "mem:ADDR", "rHEX"] {
        assert!(all.text().contains(needed), "no {needed} in {}", all.text());
    }
    let faults = run(&mut prof(["list", "*faults"])).ok();
    let lines: Vec<&str> = faults.text().lines().collect();
    assert_eq!(lines[0], "Software events");
    assert!(lines[1..].iter().all(|line| line.contains("faults")) && lines.len() == 6, "{lines:?}");
    if has_tracepoints() {
        let sched = run(&mut prof(["list", "sched:*"])).ok();
        assert!(sched.text().contains("  sched:sched_switch\n"), "{}", sched.text());
        assert!(sched.text().lines().skip(1).all(|line| line.starts_with("  sched:")), "{}", sched.text());
    }
}

/// Returns true if tracepoints can be named here; where not, the test is skipped.
pub(crate) fn has_tracepoints() -> bool {
    let has = run(&mut prof(["list", "sched:sched_switch"])).code == 0;
    if !has {
        skip("tracepoints cannot be named here");
    }
    has
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn tracepoints_are_found_where_nobody_has_mounted_tracefs() {
    if !has("unshare") || !has_tracepoints() {
        return;
    }
    // A mount namespace of its own; elsewhere tracefs stays.
    let list = "umount --lazy /sys/kernel/tracing || exit 99; exec \"$0\" list sched:sched_switch";
    let mut unshare = Command::new("unshare");
    let listed = run(unshare.args(["--mount", "sh", "-c", list, env!("CARGO_BIN_EXE_prof")]));
    if matches!(listed.code, 1 | 99) && !listed.stderr.contains("prof:") {
        return skip(&format!("tracefs cannot be unmounted here: {}", listed.stderr.trim()));
    }
    assert!(listed.ok().text().contains("sched:sched_switch"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_list_may_be_cut_short_by_its_reader() {
    if !has_tracepoints() {
        return;
    }
    let mut list = prof(["list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(list.stdout.take());
    let done = list.wait_with_output().unwrap();
    assert_eq!((done.status.code(), done.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_is_marked_as_missing_is_missing() {
    let all = run(&mut prof(["list", "sw", "hw"])).ok();
    let folder = folder();
    let events: Vec<&str> = all.text().lines().filter(|line| line.starts_with("  ")).collect();
    assert!(events.len() > 10, "{}", all.text());
    for line in events {
        let name = line.trim().split([',', ' ']).next().unwrap();
        let recorded = run(prof(["record", "-q", "-c", "1000000", "-e", name, "-o", "x.data", "--", "true"])
            .current_dir(folder.path()));
        assert_eq!(recorded.code == 0, !line.contains('['), "{line}: {}", recorded.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_typo_is_told_the_nearest_name() {
    let told = |event: &str, wanted: &str| {
        let run = run(&mut prof(["record", "-e", event, "-o", "/dev/null/x", "--", "true"]));
        assert_eq!(run.code, 1, "{event}: {}", run.stderr);
        assert!(run.stderr.contains(wanted), "{event}: {}", run.stderr);
    };
    told("cyclse:u", "did you mean cycles?");
    told("page-fualts/period=10/", "did you mean page-faults?");
    told("L1-dcache-laod-misses", "did you mean L1-dcache-load-misses?");
    told("cpu-clock/perod=5/", "did you mean period?");
    told("nothing-like-it-at-all", "prof list");
    if has_tracepoints() {
        told("uprobes:/bin/true:main", "did you mean uprobe:PATH:SYMBOL?");
        told("sched:sched_swich", "did you mean sched:sched_switch?");
        told("shced:sched_switch", "did you mean sched:sched_switch?");
        told("shced:sched_swich", "did you mean sched:sched_switch?");
        told("sched_switch", "did you mean sched:sched_switch?");
    }
}

#[test]
fn the_doctor_agrees_with_what_can_be_recorded() {
    let doctor = run(&mut prof(["doctor"]));
    let folder = folder();
    let mut record = prof(["record", "-q", "-e", "cpu-clock", "-o", "x.data", "--", "true"]);
    let recorded = run(record.current_dir(folder.path()));
    assert_eq!(doctor.code == 0, recorded.code == 0, "{}{}", doctor.text(), recorded.stderr);
    assert!(doctor.text().starts_with("Linux "), "{}", doctor.text());
    assert!(doctor.text().lines().count() < 20, "calm: {}", doctor.text());
    let detail = run(&mut prof(["doctor", "-v"]));
    assert!(detail.text().contains("own programs: "), "{}", detail.text());
    assert!(detail.text().contains("sample rate: "), "{}", detail.text());
    // Each command that it names begins with a program.
    // Root lacks nothing, nobody does.
    let nobodys = as_nobody(folder.path(), &["doctor", "-v"]);
    let lines = [Some(&detail), nobodys.as_ref()].into_iter().flatten().flat_map(|run| run.text().lines());
    let commands: Vec<&str> = lines.filter_map(|line| line.trim().strip_prefix("sudo setcap ")).collect();
    if commands.is_empty() {
        return skip("nothing is limited here, not even for nobody");
    }
    for command in commands {
        let program = command.rsplit(' ').next().unwrap();
        assert!(Command::new(program).arg("--version").stdout(Stdio::null()).status().unwrap().success());
    }
}
