//! Each form of perf's event grammar that this kernel has, recorded, and read back by perf and by us.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::folded::Folded;
use super::prof::{Run, figure, folded, folder, may_record, prof, run};
use super::programs::{self, has, skip};
use super::{listing, perf};

/// Samples of each event, by its name.
type Counts = BTreeMap<String, usize>;

/// Records a command with frame pointers, as `prof.data` of the folder; again where a breakpoint's trap has ended the command, as
/// happens to one in forty in virtual machines, also to perf's.
fn record(folder: &Path, flags: &[&str], command: &[&str]) -> Run {
    const SIGTRAP: i32 = 128 + 5;
    let once = || {
        let mut record = prof(["record", "-q", "-o", "prof.data", "-m", "8M", "--call-graph", "fp"]);
        run(record.args(flags).arg("--").args(command).current_dir(folder))
    };
    let mut recorded = once();
    for _ in 0..3 {
        if recorded.code != SIGTRAP {
            break;
        }
        recorded = once();
    }
    recorded
}

/// The same, and what perf and we count in it, which is the same.
fn counts(folder: &Path, flags: &[&str], command: &[&str]) -> Counts {
    let recorded = record(folder, flags, command);
    assert_eq!(recorded.code, 0, "{flags:?}: {}", recorded.stderr);
    let ours = by_event(run(prof(["script", "-F", "event", "-i", "prof.data"]).current_dir(folder)).ok());
    if has("perf") {
        let mut script = perf::perf(folder);
        let theirs = by_event(run(script.args(["script", "-F", "event", "-i", "prof.data"])).ok());
        assert_eq!(ours, theirs, "{flags:?}");
    }
    ours
}

fn by_event(script: Run) -> Counts {
    let mut counts = Counts::new();
    for name in script.text().lines().map(|line| line.trim().trim_end_matches(':')) {
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    counts.remove("");
    counts
}

fn shares() -> Option<String> {
    if !may_record() {
        return None;
    }
    programs::c("shares").map(|path| path.to_str().unwrap().to_owned())
}

/// The addresses of the program that counts, which are fixed, and the program.
fn counting() -> Option<(String, BTreeMap<String, u64>)> {
    if !may_record() || !has("nm") {
        return None;
    }
    let program = programs::c_built("counts", "fixed", &["-no-pie"])?;
    let names = run(Command::new("nm").arg(&program)).ok();
    let symbol = |line: &str| {
        let mut words = line.split(' ');
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?.to_owned(), address))
    };
    let symbols = names.text().lines().filter_map(symbol).collect();
    Some((program.to_str().unwrap().to_owned(), symbols))
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn modifiers_choose_what_is_seen() {
    let Some(shares) = shares() else { return };
    let folder = folder();
    for modifiers in ["u", "uk", "H", "D", "e", "P", "p", "pp", "ppp", "uppD", "I"] {
        let event = format!("cpu-clock:{modifiers}");
        let counts = counts(folder.path(), &["-F", "4999", "-e", &event], &[&shares, "alone", "40"]);
        assert_eq!(counts.keys().collect::<Vec<_>>(), [&event]);
        assert!(counts[&event] > 50, "{event}: {counts:?}");
        if modifiers == "u" {
            let script = run(prof(["script", "-i", "prof.data"]).current_dir(folder.path())).ok();
            assert!(!script.text().contains("ffffffff8"), "{}", script.text());
        }
    }
    // The kernel's side, of a program that does nothing but ask it.
    let counted = counts(
        folder.path(),
        &["-F", "4999", "-e", "cpu-clock:k,cpu-clock:u"],
        &["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=2000", "status=none"],
    );
    let of = |name: &str| counted.get(name).copied().unwrap_or(0);
    assert!(of("cpu-clock:k") > 4 * of("cpu-clock:u"), "{counted:?}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn breakpoints_hit_each_time() {
    let Some((program, symbols)) = counting() else { return };
    let folder = folder();
    let (counter, bump) = (symbols["counter"], symbols["bump"]);
    let forms = [
        (format!("mem:{counter:#x}/8:w"), 200),
        (format!("mem:{counter:#x}:w:u"), 200),
        (format!("mem:{bump:#x}:x"), 200),
        (format!("mem:{counter:#x}/8:w/period=10,name=tenth/"), 20),
    ];
    for (event, expected) in forms {
        if record(folder.path(), &["-e", &event], &["true"]).stderr.contains("ENOSPC") {
            return skip("all breakpoints are in use");
        }
        let counted = counts(folder.path(), &["-e", &event], &[&program, "200"]);
        let name = if event.contains("name=") { "tenth" } else { &event };
        let found = counted.get(name).copied().unwrap_or(0);
        // The kernel and the dynamic linker prepare the memory in which the variable lies.
        let prepared = if event.contains(":x") { 0 } else { expected / 10 };
        assert!((expected..=expected + prepared).contains(&found), "{event}: {counted:?}");
    }
    // Both ways at once, each read: the variable is read to be written, and once to be printed and compared.
    let event = format!("mem:{counter:#x}/8:rw");
    let counted = counts(folder.path(), &["-e", &event], &[&program, "200"]);
    assert!(counted[&event] >= 400, "{counted:?}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn probes_hit_each_time() {
    let Some((program, symbols)) = counting() else { return };
    let folder = folder();
    let first = record(folder.path(), &["-e", &format!("uprobe:{program}:bump")], &[&program, "1"]);
    if first.code != 0 {
        return skip(&format!("no probes here: {}", first.stderr));
    }
    // The code of a small program that is not relocatable: its segment lies at its address less the base.
    let offset = symbols["bump"] - 0x40_0000;
    for place in ["bump".to_owned(), "bump+0".to_owned(), format!("{offset:#x}"), "bump%return".to_owned()] {
        let event = format!("uprobe:{program}:{place}");
        let counted = counts(folder.path(), &["-e", &event], &[&program, "200"]);
        assert_eq!(counted.get(&event), Some(&200), "{counted:?}");
    }
    let event = format!("uprobe:{program}:bump/name=bumped,call-graph=no/");
    let counted = counts(folder.path(), &["-e", &event], &[&program, "200"]);
    assert_eq!(counted.get("bumped"), Some(&200), "{counted:?}");
    let wrong = record(folder.path(), &["-e", &format!("uprobe:{program}:bmup")], &[&program, "1"]);
    assert!(wrong.stderr.contains("did you mean bump?"), "{}", wrong.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn stacks_go_on_above_a_function_whose_return_is_probed() {
    let (Some(program), true) = (programs::c("shares"), may_record()) else { return };
    let program = program.to_str().unwrap();
    let folder = folder();
    let list = format!("cpu-clock,uprobe:{program}:sixty%return");
    let mut record = prof(["record", "-q", "-o", "prof.data", "-F", "997", "-e", &list, "--"]);
    let recorded = run(record.args([program, "alone", "300"]).current_dir(folder.path()));
    if recorded.code != 0 {
        return skip(&format!("no probes here: {}", recorded.stderr));
    }
    let file = folder.path().join("prof.data");
    let folded = folded(&file, &["--event", "cpu-clock", "--no-kernel"]).ok();
    let stacks = Folded::parse(folded.text());
    let inside = stacks.with("sixty");
    let up_to_main = stacks.count(|stack| {
        let place = |name: &str| stack.iter().position(|frame| frame == name);
        place("sixty").zip(place("main")).is_some_and(|(inner, outer)| outer < inner)
    });
    assert!(inside > 50 && up_to_main * 100 >= inside * 95, "{up_to_main} of {inside}: {}", folded.text());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn probes_by_the_names_that_people_read() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let programs = [
        (programs::cxx("inlines"), "main"),
        (programs::rust("shares", "legacy"), "shares::sixty"),
        (programs::rust("shares", "v0"), "shares::sixty"),
    ];
    for (program, function) in programs {
        let Some(program) = program else { return };
        let program = program.to_str().unwrap();
        let event = format!("uprobe:{program}:{function}");
        let recorded = record(folder.path(), &["-e", &event], &[program, "1"]);
        if recorded.stderr.contains("CAP_SYS_ADMIN") || recorded.stderr.contains("no uprobes") {
            return skip(&format!("no probes here: {}", recorded.stderr));
        }
        assert!(!recorded.stderr.contains("no symbol"), "{function}: {}", recorded.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn tracepoints_with_patterns_filters_and_parameters() {
    if !may_record() || !listing::has_tracepoints() {
        return;
    }
    let folder = folder();
    let command = ["sh", "-c", "/bin/true; /bin/true; :"];
    let counted = counts(folder.path(), &["-e", "sched:sched_process_e*"], &command);
    assert_eq!(counted.get("sched:sched_process_exit"), Some(&3), "{counted:?}");
    assert_eq!(counted.get("sched:sched_process_exec"), Some(&3), "{counted:?}");
    let filtered = ["-e", "sched:sched_process_exit,sched:sched_process_exec", "--filter", "pid < 0"];
    assert_eq!(counts(folder.path(), &filtered, &command), Counts::new());
    let half =
        counts(folder.path(), &["-e", "sched:sched_process_exit", "--filter", "comm == \"true\""], &command);
    assert_eq!(half.get("sched:sched_process_exit"), Some(&2), "{half:?}");
    let bare = "sched:sched_process_exit/call-graph=no,name=ended/";
    assert_eq!(counts(folder.path(), &["-e", bare], &command).get("ended"), Some(&3));
    let wrong = record(folder.path(), &["-e", "sched:sched_switch", "--filter", "bogus > 0"], &["true"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("bogus > 0"), "{}", wrong.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn groups_sample_their_members() {
    let Some(shares) = shares() else { return };
    let folder = folder();
    let command = [shares.as_str(), "alone", "60"];
    let together =
        counts(folder.path(), &["-F", "999", "-e", "{cpu-clock,task-clock,page-faults}"], &command);
    assert!(together["cpu-clock"] > 30 && together["task-clock"] > 30, "{together:?}");
    // Only the leader samples; each sample carries the members' counts.
    let read = counts(folder.path(), &["-F", "999", "-e", "{cpu-clock,page-faults}:S,cs"], &command);
    assert!(read["cpu-clock"] > 30 && read["page-faults"] > 0, "{read:?}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn each_event_has_its_own_parameters() {
    let Some(shares) = shares() else { return };
    let folder = folder();
    let events = "cpu-clock/freq=2000,name=fast/,cpu-clock/freq=100,name=slow/u,\
                  page-faults/period=1,call-graph=no,name=bare/,task-clock/max-stack=2,name=short/u,\
                  task-clock/call-graph=dwarf,name=deep/u";
    let counted = counts(folder.path(), &["-e", events], &[&shares, "alone", "100"]);
    assert!(counted["fast"] > 10 * counted["slow"], "{counted:?}");
    let stacks = |event: &str| {
        let script = run(prof(["script", "--no-inline", "-F", "ip", "-i", "prof.data", "--event", event])
            .current_dir(folder.path()))
        .ok();
        // The mark of a stack that was cut is no frame.
        let is_mark = |line: &&str| {
            let address = u64::from_str_radix(line.trim(), 16);
            address.is_ok_and(|address| model::TruncationReason::from_marker(address).is_some())
        };
        let frames = |block: &str| block.trim().lines().filter(|line| !is_mark(line)).count();
        let blocks = script.text().split("\n\n").map(frames);
        blocks.filter(|lines| *lines > 0).collect::<Vec<_>>()
    };
    // Without chains a sample is a line, and no empty line ends it.
    assert_eq!(stacks("bare"), [counted["bare"]]);
    let short = stacks("short");
    assert!(!short.is_empty() && short.iter().all(|frames| *frames <= 2), "{short:?}");
    assert!(stacks("deep").iter().any(|frames| *frames >= 3), "{:?}", stacks("deep"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_probe_lets_the_program_fork_and_is_seen_in_what_it_starts() {
    let (Some(program), true) = (programs::c("marks"), may_record()) else { return };
    let folder = folder();
    let event = format!("uprobe:{}:odd_mark", program.display());
    let script = "\"$0\" 0 0 5 odd; (\"$0\" 0 0 5 odd); true";
    let mut command = prof(["record", "-e", &event, "-o", "out", "--", "sh", "-c", script]);
    let run_ = run(command.arg(&program).current_dir(folder.path()));
    if run_.code == 1 && run_.stderr.contains("cannot") {
        skip(&format!("no probe can be set here: {}", run_.stderr));
        return;
    }
    assert_eq!(run_.code, 0, "{}", run_.stderr);
    assert_eq!(figure(&run_.stderr, "samples"), 2, "{}", run_.stderr);
}
