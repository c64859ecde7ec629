//! Advice is typed, and the figure that it complained about gets better.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::bad_input::copy_program;
use super::folded::Folded;
use super::prof::{Run, UNREAD, figure, folded, folder, may_record, prof, run};
use super::programs;
use super::runtime_shares::{fixture, installed};
use super::unprivileged::as_nobody;

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
#[ignore = "of the second ring: cargo xtask ci"]
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
#[ignore = "of the second ring: cargo xtask ci"]
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
#[ignore = "of the second ring: cargo xtask ci"]
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
#[ignore = "of the second ring: cargo xtask ci"]
fn a_larger_ring_loses_fewer_samples() {
    let Some(program) = programs::c("shares").filter(|_| may_record()) else { return };
    let folder = folder();
    let of = |ring: &[String]| {
        let mut command: Vec<&OsStr> = UNREAD.iter().map(OsStr::new).collect();
        command.extend([program.as_os_str(), "alone".as_ref(), "200".as_ref()]);
        let flags = ["-F".to_owned(), "4999".to_owned(), "--call-graph".to_owned(), "fp".to_owned()];
        record(folder.path(), &[&flags[..], ring].concat(), &command)
    };
    let small = of(&["-m".to_owned(), "8K".to_owned()]);
    assert!(figure(&small.stderr, "lost") > 0, "{}", small.stderr);
    let notes = run(prof(["explain", "--notes", "-i"]).arg(folder.path().join("prof.data"))).ok();
    let why = notes.text().lines().find(|line| line.contains("of the CPU time has no samples"));
    assert!(why.is_none_or(|why| why.ends_with("samples were lost")), "{why:?}");
    let larger = of(&typed(&small.stderr, "a larger ring ("));
    let (before, after) = (figure(&small.stderr, "lost"), figure(&larger.stderr, "lost"));
    assert!(after < before, "{}\n{}", small.stderr, larger.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn stacks_that_the_recorder_had_no_time_for_are_walked_by_the_kernel() {
    let flags = ["-fomit-frame-pointer", "-DFRAME=4096"];
    let Some(deep) = programs::c_built("deep", "4k", &flags).filter(|_| may_record()) else { return };
    let folder = folder();
    let of = |stacks: &[String]| {
        let mut command: Vec<&OsStr> = UNREAD.iter().map(OsStr::new).collect();
        command.extend([deep.as_os_str(), "14".as_ref(), "600".as_ref()]);
        // More than may wait to be unwound, in one ring.
        let flags = ["-F", "4999", "-m", "128M"].map(str::to_owned);
        record(folder.path(), &[&flags[..], stacks].concat(), &command)
    };
    let reason = "recorder behind";
    let copied = of(&["--call-graph", "dwarf,65528"].map(str::to_owned));
    assert!(cut(&copied, reason) > 0, "{}", copied.stderr);
    let walked = of(&typed(&copied.stderr, "a lower rate (-F), or "));
    assert_eq!(cut(&walked, reason), 0, "{}", walked.stderr);
    assert!(figure(&walked.stderr, "samples") > 0, "{}", walked.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn code_that_is_built_with_unwind_tables_has_whole_stacks() {
    // With `-g`, there are tables for debuggers.
    let without = ["-g0", "-fomit-frame-pointer", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"];
    let Some(bare) = programs::c_built("endless", "bare", &without).filter(|_| may_record()) else { return };
    let folder = folder();
    let of = |program: &Path| record(folder.path(), &[], &[program.as_os_str(), "40000".as_ref()]);
    let reason = "no unwind data";
    let before = of(&bare);
    assert!(cut(&before, reason) > 0, "{}", before.stderr);
    let advice = typed(&before.stderr, "try building it with ");
    let flags: Vec<&str> = without.into_iter().chain(advice.iter().map(String::as_str)).collect();
    let Some(with_tables) = programs::c_built("endless", "tables", &flags) else { return };
    let after = of(&with_tables);
    assert_eq!(cut(&after, reason), 0, "{}", after.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_program_that_ran_from_memory_has_names_as_a_file() {
    let (Some(shares), Some(from_memory)) = (programs::c("shares"), programs::c("from_memory")) else {
        return;
    };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let program = [shares.as_os_str(), "alone".as_ref(), "100".as_ref()];
    let advice = "try recording the program as a file";
    record(folder.path(), &["--no-names".to_owned()], &[&[from_memory.as_os_str()], &program[..]].concat());
    assert!(hint(&file, advice).is_some() && samples_in(&file, "sixty") == 0);
    record(folder.path(), &["--no-names".to_owned()], &program);
    assert!(hint(&file, advice).is_none() && samples_in(&file, "sixty") > 0);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
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

/// The line of the hints that a recording gets with all details that contains `part`.
fn hint(file: &Path, part: &str) -> Option<String> {
    let hints = folded(file, &["-v"]).ok().stderr;
    hints.lines().find(|line| line.contains(part)).map(str::to_owned)
}

/// Samples of a recording that have a frame of this name.
fn samples_in(file: &Path, name: &str) -> u64 {
    Folded::parse(folded(file, &[]).ok().text()).with(name)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_program_that_is_built_with_symbols_and_not_stripped_has_names() {
    let (Some(stripped), Some(whole)) =
        (programs::c_built("shares", "stripped", &["-s"]), programs::c("shares"))
    else {
        return;
    };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let work = |program: &Path| {
        record(folder.path(), &[], &[program.as_os_str(), "alone".as_ref(), "100".as_ref()]);
    };
    let advice = "try building it with `-g`";
    work(&stripped);
    assert!(hint(&file, advice).is_some() && samples_in(&file, "sixty") == 0);
    work(&whole);
    assert!(hint(&file, advice).is_none() && samples_in(&file, "sixty") > 0);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn stacks_without_frame_pointers_are_whole_once_they_are_unwound() {
    let flags = ["-fomit-frame-pointer"];
    let Some(deep) = programs::c_built("deep", "nofp", &flags).filter(|_| may_record()) else { return };
    let folder = folder();
    let file = folder.path().join("prof.data");
    let of = |flags: &[String]| {
        record(folder.path(), flags, &[deep.as_os_str(), "20".as_ref(), "100".as_ref()]);
    };
    of(&["--call-graph".to_owned(), "fp".to_owned()]);
    let outside = "outside every mapping";
    let said = hint(&file, outside).expect("stacks go astray without frame pointers");
    assert_eq!(samples_in(&file, "main"), 0);
    of(&typed(&said, "try recording with `prof record "));
    assert!(hint(&file, outside).is_none() && samples_in(&file, "main") > 0);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_program_that_was_built_anew_is_recorded_again() {
    let Some(program) = programs::c_built("shares", "no-id", &["-Wl,--build-id=none"]) else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, copy) = (folder.path().join("prof.data"), folder.path().join("shares"));
    let command = [copy.as_os_str(), "alone".as_ref(), "100".as_ref()];
    copy_program(&program, &copy);
    record(folder.path(), &["--no-names".to_owned()], &command);
    std::fs::remove_file(&copy).unwrap();
    copy_program(&program, &copy);
    let advice = "try recording again";
    assert!(hint(&file, advice).is_some() && samples_in(&file, "sixty") == 0);
    record(folder.path(), &[], &command);
    assert!(hint(&file, advice).is_none() && samples_in(&file, "sixty") > 0);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_file_that_only_root_may_read_has_names_with_sudo() {
    let Some(program) = programs::c("shares").filter(|_| may_record()) else { return };
    let folder = folder();
    let (file, copy) = (folder.path().join("prof.data"), folder.path().join("shares"));
    copy_program(&program, &copy);
    record(folder.path(), &["--no-names".to_owned()], &[copy.as_os_str(), "alone".as_ref(), "100".as_ref()]);
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let read = ["flame", "--folded", "-v", "-i", file.to_str().unwrap()];
    let Some(as_user) = as_nobody(folder.path(), &read) else { return };
    let as_user = as_user.ok();
    assert!(as_user.stderr.contains("try `sudo`, which may read it"), "{}", as_user.stderr);
    assert_eq!(Folded::parse(as_user.text()).with("sixty"), 0);
    assert!(samples_in(&file, "sixty") > 0);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn frames_in_a_library_that_is_gone_are_there_as_root() {
    let library = ["-shared", "-fPIC", "-Dmain=burn", "-fomit-frame-pointer"];
    let (Some(plugin), Some(library)) =
        (programs::c_built("plugin", "fp", &["-ldl"]), programs::c_built("deep", "library", &library))
    else {
        return;
    };
    if !may_record() {
        return;
    }
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    copy_program(&plugin, &path("plugin"));
    copy_program(&library, &path("library.so"));
    let mut running = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "./plugin", "./library.so", "20000"])
        .current_dir(&folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(running.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let pid = running.id().to_string();
    let record = ["record", "-e", "cpu-clock", "-F", "999", "-d", "0.3", "-p", &pid];
    let as_user = as_nobody(folder.path(), &record);
    let as_root = run(prof(record).args(["-o", path("root.data").to_str().unwrap()]));
    running.kill().unwrap();
    running.wait().unwrap();
    let (Some(as_user), as_root) = (as_user, as_root.ok()) else { return };
    let reason = "object file unreadable";
    assert!(cut(&as_user, reason) > 0 && as_user.stderr.contains("try: as root"), "{}", as_user.stderr);
    assert_eq!(cut(&as_root, reason), 0, "{}", as_root.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn few_samples_become_enough_at_the_advised_rate() {
    let Some(program) = programs::c("shares").filter(|_| may_record()) else { return };
    let folder = folder();
    let of = |flags: &[String]| {
        record(folder.path(), flags, &[program.as_os_str(), "alone".as_ref(), "200".as_ref()]);
        let explained = run(prof(["explain"]).current_dir(folder.path())).ok();
        explained.text().to_owned()
    };
    let few = of(&["-F".to_owned(), "199".to_owned()]);
    let enough = of(&typed(&few, "or more often ("));
    assert!(!enough.contains("or more often ("), "{few}\n{enough}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_lower_rate_misses_less_of_the_time() {
    let Some(program) = programs::c("shares").filter(|_| may_record()) else { return };
    let folder = folder();
    let missing = |run: &Run| {
        let line = run.stderr.lines().find(|line| line.contains(" % of the CPU time has no samples"));
        line.map_or(0, |line| figure(line, "%"))
    };
    // A sample each 5 µs is more than a virtual machine delivers, or more than the kernel allows.
    let flags = ["-c".to_owned(), "5000".to_owned()];
    let command = [program.as_os_str(), "alone".as_ref(), "100".as_ref()];
    let hurried = record(folder.path(), &flags, &command);
    let calm = record(
        folder.path(),
        &[&["-c".to_owned()], &typed(&hurried.stderr, "try: -c")[..]].concat(),
        &command,
    );
    assert!(missing(&calm) < missing(&hurried), "{}\n{}", hurried.stderr, calm.stderr);
}

/// Records a script of a runtime, and again as the hint says: `function` has a name then.
fn assert_named_when_asked(runtime: &Path, script: &str, function: &str) {
    let folder = folder();
    let script = fixture(script);
    let command = [runtime.as_os_str(), script.as_os_str(), OsStr::new("1")];
    let file = folder.path().join("prof.data");
    let named = || folded(&file, &[]).ok().text().matches(function).count();
    // Without copies of its stack, it has no names unless it is asked.
    record(folder.path(), &["--call-graph", "fp"].map(str::to_owned), &command);
    assert_eq!(named(), 0, "{command:?}");
    let hints = folded(&file, &[]).ok().stderr;
    let mut advice = typed(&hints, "try `prof record ");
    assert_eq!(advice.split_off(advice.len() - 2), ["--", "COMMAND"], "{hints}");
    record(folder.path(), &advice, &command);
    assert!(named() > 0, "{command:?}, {hints}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_command_is_started_again_with_names_of_its_runtime() {
    if !may_record() {
        return;
    }
    if let Some(node) = installed(&["node"]) {
        assert_named_when_asked(&node, "shares.js", "sixty");
    }
}
