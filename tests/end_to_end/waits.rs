//! Where threads wait: against what programs of known waits do, and what the kernel says of their time.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::background::Background;
use super::folded::Folded;
use super::perf;
use super::prof::{RECORDERS, Run, folded, folder, may_record, prof, run, run_alone};
use super::programs::{self, skip};
use super::unprivileged::{as_nobody, paranoid};

/// Records `waits` with the role that is to be seen; returns the file and what was said of it. Nothing where switches may not be
/// sampled here.
fn record_waits(folder: &Path, role: &str) -> Option<(PathBuf, String)> {
    record_waits_by(folder, role, run_until_whole)
}

/// As [`record_waits`], by `run`.
fn record_waits_by(folder: &Path, role: &str, run: fn(&mut Command) -> Run) -> Option<(PathBuf, String)> {
    let program = programs::c("waits")?;
    if !may_record() {
        return None;
    }
    let file = folder.join("prof.data");
    let mut command = prof(["record", "--off-cpu", "-o"]);
    let run = run(command.arg(&file).arg("--").arg(program).arg(role).current_dir(folder));
    let run = ok_or_skip(run)?;
    Some((file, format!("{}{}", run.text(), run.stderr)))
}

/// Returns the run of a recording that succeeded. Nothing, with the reason printed, where switches may not be sampled.
fn ok_or_skip(run: Run) -> Option<Run> {
    if run.stderr.contains("CAP_PERFMON") {
        skip(&format!("switches may not be sampled here: {}", run.stderr.trim()));
        return None;
    }
    Some(run.ok())
}

/// Runs a command that records waits until all switches were recorded: other tests switch too often now and then, and waits are
/// estimated then.
fn run_until_whole(command: &mut Command) -> Run {
    for _ in 0..9 {
        let run = run(command);
        if !run.stderr.contains("20,000 switches a second") {
            return run;
        }
    }
    run_beside_no_recorder(command)
}

/// Runs a command while no other test records: the kernel counts interrupts, such as those for samples, as nobody's time.
fn run_beside_no_recorder(command: &mut Command) -> Run {
    let _alone = RECORDERS.write();
    run_alone(command)
}

/// Records `program`, built from `waits`, with a role as a normal user; returns the file and the program's output.
fn record_waits_as_nobody(folder: &Path, program: &Path, role: &str) -> Option<(PathBuf, String)> {
    let program = program.display().to_string();
    let run = as_nobody(folder, &["record", "--off-cpu", "-o", "prof.data", "--", &program, role])?.ok();
    Some((folder.join("home/prof.data"), run.text().to_owned()))
}

/// Milliseconds of the threads of this name, by what they did. Running is told by no leaf of its own.
fn activities(text: &str, thread: &str) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for (stack, weight) in
        Folded::parse(text).only(|stack| stack.first().is_some_and(|first| first == thread)).stacks
    {
        let leaf = stack.last().map_or("", String::as_str);
        let states = ["[blocked", "[waiting: ", "[runnable: ", "[unknown: "];
        let is_state = states.iter().any(|state| leaf.starts_with(state));
        // The address of a futex is another each time, and a lock in static memory has its name.
        let state = leaf.trim_matches(['[', ']']);
        let state = if state.starts_with("blocked: futex") { "blocked: futex" } else { state };
        let activity = if is_state { state } else { "running" };
        *sums.entry(activity.to_owned()).or_default() += weight as f64 / 1e6;
    }
    sums
}

/// The time of all activities that begin so, in milliseconds.
fn sum_of(activities: &BTreeMap<String, f64>, begin: &str) -> f64 {
    activities.iter().filter(|(activity, _)| activity.starts_with(begin)).map(|(_, time)| time).sum()
}

/// Wall, running and runnable time that the thread says it had, in milliseconds.
fn truth(output: &str, thread: &str) -> [f64; 3] {
    let line = output.lines().find_map(|line| line.strip_prefix(thread)?.strip_prefix(' '));
    let numbers: Vec<f64> =
        line.unwrap().split(' ').map(|number| number.parse::<f64>().unwrap() / 1e6).collect();
    [numbers[0], numbers[1], numbers[2]]
}

/// Within 2 per cent, and what a switch takes on a machine that is shared with other tests.
fn assert_close(what: &str, is: f64, should: f64, slack: f64) {
    assert!((is - should).abs() <= 0.02 * should + slack, "{what}: {is} ms, not {should} ms");
}

#[test]
fn each_wait_has_its_name_its_stack_and_its_length() {
    let table = [
        ("sleeper", "blocked: sleep", "nap", 400.0),
        ("locker", "blocked: futex", "take_lock", 300.0),
        ("reader", "blocked: pipe read", "read_slowly", 300.0),
        ("parent", "blocked: child", "wait_for_child", 250.0),
        ("loop", "waiting: epoll", "rest", 300.0),
    ];
    for (role, state, function, length) in table {
        let folder = folder();
        let Some((file, output)) = record_waits(folder.path(), role) else { return };
        let text = folded(&file, &["--off-cpu"]).ok().text().to_owned();
        if role == "locker" {
            assert!(text.contains("[blocked: futex lock]"), "the lock's name: {text}");
        }
        let [wall, running, runnable] = truth(&output, role);
        let activities = activities(&text, role);
        let state_time = activities.get(state).copied().unwrap_or_default();
        // On a machine that has more to do, a thread starts late to wait, and waits end late.
        assert!(wall >= length / 2.0, "{role}: {output}");
        let blocked = wall - running - runnable;
        assert!(state_time >= 0.98 * blocked - 5.0 && state_time <= wall, "{role}: {activities:?}, {output}");
        let leaf = format!("[{state}");
        let with_function = Folded::parse(&text).count(|stack| {
            stack[0] == role
                && stack.last().is_some_and(|last| last.starts_with(&leaf))
                && stack.iter().any(|frame| frame == function)
        });
        assert_close(&format!("{role} in {function}"), with_function as f64 / 1e6, state_time, 0.1);
        if role != "parent" {
            let sum: f64 = activities.values().sum();
            assert_close(&format!("the sum of {role}"), sum, wall, 5.0);
            assert_close(
                &format!("{role} on the CPU"),
                activities.get("running").copied().unwrap_or_default(),
                running,
                2.0,
            );
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_picture_of_time_has_its_legend_and_adds_up() {
    let folder = folder();
    let Some((file, _)) = record_waits(folder.path(), "sleeper") else { return };
    let total = |weight: &str| {
        let text = folded(&file, &["--weight", weight]).ok().text().to_owned();
        Folded::parse(&text).total()
    };
    assert_eq!(total("wall"), total("cpu") + total("offcpu"));
    assert!(total("latency") <= total("cpu") * 3 / 2);
    let picture = run(prof(["flame", "--off-cpu", "-i"]).arg(&file)).ok();
    for part in ["id=\"legend\"", "wall-clock time: ", " running + ", " µs, ", "[blocked: sleep]"] {
        assert!(picture.text().contains(part), "{part}");
    }
    // Samples alone are what they are without.
    let samples = folded(&file, &[]).ok();
    assert!(!samples.text().contains("[blocked") && samples.text().contains("compute"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn who_ended_a_wait_stands_on_top_of_it() {
    for (role, state, waker) in [
        ("locker", "[blocked: futex", "[woken by: waits]"),
        ("reader", "[blocked: pipe read]", "[woken by: waits]"),
        ("parent", "[blocked: child]", "[woken by: parent]"),
    ] {
        let folder = folder();
        let Some((file, _)) = record_waits(folder.path(), role) else { return };
        let without = folded(&file, &["--off-cpu"]).ok().text().to_owned();
        let refused = folded(&file, &["--wakers"]);
        assert!(refused.code == 1 && refused.stderr.contains("--off-cpu"), "{}", refused.stderr);
        let with = folded(&file, &["--off-cpu", "--wakers"]);
        if with.stderr.contains("does not say who woke") {
            skip(&with.stderr);
            return;
        }
        let with = with.ok().text().to_owned();
        let (without, with) = (Folded::parse(&without), Folded::parse(&with));
        assert_eq!(with.total(), without.total(), "wakers add no time");
        let is_wait = |frame: &String| frame.starts_with(state);
        let waited = without.count(|stack| stack[0] == role && stack.last().is_some_and(is_wait));
        let woken = with.count(|stack| match stack {
            [first, .., wait, last] => first == role && is_wait(wait) && last == waker,
            _ => false,
        });
        assert!(waited > 0 && woken * 10 >= waited * 9, "{role}: {woken} of {waited} ns by {waker}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recording_without_switches_says_what_to_type() {
    let folder = folder();
    if !may_record() {
        return;
    }
    let file = folder.path().join("plain.data");
    run(prof(["record", "-q", "-o"]).arg(&file).args([
        "--",
        "sh",
        "-c",
        "for i in $(seq 20000); do :; done",
    ]))
    .ok();
    for weight in ["cpu", "wall", "offcpu", "latency"] {
        let refused = folded(&file, &["--weight", weight]);
        assert_eq!(refused.code, 1);
        assert!(refused.stderr.contains("prof record --off-cpu"), "{}", refused.stderr);
    }
}

#[test]
fn a_normal_user_sees_where_their_threads_wait() {
    if paranoid() < 2 {
        return skip("kernel.perf_event_paranoid is below 2");
    }
    let Some(program) = programs::c("waits") else { return };
    let folder = folder();
    let table =
        [("sleeper", "blocked: sleep", "nap", 400.0), ("locker", "blocked: futex", "take_lock", 300.0)];
    for (role, state, function, length) in table {
        let Some((file, output)) = record_waits_as_nobody(folder.path(), &program, role) else { return };
        let [wall, running, runnable] = truth(&output, role);
        let text = folded(&file, &["--off-cpu"]).ok().text().to_owned();
        let activities = activities(&text, role);
        let of = |what: &str| activities.get(what).copied().unwrap_or_default();
        assert!(wall >= length / 2.0, "{role}: {output}");
        assert_close(&format!("{role} in {state}"), of(state), wall - running - runnable, 10.0);
        let sum: f64 = activities.values().sum();
        assert_close(&format!("the sum of {role}"), sum, wall, 5.0);
        assert_close(&format!("{role} on the CPU"), of("running"), running, 3.0);
        let ready = sum_of(&activities, "runnable");
        assert_close(&format!("{role} waiting for a CPU"), ready, runnable, 10.0);
        let in_function = Folded::parse(&text).count(|stack| {
            let is_state = stack.last().is_some_and(|last| last.starts_with(&format!("[{state}")));
            stack[0] == role && is_state && stack.iter().any(|frame| frame == function)
        });
        assert!(in_function as f64 / 1e6 >= 0.95 * of(state), "{role} in {function}: {text}");
    }
    let refused = as_nobody(folder.path(), &["record", "--off-cpu", "-a", "-d", "0.1"]);
    if let Some(refused) = refused {
        assert_eq!(refused.code, 1);
        assert!(refused.stderr.contains("kernel.perf_event_paranoid=1"), "{}", refused.stderr);
    }
}

/// The share of the time in a state that has a function on its stack.
fn share_in(text: &str, thread: &str, state: &str, function: &str) -> f64 {
    let is_state = |stack: &[String]| {
        stack[0] == thread && stack.last().is_some_and(|last| last.starts_with(&format!("[{state}")))
    };
    let folded = Folded::parse(text);
    let all = folded.count(|stack| is_state(stack));
    let right = folded.count(|stack| is_state(stack) && stack.iter().any(|frame| frame == function));
    right as f64 / all.max(1) as f64
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn who_works_and_is_preempted_has_the_time_of_both() {
    let folder = folder();
    let Some((file, output)) = record_waits_by(folder.path(), "rival", run_beside_no_recorder) else {
        return;
    };
    let text = folded(&file, &["--off-cpu"]).ok().text().to_owned();
    for rival in ["rival-1", "rival-2"] {
        let [wall, running, runnable] = truth(&output, rival);
        let activities = activities(&text, rival);
        let of = |what: &str| activities.get(what).copied().unwrap_or_default();
        assert!(running >= 200.0, "{output}");
        assert_close(&format!("{rival} on the CPU, {output}, {activities:?}"), of("running"), running, 2.0);
        let ready = sum_of(&activities, "runnable");
        assert_close(&format!("{rival} waiting for a CPU"), ready, runnable, 5.0);
        assert!(of("runnable: preempted") >= 0.8 * runnable, "{activities:?}");
        assert_close(&format!("the sum of {rival}"), activities.values().sum(), wall, 5.0);
        let share = share_in(&text, rival, "runnable: preempted", "compute");
        assert!(share >= 0.95, "{rival}: {share} in compute");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn threads_that_wake_each_other_have_the_times_that_the_kernel_counts() {
    let folder = folder();
    let Some((file, output)) = record_waits(folder.path(), "relay") else { return };
    let text = folded(&file, &["--off-cpu"]).ok().text().to_owned();
    for relay in ["relay-1", "relay-2"] {
        let [wall, running, runnable] = truth(&output, relay);
        let activities = activities(&text, relay);
        let of = |what: &str| sum_of(&activities, what);
        assert!(running >= 180.0, "{output}");
        assert_close(&format!("{relay} on the CPU"), of("running"), running, 2.0);
        assert_close(&format!("{relay} waiting for a CPU"), of("runnable"), runnable, 2.0);
        assert_close(&format!("the sum of {relay}"), activities.values().sum(), wall, 5.0);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn who_waits_for_pages_of_a_file_waits_for_page_faults() {
    let folder = folder();
    let Some((file, output)) = record_waits_by(folder.path(), "faulter", run_beside_no_recorder) else {
        return;
    };
    let [wall, running, runnable] = truth(&output, "faulter");
    let blocked = wall - running - runnable;
    if blocked < 20.0 {
        return skip(&format!("pages of files are in memory here: {output}"));
    }
    let text = folded(&file, &["--off-cpu"]).ok().text().to_owned();
    let activities = activities(&text, "faulter");
    let faults = activities.get("blocked: page fault").copied().unwrap_or_default();
    // The kernel counts a thread as waiting for a CPU some µs after it was woken, 2,000 times.
    assert_close("faulter in page faults", faults, blocked, 10.0);
    assert_close("the sum of faulter", activities.values().sum(), wall, 5.0);
    let share = share_in(&text, "faulter", "blocked: page fault", "fault");
    assert!(share >= 0.95, "{share} in fault");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn stacks_of_waits_are_right_however_a_program_is_built() {
    if paranoid() < 2 {
        return skip("kernel.perf_event_paranoid is below 2");
    }
    let builds: [(&str, &[&str]); 3] = [
        ("O0", &["-O0"]),
        ("frame-pointers", &["-O2", "-fno-omit-frame-pointer"]),
        ("O2", &["-O2", "-fomit-frame-pointer", "-g0"]),
    ];
    let table = [
        ("sleeper", "sleeper", "blocked: sleep", "nap"),
        ("locker", "locker", "blocked: futex", "take_lock"),
        ("reader", "reader", "blocked: pipe read", "read_slowly"),
        ("loop", "loop", "waiting: epoll", "rest"),
        ("rival", "rival-1", "runnable: preempted", "compute"),
        ("faulter", "faulter", "blocked: page fault", "fault"),
    ];
    let check = |(build, flags): (&str, &[&str])| {
        let Some(program) = programs::c_built("waits", build, flags) else { return };
        for &(role, thread, state, function) in &table {
            let folder = folder();
            let Some((file, output)) = record_waits_as_nobody(folder.path(), &program, role) else { return };
            let [wall, running, runnable] = truth(&output, thread);
            if thread == "faulter" && wall - running - runnable < 20.0 {
                skip(&format!("pages of files are in memory here: {output}"));
                continue;
            }
            let text = folded(&file, &["--off-cpu"]).ok().text().to_owned();
            let share = share_in(&text, thread, state, function);
            assert!(share >= 0.95, "{build}, {thread}: {share} in {function}: {text}");
        }
    };
    // Two at once: they wait most of the time.
    let [first, second, third] = builds;
    std::thread::scope(|scope| {
        scope.spawn(|| [first, second].into_iter().for_each(check));
        check(third);
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn long_waits_of_a_thread_do_not_stand_for_its_short_ones() {
    if paranoid() < 2 {
        return skip("kernel.perf_event_paranoid is below 2");
    }
    let Some(program) = programs::c("waits") else { return };
    let folder = folder();
    let Some((file, output)) = record_waits_as_nobody(folder.path(), &program, "medley") else { return };
    let [wall, running, runnable] = truth(&output, "medley");
    let text = folded(&file, &["--off-cpu"]).ok().text().to_owned();
    let picture = run(prof(["flame", "--off-cpu", "--width", "4000", "-i"]).arg(&file)).ok();
    assert!(
        picture.text().contains("stacks of waits read from outside"),
        "a picture that is passed on says so, too: {}",
        picture.text().lines().find(|line| line.contains("wall-clock time")).unwrap_or_default()
    );
    let notes = run(prof(["explain", "--notes", "-i"]).arg(&file)).ok();
    assert!(notes.text().contains("up to 40 times a second"), "{}", notes.text());
    let long = share_in(&text, "medley", "", "wait_long");
    let short = share_in(&text, "medley", "", "wait_short");
    let off_cpu = wall - running;
    // Time ready for a CPU is in both.
    assert_close(&format!("long waits: {text}"), long * off_cpu, 600.0, 18.0 + runnable);
    assert_close(&format!("short waits: {text}"), short * off_cpu, off_cpu - 600.0, 18.0 + runnable);
}

/// What `perf script` says of a recording of `serial_phases`: the share of the process' time of each of its threads, and 1 /
/// (threads that ran) summed over samples. Independent of ours: threads run from the record or sample that switches them in.
fn latency_by_script(file: &Path) -> BTreeMap<String, f64> {
    let mut perf = Command::new("perf");
    perf.args(["script", "--show-switch-events", "-F", "comm,pid,tid,cpu,time,event,trace", "-i"]).arg(file);
    let text = run(&mut perf).ok().text().to_owned();
    // `comm 12/13 [001] 5.123456: cpu-clock: `
    let lines: Vec<(&str, i32, i32, &str)> = text
        .lines()
        .filter_map(|line| {
            let (head, event) = line.split_once(": ")?;
            let words: Vec<&str> = head.split_whitespace().collect();
            let [comm, .., ids, _cpu, _time] = *words.as_slice() else { return None };
            let (pid, tid) = ids.split_once('/')?;
            Some((comm, pid.parse().ok()?, tid.parse().ok()?, event.trim()))
        })
        .collect();
    let pids: BTreeMap<i32, i32> = lines.iter().map(|&(_, pid, tid, _)| (tid, pid)).collect();
    let mut running: std::collections::BTreeSet<i32> = std::collections::BTreeSet::new();
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for (comm, pid, tid, event) in lines {
        let number = |name: &str| -> Option<i32> {
            event.split(' ').find_map(|word| word.strip_prefix(name)).and_then(|number| number.parse().ok())
        };
        if event.contains("PERF_RECORD_SWITCH") {
            if event.contains(" IN") {
                running.insert(tid)
            } else {
                running.remove(&tid)
            };
        } else if let (Some(before), Some(next)) = (number("prev_pid="), number("next_pid=")) {
            running.remove(&before);
            running.extend((next != 0).then_some(next));
        } else if event.starts_with("cpu-clock") && PHASES.contains(&comm) {
            let threads = running.iter().filter(|tid| pids.get(tid) == Some(&pid)).count();
            *sums.entry(comm.to_owned()).or_default() += 1.0 / threads.max(1) as f64;
        }
    }
    shares(sums)
}

/// Names of threads of `serial_phases`, by phase.
const PHASES: [&str; 3] = ["alone", "both", "mate"];

fn shares(mut sums: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let all: f64 = sums.values().sum();
    sums.values_mut().for_each(|sum| *sum *= 100.0 / all);
    sums
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn latency_is_what_a_script_over_switches_says() {
    let Some(program) = programs::c("serial_phases") else { return };
    if !may_record() || !programs::has("perf") {
        return;
    }
    let folder = folder();
    let recorders: [&[&str]; 3] = [
        &["prof", "record", "--off-cpu"],
        &["prof", "record", "--off-cpu", "-a"],
        &[
            "perf",
            "record",
            "--no-bpf-event",
            "-q",
            "-N",
            "-a",
            "--switch-events",
            "-e",
            "cpu-clock",
            "-e",
            "sched:sched_switch",
        ],
    ];
    for recorder in recorders {
        let file = folder.path().join("phases.data");
        let (mut command, run_with): (_, fn(&mut Command) -> Run) = match recorder[0] {
            "prof" => (prof::<&str>([]), run_until_whole),
            other => (Command::new(other), run_beside_no_recorder),
        };
        command.args(&recorder[1..]).arg("-o").arg(&file).arg("--").arg(&program);
        let recorded = run_with(&mut command);
        if recorded.code != 0 {
            skip(&format!("switches may not be sampled here: {}", recorded.stderr.trim()));
            continue;
        }
        let wanted = latency_by_script(&file);
        let flags = [
            "--weight", "latency", "--sort", "comm", "--json", "-q", "--comm", "alone", "--comm", "both",
            "--comm", "mate", "-i",
        ];
        let report: serde_json::Value =
            serde_json::from_str(run(prof(["report"]).args(flags).arg(&file)).ok().text()).unwrap();
        let row = |row: &serde_json::Value| {
            (row["comm"].as_str().unwrap().to_owned(), row["self"].as_u64().unwrap() as f64)
        };
        let found = shares(report["rows"].as_array().unwrap().iter().map(row).collect());
        for phase in PHASES {
            let (wanted, found) = (wanted.get(phase).copied(), found.get(phase).copied());
            let (wanted, found) = (wanted.unwrap_or_default(), found.unwrap_or_default());
            assert!(
                wanted > 5.0 && (wanted - found).abs() <= 1.0,
                "{recorder:?}, {phase}: {found}, not {wanted}\n{}",
                recorded.stderr
            );
        }
    }
}

/// The time of a thread in all intervals of `top --json`, in milliseconds: running, runnable, blocked. No thread has more time
/// than an interval is long.
fn watched(output: &str, thread: &str) -> [f64; 3] {
    let mut sums = [0.0; 3];
    for line in output.lines().filter(|line| line.starts_with('{')) {
        let interval: serde_json::Value = serde_json::from_str(line).unwrap();
        let length = interval["seconds"].as_f64().unwrap() * 1e3;
        let event = &interval["events"][0];
        assert_eq!(event["unit"], "wall-clock time", "{line}");
        let processes = event["processes"].as_array().unwrap();
        let threads: Vec<_> = processes.iter().flat_map(|of| of["threads"].as_array().unwrap()).collect();
        for known in &threads {
            let time = |what: &str| known["time"][what].as_u64().unwrap() as f64 / 1e6;
            let known_times = ["running", "runnable", "blocked"].map(time);
            let all = known_times.iter().sum::<f64>() + time("waiting") + time("unknown");
            // The length is told in milliseconds.
            assert!(all <= length + 0.51, "{known} in {length} ms");
            if known["comm"] == thread {
                sums = [0, 1, 2].map(|part| sums[part] + known_times[part]);
            }
        }
    }
    sums
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_live_view_adds_up_in_every_interval() {
    let Some(program) = programs::c("waits") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    for role in ["sleeper", "locker"] {
        let mut command =
            prof(["top", "--off-cpu", "--json", "--intervals", "100", "--delay-secs", "0.1", "--"]);
        let run = run_beside_no_recorder(command.arg(&program).arg(role).current_dir(folder.path()));
        let Some(run) = ok_or_skip(run) else { return };
        let [wall, running, runnable] = truth(&run.stderr, role);
        let sums = watched(run.text(), role);
        assert_close(&format!("{role} on the CPU"), sums[0], running, 3.0);
        // Its row has also what it waited before it had its name, and after.
        assert_close(&format!("{role} waiting for a CPU"), sums[1], runnable, 60.0);
        assert_close(&format!("{role} blocked"), sums[2], wall - running - runnable, 10.0);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn who_sleeps_all_the_time_is_in_every_interval() {
    if !may_record() {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeper.id().to_string();
    // With a delay, time begins when that is over.
    for delay in ["1", "400"] {
        let arguments =
            ["top", "--off-cpu", "--json", "--intervals", "3", "--delay-secs", "0.2", "-D", delay, "-p"];
        let run = run(prof(arguments).arg(&pid));
        let Some(run) = ok_or_skip(run) else { break };
        let intervals: Vec<serde_json::Value> =
            run.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(intervals.len(), 3);
        for interval in &intervals {
            let length = interval["seconds"].as_f64().unwrap();
            let blocked = interval["events"][0]["time"]["blocked"].as_u64().unwrap() as f64 / 1e9;
            assert!((blocked - length).abs() < 0.001, "blocked for {blocked} s of {length} s");
        }
        // Its stack is read from outside, at once or soon.
        let rows = intervals[2]["events"][0]["rows"].as_array().unwrap();
        assert_eq!(rows[0]["function"], "[blocked: sleep]");
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_is_before_the_end_of_a_delay_is_nobodys_time() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let mut command =
        prof(["record", "--off-cpu", "-D", "500", "-d", "0.3", "-p", &sleeper.id().to_string(), "-o"]);
    let recorded = run(command.arg(&file));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    if ok_or_skip(recorded).is_none() {
        return;
    }
    let read = run(prof(["report", "--off-cpu", "--json", "-i"]).arg(&file)).ok();
    let report: serde_json::Value = serde_json::from_str(read.text()).unwrap();
    let total = report["total"].as_u64().unwrap() / 1_000_000;
    assert!((290..450).contains(&total), "{total} ms");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_live_view_has_the_names_and_shares_of_a_recording() {
    let folder = folder();
    let Some((file, output)) = record_waits(folder.path(), "locker") else { return };
    // Milliseconds of each state.
    let states = |report: &serde_json::Value| -> Vec<(String, f64)> {
        let rows = report["rows"].as_array().unwrap().iter();
        let row = |row: &serde_json::Value| {
            let name = row["function"].as_str().unwrap().to_owned();
            (name, row["self"].as_u64().unwrap() as f64 / 1e6)
        };
        rows.map(row).filter(|(name, _)| name.starts_with('[')).collect()
    };
    let json = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let read = run(prof(["report", "--off-cpu", "--json", "-i"]).arg(&file)).ok();
    let Some(program) = programs::c("waits") else { return };
    let mut command = prof(["top", "--off-cpu", "--json", "--delay-secs", "5", "--"]);
    let seen = run_until_whole(command.arg(&program).arg("locker").current_dir(folder.path())).ok();
    let read = (states(&json(read.text())), output.as_str());
    let seen = (states(&json(seen.text())["events"][0]), seen.stderr.as_str());
    for (states, output) in [read, seen] {
        // How long others take depends on who else wants a CPU.
        let longest = |begin: &str| {
            let is = |state: &&(String, f64)| state.0.starts_with(begin);
            states.iter().filter(is).map(|(_, time)| *time).fold(0.0, f64::max)
        };
        let [wall, running, runnable] = truth(output, "waits");
        assert!(wall >= 300.0, "{output}");
        assert_close(
            &format!("sleeping, {output}, {states:?}"),
            longest("[blocked: sleep]"),
            wall - running - runnable,
            5.0,
        );
        // The lock is given back when its holder has a CPU again.
        assert!((285.0..800.0).contains(&longest("[blocked: futex")), "{states:?}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_normal_user_watches_where_their_threads_wait() {
    if paranoid() < 2 {
        return skip("kernel.perf_event_paranoid is below 2");
    }
    let Some(program) = programs::c("waits") else { return };
    let folder = folder();
    let program = program.display().to_string();
    let arguments = ["top", "--off-cpu", "--json", "--delay-secs", "5", "--", &program, "locker"];
    let Some(run) = as_nobody(folder.path(), &arguments) else { return };
    let run = run.ok();
    let [wall, running, runnable] = truth(&run.stderr, "locker");
    let sums = watched(run.text(), "locker");
    assert_close("locker blocked", sums[2], wall - running - runnable, 10.0);
    let interval: serde_json::Value = serde_json::from_str(run.text().trim()).unwrap();
    let stacks = interval["events"][0]["stacks"].as_array().unwrap();
    let waits_in = |function: &str, state: &str| {
        let has = |frame: &serde_json::Value| frame["name"] == function;
        let ends = |frame: &serde_json::Value| frame["name"].as_str().unwrap().starts_with(state);
        stacks.iter().any(|stack| {
            let frames = stack["frames"].as_array().unwrap();
            frames.iter().any(has) && frames.last().is_some_and(ends)
        })
    };
    assert!(waits_in("take_lock", "[blocked: futex"), "{interval}");
    if let Some(refused) = as_nobody(folder.path(), &["top", "--off-cpu", "--once", "-a"]) {
        assert_eq!(refused.code, 1);
        assert!(refused.stderr.contains("kernel.perf_event_paranoid=1"), "{}", refused.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn too_many_switches_are_sampled_and_their_time_still_adds_up() {
    let (Some(program), Some(many_maps)) = (programs::c("ping_pong"), programs::c("many_maps")) else {
        return;
    };
    if !may_record() {
        return;
    }
    // Its mappings take as long to read as those of a desktop.
    let mut beside = Background::start(folder(), &[many_maps], Stdio::piped());
    BufReader::new(beside.stdout().unwrap()).read_line(&mut String::new()).unwrap();
    let folder = folder();
    let file = folder.path().join("prof.data");
    for target in [&["--"][..], &["-a", "--"]] {
        // So many switches would be too many for the other recordings of whole CPUs, too.
        let mut command = prof(["record", "--off-cpu", "-o"]);
        // The kernel's last count may be a second before its end. Beside other load it would run more or less in that second than before;
        // root can prevent that.
        let program =
            ["nice".as_ref(), "-n".as_ref(), "-20".as_ref(), program.as_os_str(), "300000".as_ref()];
        let run = run_beside_no_recorder(command.arg(&file).args(target).args(program));
        let Some(run) = ok_or_skip(run) else { return };
        if !run.stderr.contains("20,000 switches a second") {
            return skip("this machine does not switch that often");
        }
        let whose = ["most often of ping_pong", "most often of main", "most often of caller"];
        assert!(whose.iter().any(|whose| run.stderr.contains(whose)), "{}", run.stderr);
        let drawn = folded(&file, &["--off-cpu"]).ok();
        let notes = super::prof::run(prof(["explain", "--notes", "-i"]).arg(&file)).ok();
        assert!(notes.text().contains("of the time are;"), "{}", notes.text());
        let [wall, running, runnable] = truth(run.text(), "caller");
        let activities = activities(drawn.text(), "caller");
        let of = |what: &str| sum_of(&activities, what);
        let sum: f64 = activities.values().sum();
        assert_close("the sum of ping_pong", sum, wall, 10.0);
        assert_close("ping_pong on the CPU", of("running"), running, 20.0);
        assert_close("ping_pong waiting for a CPU", of("runnable"), runnable, 20.0);
        assert!(of("unknown") <= 0.01 * wall, "{activities:?}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_burst_of_switches_has_no_records_and_the_calm_after_it_has() {
    let Some(program) = programs::c("ping_pong") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    // Up to a second may pass before it is seen that switches are few again.
    // Beside other load a burst has calms of its own; root can prevent that.
    let burst_and_calm = "nice -n -20 \"$0\" 200000; for i in 1 0.5 0.5; do sleep $i; done";
    let mut command = prof(["record", "--off-cpu", "-o"]);
    let recorded =
        run_beside_no_recorder(command.arg(&file).args(["--", "sh", "-c", burst_and_calm]).arg(&program));
    let Some(recorded) = ok_or_skip(recorded) else { return };
    if !recorded.stderr.contains("20,000 switches a second") {
        return skip("this machine does not switch that often");
    }
    let drawn = folded(&file, &["--off-cpu"]).ok();
    let slept = sum_of(&activities(drawn.text(), "sleep"), "blocked");
    assert!((1950.0..2050.0).contains(&slept), "{slept} ms: {}", drawn.text());
    if !perf::is_here() {
        return;
    }
    let mut script = perf::perf(folder.path());
    let script =
        run(script.args(["script", "--show-switch-events", "-F", "comm,time,event", "-i"]).arg(&file)).ok();
    // `comm 5.123456: PERF_RECORD_SWITCH IN`, in seconds from the first record.
    let records: Vec<(&str, f64)> = script
        .text()
        .lines()
        .filter_map(|line| {
            let (head, _) = line.split_once(": PERF_RECORD_SWITCH")?;
            let (comm, time) = head.trim().rsplit_once(char::is_whitespace)?;
            Some((comm.trim(), time.parse().ok()?))
        })
        .collect();
    // Each round has two switches of each of two threads.
    let of_burst = records.iter().filter(|(comm, _)| ["ping_pong", "main", "caller"].contains(comm)).count();
    assert!(of_burst < 4 * 200_000 / 20, "{of_burst} records of the burst");
    let last = records[records.len() - 1].1;
    assert!(records.iter().any(|(comm, time)| *comm == "sleep" && last - time < 1.5), "{records:?}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_stream_has_all_switches_for_it_cannot_say_at_its_end_which_are_missing() {
    let Some(program) = programs::c("ping_pong") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let to_a_stream = "\"$0\" record --off-cpu -o - -- \"$1\" 20000 17000 > \"$2\"";
    let mut command = Command::new("sh");
    let arguments =
        [prof([""; 0]).get_program().into(), program.into_os_string(), file.clone().into_os_string()];
    let recorded = run_beside_no_recorder(command.args(["-c", to_a_stream]).args(arguments));
    let Some(recorded) = ok_or_skip(recorded) else { return };
    assert!(!recorded.stderr.contains("20,000 switches a second"), "{}", recorded.stderr);
    let drawn = folded(&file, &["--off-cpu"]).ok();
    let [wall, running, runnable] = truth(&recorded.stderr, "caller");
    let activities = activities(drawn.text(), "caller");
    let of = |what: &str| sum_of(&activities, what);
    assert_close("the sum of ping_pong", activities.values().sum(), wall, 10.0);
    // Each of 40,000 switches is up to a microsecond off: there are no counts of the kernel.
    assert_close("ping_pong on the CPU", of("running"), running, 40.0);
    assert_close("ping_pong waiting for a CPU", of("runnable"), runnable, 40.0);
}
