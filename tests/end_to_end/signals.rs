//! Ctrl-C, SIGTERM and SIGKILL leave a file that can be read.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::folded::Folded;
use super::prof::{RECORDERS, figure, finish, folded, folder, may_record, prof, run, until};
use super::{perf, programs};

fn spawn(file: &Path, command: &mut dyn FnMut(&mut Command)) -> Child {
    // Who runs the tests may ignore these signals (nohup, background jobs of scripts), and so would the command.
    let mut record = Command::new("env");
    record.args(["--default-signal=INT,HUP,TERM", env!("CARGO_BIN_EXE_prof")]);
    record.args(["record", "-F", "4999", "-e", "cpu-clock", "-o"]).arg(file).arg("--");
    command(&mut record);
    record.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

fn interrupted(signal: Signal) {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let in_company = RECORDERS.read();
    let child = spawn(&file, &mut |command| {
        command.arg(&program).args(["alone", "20000"]);
    });
    until("samples are written", || file.metadata().is_ok_and(|file| file.len() > 100_000));
    send(&child, signal);
    let run_ = finish(child);
    drop(in_company);
    // The command was ended by the same signal, and its code is ours.
    assert_eq!(run_.code, 128 + signal as i32, "{}", run_.stderr);
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    assert_eq!(stacks.total(), figure(&run_.stderr, "samples"));
    assert!(stacks.with("sixty") > 50, "{}", run_.stderr);
    if perf::is_here() {
        let script = run(perf::perf(folder.path()).args(["script", "-i"]).arg(&file)).ok();
        assert_eq!(script.stderr, "");
    }
}

#[test]
fn ctrl_c_finishes_the_file() {
    interrupted(Signal::SIGINT);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn sigterm_finishes_the_file() {
    interrupted(Signal::SIGTERM);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_terminal_that_goes_away_finishes_the_file() {
    interrupted(Signal::SIGHUP);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn after_sigkill_all_but_the_last_moment_is_there() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let after = |milliseconds: u64| {
        let folder = folder();
        let file = folder.path().join("prof.data");
        let in_company = RECORDERS.read();
        let mut child = spawn(&file, &mut |command| {
            command.arg(&program).args(["alone", "20000"]);
        });
        thread::sleep(Duration::from_millis(milliseconds));
        let recorded = children(&child);
        send(&child, Signal::SIGKILL);
        child.wait().unwrap();
        drop(in_company);
        for pid in recorded {
            // The command lives on without us.
            let _ = kill(pid, Signal::SIGKILL);
        }
        let ours = folded(&file, &[]);
        assert_eq!(ours.code, 0, "{}", ours.stderr);
        let total = Folded::parse(ours.text()).total();
        assert!(total > 50, "{total} samples after {milliseconds} ms: {}", ours.stderr);
        if perf::is_here() {
            let times = run(perf::perf(folder.path()).args(["script", "-F", "time", "-i"]).arg(&file)).ok();
            let times: Vec<f64> = times
                .text()
                .lines()
                .filter_map(|line| line.trim().trim_end_matches(':').parse().ok())
                .collect();
            // perf reads as far as the last checkpoint says; we read on to the last whole record.
            assert!(times.len() as u64 <= total, "perf finds {} of {total}", times.len());
            let span = times.iter().copied().fold(0.0, f64::max) - times[0];
            // A second may be missing at the end, and the start takes its time on a loaded machine.
            assert!(span * 1000.0 > milliseconds as f64 - 1300.0, "{span} s of {milliseconds} ms");
        }
    };
    // At once: they wait most of the time.
    thread::scope(|scope| {
        scope.spawn(|| after(1500));
        after(2500);
    });
}

/// The processes that a process started.
fn children(child: &Child) -> Vec<Pid> {
    let pid = child.id();
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect()
}

/// Signals that people and programs send to a process group and mean for the command: QUIT, USR1, USR2, ALRM, STKFLT, XCPU,
/// VTALRM, PROF, IO, PWR, and real-time signals.
pub(crate) const FOR_COMMANDS: [i32; 13] = [3, 10, 12, 14, 16, 24, 26, 27, 29, 30, 34, 40, 64];

/// Runs `prof` as the leader of a process group, without signals that are ignored.
pub(crate) fn group_leader(words: &[&str]) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_prof")]).args(words).process_group(0);
    command
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn signals_for_the_command_leave_its_recording_going() {
    if !may_record() {
        return;
    }
    let numbers = FOR_COMMANDS.map(|signal| signal.to_string()).join(" ");
    let script = format!(
        "trap '' {numbers}; for s in {numbers}; do kill -$s 0; kill -$s $PPID; done; \
         i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 3"
    );
    let faces: [&[&str]; 5] = [
        &["record", "-e", "cpu-clock", "-o", "prof.data"],
        &["record", "-e", "cpu-clock", "--overwrite", "-o", "window.data"],
        &["flame", "-o", "flame.svg"],
        &["stat", "-e", "task-clock"],
        &["top", "--once"],
    ];
    for face in faces {
        let folder = folder();
        let words = [face, &["--", "sh", "-c", &script]].concat();
        let ended = run(group_leader(&words).current_dir(folder.path()));
        let code = if face[0] == "top" { 0 } else { 3 };
        assert_eq!(ended.code, code, "{face:?}: {}", ended.stderr);
        if face.contains(&"prof.data") {
            let stacks = folded(&folder.path().join("prof.data"), &[]).ok();
            assert!(Folded::parse(stacks.text()).total() > 100, "{}", ended.stderr);
        }
    }
}

/// Whether a process blocks a signal, to take it when it is ready for it.
pub(crate) fn blocks(pid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap() >> (signal - 1) & 1 == 1
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn without_a_command_signals_end_a_recording_in_order() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let mut target = Command::new(&program).args(["alone", "60000"]).spawn().unwrap();
    let ended = FOR_COMMANDS.map(|signal| {
        let folder = folder();
        let words = ["record", "-e", "cpu-clock", "-o", "prof.data", "-p", &target.id().to_string()];
        let in_company = RECORDERS.read();
        let mut record = group_leader(&words);
        record.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let record = record.spawn().unwrap();
        until("it keeps signals for itself", || blocks(record.id(), signal));
        thread::sleep(Duration::from_millis(100));
        // The C library's `kill` of nix knows no real-time signals.
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", record.id())]).status();
        assert!(sent.unwrap().success());
        let ended = finish(record);
        drop(in_company);
        (signal, folder, ended)
    });
    target.kill().unwrap();
    target.wait().unwrap();
    for (signal, folder, ended) in ended {
        assert_eq!(ended.code, 0, "signal {signal}: {}", ended.stderr);
        // Beside much else it may not have sampled yet.
        run(prof(["script", "-i"]).arg(folder.path().join("prof.data"))).ok();
    }
}
