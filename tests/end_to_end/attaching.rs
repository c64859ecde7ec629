//! `-p` and `-a`: what already runs.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::folded::Folded;
use super::prof::{finish, folded, folder, may_record, prof, run};
use super::{perf, programs};

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn threads_of_a_running_process_are_neither_missed_nor_doubled() {
    let Some(program) = programs::c("churn") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut child = Command::new(&program).arg("60000").stdout(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(200));
    let before = cpu_time(child.id());
    let recorded = run(prof([
        "record",
        "-F",
        "4999",
        "-e",
        "cpu-clock",
        "-d",
        "2",
        "-p",
        &child.id().to_string(),
        "-o",
    ])
    .arg(&file));
    let after = cpu_time(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let recorded = recorded.ok();
    let flame = folded(&file, &[]).ok();
    let stacks = Folded::parse(flame.text());
    assert!(stacks.with("burn") * 10 > stacks.total() * 3, "{}", flame.text());
    // The process runs a little before and after the recording.
    let most = (after - before) * 4999.0;
    let total = stacks.total() as f64;
    assert!(total < most * 1.05 && total > most * 0.6, "{total} of {most} samples: {}", recorded.stderr);
}

/// User and system time of a process in seconds, `/proc/PID/stat` fields 14 and 15.
pub(crate) fn cpu_time(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = [11, 12].iter().map(|at| fields[*at].parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_process_whose_main_thread_has_ended_has_names() {
    let Some(program) = programs::c("main_ends") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut child = Command::new(&program).arg("60000").spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    let pid = child.id().to_string();
    let recorded =
        run(prof(["record", "-F", "4999", "-e", "cpu-clock:u", "-d", "0.7", "-p", &pid, "-o"]).arg(&file));
    child.kill().unwrap();
    child.wait().unwrap();
    recorded.ok();
    let flame = folded(&file, &[]).ok();
    let stacks = Folded::parse(flame.text());
    let named = stacks.count(|stack| {
        let place = |name| stack.iter().position(|frame| frame == name);
        place("outer").is_some_and(|outer| place("inner").is_none_or(|inner| outer < inner))
    });
    assert!(named * 100 > stacks.total() * 95 && stacks.total() > 50, "{}", flame.text());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn nothing_is_read_in_the_proc_of_another_pid_namespace() {
    let Some(program) = programs::c("shares") else { return };
    let apart = ["unshare", "--pid", "--fork"];
    let may = Command::new(apart[0]).args(&apart[1..]).arg("true").stderr(Stdio::null()).status();
    if !may_record() || !may.is_ok_and(|status| status.success()) {
        return programs::skip("this user makes no pid namespaces");
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let record = ["record", "-e", "cpu-clock:u", "-F", "999", "-o"];
    let inside = |args: &[&str]| {
        let mut command = Command::new(apart[0]);
        command.args(&apart[1..]).arg(env!("CARGO_BIN_EXE_prof")).args(record).arg(&file).args(args);
        run(&mut command)
    };
    let program = program.to_str().unwrap();
    for rights in [&[][..], &["--switch-events"]] {
        let recorded = inside(&[rights, &["--", program, "alone", "200"]].concat()).ok();
        assert!(recorded.stderr.contains("another pid namespace"), "{}", recorded.stderr);
        let bytes = std::fs::read(&file).unwrap();
        let holds = |name: &[u8]| bytes.windows(name.len()).any(|bytes| bytes == name);
        assert!(!holds(b"kthreadd") && !holds(b"systemd"));
        let flame = folded(&file, &[]).ok();
        let stacks = Folded::parse(flame.text());
        assert!(stacks.with("sixty") * 2 > stacks.total() && stacks.total() > 50, "{}", flame.text());
    }
    let refused = inside(&["-p", "1", "-d", "0.1"]);
    assert!(refused.code == 1 && refused.stderr.contains("cannot tell which one 1 is"), "{}", refused.stderr);
}

#[test]
fn a_process_that_ends_ends_the_recording() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let child = Command::new(&program).args(["threads", "1000"]).stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    let waiter = thread::spawn(move || {
        let mut child = child;
        child.wait()
    });
    let recorded = run(prof(["record", "-e", "cpu-clock", "-p", &pid, "-o"]).arg(&file));
    waiter.join().unwrap().unwrap();
    recorded.ok();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    // The program was mapped before we came: its names come from what was synthesized.
    assert!(stacks.with("sixty") * 10 > stacks.total() * 4);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_command_says_how_long_others_are_recorded() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut child = Command::new(&program).args(["alone", "60000"]).spawn().unwrap();
    let pid = child.id().to_string();
    let recorded = [&["-a"][..], &["-p", &pid]].map(|target| {
        let mut record = prof(["record", "-e", "cpu-clock", "-o"]);
        let recorded = run(record.arg(&file).args(target).args(["--", "sh", "-c", "sleep 0.4; exit 7"]));
        (recorded, Folded::parse(folded(&file, &[]).ok().text()))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    for (recorded, stacks) in &recorded {
        assert_eq!(recorded.code, 7, "{}", recorded.stderr);
        assert!(stacks.with("sixty") > 0, "{}", recorded.stderr);
    }
    // The shell that says how long is no part of a process that is observed.
    let [_, (_, of_process)] = &recorded;
    assert!(of_process.stacks.keys().all(|stack| stack[0] == "shares"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_thread_that_ends_ends_the_recording_of_it() {
    let Some(program) = programs::c("flood") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut child = Command::new(program).args(["brief", "90000"]).stdin(Stdio::piped()).spawn().unwrap();
    let threads = format!("/proc/{}/task", child.id());
    let other = loop {
        let names = std::fs::read_dir(&threads).unwrap().map(|entry| entry.unwrap().file_name());
        let mut numbers = names.map(|name| name.into_string().unwrap());
        if let Some(tid) = numbers.find(|tid| *tid != child.id().to_string()) {
            break tid;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let input = child.stdin.take();
    let written = file.clone();
    let end = thread::spawn(move || {
        let start = Instant::now();
        while !written.metadata().is_ok_and(|file| file.len() > 20_000) && start.elapsed().as_secs() < 60 {
            thread::sleep(Duration::from_millis(5));
        }
        drop(input);
    });
    let recorded = run(prof(["record", "-F", "997", "-e", "cpu-clock", "-t", &other, "-o"]).arg(&file));
    end.join().unwrap();
    let goes_on = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(goes_on, "the process outlives the recording of its thread");
    let recorded = recorded.ok();
    let seen = run(prof(["script", "-F", "tid", "-i"]).arg(&file)).ok();
    let mut threads = seen.text().lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    assert!(threads.peek().is_some() && threads.all(|tid| tid == other), "{}", seen.text());
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    // Where it begins and ends it is in the C library and the kernel.
    assert!(stacks.with("burn_until") > 0, "{}", recorded.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_whole_machine() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut child = Command::new(&program).args(["alone", "60000"]).spawn().unwrap();
    let recorded = run(prof(["record", "-a", "-e", "cpu-clock", "-d", "0.5", "-o"]).arg(&file));
    child.kill().unwrap();
    child.wait().unwrap();
    let recorded = recorded.ok();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    assert!(stacks.with("sixty") > 5, "{}", recorded.stderr);
    if perf::is_here() {
        let theirs = perf::fold(perf::script(folder.path(), &file).ok().text());
        assert_eq!(theirs.total(), stacks.total());
        assert!(theirs.with("sixty").abs_diff(stacks.with("sixty")) <= 2);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_process_that_is_not_there_is_named() {
    let folder = folder();
    let run = run(prof(["record", "-p", "4194304", "-o"]).arg(folder.path().join("prof.data")));
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("4194304"), "{}", run.stderr);
}

/// Takes a CPU from everything that runs, for half a second.
struct Offline(&'static str);

impl Offline {
    fn begin() -> Option<Self> {
        let switch = "/sys/devices/system/cpu/cpu1/online";
        std::fs::write(switch, "0").ok().map(|()| Self(switch))
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        std::fs::write(self.0, "1").unwrap();
    }
}

#[test]
#[ignore = "takes a CPU from everything else that runs"]
fn cpus_that_go_offline_or_come_later_are_said() {
    let Some(program) = programs::c("flood") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut busy = Command::new(program).args(["busy", "60000", "4"]).stdout(Stdio::null()).spawn().unwrap();
    let recording = |first: Duration, away: Duration, flags: &[&str]| {
        let mut record = prof(["record", "-a", "-e", "cpu-clock", "-d", "4", "-o"]);
        let child =
            record.arg(&file).args(flags).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        thread::sleep(first);
        let offline = Offline::begin();
        thread::sleep(away);
        let tried = offline.is_some();
        drop(offline);
        let recorded = finish(child).ok();
        let script = run(prof(["script", "-F", "cpu", "-i"]).arg(&file)).ok();
        let on_cpu_1 = |line: &&str| line.trim().starts_with("[001]");
        (tried, recorded, script.text().lines().filter(on_cpu_1).count())
    };
    let (tried, recorded, seen) = recording(Duration::from_secs(1), Duration::from_millis(500), &[]);
    if !tried {
        busy.kill().unwrap();
        busy.wait().unwrap();
        return programs::skip("CPU 1 cannot be taken offline here");
    }
    assert!(recorded.stderr.contains("CPU 1 went offline"), "{}", recorded.stderr);
    // The second before that.
    assert!(seen > 500, "{seen}: {}", recorded.stderr);
    if perf::is_here() {
        let theirs = run(perf::perf(folder.path()).args(["script", "-G", "-F", "cpu", "-i"]).arg(&file)).ok();
        assert_eq!(theirs.text().lines().filter(|line| line.trim() == "[001]").count(), seen);
    }
    // One that was not there at the beginning.
    let offline = Offline::begin();
    let child = prof(["record", "-a", "-e", "cpu-clock", "-d", "3", "-o"])
        .arg(&file)
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_secs(1));
    drop(offline);
    let recorded = finish(child).ok();
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(recorded.stderr.contains("CPU 1 came online while recording"), "{}", recorded.stderr);
}

/// Threads of a server that starts one for each request end within a period of a low rate.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn threads_that_end_soon_are_recorded_at_a_low_rate() {
    let Some(program) = programs::c("churn") else { return };
    if !may_record() || !nix::unistd::Uid::effective().is_root() {
        return programs::skip("only root samples whole CPUs");
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let server = Command::new(program).arg("4500").stdout(Stdio::piped()).spawn().unwrap();
    let pid = server.id().to_string();
    let server = thread::spawn(|| server.wait_with_output().unwrap().stdout);
    run(prof(["record", "-e", "cpu-clock", "-F", "19", "-p", &pid, "-o"]).arg(&file)).ok();
    let times = String::from_utf8(server.join().unwrap()).unwrap();
    let times: Vec<f64> = times.split_whitespace().map(|time| time.parse().unwrap()).collect();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    let of = |name: &str| stacks.count(|stack| stack.iter().any(|frame| frame == name));
    // Four of its five threads last 8 ms each, where 19 Hz are 53 ms. Which share of the CPUs they get, they say themselves: less what
    // their starts and ends take, and what so few samples may be off (three deviations).
    let (all, due) = ((of("burn") + of("last")) as f64, times[0] / (times[0] + times[1]));
    let least = due - 0.1 - 3.0 * (due * (1.0 - due) / all).sqrt();
    assert!(all > 10.0 && of("burn") as f64 > least * all, "{} of {all}, {due} due: {stacks:?}", of("burn"));
    // The kernel no longer has the name of a thread that is being taken down.
    let is_of_server = |stack: &[String]| ["churn", "[exiting]"].contains(&stack[0].as_str());
    assert_eq!(stacks.count(|stack| !is_of_server(stack)), 0, "no other process: {stacks:?}");
}

/// A process whose children run already, one of them left to init by a parent that has ended.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn children_that_run_already_are_recorded_where_that_is_asked_for() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let program = program.to_str().unwrap();
    let script =
        format!("({program} alone 60000 & echo $!) ; {program} alone 60000 & echo $!; wait; sleep 60");
    // It begins a session, by which the one that is left to init is known.
    let mut command = Command::new("setsid");
    let mut parent = command.args(["sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(parent.stdout.take().unwrap()));
    // Line by line, as each is started.
    let mut children: Vec<i32> = Vec::new();
    while children.len() < 2 {
        children.push(lines.next().unwrap().unwrap().parse().unwrap_or(0));
    }
    thread::sleep(Duration::from_millis(100));
    let pid = parent.id().to_string();
    let record = |flags: &[&str]| {
        let record = ["record", "-e", "cpu-clock", "-F", "1999", "-d", "0.3", "-p", &pid];
        run(prof(record).args(flags).arg("-o").arg(&file))
    };
    let without = record(&[]);
    let with = record(&["--with-children"]);
    let stacks = Folded::parse(folded(&file, &["--per-thread"]).ok().text());
    for child in children.iter().copied().chain([parent.id() as i32]) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(child), nix::sys::signal::Signal::SIGKILL);
    }
    let _ = parent.wait();
    let without = without.ok().stderr;
    assert!(without.contains("2 children") && without.contains("--with-children"), "{without}");
    assert!(without.contains("slept"), "{without}");
    assert!(!with.ok().stderr.contains("not recorded"));
    for child in children {
        let own = |stack: &[String]| stack[0].ends_with(&format!("-{child}/{child}"));
        assert!(stacks.count(own) > 20, "{child} is recorded: {stacks:?}");
    }
}
