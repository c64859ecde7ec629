//! Profiles of other tools as input: folded stacks and pprof.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::prof::{Run, folded, folder, may_record, prof, record, run};
use super::programs::{c, go, pprof};

fn report(file: &Path, flags: &[&str]) -> Run {
    run(prof(["report", "--csv", "-i"]).arg(file).args(flags))
}

/// Self and total weight by function, of `prof report --csv`.
fn rows(file: &Path, flags: &[&str]) -> BTreeMap<String, (u64, u64)> {
    let report = report(file, flags).ok();
    let mut lines = report.text().lines();
    assert_eq!(lines.next(), Some("module,function,self,self_percent,total,total_percent"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.rsplitn(5, ',').collect();
        let number = |at: usize| cells[at].parse::<u64>().unwrap();
        let (_, function) = cells[4].split_once(',').unwrap();
        (function.trim_matches('"').to_owned(), (number(3), number(1)))
    };
    lines.map(row).collect()
}

#[test]
fn folded_stacks_and_pprof_of_a_recording_say_the_same_as_the_recording() {
    let Some(program) = c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, _) = record(folder.path(), &[], &[program.as_os_str()]);
    let direct = folded(&file, &[]).ok();
    let text = folder.path().join("stacks.folded");
    fs::write(&text, &direct.stdout).unwrap();
    let pprof = folder.path().join("profile.pb.gz");
    run(prof(["export", "--format", "pprof", "-i"]).arg(&file).arg("-o").arg(&pprof)).ok();
    for other in [&text, &pprof] {
        assert_eq!(folded(other, &["--event", "samples"]).ok().text(), direct.text(), "{}", other.display());
    }
    let comm = direct.text().split(';').next().unwrap();
    assert_eq!(folded(&text, &["--comm", comm]).ok().text(), folded(&file, &["--comm", comm]).ok().text());
}

/// The samples of a pprof file as Go's tool prints them: the value of each type, and the labels beside the thread's.
fn raw_samples(file: &Path) -> Vec<String> {
    let tool = pprof().arg("-raw").arg(file).output().unwrap();
    let text = String::from_utf8(tool.stdout).unwrap();
    let mut lines = text.lines().skip_while(|line| *line != "Samples:").skip(1);
    let types: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let mut samples = Vec::new();
    for line in lines.take_while(|line| *line != "Locations") {
        match line.split_once(": ") {
            Some((values, _)) => {
                let values =
                    types.iter().map(|kind| kind.trim_end_matches("[dflt]")).zip(values.split_whitespace());
                let mut values: Vec<String> = values.map(|(kind, value)| format!("{kind} {value}")).collect();
                values.sort();
                samples.push(values.join(", "));
            }
            None if line.contains("bytes:") => samples.last_mut().unwrap().push_str(line.trim()),
            None => {}
        }
    }
    // Samples without a value are not read.
    samples.retain(|sample| sample.split(", ").any(|value| !value.ends_with(" 0")));
    samples.sort();
    samples
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_heap_profile_of_go_keeps_its_values_and_labels() {
    let Some(program) = go("profiled", false) else { return };
    let folder = folder();
    let [cpu, heap, exported] =
        ["cpu.pb.gz", "heap.pb.gz", "exported.pb.gz"].map(|name| folder.path().join(name));
    assert!(Command::new(&program).args([&cpu, &heap]).status().unwrap().success());
    run(prof(["export", "--format", "pprof", "-i"]).arg(&heap).arg("-o").arg(&exported)).ok();
    let before = raw_samples(&heap);
    assert!(
        before.iter().any(|sample| sample.contains("inuse_space/bytes") && sample.contains("bytes:[")),
        "{before:?}"
    );
    assert_eq!(raw_samples(&exported), before);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_profile_of_go_has_the_rows_that_its_own_tool_prints() {
    let Some(program) = go("profiled", false) else { return };
    let folder = folder();
    let files = ["cpu.pb.gz", "heap.pb.gz"].map(|name| folder.path().join(name));
    assert!(Command::new(&program).args(&files).status().unwrap().success());
    for (file, event) in [(&files[0], "cpu"), (&files[0], "samples"), (&files[1], "alloc_space")] {
        let unit = match event {
            "cpu" => "-unit=ns",
            "alloc_space" => "-unit=B",
            _ => "-unit=count",
        };
        let tool =
            pprof().args(["-top", "-nodecount=10", unit, "-sample_index", event]).arg(file).output().unwrap();
        let top = String::from_utf8(tool.stdout).unwrap();
        let ours = rows(file, &["--event", event, "--raw-names"]);
        let number = |cell: &str| cell.trim_end_matches(|last: char| !last.is_ascii_digit()).parse::<u64>();
        let theirs = top.lines().skip_while(|line| !line.contains("flat%")).skip(1);
        let mut compared = 0;
        for line in theirs {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let name = cells[5..].join(" ").replace(" (inline)", "");
            let (own, total) = (number(cells[0]).unwrap(), number(cells[3]).unwrap());
            assert_eq!(ours.get(&name), Some(&(own, total)), "{event} of {name} in\n{top}");
            compared += 1;
        }
        assert!(compared >= 3, "{top}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_a_profile_does_not_say_is_refused_where_it_is_asked_for() {
    let folder = folder();
    let file = folder.path().join("stacks.folded");
    fs::write(&file, "main;a;b 12\nmain;c 7\n").unwrap();
    let flame = |flags: &[&str]| folded(&file, flags);
    for (flags, said) in [
        (["--time", "0,1"].as_slice(), "does not say when a sample was taken; try without --time"),
        (&["--cpu", "0"], "try without --cpu"),
        (&["--pid", "1"], "which processes there were"),
        (&["--comm", "main"], "which threads there were"),
        (&["--off-cpu"], "when threads ran and waited"),
        (&["--event", "cycles"], "there are samples"),
    ] {
        let refused = flame(flags);
        assert!(refused.code == 1 && refused.stderr.contains(said), "{flags:?}: {}", refused.stderr);
    }
    for command in [["script"].as_slice(), &["annotate", "main"], &["archive"]] {
        let refused = run(prof(command.iter().map(OsStr::new)).arg("-i").arg(&file));
        assert!(
            refused.code == 1 && refused.stderr.contains("is folded stacks, and no recording"),
            "{}",
            refused.stderr
        );
    }
    fs::write(&file, "main;a;b 12 13\nmain;c 7 9\n").unwrap();
    let refused = flame(&[]);
    assert!(refused.code == 1 && refused.stderr.contains("each stack has two counts"), "{}", refused.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn every_view_shows_folded_stacks() {
    let folder = folder();
    let file = folder.path().join("stacks.folded");
    fs::write(&file, "main;a;b 1200\nmain;c_[k] 700.5\nmain;c_[k] 0.5\n").unwrap();
    assert_eq!(rows(&file, &[])["b"], (1200, 1200));
    let picture = run(prof(["flame"]).arg(&file)).ok();
    assert!(picture.text().contains("1,901 samples"), "{}", picture.text());
    let page = folder.path().join("page.html");
    run(prof(["view", "-o"]).arg(&page).arg(&file)).ok();
    assert!(fs::read_to_string(&page).unwrap().contains("there are no lanes"));
    let explained = run(prof(["explain"]).arg(&file)).ok();
    assert!(explained.text().contains("1,901 samples"), "{}", explained.text());
    for format in ["speedscope", "pprof", "json", "otlp"] {
        run(prof(["export", "--format", format, "-o"]).arg(folder.path().join(format)).arg(&file)).ok();
    }
    let timed = run(prof(["export", "--format", "firefox"]).arg(&file));
    assert!(timed.code == 1 && timed.stderr.contains("samples have no times"), "{}", timed.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_picture_of_two_profiles_shows_the_change_of_each_frame() {
    let folder = folder();
    let [before, after] = ["before.folded", "after.folded"].map(|name| folder.path().join(name));
    fs::write(
        &before,
        "work;_start;main;grew 1000\nwork;_start;main;same 500\nwork;_start;main;gone_[k] 7\n",
    )
    .unwrap();
    fs::write(&after, "work;_start;main;grew 3000\nwork;_start;main;same 510\n").unwrap();
    let flame = |flags: &[&str]| run(prof(["flame", "--diff"]).arg(&before).arg(&after).args(flags));
    let two = flame(&["--folded"]).ok();
    assert_eq!(
        two.text(),
        "work;_start;main;gone_[k] 7 0\nwork;_start;main;grew 1000 3000\nwork;_start;main;same 500 510\n"
    );
    let picture = flame(&[]).ok();
    for said in [
        "before.folded",
        "after.folded",
        "before 1,507 samples, after 3,510 samples (× 2.33)",
        "7 samples of before is in stacks that are gone",
        "<title>grew (3,000 samples, 85.47%; before: 1,000 samples, 66.4 %, +200.0 %)</title>",
        "shrank most",
    ] {
        assert!(picture.text().contains(said), "{said}: {}", picture.text());
    }
    // By the name of a program that was built anew.
    fs::write(&after, "work-2;_start;main;grew 3000\nwork-2;_start;main;same 510\n").unwrap();
    let renamed = flame(&["--folded"]).ok();
    assert!(renamed.text().contains("\n_start;main;grew 1000 3000\n"), "{}", renamed.text());
    let command = run(prof(["flame", "--diff"]).arg(&before).args(["--", "true"]));
    assert!(command.code == 1 && command.stderr.contains("`true` is no recording"), "{}", command.stderr);
}
