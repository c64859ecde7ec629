//! JavaScript functions without a switch of Node.js, held against what the program itself writes down at each call.

use super::folded::Folded;
use super::noted_calls::{Case, Language, check};
use super::prof::{may_record, prof, run};
use super::programs;
use super::runtime_shares::{fixture, installed};

/// Seconds and rate.
const TIME: (&str, &str) = ("1", "2999");

/// JavaScript.
const JAVASCRIPT: Language = Language {
    fixture: "calls.js",
    function_of: |object| {
        let name = object.strip_prefix("JS:")?;
        Some(name.split_once(' ')?.0.trim_start_matches(['~', '^', '+', '*']).to_owned())
    },
    unknown: "[javascript]",
    writing: &["note"],
    outermost: None,
};

/// Machines that run tests are busy. Without company, the figures are those of decision 19.
const CASES: [Case; 3] = [
    Case { kind: "calls", steps: "3000", time: TIME, innermost: 0.94, whole: 0.9 },
    Case { kind: "closures", steps: "3000", time: TIME, innermost: 0.94, whole: 0.9 },
    Case { kind: "callbacks", steps: "3000", time: TIME, innermost: 0.94, whole: 0.0 },
];

#[test]
fn functions_of_node_are_those_that_ran() {
    if let Some(node) = installed(&["node"]).filter(|_| may_record()) {
        CASES.iter().for_each(|case| check(&node, &JAVASCRIPT, case));
    }
}

/// What V8 names itself, and what `prof` names, have the same form.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn names_are_those_of_v8() {
    let Some(node) = installed(&["node"]).filter(|_| may_record()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let rows = |flags: &[&str]| {
        let mut record = prof(["record", "-e", "cpu-clock", "-F", "997", "-o", "n.data"]);
        record.args(flags).arg("--").arg(&node).arg(fixture("tiers.js")).arg("500");
        run(record.current_dir(folder.path())).ok();
        let report =
            run(prof(["report", "-q", "--raw-names", "-i", "n.data"]).current_dir(folder.path())).ok();
        let is_optimized = |word: &&str| word.starts_with("JS:*fib");
        let mut names: Vec<String> =
            report.text().split_whitespace().filter(is_optimized).map(str::to_owned).collect();
        names.dedup();
        (names, report.text().to_owned())
    };
    let (own, ours) = (rows(&["--runtimes=node"]), rows(&[]));
    assert!(!ours.0.is_empty() && own.0 == ours.0, "{own:?}\n{ours:?}");
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_only_looks_like_node_does_no_harm() {
    let program = programs::c_built("no_node", "exporting", &["-O1", "-rdynamic"]);
    let Some(program) = program.filter(|_| may_record()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut record = prof(["record", "-F", "499", "-o", "n.data", "--"]);
    let out = run(record.arg(&program).arg("1").current_dir(folder.path())).ok();
    let folded = run(prof(["flame", "--folded", "-i", "n.data"]).current_dir(folder.path())).ok();
    let shown = folded.text();
    let all = Folded::parse(shown);
    let unknown = all.count(|stack| stack.iter().any(|frame| frame.contains("[javascript]")));
    assert!(all.total() > 100 && unknown > 0, "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?} {}", out.stderr);
}
