//! Whatever goes wrong while it records leaves a file that can be read, or a clear error, and nothing else damaged.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::prof::{RECORDERS, Run, figure, finish, folder, may_record, prof, record, run, until};
use super::programs::skip;
use super::unprivileged::as_nobody;
use super::{perf, programs};

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// `prof record -F 4999` of a command into a file, running.
fn start(file: &Path, flags: &[&str], command: &[&OsStr]) -> Child {
    prof(["record", "-F", "4999", "-e", "cpu-clock", "-o"])
        .arg(file)
        .args(flags)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What is left of the recorded command is ended with its group.
        .process_group(0)
        .spawn()
        .unwrap()
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Both of us read it; returns the samples.
fn readable(folder: &Path, file: &Path) -> u64 {
    let ours = run(prof(["script", "-F", "time", "-i"]).arg(file));
    assert_eq!(ours.code, 0, "{}", ours.stderr);
    let samples = ours.text().lines().filter(|line| !line.is_empty()).count();
    if perf::is_here() {
        let theirs = run(perf::perf(folder).args(["script", "-F", "time", "-i"]).arg(file));
        assert_eq!(theirs.code, 0, "{}", theirs.stderr);
    }
    samples as u64
}

#[test]
fn killed_at_any_moment() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (older, first) = record(folder.path(), &[], &[OsStr::new("true")]);
    first.ok();
    let older = std::fs::read(older).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    // Whether it has begun a recording, and one with samples.
    let killed = |turn: u64| {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("prof.data");
        std::fs::write(&file, &older).unwrap();
        // The first 50 ms are the busiest.
        let span = if turn.is_multiple_of(2) { 50_000 } else { 800_000 };
        let moment = Duration::from_micros((u64::from(now.subsec_nanos()) + turn * 7919 * 7919) % span);
        let in_company = RECORDERS.read();
        let command = [program.as_os_str(), "alone".as_ref(), "20000".as_ref()];
        let mut child = start(&file, &[], &command);
        thread::sleep(moment);
        kill(pid(&child), Signal::SIGKILL).unwrap();
        child.wait().unwrap();
        let _ = nix::sys::signal::killpg(pid(&child), Signal::SIGKILL);
        drop(in_company);

        let context = format!("killed after {moment:?}");
        let names = names(scratch.path());
        assert!(names.iter().all(|name| name.starts_with("prof.data")), "{context}: {names:?}");
        let old = scratch.path().join("prof.data.old");
        if !old.exists() {
            assert_eq!(std::fs::read(&file).unwrap(), older, "{context}");
            return (0, 0);
        }
        assert_eq!(std::fs::read(&old).unwrap(), older, "{context}");
        // Between two renames there is none.
        (1, u32::from(file.exists() && readable(scratch.path(), &file) > 0))
    };
    let turns = |turns: std::ops::Range<u64>| {
        turns.map(killed).fold((0, 0), |sums, turn| (sums.0 + turn.0, sums.1 + turn.1))
    };
    // Two at once: they wait most of the time.
    let (started, with_samples) = thread::scope(|scope| {
        let others = scope.spawn(|| turns(0..10));
        let (own, others) = (turns(10..20), others.join().unwrap());
        (own.0 + others.0, own.1 + others.1)
    });
    assert!(started >= with_samples && with_samples > 0, "{with_samples} of {started}");
}

/// A command that burns about a second.
const BURN: [&str; 3] = ["sh", "-c", "i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done; exit 3"];

fn burn() -> [&'static OsStr; 3] {
    BURN.map(OsStr::new)
}

/// The recording failed for want of room: the command's work is done, and what was written is a recording.
fn ran_out_of_room(folder: &Path, file: &Path, recorded: &Run, errno: &str) {
    assert_eq!(recorded.code, 1, "{}", recorded.stderr);
    assert!(recorded.stderr.contains(errno), "{}", recorded.stderr);
    assert!(recorded.stderr.contains("can be read"), "{}", recorded.stderr);
    let total = readable(folder, file);
    assert!(total > 100, "{total}: {}", recorded.stderr);
    if perf::is_here() {
        let theirs = perf::fold(perf::script(folder, file).ok().text()).total();
        assert_eq!(theirs, total, "perf finds as much");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_file_that_may_not_grow() {
    if !may_record() || !programs::has("prlimit") {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let recorded = run(Command::new("prlimit")
        .arg("--fsize=200000")
        .arg(env!("CARGO_BIN_EXE_prof"))
        .args(["record", "-F", "9997", "-e", "cpu-clock", "-o"])
        .arg(&file)
        .arg("--")
        .args(BURN));
    ran_out_of_room(folder.path(), &file, &recorded, "EFBIG");
}

#[test]
fn a_full_disk() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "none"]).arg(&disk).output();
    if !mount.is_ok_and(|mount| mount.status.success()) {
        return skip("only root mounts a small tmpfs");
    }
    let file = disk.join("prof.data");
    let recorded =
        run(prof(["record", "-F", "9997", "-e", "cpu-clock", "-o"]).arg(&file).arg("--").args(BURN));
    // Now there is no room for another, not even for its beginning: the command is not started.
    let second = run(prof(["record", "-o"])
        .arg(disk.join("second"))
        .args(["--", "touch"])
        .arg(folder.path().join("ran")));
    let copy = folder.path().join("prof.data");
    std::fs::copy(&file, &copy).unwrap();
    let names = names(&disk);
    Command::new("umount").arg("-l").arg(&disk).status().unwrap();
    ran_out_of_room(folder.path(), &copy, &recorded, "ENOSPC");
    assert_eq!((second.code, names.len()), (1, 1), "{}", second.stderr);
    assert!(second.stderr.contains("ENOSPC"), "{}", second.stderr);
    assert!(!folder.path().join("ran").exists());
}

/// Starts to record a command into a pipe, the other end of which is returned.
fn into_pipe(flags: &[&str], command: &[&OsStr]) -> (Child, ChildStdout) {
    let mut child = prof(["record", "-e", "cpu-clock", "-o", "-"])
        .args(flags)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    (child, stdout)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_pipe_that_nobody_reads_any_more() {
    if !may_record() {
        return;
    }
    let in_company = RECORDERS.read();
    let (child, mut stdout) = into_pipe(&["-F", "9997"], &burn());
    stdout.read_exact(&mut [0; 1000]).unwrap();
    drop(stdout);
    let out = child.wait_with_output().unwrap();
    drop(in_company);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("error"), "{stderr}");
}

/// Records a command into a pipe that nobody reads until `pause` returns; returns what was said, and the recording.
fn into_slow_pipe(flags: &[&str], command: &[&OsStr], pause: impl FnOnce()) -> (String, Vec<u8>) {
    let in_company = RECORDERS.read();
    let (mut child, mut stdout) = into_pipe(flags, command);
    let mut stderr = child.stderr.take().unwrap();
    let said = thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    });
    pause();
    let mut recording = Vec::new();
    stdout.read_to_end(&mut recording).unwrap();
    assert!(child.wait().unwrap().success());
    drop(in_company);
    (said.join().unwrap(), recording)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_slow_output_keeps_nobody_from_the_rings() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    // The rings, and what waits to be unwound, hold a second of such copies; what becomes of them is small.
    let flags = ["-F", "997", "--call-graph", "dwarf,32768"];
    let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("2500")];
    let (said, recording) = into_slow_pipe(&flags, &command, || thread::sleep(Duration::from_secs(2)));
    std::fs::write(&file, recording).unwrap();
    assert_eq!(figure(&said, "lost"), 0, "{said}");
    assert_eq!(readable(folder.path(), &file), figure(&said, "samples"), "{said}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn an_output_that_stays_too_slow_is_told() {
    let Some(program) = programs::c("deep") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let flags = ["-F", "4999", "--call-graph", "dwarf,32768", "--keep-stacks"];
    // The program takes 400 MB of samples, and nobody reads before it has ended, however long that takes.
    let ended = folder.path().join("ended");
    let script = ["sh", "-c", "\"$1\" 2000 2500; : > \"$0\""].map(OsStr::new);
    let command = [&script[..], &[ended.as_os_str(), program.as_os_str()]].concat();
    let (said, recording) = into_slow_pipe(&flags, &command, || {
        let start = Instant::now();
        while !ended.exists() && start.elapsed() < Duration::from_secs(120) {
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(figure(&said, "lost") > 0, "{said}");
    assert!(said.contains("its buffer of 64 MiB full for"), "{said}");
    // Ours would unwind them all.
    if perf::is_here() {
        std::fs::write(&file, recording).unwrap();
        let theirs =
            run(perf::perf(folder.path()).args(["script", "-G", "-F", "time", "-i"]).arg(&file)).ok();
        assert_eq!(
            theirs.text().lines().filter(|line| !line.is_empty()).count() as u64,
            figure(&said, "samples")
        );
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_second_signal_ends_the_wait_for_a_stuck_output() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let in_company = RECORDERS.read();
    let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("90000")];
    let (mut child, mut stdout) = into_pipe(&["-F", "9997"], &command);
    stdout.read_exact(&mut [0; 1000]).unwrap();
    // More comes than the pipe holds, and nobody reads it.
    thread::sleep(Duration::from_secs(1));
    let start = Instant::now();
    let mut ended = None;
    while ended.is_none() && start.elapsed() < Duration::from_secs(60) {
        // The first one ends the recording. Others that come within a second are taken for the same.
        kill(pid(&child), Signal::SIGTERM).unwrap();
        thread::sleep(Duration::from_millis(400));
        ended = child.try_wait().unwrap();
    }
    drop(in_company);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdout);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(ended.and_then(|status| status.signal()), Some(Signal::SIGTERM as i32));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_folder_that_is_removed() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let inside = folder.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let file = inside.join("prof.data");
    let in_company = RECORDERS.read();
    let child = start(&file, &[], &burn());
    until("the file has its name", || file.exists());
    std::fs::remove_dir_all(&inside).unwrap();
    let recorded = finish(child);
    drop(in_company);
    assert_eq!(recorded.code, 1, "{}", recorded.stderr);
    assert!(
        recorded.stderr.contains("deleted") && !recorded.stderr.contains("can be read"),
        "{}",
        recorded.stderr
    );
    assert_eq!(names(folder.path()).len(), 0);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_folder_without_write_permission() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let locked = folder.path().join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::write(locked.join("prof.data"), "older").unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o555)).unwrap();
    let file = locked.join("prof.data");
    let args = ["record", "-o", file.to_str().unwrap(), "--", "touch", "ran"];
    let Some(refused) = as_nobody(folder.path(), &args) else { return };
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("EACCES") && refused.stderr.contains("try: -o "), "{}", refused.stderr);
    assert!(!folder.path().join("home/ran").exists(), "the command was not started");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "older");
    assert_eq!(names(&locked).len(), 1);
}

/// The state of a process: `R`, `S`, `T`, …
fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn stopped_and_continued() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let in_company = RECORDERS.read();
    // Without copies of stacks, which fill the rings sooner.
    let flags = ["--call-graph", "fp"];
    let child = start(&file, &flags, &[program.as_os_str(), OsStr::new("alone"), OsStr::new("600")]);
    until("the file has its name", || file.exists());
    kill(pid(&child), Signal::SIGTSTP).unwrap();
    until("it stops", || state(&child.id().to_string()) == Some('T'));
    thread::sleep(Duration::from_millis(200));
    kill(pid(&child), Signal::SIGCONT).unwrap();
    let recorded = finish(child).ok();
    drop(in_company);
    // The rings hold what came meanwhile.
    assert_eq!(figure(&recorded.stderr, "lost"), 0, "{}", recorded.stderr);
    let total = readable(folder.path(), &file);
    assert_eq!(total, figure(&recorded.stderr, "samples"));
    assert!(total > 1500, "600 ms at 4999 Hz: {}", recorded.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_command_that_stops_itself() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let number = folder.path().join("number");
    let script = "echo $$ > \"$1.new\"; mv \"$1.new\" \"$1\"; kill -STOP $$; exit 5";
    let command = ["sh", "-c", script, "sh", number.to_str().unwrap()].map(OsStr::new);
    let in_company = RECORDERS.read();
    let child = start(&file, &[], &command);
    until("the command tells its number", || number.exists());
    let number = std::fs::read_to_string(&number).unwrap();
    let number = number.trim();
    until("the command stops", || state(number) == Some('T'));
    thread::sleep(Duration::from_millis(100));
    assert!(state(&child.id().to_string()).is_some_and(|state| state != 'Z'), "we wait for it");
    kill(Pid::from_raw(number.parse().unwrap()), Signal::SIGCONT).unwrap();
    let recorded = finish(child);
    drop(in_company);
    assert_eq!(recorded.code, 5, "{}", recorded.stderr);
    readable(folder.path(), &file);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_target_that_is_killed() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut target = Command::new(&program).args(["alone", "60000"]).spawn().unwrap();
    let in_company = RECORDERS.read();
    let child = prof(["record", "-F", "4999", "-e", "cpu-clock", "-p", &target.id().to_string(), "-o"])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("samples are written", || file.metadata().is_ok_and(|file| file.len() > 100_000));
    target.kill().unwrap();
    target.wait().unwrap();
    let recorded = finish(child).ok();
    drop(in_company);
    assert_eq!(readable(folder.path(), &file), figure(&recorded.stderr, "samples"));
}
