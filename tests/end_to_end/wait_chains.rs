//! Who made threads wait: the function that a program is built to wait for is named, and none that is innocent.

use std::path::Path;

use serde_json::Value;

use super::prof::{folder, may_record, prof, run};
use super::programs;
use super::unprivileged::{as_nobody, paranoid};

/// The causes of `causes.c`, with the function that makes others wait, and that in which they do.
const CAUSES: [(&str, &str, &str); 6] = [
    ("sleeping-holder", "cause_flush", "update_ledger"),
    ("running-holder", "cause_rebuild", "update_ledger"),
    ("producer", "cause_produce", "consume"),
    ("semaphore", "cause_grant", "take_ticket"),
    ("pipe", "cause_format", "read_reply"),
    ("child", "cause_child", "run_tool"),
];

/// The rows of a page on who made threads wait, at most five of two lines each.
fn rows(page: &str) -> Vec<&str> {
    let lines = page.lines().skip_while(|line| !line.starts_with("What was waited for")).skip(1);
    lines.take_while(|line| !line.is_empty()).collect()
}

fn explained(file: &Path) -> String {
    run(prof(["explain"]).arg(file)).ok().text().to_owned()
}

fn waits(file: &Path) -> Value {
    serde_json::from_str(run(prof(["report", "--waits", "--json"]).arg(file)).ok().text()).unwrap()
}

fn has_function(step: &Value, function: &str) -> bool {
    step["functions"].as_array().unwrap().iter().any(|name| name == function)
}

#[test]
fn the_function_that_makes_others_wait_is_named_with_the_lock() {
    let Some(program) = programs::c("causes") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    for (cause, culprit, victim) in CAUSES {
        let file = folder.path().join(cause);
        let mut record = prof(["record", "-q", "--off-cpu", "-o"]);
        let recorded = run(record.arg(&file).arg("--").arg(&program).arg(cause)).ok();
        if recorded.stderr.contains("CAP_PERFMON") {
            return programs::skip("switches may not be sampled here");
        }
        let page = explained(&file);
        let rows = rows(&page);
        let first = rows.first().copied().unwrap_or_default();
        assert!(first.contains(culprit), "{cause}: {page}");
        if cause.ends_with("holder") {
            assert!(rows[1].contains(victim) && rows[1].contains("waiting for ledger"), "{cause}: {page}");
        }
        let found = waits(&file);
        let chains = found["chains"].as_array().unwrap();
        // Each moment of the waits counts once, and most of it was the culprit's.
        let of_victim = chains.iter().filter(|chain| has_function(&chain["steps"][0], victim));
        let (mut all, mut by_culprit) = (0, 0);
        for chain in of_victim {
            let (last, time) =
                (chain["steps"].as_array().unwrap().last().unwrap(), chain["ns"].as_u64().unwrap());
            all += if chain["steps"].as_array().unwrap().len() > 1 { time } else { 0 };
            by_culprit += if has_function(last, culprit) { time } else { 0 };
        }
        assert!(by_culprit as f64 > 0.8 * all as f64, "{cause}: {by_culprit} of {all}: {found}");
        let path = &found["path"];
        let stretches = path["stretches"].as_array().unwrap();
        let ends: Vec<u64> = stretches.iter().map(|part| part["end_ns"].as_u64().unwrap()).collect();
        let starts: Vec<u64> = stretches.iter().map(|part| part["start_ns"].as_u64().unwrap()).collect();
        assert!(
            ends.iter().zip(&starts[1..]).all(|(end, next)| end == next),
            "{cause}: the path has no gaps: {path}"
        );
        let length = ends.last().unwrap() - starts[0];
        assert!(length as f64 > 0.95 * path["ns"].as_u64().unwrap() as f64, "{cause}: {path}");
    }
}

#[test]
fn a_normal_user_sees_who_holds_a_lock_and_whom_a_join_waits_for() {
    if paranoid() < 2 {
        return programs::skip("kernel.perf_event_paranoid is below 2");
    }
    let Some(program) = programs::c("causes") else { return };
    let folder = folder();
    for (cause, culprit, victim) in CAUSES.into_iter().filter(|(cause, ..)| cause.ends_with("holder")) {
        let program = program.display().to_string();
        let arguments = ["record", "-q", "--off-cpu", "-o", cause, "--", &program, cause];
        let Some(recorded) = as_nobody(folder.path(), &arguments) else { return };
        recorded.ok();
        let page = explained(&folder.path().join("home").join(cause));
        let rows = rows(&page);
        assert!(rows.first().is_some_and(|first| first.contains(culprit)), "{cause}: {page}");
        assert!(rows[1].contains(victim) && rows[1].contains("waiting for ledger"), "{cause}: {page}");
        assert!(!page.contains("without "), "nothing is predicted where wakings are not recorded: {page}");
    }
}
