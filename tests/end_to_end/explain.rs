//! `prof explain`: the page says what a person with the whole picture would, in at most 6,000 letters.

use std::path::Path;

use serde_json::Value;

use crate::folded::{Folded, plain};
use crate::prof::{folder, prof, run};
use crate::programs;

/// Records `shares.c`, whose three functions take known shares of the time, with a fixed period.
fn recorded(folder: &Path) -> bool {
    let Some(program) = programs::c("shares") else { return false };
    let mut record = prof(["record", "-q", "-e", "cpu-clock", "-o"]);
    record.arg(folder.join("prof.data")).arg("--").arg(program).args(["alone", "600"]);
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
