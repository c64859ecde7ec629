//! Parked goroutines, held against what the program's own `runtime/pprof` says.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::folded::Folded;
use super::prof::{folder, may_record, prof, run};
use super::programs::{go, skip};

/// The number of goroutines beside the main one.
const TASKS: u64 = 400;

/// A program that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Stacks, outermost first: where it was started, functions, and what it waits for; each with the number of goroutines.
type Stacks = BTreeMap<Vec<String>, u64>;

#[test]
fn goroutines_wait_where_their_own_program_says() {
    if !may_record() {
        return;
    }
    let Some(program) = go("tasks", false) else { return skip("there is no go") };
    let folder = folder();
    let path = folder.path().join("stacks.txt");
    let mut command = Command::new(program);
    let running = Running(command.arg(&path).args([&TASKS.to_string(), "60"]).spawn().unwrap());
    let begin = Instant::now();
    while !path.exists() && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let own = stacks_of_program(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(own.values().sum::<u64>(), TASKS, "{own:?}");
    let pid = running.0.id().to_string();
    let begin = Instant::now();
    run(prof(["record", "-q", "--tasks=5", "-o", "t.data", "-p", &pid, "-d", "4"])
        .current_dir(folder.path()))
    .ok();
    let took = begin.elapsed().as_secs_f64();
    let (ours, seconds) = stacks_of_prof(folder.path());
    assert_eq!(ours.keys().collect::<Vec<_>>(), own.keys().collect::<Vec<_>>());
    // A snapshot that has a share of the tasks weighs them by the share.
    let total: u64 = ours.values().sum();
    for (stack, &count) in own.iter().filter(|(_, count)| **count >= TASKS / 10) {
        let found = ours[stack] as f64 / total as f64 * TASKS as f64;
        assert!((found / count as f64 - 1.0).abs() < 0.2, "{stack:?}: {found} of {count}");
    }
    assert!((1.0..took).contains(&seconds), "{seconds} of {took}");
}

#[test]
fn a_program_without_symbols_is_said_not_to_be_read() {
    if !may_record() {
        return;
    }
    let Some(program) = go("tasks", true) else { return skip("there is no go") };
    let folder = folder();
    let mut record = prof(["record", "-q", "--tasks", "-o", "t.data", "--"]);
    run(record.arg(program).args(["stacks.txt", "10", "0.5"]).current_dir(folder.path())).ok();
    let report = run(prof(["report", "-i", "t.data", "--event", "tasks"]).current_dir(folder.path())).ok();
    assert!(report.text().contains("[not read: go1."), "{}", report.text());
    // Where none is named, the CPU's event is shown, or that of tasks if the program only slept.
    run(prof(["explain", "t.data"]).current_dir(folder.path())).ok();
}

/// Reads what `runtime/pprof` has written, without the main goroutine.
fn stacks_of_program(text: &str) -> Stacks {
    let mut stacks = Stacks::new();
    for block in text.split("\n\n") {
        let mut lines = block.lines();
        let Some(head) = lines.next().and_then(|head| head.split_once('[')) else { continue };
        let reason = head.1.split([',', ']']).next().unwrap_or_default();
        let functions: Vec<&str> = lines.filter(|line| !line.starts_with('\t')).collect();
        let Some((created, functions)) = functions.split_last() else { continue };
        let Some(created) = created.strip_prefix("created by ") else { continue };
        let mut stack = vec![created.split(' ').next().unwrap_or_default().to_owned()];
        let name = |line: &&str| line.rsplit_once('(').map_or(*line, |(name, _)| name).to_owned();
        stack.extend(functions.iter().rev().map(name));
        stack.push(reason.to_owned());
        *stacks.entry(stack).or_default() += 1;
    }
    stacks
}

/// Reads the recording: stacks by their weight in milliseconds, and for how many seconds the main goroutine was seen.
fn stacks_of_prof(folder: &Path) -> (Stacks, f64) {
    let folded =
        run(prof(["export", "-q", "-f", "folded", "--event", "tasks", "t.data"]).current_dir(folder)).ok();
    let folded = Folded::parse(folded.text());
    let main = folded.count(|stack| stack.get(1).is_some_and(|frame| frame == "goroutine"));
    let mut stacks = Stacks::new();
    for (stack, weight) in &folded.stacks {
        let Some(place) = stack.get(1).and_then(|root| root.strip_prefix("goroutine, started in ")) else {
            continue;
        };
        let inner = stack.last().and_then(|leaf| leaf.strip_prefix("[waits: ")?.strip_suffix(']'));
        let inner = inner.unwrap_or_else(|| panic!("{stack:?}"));
        let bare = |frame: &String| frame.trim_end_matches("_[i]").to_owned();
        let mut named = vec![place.split(' ').next().unwrap_or_default().to_owned()];
        // Go leaves out what its compiler has generated, even if the function that it calls is inlined there.
        let is_generated = |frame: &String| frame.contains(".gowrap") || frame.ends_with("-fm");
        named.extend(stack[2..stack.len() - 1].iter().map(bare).filter(|frame| !is_generated(frame)));
        named.push(inner.to_owned());
        *stacks.entry(named).or_default() += weight / 1_000_000;
    }
    (stacks, main as f64 / 1e9)
}
