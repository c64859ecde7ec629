//! Python functions without a switch of the interpreter, held against what the program itself writes down at each call.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::folded::Folded;
use super::prof::{may_record, prof, run};
use super::programs;
use super::runtime_shares::{fixture, installed};

/// A program, and what must be right of its samples at least, of 1: the innermost function, all functions.
struct Case {
    kind: &'static str,
    steps: &'static str,
    innermost: f64,
    whole: f64,
}

/// Machines that run tests are busy, and processes are read late on them. Without company, these figures are those of decision 13.
const CASES: [Case; 6] = [
    Case { kind: "calls", steps: "40", innermost: 0.85, whole: 0.7 },
    Case { kind: "calls", steps: "1000", innermost: 0.94, whole: 0.8 },
    Case { kind: "threads", steps: "1000", innermost: 0.94, whole: 0.8 },
    Case { kind: "generators", steps: "400", innermost: 0.94, whole: 0.8 },
    Case { kind: "recursion", steps: "300", innermost: 0.94, whole: 0.8 },
    Case { kind: "callbacks", steps: "200", innermost: 0.94, whole: 0.0 },
];

/// Samples below which shares say little.
const ENOUGH: usize = 200;

/// What a program wrote down: for each thread, the times and the stacks that began then.
struct Truth(HashMap<i64, Vec<(u64, String)>>);

impl Truth {
    fn read(path: &Path) -> Self {
        let mut threads: HashMap<i64, Vec<(u64, String)>> = HashMap::new();
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let mut words = line.splitn(3, ' ');
            let mut word = || words.next().unwrap();
            let thread = word().parse().unwrap();
            threads.entry(thread).or_default().push((word().parse().unwrap(), word().to_owned()));
        }
        Self(threads)
    }

    /// The stack of a thread at a time; `None` where the program does not say.
    fn at(&self, thread: i64, time: u64) -> Option<&str> {
        let log = self.0.get(&thread)?;
        let next = log.partition_point(|(begin, _)| *begin <= time);
        log.get(next)?;
        Some(&*log.get(next.checked_sub(1)?)?.1).filter(|stack| *stack != "-")
    }
}

/// A sample of `prof script`: thread, nanoseconds, and the Python functions from the innermost on.
struct Sample {
    thread: i64,
    time: u64,
    functions: Vec<String>,
}

fn samples(script: &str) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for line in script.lines() {
        if line.starts_with(|first: char| !first.is_whitespace()) {
            let mut words = line.split_whitespace().skip(1);
            let (thread, time) = (words.next().unwrap(), words.next().unwrap().trim_end_matches(':'));
            let (seconds, fraction) = time.split_once('.').unwrap();
            let nanoseconds: u64 = format!("{fraction:0<9}").parse().unwrap();
            let time = seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanoseconds;
            samples.push(Sample { thread: thread.parse().unwrap(), time, functions: Vec::new() });
        } else if let Some((_, object)) = line.rsplit_once(" (")
            && let Some(sample) = samples.last_mut()
        {
            let object = object.trim_end_matches(')');
            match object.split_once(".py:") {
                Some((_, function)) => {
                    sample.functions.push(function.rsplit('.').next().unwrap().to_owned());
                }
                None if object == "[python]" => sample.functions.push(object.to_owned()),
                None => {}
            }
        }
    }
    samples
}

fn check(python: &Path, case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut record =
        prof(["record", "-e", "cpu-clock", "-F", "997", "-k", "monotonic", "-o", "p.data", "--"]);
    record.arg(python).arg(fixture("calls.py")).args([case.kind, case.steps, "2"]).arg(&log);
    run(record.current_dir(folder.path())).ok();
    let script = ["script", "-F", "comm,tid,time,ip,sym,dso", "--ns", "-i", "p.data"];
    let script = run(prof(script).current_dir(folder.path())).ok();
    let truth = Truth::read(&log);
    let (mut all, mut innermost, mut whole) = (0, 0, 0);
    let mut shares: HashMap<String, (f64, f64)> = HashMap::new();
    for sample in samples(script.text()) {
        let Some(stack) = truth.at(sample.thread, sample.time) else { continue };
        let due: Vec<&str> = stack.split(';').rev().collect();
        // Writing takes time, too.
        let is_writing = |name: &&str| ["begin", "end"].contains(name);
        let found: Vec<&str> = sample.functions.iter().map(String::as_str).skip_while(is_writing).collect();
        all += 1;
        innermost += usize::from(found.first() == due.first());
        whole += usize::from(found.starts_with(&due) && found.get(due.len()) == Some(&"run"));
        shares.entry(due[0].to_owned()).or_default().0 += 1.0;
        if let Some(first) = found.first() {
            shares.entry((*first).to_owned()).or_default().1 += 1.0;
        }
    }
    let figures = format!(
        "{} {} {}: {innermost} and {whole} of {all}: {shares:?}",
        python.display(),
        case.kind,
        case.steps
    );
    assert!(all >= ENOUGH, "{figures}");
    let part = |count: usize| count as f64 / all as f64;
    assert!(part(innermost) >= case.innermost && part(whole) >= case.whole, "{figures}");
    // What was not found says so, and is of any function.
    let unknown = shares.remove("[python]").map_or(0.0, |(_, found)| found);
    for (due, found) in shares.values() {
        // Five points for calls of some microseconds, two for others, and what so few samples may be off (three deviations).
        let due = due / all as f64;
        let most = if case.steps == "40" { 0.05 } else { 0.02 };
        let chance = 3.0 * (due * (1.0 - due) / all as f64).sqrt();
        assert!((found / (all as f64 - unknown) - due).abs() < most + chance, "{figures}");
    }
}

fn check_all(names: &[&str]) {
    if let Some(python) = installed(names).filter(|_| may_record()) {
        CASES.iter().for_each(|case| check(&python, case));
    }
}

#[test]
fn functions_of_3_11_are_those_that_ran() {
    check_all(&["python3.11"]);
}

#[test]
fn functions_of_3_12_are_those_that_ran() {
    check_all(&["python3.12"]);
}

#[test]
fn functions_of_3_13_are_those_that_ran() {
    check_all(&["python3.13"]);
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
