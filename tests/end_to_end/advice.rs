//! Advice is typed, and the figure that it complained about gets better.

use std::ffi::OsStr;
use std::path::Path;

use super::prof::{Run, UNREAD, figure, folded, folder, may_record, prof, run};
use super::programs;
use super::runtime_shares::{fixture, installed};

/// Records a command into `prof.data` of a folder.
fn record(folder: &Path, flags: &[String], command: &[&OsStr]) -> Run {
    let mut record = prof(["record", "-e", "cpu-clock", "-o"]);
    record.arg(folder.join("prof.data")).args(flags).arg("--").args(command).current_dir(folder);
    run(&mut record).ok()
}

/// The words that a message says to type after `before`, up to what follows them.
fn typed(messages: &str, before: &str) -> Vec<String> {
    let start = messages.find(before).unwrap_or_else(|| panic!("no {before:?} in {messages:?}"));
    let advice = &messages[start + before.len()..];
    let ends = ["\n", ";", ")", "`", ", "].iter().filter_map(|end| advice.find(end));
    let end = ends.min().unwrap_or(advice.len());
    advice[..end].split_whitespace().map(str::to_owned).collect()
}

/// How many stacks ended early, for this reason.
fn cut(run: &Run, reason: &str) -> u64 {
    let end = format!(" early: {reason}");
    let line = run.stderr.lines().find(|line| line.contains(&end));
    let count = line.and_then(|line| line.trim_start_matches("prof: ").split(' ').next());
    count.map_or(0, |count| count.replace(',', "").parse().unwrap())
}

#[test]
fn larger_copies_complete_stacks_and_none_are_advised_where_they_are_the_largest() {
    let built = |variant, frame| programs::c_built("deep", variant, &[frame, "-fomit-frame-pointer"]);
    let (Some(deep), Some(deeper)) = (built("1k", "-DFRAME=1024"), built("4k", "-DFRAME=4096")) else {
        return;
    };
    if !may_record() {
        return;
    }
    let folder = folder();
    // Of processes that have ended there is no memory to complete stacks from.
    let often = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do \"$0\" 30 10; done";
    let of = |program: &Path, flags: &[String]| {
        let rate = ["-F".to_owned(), "4999".to_owned()];
        let command = ["sh".as_ref(), "-c".as_ref(), often.as_ref(), program.as_os_str()];
        record(folder.path(), &[&rate[..], flags].concat(), &command)
    };
    let reason = "stack copy too small";
    let copies = |size: &str| ["--call-graph".to_owned(), format!("dwarf,{size}")];
    // Stacks of 30 KiB.
    let small = of(&deep, &copies("4096"));
    let larger = of(&deep, &typed(&small.stderr, "try: "));
    assert!(cut(&larger, reason) < cut(&small, reason), "{}\n{}", small.stderr, larger.stderr);
    // Of 120 KiB, more than the largest copy.
    let largest = of(&deeper, &copies("65528"));
    assert!(cut(&largest, reason) > 0 && !largest.stderr.contains("dwarf,65528"), "{}", largest.stderr);
}

#[test]
fn a_higher_limit_of_addresses_completes_stacks_and_none_is_advised_at_the_highest() {
    let Some(deep) = programs::c("deep").filter(|_| may_record()) else { return };
    let folder = folder();
    let of = |depth: &str, flags: &[String]| {
        let rate = ["-F".to_owned(), "999".to_owned()];
        record(folder.path(), &[&rate[..], flags].concat(), &[deep.as_ref(), depth.as_ref(), "100".as_ref()])
    };
    let limited = of("100", &["--max-stack".to_owned(), "16".to_owned()]);
    assert!(cut(&limited, "limit of 16 addresses") > 0, "{}", limited.stderr);
    let advice = typed(&limited.stderr, "16 addresses; try: ");
    let whole = of("100", &advice);
    assert!(!whole.stderr.contains("early: limit of"), "{}", whole.stderr);
    // Deeper than any limit.
    let deepest = of("9000", &advice);
    assert!(cut(&deepest, "limit of 7000 addresses") > 0, "{}", deepest.stderr);
    assert!(!deepest.stderr.contains("try: --max-stack"), "{}", deepest.stderr);
}

#[test]
fn a_higher_rate_finds_samples_of_a_short_command() {
    if !may_record() {
        return;
    }
    let folder = folder();
    // At 1 Hz, none of these programs lives for a period.
    let of = |flags: &[String]| record(folder.path(), flags, &["sleep".as_ref(), "0.01".as_ref()]);
    let rarely = of(&["-F".to_owned(), "1".to_owned()]);
    let often = of(&typed(&rarely.stderr, "try: "));
    let (before, after) = (figure(&rarely.stderr, "samples"), figure(&often.stderr, "samples"));
    assert!(before == 0 && after > 0, "{}\n{}", rarely.stderr, often.stderr);
}

#[test]
fn a_larger_ring_loses_fewer_samples() {
    let Some(program) = programs::c("shares").filter(|_| may_record()) else { return };
    let folder = folder();
    let of = |ring: &[String]| {
        let mut command: Vec<&OsStr> = UNREAD.iter().map(OsStr::new).collect();
        command.extend([program.as_os_str(), "alone".as_ref(), "400".as_ref()]);
        let flags = ["-F".to_owned(), "4999".to_owned(), "--call-graph".to_owned(), "fp".to_owned()];
        record(folder.path(), &[&flags[..], ring].concat(), &command)
    };
    let small = of(&["-m".to_owned(), "8K".to_owned()]);
    assert!(figure(&small.stderr, "lost") > 0, "{}", small.stderr);
    let larger = of(&typed(&small.stderr, "a larger ring ("));
    let (before, after) = (figure(&small.stderr, "lost"), figure(&larger.stderr, "lost"));
    assert!(after < before, "{}\n{}", small.stderr, larger.stderr);
}

#[test]
fn a_jvm_that_is_asked_keeps_frame_pointers() {
    let Some(java) = installed(&["java"]).filter(|_| may_record()) else { return };
    let folder = folder();
    let script = fixture("Shares.java");
    let command = [java.as_os_str(), script.as_os_str(), OsStr::new("1")];
    let before = record(folder.path(), &[], &command);
    let after = record(folder.path(), &typed(&before.stderr, "generated; try: "), &command);
    let reason = "no unwind data";
    assert!(10 * cut(&after, reason) < cut(&before, reason), "{}\n{}", before.stderr, after.stderr);
}

/// Records a script of a runtime, and again as the hint says: `function` has a name then.
fn assert_named_when_asked(runtime: &Path, script: &str, function: &str) {
    let folder = folder();
    let script = fixture(script);
    let command = [runtime.as_os_str(), script.as_os_str(), OsStr::new("1")];
    let file = folder.path().join("prof.data");
    let named = || folded(&file, &[]).ok().text().matches(function).count();
    record(folder.path(), &[], &command);
    assert_eq!(named(), 0, "{command:?}");
    let hints = folded(&file, &[]).ok().stderr;
    let mut advice = typed(&hints, "try `prof record ");
    assert_eq!(advice.split_off(advice.len() - 2), ["--", "COMMAND"], "{hints}");
    record(folder.path(), &advice, &command);
    assert!(named() > 0, "{command:?}, {hints}");
}

#[test]
fn a_command_is_started_again_with_names_of_its_runtime() {
    if !may_record() {
        return;
    }
    if let Some(node) = installed(&["node"]) {
        assert_named_when_asked(&node, "shares.js", "sixty");
    }
}
