//! `prof stat`: what it counts beside what `perf stat` does, and what programs read of it.

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::listing::has_tracepoints;
use super::perf;
use super::prof::{Run, folder, may_record, prof, run};
use super::programs::{self, repository, skip};

fn stat(flags: &[&str], command: &[&str]) -> Run {
    run(prof(["stat"]).args(flags).arg("--").args(command))
}

/// The counts as JSON, in a file: the command may write to standard error, too.
fn json(flags: &[&str], command: &[&str]) -> Value {
    let folder = folder();
    let file = folder.path().join("counts");
    let output = ["--json", "-o", file.to_str().unwrap()];
    stat(&[&output, flags].concat(), command).ok();
    let text = std::fs::read_to_string(&file).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn value(counts: &Value, event: &str) -> f64 {
    let counts = counts["counts"].as_array().unwrap();
    let count = counts.iter().find(|count| count["event"] == event).unwrap();
    count["value"].as_f64().unwrap_or_else(|| panic!("{count}"))
}

/// What `perf stat` counts, by event.
fn perf_stat(flags: &[&str], command: &[&str]) -> Vec<(String, f64)> {
    let run = run(Command::new("perf").args(["stat", "-x", ";"]).args(flags).arg("--").args(command)).ok();
    let field = |line: &str| {
        let fields: Vec<&str> = line.split(';').collect();
        Some((fields.get(2)?.to_string(), fields.first()?.parse().ok()?))
    };
    run.stderr.lines().filter_map(field).collect()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn counts_are_those_of_perf() {
    if !may_record() || !perf::is_here() || !has_tracepoints() {
        return;
    }
    let events = "page-faults,minor-faults,raw_syscalls:sys_enter,sched:sched_process_fork";
    let python = "for i in range(2000): open('/dev/null').close()";
    let commands: [&[&str]; 6] = [
        &["true"],
        &["ls", "/usr/bin"],
        &["sh", "-c", "ls / | cat | sort; true & wait"],
        &["python3", "-c", python],
        &["dd", "if=/dev/zero", "of=/dev/null", "count=2000"],
        &["grep", "-r", "nothing-like-it", "/etc/ssl"],
    ];
    let same = |command: &[&str]| {
        // What grep finds is of no matter.
        let shell = ["sh", "-c", "\"$@\"; true", "sh"];
        let command = if command[0] == "grep" { [&shell[..], command].concat() } else { command.to_vec() };
        let ours = json(&["-r", "3", "-e", events], &command);
        for (event, theirs) in perf_stat(&["-r", "3", "-e", events], &command) {
            let ours = value(&ours, &event);
            let most = (theirs * 0.05).max(6.0);
            assert!((ours - theirs).abs() <= most, "{command:?}: {event}: {ours}, perf {theirs}");
        }
    };
    // At once: the kernel takes its time to begin and to end the counting of tracepoints.
    std::thread::scope(|scope| {
        for command in commands {
            scope.spawn(move || same(command));
        }
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_group_counts_what_its_members_count_alone() {
    if !may_record() {
        return;
    }
    let command = ["dd", "if=/dev/zero", "of=/dev/null", "count=500"];
    let alone = value(&json(&["-r", "3", "-e", "page-faults,minor-faults"], &command), "page-faults");
    for group in
        ["{page-faults,minor-faults}", "{task-clock,page-faults,cs},cpu-clock", "{dummy,page-faults}:u"]
    {
        let counts = json(&["-r", "3", "-e", group], &command);
        let name = if group.ends_with(":u") { continue } else { "page-faults" };
        let grouped = value(&counts, name);
        assert!((alone - grouped).abs() <= 6.0, "{group}: {grouped}, alone {alone}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn several_lists_of_groups_are_several_groups() {
    if !may_record() {
        return;
    }
    let lists = ["-e", "cs", "-e", "{page-faults,minor-faults}", "-e", "{major-faults,task-clock}"];
    let counts = json(&lists, &["true"]);
    let (faults, minor) = (value(&counts, "page-faults"), value(&counts, "minor-faults"));
    let major = value(&counts, "major-faults");
    assert!(faults > 0.0 && (faults - minor - major).abs() < 0.5, "{counts}");
}

#[test]
fn the_command_keeps_its_output_and_its_code() {
    if !may_record() {
        return;
    }
    let loud = stat(&["-e", "page-faults"], &["sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((loud.code, loud.text()), (7, "out\n"));
    assert!(loud.stderr.starts_with("err\n") && loud.stderr.contains("page-faults"), "{}", loud.stderr);
    assert_eq!(stat(&[], &["sh", "-c", "kill -TERM $$"]).code, 143);
    assert_eq!(stat(&[], &["/nonexistent"]).code, 127);
    assert_eq!(stat(&[], &["/etc/passwd"]).code, 126);
    assert_eq!(run(&mut prof(["stat"])).code, 2);
    let folder = folder();
    let file = folder.path().join("counts");
    let quiet = run(prof(["stat", "-e", "cs", "-o"]).arg(&file).args(["--", "echo", "hello"])).ok();
    assert_eq!((quiet.text(), quiet.stderr.as_str()), ("hello\n", ""));
    assert!(std::fs::read_to_string(&file).unwrap().contains("cs"));
    // Where our result goes to standard output, the command's goes to standard error.
    let both = run(&mut prof(["stat", "-e", "cs", "--json", "-o", "-", "--", "echo", "hello"])).ok();
    assert_eq!(both.stderr, "hello\n");
    serde_json::from_str::<Value>(both.text()).unwrap();
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn an_interval_without_a_count_says_why() {
    if !may_record() {
        return;
    }
    let counts = stat(&["-I", "100", "-e", "cs"], &["sleep", "0.5"]).ok().stderr;
    let mut idle = counts.lines().filter(|line| line.contains("<not counted>")).peekable();
    assert!(idle.peek().is_some(), "{counts}");
    assert!(idle.all(|line| line.ends_with("cs  nothing ran")), "{counts}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn intervals_add_up_and_parse() {
    if !may_record() {
        return;
    }
    let loops = "import time\nend = time.time() + 0.55\nwhile time.time() < end: pass";
    let begin = Instant::now();
    let run = stat(&["--json", "-I", "100", "-e", "task-clock"], &["python3", "-c", loops]).ok();
    // The last one ends with the command.
    let most = begin.elapsed().as_millis() as usize / 100 + 1;
    let lines: Vec<Value> = run.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!((6..=most).contains(&lines.len()), "{}", run.stderr);
    let mut last = 0.0;
    let mut sum = 0.0;
    for line in &lines {
        let (from, to) = (&line["interval"]["from_seconds"], &line["interval"]["to_seconds"]);
        assert_eq!(from.as_f64(), Some(last), "{line}");
        last = to.as_f64().unwrap();
        // An interval in which nothing ran has no count.
        sum += line["counts"][0]["value"].as_f64().unwrap_or(0.0);
    }
    assert!(last > 0.5 && sum / 1e3 <= last, "{sum} ms in {last} s");
    assert!(sum > 50.0, "{sum}");
    let text = stat(&["-I", "100", "-e", "cs"], &["sleep", "0.25"]).ok().stderr;
    assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 3, "{text}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn cpus_add_up_to_the_whole() {
    if !may_record() {
        return;
    }
    let command = ["python3", "-c", "x = [i * i for i in range(300000)]"];
    let whole = value(&json(&["-r", "3", "-e", "page-faults"], &command), "page-faults");
    let by_cpu = json(&["-r", "3", "--per-cpu", "-e", "page-faults"], &command);
    let rows = by_cpu["counts"].as_array().unwrap();
    // Over runs a CPU's mean is of those runs in which something ran there.
    assert!(rows.iter().all(|row| row["cpu"].is_u64()), "{by_cpu}");
    let once = json(&["--per-cpu", "-e", "page-faults"], &command);
    let sum: f64 = once["counts"].as_array().unwrap().iter().filter_map(|row| row["value"].as_f64()).sum();
    assert!((sum - whole).abs() <= whole * 0.05, "{sum} of {whole}");
    // Beside the time that its threads were on the CPU, nothing is missing: nothing is scaled up.
    let shares = once["counts"].as_array().unwrap().iter().filter_map(|row| row["running_share"].as_f64());
    assert!(shares.into_iter().all(|share| share == 0.0 || share > 0.98), "{once}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn whole_cpus_count_as_long_as_they_are_watched() {
    let all = stat(&["-a", "--json", "-e", "cpu-clock"], &["sleep", "0.3"]);
    if all.code != 0 {
        return skip("whole CPUs may not be counted here");
    }
    let counts: Value = serde_json::from_str(&all.stderr).unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    let elapsed = counts["elapsed_seconds"].as_f64().unwrap() * 1e3;
    let clock = value(&counts, "cpu-clock");
    assert!((clock / elapsed - cpus).abs() < 0.1 * cpus, "{clock} ms in {elapsed} ms on {cpus}");
    let ended = stat(&["-a", "-d", "0.2", "-e", "cs"], &["sleep", "60"]);
    assert_eq!(ended.code, 143, "{}", ended.stderr);
    assert!(ended.stderr.contains("SIGTERM") && ended.stderr.contains("cs"), "{}", ended.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_is_not_counted_has_its_cause() {
    if !may_record() {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
    let pid = sleeper.id().to_string();
    let idle = run(&mut prof(["stat", "-p", &pid, "-e", "page-faults", "-d", "0.1"])).ok();
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    assert!(
        idle.stderr.contains("<not counted>") && idle.stderr.contains("nothing of the target ran"),
        "{}",
        idle.stderr
    );
    let gone = run(&mut prof(["stat", "-p", &pid, "-d", "0.1"]));
    assert!(gone.code == 1 && gone.stderr.contains("does not exist"), "{}", gone.stderr);
    if run(&mut prof(["list", "cycles"])).text().contains("[not here]")
        || stat(&["-e", "cycles"], &["true"]).code == 1
    {
        let lacking = json(&["-e", "cs,cycles"], &["true"]);
        let cycles = &lacking["counts"][1];
        assert!(
            cycles["value"].is_null() && cycles["not_counted"].as_str().unwrap().contains("machine"),
            "{cycles}"
        );
        let alone = stat(&["-e", "cycles"], &["true"]);
        assert!(alone.code == 1 && alone.stderr.contains("cycles"), "{}", alone.stderr);
    }
}

/// Each member of `object` is described, and what is required is there.
fn follows(object: &Value, schema: &Value) {
    match (object, &schema["properties"]) {
        (Value::Object(members), Value::Object(known)) => {
            for (name, member) in members {
                follows(member, known.get(name).unwrap_or_else(|| panic!("no {name} in the schema")));
            }
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            assert!(required.iter().all(|name| members.contains_key(name.as_str().unwrap())), "{object}");
        }
        (Value::Array(items), _) => items.iter().for_each(|item| follows(item, &schema["items"])),
        (value, _) => {
            let kinds = match &schema["type"] {
                Value::Array(kinds) => kinds.clone(),
                Value::Null => return assert_eq!(value, &schema["const"]),
                kind => vec![kind.clone()],
            };
            let is = |kind: &Value| match kind.as_str().unwrap() {
                "integer" => value.is_u64(),
                "number" => value.is_number(),
                "string" => value.is_string(),
                "null" => value.is_null(),
                other => panic!("{other}"),
            };
            assert!(kinds.iter().any(is), "{value} is none of {kinds:?}");
        }
    }
}

#[test]
fn json_follows_its_schema() {
    if !may_record() {
        return;
    }
    let text = std::fs::read_to_string(repository().join("docs/schemas/stat.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    for flags in [&[][..], &["-r", "2"], &["--per-cpu"], &["--per-core"], &["--per-socket"]] {
        follows(&json(flags, &["true"]), &schema);
    }
    let lines = stat(&["--json", "-I", "50"], &["sleep", "0.12"]).ok().stderr;
    for line in lines.lines().filter(|line| line.starts_with('{')) {
        follows(&serde_json::from_str(line).unwrap(), &schema);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_probe_lets_the_program_fork_and_is_counted_in_what_it_starts() {
    let (Some(program), true) = (programs::c("forking"), may_record()) else { return };
    let event = format!("uprobe:{}:in_child", program.display());
    // Where probes are set in single processes only, some of them are lost as children end.
    let command = ["sh", "-c", "\"$0\" 40; (\"$0\" 40); true", program.to_str().unwrap()];
    for flags in [&["-e", event.as_str()][..], &["-r", "2", "-e", &event]] {
        let run_ = stat(flags, &command);
        if run_.code == 1 && run_.stderr.contains("cannot") {
            return skip(&format!("no probe can be set here: {}", run_.stderr));
        }
        assert_eq!(run_.code, 0, "{}", run_.stderr);
        assert!(!run_.stderr.contains("fork:"), "{}", run_.stderr);
    }
    for _ in 0..4 {
        assert_eq!(value(&json(&["-e", &event], &command), &event), 80.0);
    }
}
