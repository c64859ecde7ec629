//! Python functions without a switch of the interpreter, held against what the program itself writes down at each call.

use std::path::PathBuf;

use super::folded::Folded;
use super::noted_calls::{Case, Language, check};
use super::prof::{may_record, prof, run};
use super::programs;
use super::runtime_shares::{fixture, installed};

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
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_3_11_are_those_that_ran() {
    check_all(&["python3.11"]);
}

/// Debian's compiler keeps the pointer to bytecode in another slot for each call.
#[test]
fn functions_of_debians_3_11_are_those_that_ran() {
    check_all(&["/usr/bin/python3.11"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_3_12_are_those_that_ran() {
    check_all(&["python3.12"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_3_13_are_those_that_ran() {
    check_all(&["python3.13"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_3_14_are_those_that_ran() {
    check_all(&["python3.14"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_3_15_are_those_that_ran() {
    check_all(&["python3.15"]);
}

/// Returns the C program that exports the symbols of an interpreter.
fn no_python() -> Option<PathBuf> {
    programs::c_built("no_python", "exporting", &["-O1", "-rdynamic"])
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
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
    assert!(!out.stderr.contains("100.0 % complete"), "{}", out.stderr);
}

/// Each frame of `three` takes the place that one of `one` had: who was there at the last reading says nothing.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn callers_of_one_function_have_their_shares() {
    for name in ["/usr/bin/python3.11", "python3.11", "python3.12", "python3.13", "python3.14"] {
        let Some(python) = installed(&[name]).filter(|_| may_record()) else { continue };
        let folder = tempfile::tempdir().unwrap();
        let mut record = prof(["record", "-o", "p.data", "--"]);
        record.arg(python).arg(fixture("callers.py")).arg("2").current_dir(folder.path());
        let out = run(&mut record).ok();
        let explained = run(prof(["explain", "-i", "p.data"]).current_dir(folder.path())).ok();
        let said =
            explained.text().split_once("which function called a Python function is known by").unwrap().1;
        let margin = said.split_once("50 ± ").unwrap().1.split(' ').next().unwrap();
        let margin: f64 = margin.parse().unwrap();
        // As many looks as there can be are some 1,000; beside other load there are fewer.
        assert!(margin < 15.0, "{}", explained.text());
        let folded = run(prof(["flame", "--folded", "-i", "p.data"]).current_dir(folder.path())).ok();
        let stacks = Folded::parse(folded.text());
        let of = |function: &str| stacks.count(|stack| has(stack, "leaf") && has(stack, function)) as f64;
        let shares: Vec<(&str, f64)> = out
            .text()
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(function, share)| (function, share.parse().unwrap()))
            .collect();
        let all: f64 = shares.iter().map(|(function, _)| of(function)).sum();
        for (function, share) in shares {
            let found = 100.0 * of(function) / all;
            // Twice the interval of 95 %: four standard deviations.
            assert!(
                (found - share).abs() < 2.0 * margin,
                "{function}: {found:.1}, not {share:.1} ± {margin}"
            );
        }
    }
}

fn has(stack: &[String], function: &str) -> bool {
    stack.iter().any(|frame| frame.split(' ').next() == Some(function))
}
