//! Python functions without a switch of the interpreter, held against what the program itself writes down at each call.

use std::path::PathBuf;

use super::folded::Folded;
use super::noted_calls::{Case, Language, check};
use super::prof::{may_record, prof, run};
use super::programs;
use super::runtime_shares::installed;

/// Python.
const PYTHON: Language = Language {
    fixture: "calls.py",
    function_of: |object| Some(object.split_once(".py:")?.1.rsplit('.').next()?.to_owned()),
    unknown: "[python]",
    writing: &["begin", "end"],
    outermost: Some("run"),
};

/// Seconds and rate.
const TIME: (&str, &str) = ("1", "1997");
/// In one second at twice the rate, up to 5.3 % of the samples of 3.11 are taken for the function that calls the generator (2 %
/// are allowed).
const TIME_OF_GENERATORS: (&str, &str) = ("2", "997");

/// Machines that run tests are busy, and processes are read late on them. Without company, these figures are those of decision 13.
const CASES: [Case; 6] = [
    Case { kind: "calls", steps: "40", time: TIME, innermost: 0.85, whole: 0.7 },
    Case { kind: "calls", steps: "1000", time: TIME, innermost: 0.94, whole: 0.8 },
    Case { kind: "threads", steps: "1000", time: TIME, innermost: 0.94, whole: 0.8 },
    Case { kind: "generators", steps: "400", time: TIME_OF_GENERATORS, innermost: 0.94, whole: 0.8 },
    Case { kind: "recursion", steps: "300", time: TIME, innermost: 0.94, whole: 0.8 },
    Case { kind: "callbacks", steps: "200", time: TIME, innermost: 0.94, whole: 0.0 },
];

fn check_all(names: &[&str]) {
    if let Some(python) = installed(names).filter(|_| may_record()) {
        CASES.iter().for_each(|case| check(&python, &PYTHON, case));
    }
}

#[test]
fn functions_of_3_11_are_those_that_ran() {
    check_all(&["python3.11"]);
}

/// Debian's compiler keeps the pointer to bytecode in another slot for each call.
#[test]
fn functions_of_debians_3_11_are_those_that_ran() {
    check_all(&["/usr/bin/python3.11"]);
}

#[test]
fn functions_of_3_12_are_those_that_ran() {
    check_all(&["python3.12"]);
}

#[test]
fn functions_of_3_13_are_those_that_ran() {
    check_all(&["python3.13"]);
}

#[test]
fn functions_of_3_14_are_those_that_ran() {
    check_all(&["python3.14"]);
}

#[test]
fn functions_of_3_15_are_those_that_ran() {
    check_all(&["python3.15"]);
}

/// Returns the C program that exports the symbols of an interpreter.
fn no_python() -> Option<PathBuf> {
    programs::c_built("no_python", "exporting", &["-O1", "-rdynamic"])
}

#[test]
fn what_only_looks_like_python_does_no_harm() {
    let Some(program) = no_python().filter(|_| may_record()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut record = prof(["record", "-o", "p.data", "--"]);
    let out = run(record.arg(&program).arg("1").current_dir(folder.path())).ok();
    let folded = run(prof(["flame", "--folded", "-i", "p.data"]).current_dir(folder.path())).ok();
    let shown = folded.text();
    // Its own functions outside of the loop are taken for those of an interpreter.
    let all = Folded::parse(shown);
    assert!(
        all.total() > 100 && all.count(|stack| stack.iter().any(|frame| frame == "[python]")) > 0,
        "{shown}"
    );
    assert!(!shown.contains('\u{1b}'), "{shown:?} {}", out.stderr);
}
