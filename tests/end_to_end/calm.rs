//! What people read: two lines of a good run, and for each mistake its cause and what to type.

use std::path::Path;

use super::prof::{Run, folder, may_record, prof, run};
use super::programs;

/// Ordinary programs, as words for `sh -c`; each takes some hundred milliseconds at most.
const ORDINARY: [&str; 10] = [
    "seq 200000 | sort -n | tail -n 1",
    "find /usr/share -name '*.md' | wc -l",
    "gzip -c /usr/bin/perl | wc -c",
    "awk 'BEGIN { for (i = 0; i < 1000000; i++) sum += i; print sum }'",
    "perl -e 'my $s = 0; $s += $_ for 1..2000000; print $s'",
    "tar -cf - /usr/share/doc/base-files | cat",
    "grep -r main /usr/include/linux | wc -l",
    "dd if=/dev/zero bs=1M count=200 | sha256sum",
    "for i in 1 2 3 4 5 6 7 8 9 10; do ls /usr/bin > /dev/null; done",
    "sleep 0.2; cksum /usr/bin/*",
];

/// Lines on standard error that are ours.
fn own_lines(run: &Run) -> usize {
    run.stderr.lines().filter(|line| line.starts_with("prof: ")).count()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn ordinary_programs_take_two_lines_and_none_more_than_four() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let mut lines: Vec<(usize, String)> = Vec::new();
    for program in ORDINARY {
        let mut command = prof(["record", "-o", "prof.data", "--", "sh", "-c", program]);
        let recorded = run(command.current_dir(folder.path()));
        let count = own_lines(&recorded);
        assert!((1..=4).contains(&count), "{program}: {}", recorded.stderr);
        lines.push((count, recorded.stderr));
    }
    lines.sort();
    let (median, example) = &lines[lines.len() / 2];
    assert!(*median <= 2, "{example}");
}

/// A reader says what it lacks itself, and leaves to the recorder what that saw; `-v` and `explain --notes` tell all.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_the_recorder_saw_is_said_once_and_kept_for_notes() {
    let Some(deep) = programs::c("deep").filter(|_| may_record()) else { return };
    let folder = folder();
    let in_folder = |words: &[&str]| run(prof(words).current_dir(folder.path())).ok();
    let deep = deep.to_str().unwrap();
    let recorded =
        in_folder(&["record", "-F", "999", "-e", "cpu-clock", "--max-stack", "16", "--", deep, "100", "100"]);
    assert!(recorded.stderr.contains("early: limit of 16 addresses"), "{}", recorded.stderr);
    let drawn = in_folder(&["flame", "-o", "x.svg"]);
    assert!(!drawn.stderr.contains("addresses"), "{}", drawn.stderr);
    let noted = in_folder(&["explain", "--notes"]);
    assert!(noted.text().contains("early: limit of 16 addresses; try: --max-stack"), "{}", noted.text());
}

/// A mistake: what is typed, a word of the cause, and a word of what to type.
type Mistake = (&'static [&'static str], &'static str, &'static str);

/// Forty ordinary mistakes. `a.data` is a recording, `text` is none.
const MISTAKES: [Mistake; 40] = [
    (&["recrod", "--", "true"], "recrod", "record"),
    (&["reprot"], "reprot", "report"),
    (&["trace", "ls"], "trace", "raw_syscalls:sys_enter"),
    (&["probe", "x"], "probe", "uprobe:PATH:SYMBOL"),
    (&["record"], "nothing to record", "prof record -- COMMAND"),
    (&["record", "-p", "postgres"], "postgres", "pgrep -n 'postgres'"),
    (&["record", "-p", "4194303", "-d", "1"], "4194303", "pgrep"),
    (&["record", "-e", "cyclse", "--", "true"], "cyclse", "cycles"),
    (&["record", "-e", "page-fualts", "--", "true"], "page-fualts", "page-faults"),
    (&["record", "--frequnecy", "99", "--", "true"], "--frequnecy", "--help"),
    (&["record", "--freqq", "99", "--", "true"], "--freqq", "--freq"),
    (&["record", "--weight", "--", "true"], "--weight", "--sample-weight"),
    (&["record", "-F", "fast", "--", "true"], "fast", "samples per second, or max"),
    (&["record", "-c", "0", "--", "true"], "0", "a number from 1"),
    (&["record", "-d", "forever", "--", "true"], "forever", "a number of seconds"),
    (&["record", "--call-graph", "dwarf,100000", "--", "true"], "100000", "65528"),
    (&["record", "--call-graph", "full", "--", "true"], "full", "auto"),
    (&["record", "-m", "lots", "--", "true"], "lots", "512K"),
    (&["record", "-o", "/no/such/folder/x.data", "--", "true"], "/no", "mkdir -p /no/such/folder"),
    (&["record", "-a", "-p", "1"], "--pid", "prof record"),
    (&["record", "--window", "30s", "--", "true"], "--window", "--overwrite"),
    (&["record", "--max-files", "3", "--", "true"], "--max-files", "--overwrite or --switch-output"),
    (&["record", "--runs", "5"], "--runs", "COMMAND"),
    (&["record", "--", "no-such-command-here"], "no-such-command-here", "PATH"),
    (&["flame", "missing.data", "-o", "x.svg"], "missing.data", "PATH"),
    (&["flame", "-i", "missing.data"], "missing.data", "No such file"),
    (&["flame", "-i", "text", "--folded"], "text", "perf.data"),
    (&["flame", "-i", "a.data", "--colors", "blau"], "blau", "kinds"),
    (&["flame", "-i", "a.data", "--keep", "/(/"], "/(/", "--help"),
    (&["flame", "-i", "a.data", "--time", "5,1"], "5,1", "--help"),
    (&["report", "-i", "a.data", "--sort", "fnction"], "fnction", "function"),
    (
        &["report", "-i", "a.data", "--callers", "no_such_function_at_all"],
        "no_such_function_at_all",
        "prof report",
    ),
    (&["report", "-i", "a.data", "--event", "cycels"], "cycels", "cpu-clock"),
    (&["report", "-i", "a.data", "--comm", "nobody"], "nobody", "sh"),
    (
        &["annotate", "-i", "a.data", "no_such_function_at_all"],
        "no_such_function_at_all",
        "most were taken in",
    ),
    (&["export", "-i", "a.data"], "--format", "--format"),
    (&["export", "-i", "a.data", "--format", "pporf"], "pporf", "pprof"),
    (&["diff", "a.data"], "a.data", "prof diff BEFORE AFTER"),
    (&["top", "--json", "--count", "5"], "--count", "--intervals"),
    (&["stat"], "nothing to count", "prof stat -- COMMAND"),
];

fn make_recording(folder: &Path) {
    let mut record = prof(["record", "-q", "-e", "cpu-clock", "-F", "4999", "-o", "a.data", "--"]);
    let work = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
    run(record.args(["sh", "-c", work]).current_dir(folder)).ok();
    std::fs::write(folder.join("text"), "what is this?\n\u{1}\u{2}").unwrap();
}

#[test]
fn a_mistake_is_answered_with_its_cause_and_what_to_type() {
    if !may_record() {
        return;
    }
    let folder = folder();
    make_recording(folder.path());
    let mut wrong = Vec::new();
    for (words, cause, advice) in MISTAKES {
        let answered = run(prof(words).current_dir(folder.path()));
        let said = &answered.stderr;
        if answered.code == 0 || !said.contains(cause) || !said.contains(advice) || said.contains("os error")
        {
            wrong.push(format!("{words:?}: code {}, no {cause:?} or {advice:?} in: {said}", answered.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns true for a line of the help that begins an option: `  -F, --freq <HZ>  Samples per second`.
fn is_option(line: &str) -> bool {
    line.trim_start().starts_with('-') && line.starts_with("  ") && !line.starts_with("         ")
}

#[test]
fn the_help_begins_with_what_makes_a_picture_and_each_command_has_examples() {
    let help = |words: &[&str]| {
        let run = run(&mut prof(words));
        format!("{}{}", String::from_utf8_lossy(&run.stdout), run.stderr)
    };
    for whole in [help(&[]), help(&["--help"]), help(&["help"])] {
        let first: Vec<&str> = whole.lines().take(4).collect();
        assert!(first.len() == 4 && first[1].contains("prof -- ./program"), "{whole}");
    }
    assert_eq!(help(&["help", "record"]), help(&["record", "--help"]));
    let commands = help(&["help", "all"]);
    let commands = commands.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands.take_while(|line| line.starts_with("  ")).collect();
    let names =
        commands.iter().filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let names: Vec<&str> = names.collect();
    assert!(names.len() > 17, "{names:?}");
    let first = help(&[]);
    let listed = |name: &&&str| first.contains(&format!("\n  {name} "));
    assert_eq!(names.iter().filter(listed).count(), 13, "{first}");
    for name in names {
        let short = help(&[name, "-h"]);
        assert!(short.contains("Examples:"), "{name}: {short}");
        // One screen.
        let (lines, options) = (short.lines().count(), short.lines().filter(|line| is_option(line)).count());
        assert!(
            lines <= if name == "record" { 55 } else { 45 } && options <= 24,
            "{name}: {lines}, {options}"
        );
        assert!(short.lines().count() <= help(&[name, "--help"]).lines().count(), "{name}");
    }
    let record = help(&["record", "--help"]);
    let groups = ["Target:", "Events:", "Stacks:", "Windows:", "Runs:", "Output:"];
    let places: Vec<Option<usize>> = groups.iter().map(|group| record.find(&format!("\n{group}"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
}
