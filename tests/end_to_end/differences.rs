//! `prof diff`: recordings, slices and runs of a program whose change is known.

use std::path::Path;

use serde_json::Value;

use super::prof::{Run, folder, prof, run};
use super::programs;

/// Records `paths` with `rounds`; `None` where nothing can be recorded.
fn record(folder: &Path, name: &str, rounds: &str) -> Option<()> {
    let program = programs::c("paths")?;
    let recorded = run(prof(["record", "-q", "-e", "cpu-clock:u", "-F", "1999", "-o", name, "--"])
        .current_dir(folder)
        .arg(program)
        .args(["2", rounds]));
    (recorded.code == 0).then_some(())
}

fn diff(folder: &Path, words: &[&str]) -> Run {
    run(prof(["diff"]).current_dir(folder).args(words))
}

fn json(folder: &Path, words: &[&str]) -> Value {
    let run = diff(folder, &[&["--json"], words].concat()).ok();
    serde_json::from_str(run.text()).unwrap()
}

fn schema() -> Value {
    let text = std::fs::read_to_string(programs::repository().join("docs/schemas/diff.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn two_recordings_and_two_slices_have_intervals_and_no_marks() {
    let folder = folder();
    let at = folder.path();
    if record(at, "a.data", "75").and_then(|()| record(at, "b.data", "150")).is_none() {
        return;
    }
    for words in [
        &["a.data", "b.data"][..],
        &["a.data", "--before", "time=0,0.01", "--after", "time=0.01,100"],
        &["a.data", "b.data", "--weight", "samples"],
        &["a.data", "a.data"],
    ] {
        let found = json(at, words);
        let schema = schema();
        for (name, value) in found.as_object().unwrap() {
            assert!(schema["properties"].get(name).is_some(), "{name}: {value}");
        }
        assert_eq!(found["evidence"], "single-recordings", "{words:?}");
        let rows = found["rows"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["change"]["marked"] != true), "{words:?}");
        // What is summed up is what the recordings have.
        let sum = |side: &str| rows.iter().map(|row| row[side].as_f64().unwrap()).sum::<f64>();
        let total = &found["totals"][0];
        for side in ["before", "after"] {
            assert!((sum(side) / total[side].as_f64().unwrap() - 1.0).abs() < 1e-6, "{words:?} {side}");
        }
    }
    let same = json(at, &["a.data", "a.data"]);
    assert!(same["rows"].as_array().unwrap().iter().all(|row| row["verdict"] == "unchanged"));
    let page = diff(at, &["a.data", "b.data"]).ok();
    assert!(page.text().starts_with("This recording only: "), "{}", page.text());
    let markdown = diff(at, &["a.data", "b.data", "--markdown"]).ok();
    assert!(markdown.text().len() <= 4000 && markdown.text().contains("| before | after |"));
    let csv = diff(at, &["a.data", "b.data", "--csv"]).ok();
    let columns = csv.text().lines().next().unwrap().split(',').count();
    assert_eq!(columns, 14, "{}", csv.text());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn runs_are_judged_and_few_ones_are_not() {
    let folder = folder();
    let at = folder.path();
    if record(at, "a.data", "40").and_then(|()| record(at, "b.data", "200")).is_none() {
        return;
    }
    // Copies of one recording are runs without noise.
    let (a, b) = (["a.data"; 5], ["b.data"; 5]);
    let words = [&a[..], &["--"], &b[..]].concat();
    let found = json(at, &words);
    assert_eq!((found["evidence"].as_str(), found["before"]["runs"].as_u64()), (Some("runs"), Some(5)));
    let threshold = diff(at, &[&["--threshold", "3%"], &words[..]].concat());
    assert_eq!(threshold.code, 3, "{}", threshold.text());
    assert!(threshold.text().contains("Grew by more than 3 %"), "{}", threshold.text());
    let few = diff(at, &["--threshold", "3%", "a.data", "a.data", "--", "b.data", "b.data"]);
    assert_eq!(few.code, 0, "{}", few.stderr);
    assert!(few.text().contains("too few"), "{}", few.text());
    let same = diff(at, &[&["--threshold", "3%"], &[&a[..], &["--"], &a[..]].concat()[..]].concat());
    assert_eq!(same.code, 0, "{}", same.text());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_folder_of_runs_is_compared_pair_by_pair() {
    let folder = folder();
    let at = folder.path();
    let runs = at.join("prof.runs");
    std::fs::create_dir(&runs).unwrap();
    if record(&runs, "a.data", "60").is_none() {
        return;
    }
    let run = |pair: usize, side: &str| {
        format!(
            r#"{{"side":"{side}","pair":{pair},"file":"a.data","wall_ns":{},"exit_status":0,"counts":{{"page-faults":{}}}}}"#,
            1_000_000_000 + pair,
            200 + pair
        )
    };
    let all: Vec<String> = (1..=8).flat_map(|pair| ["before", "after"].map(|side| run(pair, side))).collect();
    let list = format!(
        r#"{{"schema":1,"interleaved":true,"before":{{"command":["old"]}},"after":{{"command":["new"]}},"runs":[{}]}}"#,
        all.join(",")
    );
    std::fs::write(runs.join("runs.json"), list).unwrap();
    let found = json(at, &["prof.runs"]);
    assert_eq!((found["paired"].as_bool(), found["evidence"].as_str()), (Some(true), Some("runs")));
    let kinds: Vec<&str> =
        found["totals"].as_array().unwrap().iter().map(|total| total["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["weight", "samples", "wall", "everything-else", "count"]);
    assert!(found["headline"].as_str().unwrap().starts_with("Nothing changed, as far as 8 pairs can tell"));
    std::fs::write(
        runs.join("runs.json"),
        r#"{"schema":1,"runs":[{"side":"after","file":"../a","wall_ns":1}]}"#,
    )
    .unwrap();
    let refused = diff(at, &["prof.runs"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("not in its folder"), "{}", refused.stderr);
}

#[test]
fn what_cannot_be_compared_is_refused_with_what_to_type() {
    let folder = folder();
    let at = folder.path();
    for (words, said) in [
        (&[][..], "two sides are compared"),
        (&["a", "b", "c", "d"], "try: prof diff a b -- c d"),
        (&["a"], "try: prof diff BEFORE AFTER"),
        (&["a", "--", "b", "--threshold", "3%"], "`--threshold` stands behind --"),
        (&["a", "b", "--threshold", "3%"], "--threshold needs runs"),
        (&["a", "--before", "tim=1,2", "--after", "pid=1"], "no key `tim`"),
        (&["a", "--before", "time=2,1", "--after", "pid=1"], "ends before it starts"),
    ] {
        let refused = diff(at, words);
        assert_eq!(refused.code, 2, "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{words:?}: {}", refused.stderr);
    }
    if record(at, "a.data", "20").is_none() {
        return;
    }
    let faults =
        run(prof(["record", "-q", "-e", "page-faults", "-c", "1", "-o", "f.data", "--", "true"])
            .current_dir(at));
    if faults.code == 0 {
        for face in FACES {
            let refused = compare(at, face, "a.data", "f.data");
            assert_eq!(refused.code, 1, "{face:?}");
            let said = "a.data counts cpu-clock:u and f.data counts page-faults";
            assert!(refused.stderr.contains(said), "{face:?}: {}", refused.stderr);
        }
    }
}

/// The commands that compare.
const FACES: [&[&str]; 3] =
    [&["diff"], &["flame", "--folded", "--diff"], &["view", "-o", "page.html", "--diff"]];

fn compare(folder: &Path, face: &[&str], before: &str, after: &str) -> Run {
    run(prof(face.iter().copied().chain([before, after])).current_dir(folder))
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_counts_samples_alone_is_compared_by_samples() {
    let folder = folder();
    let at = folder.path();
    if record(at, "a.data", "60").is_none() {
        return;
    }
    run(prof(["export", "--format", "folded", "-i", "a.data", "-o", "a.folded"]).current_dir(at)).ok();
    for face in FACES {
        compare(at, face, "a.folded", "a.data").ok();
        compare(at, face, "a.data", "a.folded").ok();
    }
    let totals = &json(at, &["a.folded", "a.data"])["totals"][0];
    assert_eq!(totals["before"], totals["after"], "{totals}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn times_count_from_the_start_of_the_recording() {
    let folder = folder();
    let at = folder.path();
    if record(at, "a.data", "100").is_none() {
        return;
    }
    let samples = |time: &str| {
        let run =
            run(prof(["report", "a.data", "--total-only", "--csv", "--time", time]).current_dir(at)).ok();
        let line = run.text().lines().nth(1).unwrap().to_owned();
        line.split(',').nth(2).unwrap().parse::<u64>().unwrap()
    };
    let all = samples("0,1000");
    let (first, second) = (samples("0,0.02"), samples("0.020000001,1000"));
    assert!(first > 0 && second > 0 && first + second == all, "{first} + {second} is not {all}");
    let script = run(prof(["script", "-i", "a.data"]).current_dir(at)).ok();
    let clock = script.text().lines().find_map(|line| {
        let word = line.split_whitespace().find(|word| word.ends_with(':') && word.contains('.'))?;
        word.trim_end_matches(':').parse::<f64>().ok()
    });
    let clock = clock.unwrap();
    assert_eq!(samples(&format!("@{:.6},@{:.6}", clock - 1.0, clock + 1000.0)), all);
    // A range that only fits the clock is refused, and what to type instead works.
    let asked = format!("{:.6},{:.6}", clock - 0.001, clock + 1000.0);
    let refused = run(prof(["report", "a.data", "--time", &asked]).current_dir(at));
    if clock > 1000.0 {
        let flag = refused.stderr.split("try: --time ").nth(1).unwrap().trim().to_owned();
        assert_eq!(samples(&flag), all, "{}", refused.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn help_names_the_forms() {
    let help = run(&mut prof(["diff", "--help"])).ok();
    for words in ["--before", "--threshold", "--layout-allowance", "prof.runs"] {
        assert!(help.text().contains(words), "{words}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn profiles_of_other_tools_have_the_same_functions_with_and_without_modules() {
    let folder = folder();
    let at = folder.path();
    if record(at, "a.data", "150").is_none() {
        return;
    }
    for (format, file) in [("folded", "a.folded"), ("pprof", "a.pb.gz")] {
        run(prof(["export", "--format", format, "-i", "a.data", "-o", file]).current_dir(at)).ok();
    }
    // Folded stacks have no modules, and pprof has.
    let found = json(at, &["--event", "samples", "a.folded", "a.pb.gz"]);
    let rows = found["rows"].as_array().unwrap();
    let function = rows.iter().find(|row| row["before"].as_f64().unwrap() > 10.0).unwrap();
    assert_eq!(function["before"], function["after"], "{function}");
}
