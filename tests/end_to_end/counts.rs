//! What samples stand for, and how many are missing: groups that are read with each sample, and lost samples.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::folded::{Folded, plain};
use super::prof::{RECORDERS, Run, UNREAD, figure, folded, folder, may_record, prof, run, run_alone};
use super::programs;

/// Records a command into `prof.data` of `folder`.
fn record(folder: &Path, flags: &[&str], command: &[&OsStr]) -> (PathBuf, Run) {
    let file = folder.join("prof.data");
    let run =
        run(prof(["record"]).args(flags).arg("-o").arg(&file).arg("--").args(command).current_dir(folder));
    (file, run)
}

fn total(file: &Path, event: &str) -> u64 {
    Folded::parse(folded(file, &["--event", event]).ok().text()).total()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn members_of_a_group_weigh_what_each_task_has_counted() {
    let Some(program) = programs::c("touch") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let command = [program.as_os_str(), OsStr::new("60")];
    let every = ["-e", "page-faults", "-c", "1", "--call-graph", "no"];
    let (file, run) = record(folder.path(), &every, &command);
    run.ok();
    let faults = total(&file, "page-faults");
    assert!(faults > 4 * 60 * 256, "{faults}");
    for rate in [&["-F", "997"][..], &["-c", "1000000"]] {
        let flags = [&["-e", "{cpu-clock,page-faults}:S"], rate].concat();
        let (file, run) = record(folder.path(), &flags, &command);
        if run.stderr.contains("before Linux 6.12") {
            return programs::skip("groups that are read are not inherited here");
        }
        run.ok();
        // What a task does behind its last sample is not seen: a millisecond of four processes.
        let read = total(&file, "page-faults");
        assert!((faults - faults / 10..=faults).contains(&read), "{rate:?}: {read} of {faults}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_live_view_reads_groups_too() {
    let Some(program) = programs::c("touch") else { return };
    if !may_record() {
        return;
    }
    let events = ["top", "--json", "-e", "{cpu-clock,page-faults}:S", "--delay-secs", "30", "--"];
    let top = run(prof(events).arg(program).arg("60")).ok();
    let value: serde_json::Value = serde_json::from_str(top.text()).unwrap();
    let event = &value["events"][1];
    assert_eq!((event["event"].as_str(), event["unit"].as_str()), (Some("page-faults"), Some("page-faults")));
    let faults = 4 * 60 * 256;
    let seen = event["total"].as_u64().unwrap();
    assert!(
        (faults - faults / 10..faults + faults / 10).contains(&seen),
        "{seen} of {faults}: {}",
        top.text()
    );
}

/// Programs that run until the test has seen enough of them.
struct Running(Vec<Child>);

impl Running {
    fn start(programs: &[(Option<PathBuf>, &[&str])]) -> Option<Self> {
        let mut running = Self(Vec::new());
        for (program, args) in programs {
            let mut command = Command::new(program.as_ref()?);
            running.0.push(command.args(*args).stdout(Stdio::null()).spawn().unwrap());
        }
        Some(running)
    }

    fn pids(&self) -> String {
        self.0.iter().map(|child| child.id().to_string()).collect::<Vec<_>>().join(",")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The share of samples in which `of` holds for the frames of a stack, innermost last.
fn share(folded: &Folded, of: impl Fn(&[String]) -> bool) -> f64 {
    folded.count(|stack| of(&stack[1..])) as f64 / folded.total() as f64
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_live_view_and_a_recording_of_the_same_seconds_agree() {
    if !may_record() {
        return;
    }
    let programs: [(Option<PathBuf>, &[&str]); 4] = [
        (programs::c("shares"), &["threads", "600000"]),
        (programs::cxx("inlines"), &["600000"]),
        (programs::c("paths"), &["2", "600000"]),
        (programs::c("deep"), &["40", "600000"]),
    ];
    let Some(running) = Running::start(&programs) else { return };
    let folder = folder();
    let data = folder.path().join("prof.data");
    let in_company = RECORDERS.read();
    let both = ["-F", "3999", "-e", "cpu-clock", "-p", &running.pids()];
    let mut record = prof(["record", "-q", "-d", "1"]);
    let mut record = record.args(both).arg("-o").arg(&data).stderr(Stdio::null()).spawn().unwrap();
    let top = run_alone(prof(["top", "--json", "--delay-secs", "1"]).args(both));
    assert!(record.wait().unwrap().success());
    drop(in_company);
    drop(running);
    let value: serde_json::Value = serde_json::from_str(top.ok().text()).unwrap();
    let event = &value["events"][0];
    let recorded = Folded::parse(folded(&data, &[]).ok().text());
    let (ours, theirs) = (event["total"].as_f64().unwrap(), recorded.total() as f64);
    // One row per function and module: of one name, own weights can be added.
    let mut rows: BTreeMap<&str, (f64, f64, u32)> = BTreeMap::new();
    for row in event["rows"].as_array().unwrap() {
        let of = |field: &str| row[field].as_f64().unwrap() / ours;
        let (own, total, modules) = rows.entry(row["function"].as_str().unwrap()).or_default();
        (*own, *total, *modules) = (*own + of("self"), *total + of("total"), *modules + 1);
    }
    let mut compared = 0;
    let mut near = |name: &str, what: &str, live: f64, file: f64| {
        if live.max(file) < 0.01 {
            return;
        }
        compared += 1;
        let (live, file) = (live.min(1.0), file.min(1.0));
        let variance = file.max(live) * (1.0 - file.min(live)) * (1.0 / ours + 1.0 / theirs);
        let tolerance = 0.01 + 3.0 * variance.sqrt();
        assert!(
            (live - file).abs() <= tolerance,
            "{what} of {name}: {live} live, {file} recorded, ± {tolerance}"
        );
    };
    let is = |frame: &String, name: &str| plain(frame) == name;
    for (name, (own, total, modules)) in &rows {
        near(name, "self", *own, share(&recorded, |stack| stack.last().is_some_and(|frame| is(frame, name))));
        // Rows of little weight of their own are left out of the line: `main` of one program may be there, of another not.
        let programs: BTreeSet<&String> = recorded
            .stacks
            .keys()
            .filter(|stack| stack[1..].iter().any(|frame| is(frame, name)))
            .map(|stack| &stack[0])
            .collect();
        if *modules == 1 && (programs.len() == 1 || event["rows_omitted"] == 0) {
            near(name, "total", *total, share(&recorded, |stack| stack.iter().any(|frame| is(frame, name))));
        }
    }
    // And nothing that the recording shows is missing live.
    let names: BTreeSet<&str> =
        recorded.stacks.keys().flat_map(|stack| &stack[1..]).map(|frame| plain(frame)).collect();
    for name in names.into_iter().filter(|name| !rows.contains_key(name)) {
        near(name, "self", 0.0, share(&recorded, |stack| stack.last().is_some_and(|frame| is(frame, name))));
    }
    assert!(compared > 50, "{compared} shares were held against each other");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn lost_samples_of_a_large_group_are_counted() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let events = format!("{{cpu-clock{}}}:S", ",page-faults".repeat(29));
    let flags = ["-e", &events, "-F", "4999", "-m", "8K", "--call-graph", "no", "--strict"];
    let command: Vec<&OsStr> = UNREAD.iter().map(OsStr::new).collect();
    let shares = [program.as_os_str(), OsStr::new("alone"), OsStr::new("200")];
    let (_, run) = record(folder.path(), &flags, &[&command[..], &shares].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(figure(&run.stderr, "lost") > 100, "{}", run.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_kernel_that_does_not_count_lost_samples_tells_of_them_in_its_rings() {
    let Some(program) = programs::c("shares") else { return };
    let Some(kernel) = programs::c_built("other_kernel", "preloaded", &["-shared", "-fPIC"]) else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let flags = ["-e", "cpu-clock", "-F", "4999", "-m", "8K", "--call-graph", "no", "--strict"];
    // What comes behind the loss has room again, and the kernel says what had none: in the same ring, so on the same CPU.
    let again = "kill -STOP $PPID; taskset -cp 0 $$ >/dev/null; \"$@\"; kill -CONT $PPID; sleep 0.3; \"$@\"";
    let words = ["sh", "-c", again, "sh"].map(OsStr::new);
    let shares = [program.as_os_str(), OsStr::new("alone"), OsStr::new("200")];
    let file = folder.path().join("prof.data");
    let recorded = |strict: &[&str]| {
        let mut command = prof(["record", "-v"]);
        command.args(strict).arg("-o").arg(&file).arg("--").args(words).args(shares);
        run(command.env("LD_PRELOAD", &kernel).env("OTHER_KERNEL", "older").current_dir(folder.path()))
    };
    let run = recorded(&flags);
    if !run.stderr.contains("does not know PERF_FORMAT_LOST (6.0)") {
        return programs::skip("nothing can be preloaded into prof here");
    }
    assert_eq!(run.code, 1, "{}", run.stderr);
    let lost = figure(&run.stderr, "lost");
    assert!(lost > 100, "{}", run.stderr);
    // Without a record behind it, no LOST record tells of a loss.
    let end = ["sh", "-c", "trap : INT; kill -STOP $PPID; \"$@\"; kill -INT $PPID; kill -CONT $PPID", "sh"]
        .map(OsStr::new);
    let mut at_the_end = prof(["record"]);
    at_the_end.args(flags).arg("-o").arg(folder.path().join("end.data")).arg("--").args(end).args(shares);
    let at_the_end = self::run(at_the_end.env("LD_PRELOAD", &kernel).env("OTHER_KERNEL", "older"));
    assert!(!at_the_end.stderr.contains(" 0 lost"), "{}", at_the_end.stderr);
    assert_eq!(at_the_end.code, 1, "{}", at_the_end.stderr);
    let shown = self::run(prof(["flame", "-o", "x.svg", "-i"]).arg(&file).current_dir(folder.path())).ok();
    let svg = std::fs::read_to_string(folder.path().join("x.svg")).unwrap();
    assert!(svg.contains(&format!("{} lost", grouped(lost))), "{}{lost}", shown.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_count_of_lost_samples_that_cannot_be_read_is_not_0() {
    let Some(program) = programs::c("shares") else { return };
    let Some(kernel) = programs::c_built("other_kernel", "preloaded", &["-shared", "-fPIC"]) else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    for how in ["unread", "nothing"] {
        let mut record = prof(["record", "--strict", "-e", "cpu-clock", "-F", "997", "-o"]);
        record.arg(&file).arg("--").arg(&program).args(["alone", "100"]);
        let run = self::run(record.env("LD_PRELOAD", &kernel).env("OTHER_KERNEL", how));
        if run.stderr.contains(" 0 lost") {
            return programs::skip("nothing can be preloaded into prof here");
        }
        assert_eq!(run.code, 1, "{how}: {}", run.stderr);
        assert!(run.stderr.contains(", unknown lost,"), "{how}: {}", run.stderr);
        self::run(prof(["flame", "-o", "x.svg", "-i"]).arg(&file).current_dir(folder.path())).ok();
        let svg = std::fs::read_to_string(folder.path().join("x.svg")).unwrap();
        assert!(svg.contains("unknown lost"), "{how}");
        let mut top = prof(["top", "--json", "-e", "cpu-clock", "--delay-secs", "20", "--"]);
        let top = top.arg(&program).args(["alone", "100"]);
        let top = self::run(top.env("LD_PRELOAD", &kernel).env("OTHER_KERNEL", how)).ok();
        let value: serde_json::Value = serde_json::from_str(top.text()).unwrap();
        assert!(
            value["lost"].is_null() && value["loss"]["unread_counts"].as_u64() > Some(0),
            "{}",
            top.text()
        );
    }
}

/// `1,234`
fn grouped(number: u64) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{},{:03}", grouped(thousands), number % 1000),
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_live_view_tells_of_lost_samples_while_it_runs() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    // Stops its recorder for a moment, and goes on much longer.
    let words = "kill -STOP $PPID; \"$@\" 300; kill -CONT $PPID; exec \"$@\" 60000";
    for chains in ["no", "auto"] {
        let flags = [
            "top",
            "--json",
            "--intervals",
            "4",
            "--delay-secs",
            "0.25",
            "-e",
            "cpu-clock",
            "-F",
            "4999",
            "-m",
            "16K",
        ];
        let mut top = prof(flags);
        let top =
            top.args(["--call-graph", chains, "--", "sh", "-c", words, "sh"]).arg(&program).arg("alone");
        let top = run(top).ok();
        let intervals: Vec<serde_json::Value> =
            top.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(intervals.len(), 4);
        assert!(intervals.iter().all(|interval| interval["ended"] == false), "{chains}");
        let lost: u64 = intervals.iter().map(|interval| interval["lost"].as_u64().unwrap()).sum();
        assert!(lost > 50, "{chains}: {lost}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn pinned_and_exclusive_are_the_leaders_alone() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("shares") else { return };
    let folder = folder();
    for modifier in ["D", "e"] {
        let event = format!("{{cpu-clock,page-faults}}:{modifier}");
        let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("60")];
        let (file, run) = record(folder.path(), &["-e", &event, "-F", "999", "--strict"], &command);
        run.ok();
        assert!(total(&file, "cpu-clock") > 20);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn call_chains_are_as_long_as_the_kernel_allows() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_stack").unwrap_or_default();
    let Ok(limit) = limit.trim().parse::<u16>() else {
        return programs::skip("no limit of call chains is known here");
    };
    let too_long = (limit + 1).to_string();
    let (_, run) = record(
        folder.path(),
        &["-vv", "--call-graph", "fp", "--max-stack", &too_long],
        &[OsStr::new("true")],
    );
    let run = run.ok();
    for part in [&format!("call chains of {limit} addresses"), &format!("perf_event_max_stack={too_long}")] {
        assert!(run.stderr.contains(part), "no {part}: {}", run.stderr);
    }
}
