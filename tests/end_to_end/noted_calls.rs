//! Programs of languages that write down at each call what runs, held against samples of them.

use std::collections::HashMap;
use std::path::Path;

use super::prof::{prof, run};
use super::runtime_shares::fixture;

/// The program of a language, and how `prof script` shows the language's functions.
pub(crate) struct Language {
    pub(crate) fixture: &'static str,
    /// Returns the function that the name of a frame's object stands for.
    pub(crate) function_of: fn(&str) -> Option<String>,
    /// The object of functions that were not found.
    pub(crate) unknown: &'static str,
    /// The functions that write down.
    pub(crate) writing: &'static [&'static str],
    /// The function that calls the outermost one that is written down.
    pub(crate) outermost: Option<&'static str>,
}

/// A program, and what must be right of its samples at least, of 1: the innermost function, all functions. Samples do not count where these are
/// marked as not found: how soon after a sample the process is read is the machine's matter.
pub(crate) struct Case {
    pub(crate) kind: &'static str,
    pub(crate) steps: &'static str,
    /// Seconds, and samples in each.
    pub(crate) time: (&'static str, &'static str),
    pub(crate) innermost: f64,
    pub(crate) whole: f64,
}

/// Samples below which shares say little.
const ENOUGH: usize = 200;
/// The part of the samples whose innermost function may be marked, on a machine that is as busy as one that runs tests.
const MOST_MARKED: f64 = 0.35;

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

/// A sample of `prof script`: thread, nanoseconds, and the functions of the language from the innermost on.
struct Sample {
    thread: i64,
    time: u64,
    functions: Vec<String>,
}

fn samples(script: &str, language: &Language) -> Vec<Sample> {
    let mut samples: Vec<Sample> = Vec::new();
    for line in script.lines() {
        if line.starts_with(|first: char| !first.is_whitespace()) {
            // Names of threads have spaces: Python 3.14 gives them those that Python itself has for them.
            let before_time = line.split_once(": ").map_or(line, |(before, _)| before).trim_end_matches(':');
            let mut words = before_time.split_whitespace().rev();
            let (time, thread) = (words.next().unwrap(), words.next().unwrap());
            let (seconds, fraction) = time.split_once('.').unwrap();
            let nanoseconds: u64 = format!("{fraction:0<9}").parse().unwrap();
            let time = seconds.parse::<u64>().unwrap() * 1_000_000_000 + nanoseconds;
            samples.push(Sample { thread: thread.parse().unwrap(), time, functions: Vec::new() });
        } else if let Some((_, object)) = line.rsplit_once(" (")
            && let Some(sample) = samples.last_mut()
        {
            let object = object.trim_end_matches(')');
            match (language.function_of)(object) {
                Some(function) => sample.functions.push(function),
                None if object == language.unknown => sample.functions.push(object.to_owned()),
                None => {}
            }
        }
    }
    samples
}

/// Records a program that `runtime` runs, and holds its samples against what it wrote down.
pub(crate) fn check(runtime: &Path, language: &Language, case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut record =
        prof(["record", "-e", "cpu-clock", "-F", case.time.1, "-k", "monotonic", "-o", "p.data", "--"]);
    record.arg(runtime).arg(fixture(language.fixture)).args([case.kind, case.steps, case.time.0]).arg(&log);
    run(record.current_dir(folder.path())).ok();
    let script = ["script", "-F", "comm,tid,time,ip,sym,dso", "--ns", "-i", "p.data"];
    let script = run(prof(script).current_dir(folder.path())).ok();
    let truth = Truth::read(&log);
    let (mut all, mut innermost, mut whole) = (0, 0, 0);
    let (mut marked_innermost, mut marked) = (0, 0);
    let mut shares: HashMap<String, (f64, f64)> = HashMap::new();
    for sample in samples(script.text(), language) {
        let Some(stack) = truth.at(sample.thread, sample.time) else { continue };
        let due: Vec<&str> = stack.split(';').rev().collect();
        // Writing takes time, too.
        let is_writing = |name: &&str| language.writing.contains(name);
        let found: Vec<&str> = sample.functions.iter().map(String::as_str).skip_while(is_writing).collect();
        all += 1;
        innermost += usize::from(found.first() == due.first());
        marked_innermost += usize::from(found.first() == Some(&language.unknown));
        marked += usize::from(found.contains(&language.unknown));
        whole += usize::from(
            found.starts_with(&due)
                && language.outermost.is_none_or(|outermost| found.get(due.len()) == Some(&outermost)),
        );
        shares.entry(due[0].to_owned()).or_default().0 += 1.0;
        if let Some(first) = found.first() {
            shares.entry((*first).to_owned()).or_default().1 += 1.0;
        }
    }
    let figures = format!(
        "{} {} {}: {innermost} and {whole} of {all}, {marked_innermost} and {marked} marked: {shares:?}",
        runtime.display(),
        case.kind,
        case.steps
    );
    assert!(all >= ENOUGH, "{figures}");
    let is_right = |right: usize, marked: usize, least: f64| right as f64 >= least * (all - marked) as f64;
    assert!(
        is_right(innermost, marked_innermost, case.innermost) && is_right(whole, marked, case.whole),
        "{figures}"
    );
    assert!(marked_innermost as f64 <= MOST_MARKED * all as f64, "{figures}");
    // What was not found says so, and is of any function.
    let unknown = shares.remove(language.unknown).map_or(0.0, |(_, found)| found);
    for (due, found) in shares.values() {
        // Five points for calls of some microseconds, two for others, and what so few samples may be off (three deviations).
        let due = due / all as f64;
        let most = if case.steps == "40" { 0.05 } else { 0.02 };
        let chance = 3.0 * (due * (1.0 - due) / all as f64).sqrt();
        assert!((found / (all as f64 - unknown) - due).abs() < most + chance, "{figures}");
    }
}
