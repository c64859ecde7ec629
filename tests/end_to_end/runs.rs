//! Series of runs: `prof record --runs`.

use std::ffi::OsString;
use std::fs;

use super::prof::{folder, may_record, prof, run, run_alone};
use super::programs::c;

#[test]
fn two_commands_are_recorded_in_turns_each_by_itself() {
    let Some(program) = c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let runs = folder.path().join("runs");
    let mut against = OsString::from("'");
    against.push(&program);
    against.push("' alone 80");
    let mut record = prof(["record", "--runs", "2", "--against"]);
    record.arg(against).arg("-o").arg(&runs).arg("--").arg(&program).args(["alone", "160"]);
    let recorded = run(&mut record).ok();
    assert!(recorded.stderr.contains("2 pairs of runs"), "{}", recorded.stderr);
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(runs.join("runs.json")).unwrap()).unwrap();
    let order: Vec<&str> =
        manifest["runs"].as_array().unwrap().iter().map(|run| run["side"].as_str().unwrap()).collect();
    assert_eq!(order, ["before", "after", "after", "before"]);
    for (file, milliseconds) in [("01-before.data", "80"), ("02-after.data", "160"), ("02-before.data", "80")]
    {
        let report = run(prof(["report"]).arg(runs.join(file))).ok();
        let title = report.text().lines().next().unwrap();
        assert!(title.contains(&format!("alone {milliseconds}")), "{file}: {title}");
        // The kernel adds up the CPU time of all children: that of earlier runs is not missing in this one.
        let due = milliseconds.parse::<u64>().unwrap();
        let missing = of_missing(report.text());
        assert!(missing <= due / 2, "{file}: {missing} missing of {due}: {}", report.text());
    }
}

#[test]
fn a_series_is_of_a_command_and_never_replaces_files_of_others() {
    let folder = folder();
    let attached = run_alone(prof(["record", "--runs", "2", "-p", "1"]).current_dir(folder.path()));
    assert_eq!(attached.code, 2, "{}", attached.stderr);
    fs::create_dir_all(folder.path().join("runs.old")).unwrap();
    fs::create_dir_all(folder.path().join("runs")).unwrap();
    fs::write(folder.path().join("runs/runs.json"), "{}").unwrap();
    fs::write(folder.path().join("runs.old/thesis.txt"), "mine").unwrap();
    let mut record = prof(["record", "--runs", "1", "-o", "runs", "--", "true"]);
    let refused = run_alone(record.current_dir(folder.path()));
    assert!(refused.code != 0 && refused.stderr.contains("thesis.txt"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(folder.path().join("runs.old/thesis.txt")).unwrap(), "mine");
}

/// Returns the number of samples that a report says are missing; 0 where it says nothing.
fn of_missing(report: &str) -> u64 {
    let Some((_, rest)) = report.split_once("(about ") else { return 0 };
    rest.split(' ').next().unwrap().replace(',', "").parse().unwrap()
}
