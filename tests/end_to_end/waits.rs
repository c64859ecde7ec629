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
        // The address of a futex is another each time.
        let state = leaf.trim_matches(['[', ']']).split(" 0x").next().unwrap_or_default();
        let activity = if is_state { state } else { "running" };
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
fn a_normal_user_sees_where_their_threads_wait() {
    if paranoid() < 2 {
        return skip("kernel.perf_event_paranoid is below 2");
    }
    let Some(program) = programs::c("waits") else { return };
    let folder = folder();
    let program = program.display().to_string();
    let table =
        [("sleeper", "blocked: sleep", "nap", 400.0), ("locker", "blocked: futex", "take_lock", 300.0)];
    for (role, state, function, length) in table {
        let Some(run) =
            as_nobody(folder.path(), &["record", "--off-cpu", "-o", "prof.data", "--", &program, role])
        else {
            return;
        };
        let run = run.ok();
        let [wall, running, runnable] = truth(run.text(), role);
        let text = folded(&folder.path().join("home/prof.data"), &["--off-cpu"]).ok().text().to_owned();
        let activities = activities(&text, role);
        let of = |what: &str| activities.get(what).copied().unwrap_or_default();
        assert!(wall >= length / 2.0, "{role}: {}", run.text());
        assert_close(&format!("{role} in {state}"), of(state), wall - running - runnable, 10.0);
        let sum: f64 = activities.values().sum();
        assert_close(&format!("the sum of {role}"), sum, wall, 5.0);
        assert_close(&format!("{role} on the CPU"), of("running"), running, 3.0);
        let ready: f64 =
            activities.iter().filter(|(what, _)| what.starts_with("runnable")).map(|(_, time)| time).sum();
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

#[test]
fn too_many_switches_are_sampled_and_their_time_still_adds_up() {
    let Some(program) = programs::c("ping_pong") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let run = run(prof(["record", "--off-cpu", "-o"]).arg(&file).arg("--").arg(program).arg("300000"));
    if run.stderr.contains("CAP_PERFMON") {
        return skip(&format!("switches may not be sampled here: {}", run.stderr.trim()));
    }
    let run = run.ok();
    if !run.stderr.contains("20,000 switches a second") {
        return skip("this machine does not switch that often");
    }
    let drawn = folded(&file, &["--off-cpu"]).ok();
    assert!(drawn.stderr.contains("of the time are recorded"), "{}", drawn.stderr);
    let [wall, running, runnable] = truth(run.text(), "ping_pong");
    let activities = activities(drawn.text(), "ping_pong");
    let of = |what: &str| -> f64 {
        activities.iter().filter(|(activity, _)| activity.starts_with(what)).map(|(_, time)| time).sum()
    };
    let sum: f64 = activities.values().sum();
    assert_close("the sum of ping_pong", sum, wall, 10.0);
    assert_close("ping_pong on the CPU", of("running"), running, 20.0);
    assert_close("ping_pong waiting for a CPU", of("runnable"), runnable, 20.0);
    assert!(of("unknown") <= 0.01 * wall, "{activities:?}");
}
