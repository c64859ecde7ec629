//! `prof record --runs`: several recordings of a command, or of two in turns.

use std::fs;
use std::path::Path;

use super::prof::{Run, folder, may_record, prof, run};
use super::programs::c;

fn record(folder: &Path, arguments: &[&str]) -> Run {
    run(prof(["record", "-F", "4999", "-e", "cpu-clock"]).args(arguments).current_dir(folder))
}

/// The sides of the runs in the order of the list, and their files.
fn listed(folder: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(folder.join("prof.runs/runs.json")).unwrap();
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    let run = |run: &serde_json::Value| {
        assert!(run["wall_ns"].as_u64().unwrap() > 0, "{run}");
        assert!(run["counts"]["task-clock"].as_u64().unwrap() > 0, "{run}");
        assert!(run["counts"]["page-faults"].as_u64().unwrap() > 0, "{run}");
        let text = |field: &str| run[field].as_str().unwrap().to_owned();
        (text("side"), text("file"))
    };
    list["runs"].as_array().unwrap().iter().map(run).collect()
}

/// A program that counts, in a shell: both sides differ in their argument.
const COUNT: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn two_commands_are_recorded_in_turns_after_a_run_to_warm_up() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let against = format!("sh -c '{COUNT}; echo \"before $0\"' 'two words'");
    let after = format!("{COUNT}; echo after");
    let run = record(folder.path(), &["--runs", "2", "--against", &against, "--", "sh", "-c", &after]).ok();
    // The order is before, after, after, before; the first two warm up.
    assert_eq!(
        run.text(),
        "before two words\nafter\nbefore two words\nafter\nafter\nbefore two words\n",
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("2 pairs of runs → prof.runs"), "{}", run.stderr);
    let expected = [
        ("before", "01-before.data"),
        ("after", "01-after.data"),
        ("after", "02-after.data"),
        ("before", "02-before.data"),
    ];
    let files = listed(folder.path());
    assert_eq!(files, expected.map(|(side, file)| (side.to_owned(), file.to_owned())));
    for (_, file) in files {
        let recording = folder.path().join("prof.runs").join(file);
        super::prof::folded(&recording, &[]).ok();
    }
    // Another series keeps the older one.
    record(folder.path(), &["--runs", "1", "--", "sh", "-c", COUNT]).ok();
    assert_eq!(listed(folder.path()), [("after".to_owned(), "01-after.data".to_owned())]);
    assert!(folder.path().join("prof.runs.old/02-before.data").exists());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn commands_that_fail_or_are_missing_are_told_by_the_exit_code() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let failing = record(folder.path(), &["--runs", "1", "--", "sh", "-c", "exit 3"]);
    assert_eq!(failing.code, 3, "{}", failing.stderr);
    let missing = record(folder.path(), &["--runs", "1", "--", "./nosuch"]);
    assert_eq!(missing.code, 127, "{}", missing.stderr);
    let unfinished = record(folder.path(), &["--runs", "1", "--against", "a 'b", "--", "true"]);
    assert!(unfinished.code == 1 && unfinished.stderr.contains("quote"), "{}", unfinished.stderr);
    for usage in [
        ["--runs", "0"].as_slice(),
        &["--against", "true"],
        &["--runs", "1", "-a"],
        &["--runs", "1", "-o", "-"],
    ] {
        let wrong = record(folder.path(), &[usage, &["--", "true"]].concat());
        assert_eq!(wrong.code, 2, "{usage:?}: {}", wrong.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn each_side_is_recorded_as_if_it_were_alone() {
    let Some(program) = c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let command = |milliseconds| format!("{} alone {milliseconds}", program.display());
    let series = ["--runs", "2", "--against", &command(80), "--", program.to_str().unwrap(), "alone", "160"];
    record(folder.path(), &series).ok();
    for (file, milliseconds) in [("01-before.data", 80), ("02-after.data", 160), ("02-before.data", 80)] {
        let report = run(prof(["report"]).arg(folder.path().join("prof.runs").join(file))).ok();
        let title = report.text().lines().next().unwrap();
        assert!(title.contains(&format!("alone {milliseconds}")), "{file}: {title}");
        // The kernel adds up the CPU time of all children: that of earlier runs is not missing in this one.
        let missing = report.text().split_once("(about ").map_or(0, |(_, rest)| {
            let number: String = rest.chars().take_while(|letter| *letter != ' ').collect();
            number.replace(',', "").parse::<u64>().unwrap()
        });
        assert!(missing <= milliseconds * 5 / 2, "{file}: {missing} missing: {}", report.text());
    }
}
