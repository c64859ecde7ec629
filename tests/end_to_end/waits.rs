//! Where threads wait: against what programs of known waits do, and what the kernel says of their time.

use std::collections::BTreeMap;
use std::path::Path;

use super::folded::Folded;
use super::prof::{folded, folder, may_record, prof, run};
use super::programs::{self, skip};
use super::unprivileged::{as_nobody, paranoid};

/// Records `waits` with the role that is to be seen. Nothing where switches may not be sampled here.
fn record_waits(folder: &Path, role: &str) -> Option<(std::path::PathBuf, String)> {
    let program = programs::c("waits")?;
    if !may_record() {
        return None;
    }
    let file = folder.join("prof.data");
    let mut command = prof(["record", "--off-cpu", "-o"]);
    let run = run(command.arg(&file).arg("--").arg(program).arg(role).current_dir(folder));
    if run.stderr.contains("CAP_PERFMON") {
        skip(&format!("switches may not be sampled here: {}", run.stderr.trim()));
        return None;
    }
    let run = run.ok();
    Some((file, run.text().to_owned()))
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
        let activity = if is_state { leaf.trim_matches(['[', ']']) } else { "running" };
        *sums.entry(activity.to_owned()).or_default() += weight as f64 / 1e6;
    }
    sums
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
        let [wall, running, _] = truth(&output, role);
        let activities = activities(&text, role);
        let state_time = activities.get(state).copied().unwrap_or_default();
        // A sleep ends late where others have the CPU, and the lock is held by somebody who sleeps.
        assert!(state_time >= 0.98 * length && state_time <= wall, "{role}: {activities:?}, wall {wall} ms");
        let leaf = format!("[{state}]");
        let with_function = Folded::parse(&text).count(|stack| {
            stack[0] == role && stack.last() == Some(&leaf) && stack.iter().any(|frame| frame == function)
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
fn who_may_not_see_switches_is_told_what_would_allow_it() {
    if paranoid() < 2 {
        return skip("kernel.perf_event_paranoid is below 2");
    }
    let folder = folder();
    let Some(refused) = as_nobody(folder.path(), &["record", "--off-cpu", "--", "true"]) else { return };
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("kernel.perf_event_paranoid=1"), "{}", refused.stderr);
}
