//! `prof explain`: the page says what a person with the whole picture would, in at most 6,000 letters.

use std::path::Path;

use serde_json::Value;

use crate::folded::{Folded, plain};
use crate::prof::{folder, may_record, prof, run};
use crate::programs;

/// Records `shares.c`, whose three functions take known shares of the time, with a fixed period.
fn recorded(folder: &Path) -> bool {
    let Some(program) = programs::c("shares") else { return false };
    let mut record = prof(["record", "-q", "-e", "cpu-clock", "-F", "2999", "-o"]);
    record.arg(folder.join("prof.data")).arg("--").arg(program).args(["alone", "200"]);
    run(&mut record).ok();
    true
}

fn explain(folder: &Path, arguments: &[&str]) -> String {
    let page = run(prof(["explain"]).arg(folder.join("prof.data")).args(arguments)).ok();
    page.text().to_owned()
}

#[test]
fn a_page_names_what_is_hot_and_is_the_same_each_time() {
    let folder = folder();
    if !recorded(folder.path()) {
        return;
    }
    let page = explain(folder.path(), &[]);
    assert!(page.chars().count() <= 6_000, "{page}");
    let causes = page.split("Where the time goes").nth(1).unwrap();
    let hottest = causes.split("Hottest functions").nth(1).unwrap();
    let folded = run(prof(["flame", "--folded", "-i"]).arg(folder.path().join("prof.data"))).ok();
    let folded = Folded::parse(folded.text());
    let (name, own) = hottest_function(&folded);
    let first = hottest.lines().nth(1).unwrap();
    let percent = format!("{:.1} %", 100.0 * own as f64 / folded.total() as f64);
    assert!(first.contains(&name) && first.contains(&percent), "{name} {percent}: {first}");
    assert_eq!(page, explain(folder.path(), &[]));
}

/// By its own samples.
fn hottest_function(folded: &Folded) -> (String, u64) {
    let mut own = std::collections::BTreeMap::new();
    for (stack, count) in &folded.stacks {
        *own.entry(plain(stack.last().unwrap()).to_owned()).or_insert(0) += count;
    }
    own.into_iter().max_by_key(|(_, count)| *count).unwrap()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn json_adds_up_and_has_what_its_schema_requires() {
    let folder = folder();
    if !recorded(folder.path()) {
        return;
    }
    let json: Value = serde_json::from_str(&explain(folder.path(), &["--json"])).unwrap();
    let schema: Value = serde_json::from_slice(&run(&mut prof(["explain", "--schema"])).ok().stdout).unwrap();
    for field in schema["required"].as_array().unwrap() {
        assert!(json.get(field.as_str().unwrap()).is_some(), "{field} is missing");
    }
    let fields = schema["properties"].as_object().unwrap();
    for field in json.as_object().unwrap().keys() {
        let count = field.ends_with("_count");
        assert!(count || fields.contains_key(field), "{field} is not in the schema");
    }
    let total = json["total"].as_u64().unwrap();
    let sum = |list: &str, field: &str| -> u64 {
        json[list].as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).sum()
    };
    assert_eq!(sum("threads", "weight"), total);
    assert_eq!(sum("modules", "weight"), total);
    assert!(sum("causes", "weight") <= total && sum("costs", "weight") <= total);
    assert!(
        json["functions"].as_array().unwrap().iter().all(|row| row["self"].as_u64() <= row["total"].as_u64())
    );
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recording_without_samples_or_without_the_event_is_refused_with_what_there_is() {
    let folder = folder();
    if !recorded(folder.path()) {
        return;
    }
    let file = folder.path().join("prof.data");
    let wrong = run(prof(["explain", "--event", "cycles", "-i"]).arg(&file));
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("there are cpu-clock"), "{}", wrong.stderr);
}

/// The path and functions of the first three rows below the first heading of paths.
fn first_rows(page: &str) -> Vec<&str> {
    let paths = page.lines().skip_while(|line| !line.starts_with("Where ")).skip(1);
    let mut rows = 0;
    let is_of_first = |line: &&str| {
        rows += usize::from(line.contains('→'));
        rows <= 3 && !line.is_empty()
    };
    paths.take_while(is_of_first).collect()
}

/// Records a role of `hidden.c`, and checks that the first rows of its page name all of `planted`.
fn assert_found(role: &str, flags: &[&str], planted: &[&str]) {
    let Some(program) = programs::c("hidden").filter(|_| may_record()) else { return };
    let folder = folder();
    let mut record = prof(["record", "-e", "cpu-clock", "-o"]);
    record.arg(folder.path().join("prof.data")).args(flags).arg("--").arg(program).arg(role);
    let recorded = run(&mut record).ok();
    if flags.contains(&"--off-cpu") && recorded.stderr.contains("CAP_PERFMON") {
        return programs::skip(&format!("switches may not be sampled here: {}", recorded.stderr.trim()));
    }
    let page = explain(folder.path(), &[]);
    let rows = first_rows(&page).join("\n");
    for name in planted {
        assert!(rows.contains(name), "{role}: {name} is not in the first rows\n{page}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn each_of_two_ways_to_a_hot_function_is_told() {
    assert_found("ways", &[], &["ways → parse_request → spin", "ways → grab → update → spin"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_whose_time_is_spent_in_others_are_told() {
    assert_found("callers", &[], &[" ways … → format_row"]);
    assert_found("stat", &[], &["config_changed"]);
    assert_found("faults", &[], &["scratch_page"]);
    assert_found("recursion", &[], &["insert → collate"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_threads_wait_for_stands_on_the_page_where_it_was_recorded() {
    let planted = [
        ("lock", ["cache_get", "[blocked: futex"]),
        ("sleep", ["back_off", "[blocked: sleep"]),
        ("child", ["convert", "[blocked: child"]),
        ("pipe", ["emit_rows", "[blocked: pipe write"]),
    ];
    // At once: they wait most of the time.
    std::thread::scope(|scope| {
        for (role, planted) in planted {
            scope.spawn(move || assert_found(role, &["--off-cpu"], &planted));
        }
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn where_waits_were_not_recorded_the_page_says_how() {
    let Some(program) = programs::c("hidden").filter(|_| may_record()) else { return };
    let folder = folder();
    let how = "prof record --off-cpu";
    let file = folder.path().join("prof.data");
    for role in ["lock", "ways"] {
        run(prof(["record", "-q", "-e", "cpu-clock", "-o"]).arg(&file).arg("--").arg(&program).arg(role))
            .ok();
        let json: Value = serde_json::from_str(&explain(folder.path(), &["--json"])).unwrap();
        let page = explain(folder.path(), &[]);
        assert_eq!(page.contains(how), json["busy_cpus"].as_f64().unwrap() < 0.5, "{page}");
        assert!(role != "lock" || page.contains(how), "{page}");
    }
}

/// Samples say when the program ran; the recording also lasted while it slept.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn who_sleeps_after_its_last_sample_kept_no_cpu_busy() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exec sleep 1";
    let mut record = prof(["record", "-q", "-e", "cpu-clock", "-F", "99", "-o"]);
    run(record.arg(folder.path().join("prof.data")).args(["--", "sh", "-c", script])).ok();
    let page = explain(folder.path(), &[]);
    assert!(page.contains("prof record --off-cpu"), "{page}");
    let json: Value = serde_json::from_str(&explain(folder.path(), &["--json"])).unwrap();
    assert!(json["duration_ns"].as_u64().unwrap() >= 1_000_000_000, "{json}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn time_of_idle_event_loops_is_told_apart_with_its_length() {
    let Some(program) = programs::c("waits").filter(|_| may_record()) else { return };
    let folder = folder();
    let file = folder.path().join("prof.data");
    let recorded =
        run(prof(["record", "--off-cpu", "-o"]).arg(&file).arg("--").arg(program).arg("loop")).ok();
    if recorded.stderr.contains("CAP_PERFMON") {
        return programs::skip(&format!("switches may not be sampled here: {}", recorded.stderr.trim()));
    }
    let json: Value = serde_json::from_str(&explain(folder.path(), &["--json", "--off-cpu"])).unwrap();
    let report: Value =
        serde_json::from_str(run(prof(["report", "--off-cpu", "--json"]).arg(&file)).ok().text()).unwrap();
    let number = |of: &Value| of.as_u64().unwrap();
    assert_eq!(number(&json["total"]) + number(&json["at_rest"]), number(&report["total"]));
    assert!(number(&json["at_rest"]) > 0, "{json}");
    for flags in [&["--off-cpu"][..], &[]] {
        let page = explain(folder.path(), flags);
        assert!(page.contains("in a call of event loops: not in these shares"), "{page}");
    }
}
