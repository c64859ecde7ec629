//! `prof record --overwrite`: what happened before somebody asked is in the file.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::folded::Folded;
use super::prof::{Run, figure, finish, folded, folder, may_record, prof, run, until};
use super::{perf, programs};

/// The files that were made, the oldest first.
fn dumps(folder: &Path) -> Vec<PathBuf> {
    let mut dumps: Vec<(std::time::SystemTime, PathBuf)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.metadata().unwrap().modified().unwrap(), entry.path()))
        .collect();
    dumps.sort();
    dumps.into_iter().map(|(_, path)| path).collect()
}

/// Records `marks` with a window.
fn record(folder: &Path, flags: &[&str], rounds: &str, milliseconds: &str) -> Option<Run> {
    let program = programs::c("marks")?;
    if !may_record() {
        return None;
    }
    let words =
        [program.as_os_str(), rounds.as_ref(), milliseconds.as_ref(), "40".as_ref(), folder.as_os_str()];
    let mut command = prof(["record", "--overwrite", "-F", "4999", "-e", "cpu-clock"]);
    command.args(flags).arg("-o").arg(folder.join("out")).arg("--").args::<_, &OsStr>(words);
    Some(run(&mut command).ok())
}

/// The line that counts the whole recording, behind those that count files.
fn summary(run: &Run) -> &str {
    run.stderr.lines().find(|line| line.contains(" lost")).unwrap()
}

/// First and last time of a sample, seconds.
fn times(file: &Path) -> (f64, f64) {
    let text = run(prof(["script", "-F", "time", "-i"]).arg(file)).ok();
    let mut times: Vec<f64> =
        text.text().lines().filter_map(|line| line.trim().trim_end_matches(':').parse().ok()).collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[times.len() - 1])
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn every_mark_is_in_its_dump_and_no_sample_is_missing() {
    let folder = folder();
    let Some(run_) = record(folder.path(), &["--call-graph", "fp"], "6", "60") else { return };
    let dumps = dumps(folder.path());
    assert_eq!(dumps.len(), 7, "{}", run_.stderr);
    for (index, (dump, microseconds)) in dumps.iter().zip(run_.text().lines()).enumerate() {
        let stacks = Folded::parse(folded(dump, &[]).ok().text());
        // 40 ms at 4,999 Hz, of which a part goes into the starts of the process.
        let (even, odd) = (stacks.with("even_mark"), stacks.with("odd_mark"));
        let expected = (200 * (index as u64 / 2 + 1), 200 * (index as u64).div_ceil(2));
        assert!(even.abs_diff(expected.0) <= 20 + expected.0 / 10, "{even} of {expected:?} in dump {index}");
        assert!(odd.abs_diff(expected.1) <= 20 + expected.1 / 10, "{odd} of {expected:?} in dump {index}");
        let due = microseconds.parse::<u64>().unwrap() * 4999 / 1_000_000;
        let background = stacks.with("background");
        assert!(background.abs_diff(due) <= 30 + due / 10, "{background} of {due} in dump {index}");
    }
    let last = Folded::parse(folded(&dumps[6], &[]).ok().text());
    assert_eq!(last.total(), figure(summary(&run_), "samples"), "no sample is missing between the dumps");
    assert_eq!(figure(summary(&run_), "lost"), 0);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_window_is_as_long_as_promised_and_names_what_began_before_it() {
    let folder = folder();
    let flags = ["--window", "1s,8M", "--max-files", "3"];
    let Some(run_) = record(folder.path(), &flags, "3", "1100") else { return };
    let dumps = dumps(folder.path());
    assert_eq!(dumps.len(), 3, "{}", run_.stderr);
    for dump in &dumps[..2] {
        let stacks = Folded::parse(folded(dump, &[]).ok().text());
        let marks = stacks.with("even_mark") + stacks.with("odd_mark");
        assert!((150..260).contains(&marks), "{marks} samples of the last mark: {}", run_.stderr);
        assert!(stacks.with("even_mark") == 0 || stacks.with("odd_mark") == 0, "not of the one before");
        assert!(stacks.with("main") > 300 && stacks.with("[unknown]") * 50 < stacks.total());
        let (first, last) = times(dump);
        assert!((0.8..1.1).contains(&(last - first)), "{} s", last - first);
        if perf::is_here() {
            let script =
                run(perf::perf(folder.path()).args(["script", "-F", "comm,ip,sym", "-i"]).arg(dump)).ok();
            assert_eq!(script.stderr, "");
            assert!(script.text().contains("background") && script.text().contains("_mark"));
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_folder_that_is_gone_and_a_thousand_signals_end_nothing() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let script = "\"$0\" alone 300; mv inner away; i=0; while [ $i -lt 1000 ]; do kill -USR2 $PPID; i=$((i+1)); done; \
                  sleep 0.5; rm -r away; kill -USR2 $PPID; sleep 0.5; mkdir inner; kill -USR2 $PPID; sleep 0.5; \
                  \"$0\" alone 100";
    let mut command =
        prof(["record", "--overwrite", "-e", "cpu-clock", "-o", "inner/out", "--", "sh", "-c", script]);
    let run_ = run(command.arg(&program).current_dir(folder.path()).stdin(Stdio::null()));
    assert_eq!(run_.code, 0, "{}", run_.stderr);
    // Those of the folder that was moved went with it.
    assert!(run_.stderr.contains("cannot write inner/out: there is no folder inner"), "{}", run_.stderr);
    assert_eq!(dumps(&inner).len(), 2, "{}", run_.stderr);
    let last = Folded::parse(folded(&dumps(&inner)[1], &[]).ok().text());
    assert_eq!(last.total(), figure(summary(&run_), "samples"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_full_disk_ends_nothing_and_there_is_a_dump_when_it_has_room() {
    let (Some(program), true) = (programs::c("shares"), may_record()) else { return };
    let folder = folder();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2M", "none"]).arg(&disk).output();
    if !mount.is_ok_and(|mount| mount.status.success()) {
        return programs::skip("only root mounts a small tmpfs");
    }
    let script = "head -c 2000000 /dev/zero > disk/full; \"$0\" alone 300; kill -USR2 $PPID; sleep 0.6; kill -USR2 $PPID; \
                  sleep 0.6; ls disk > listed; rm disk/full; kill -USR2 $PPID; sleep 0.6; \"$0\" alone 100";
    let mut command =
        prof(["record", "--overwrite", "-e", "cpu-clock", "-F", "4999", "-o", "disk/out", "--"]);
    command.args(["sh", "-c", script]).arg(&program).current_dir(folder.path());
    let run_ = run(&mut command);
    let listed = std::fs::read_to_string(folder.path().join("listed"));
    let read: Vec<(PathBuf, Run)> =
        dumps(&disk).into_iter().map(|file| (file.clone(), folded(&file, &[]))).collect();
    let _ = Command::new("umount").arg("-l").arg(&disk).status();
    assert_eq!(run_.code, 0, "{}", run_.stderr);
    assert_eq!(run_.stderr.matches("cannot write disk/out").count(), 2, "{}", run_.stderr);
    assert!(run_.stderr.contains("ENOSPC"), "{}", run_.stderr);
    assert_eq!(listed.unwrap(), "full\n", "no part of a dump is left");
    assert_eq!(read.len(), 2, "{read:?}: {}", run_.stderr);
    for (file, run) in read {
        let sixty = Folded::parse(run.ok().text()).with("sixty");
        assert!(sixty > 500, "{sixty} samples in {}", file.display());
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn files_carry_the_names_of_programs_that_are_gone() {
    let (Some(program), true) = (programs::c("shares"), may_record()) else { return };
    let record = |flags: &[&str]| -> Vec<u64> {
        let folder = folder();
        std::fs::copy(&program, folder.path().join("gone")).unwrap();
        let script = "./gone alone 200; rm gone; kill -USR2 $PPID; sleep 0.5; cp \"$0\" later; ./later alone 200; rm later";
        let mut command = prof(["record", "-F", "7499", "-e", "cpu-clock"]);
        command.args(flags).args(["-o", "out", "--", "sh", "-c", script]).arg(&program);
        let run_ = run(command.current_dir(folder.path())).ok();
        assert!(!run_.stderr.contains("names"), "{}", run_.stderr);
        let files = dumps(folder.path());
        for file in files.iter().filter(|_| perf::is_here()) {
            let script = run(perf::perf(folder.path()).args(["script", "-F", "comm", "-i"]).arg(file)).ok();
            assert!(
                script.text().lines().filter(|line| line.contains("gone") || line.contains("later")).count()
                    > 500
            );
        }
        files.iter().map(|file| Folded::parse(folded(file, &[]).ok().text()).with("sixty")).collect()
    };
    // Two at once: they wait for a part of their time.
    thread::scope(|scope| {
        let series = scope.spawn(|| record(&["--switch-output"]));
        let named = record(&["--overwrite"]);
        assert!(named.len() == 2 && named[0] > 500 && named[1] > 1200, "{named:?}");
        let named = series.join().unwrap();
        assert!(named.len() == 2 && named[0] > 500 && named[1] > 500, "{named:?}");
    });
    assert_eq!(record(&["--overwrite", "--no-names"]), [0, 0]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn memory_stays_within_its_bound_while_programs_come_and_go() {
    let (Some(program), true) = (programs::c("shares"), may_record()) else { return };
    let folder = folder();
    let script = "i=0; while [ $i -lt 800 ]; do i=$((i+1)); cp \"$0\" program$i; ./program$i alone 2 > /dev/null; rm program$i; \
                  [ $((i % 50)) != 0 ] || grep RssAnon /proc/$PPID/status; done";
    let words = [
        "record",
        "--overwrite",
        "--window",
        "2M",
        "-F",
        "4999",
        "-e",
        "cpu-clock",
        "-o",
        "out",
        "--",
        "sh",
        "-c",
        script,
    ];
    let run_ = run(prof(words).arg(&program).current_dir(folder.path())).ok();
    // In kB.
    let sizes: Vec<u64> =
        run_.text().lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect();
    assert_eq!(sizes.len(), 16, "{}", run_.stderr);
    // A busy moment keeps its buffers for ten seconds: the least says what stays.
    let least = |sizes: &[u64]| sizes.iter().copied().min().unwrap_or_default();
    assert!(least(&sizes[12..]) < least(&sizes[4..8]) + (4 << 10), "{sizes:?}");
    assert!(sizes.iter().all(|&size| size < 48 << 10), "{sizes:?}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn killed_it_leaves_the_dumps_that_were_made() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let script =
        "\"$0\" alone 300; kill -USR2 $PPID; while [ -z \"$(ls)\" ]; do sleep 0.01; done; kill -9 $PPID";
    let words = ["record", "--overwrite", "-e", "cpu-clock", "-o", "out", "--", "sh", "-c", script];
    let run_ = run(prof(words).arg(&program).current_dir(folder.path()));
    assert_eq!(run_.code, 137, "{}", run_.stderr);
    thread::sleep(Duration::from_millis(100));
    let dumps = dumps(folder.path());
    assert_eq!(dumps.len(), 1, "{dumps:?}");
    assert!(Folded::parse(folded(&dumps[0], &[]).ok().text()).with("sixty") > 50);
}

/// A recording that goes on until it is told to stop.
struct Recording {
    child: Child,
    folder: TempDir,
}

impl Recording {
    /// Begins it, with flags that may name files of its folder.
    fn begin(flags: &[&str], before: impl FnOnce(&Path)) -> Option<Self> {
        let program = programs::c("shares")?;
        if !may_record() {
            return None;
        }
        let folder = folder();
        before(folder.path());
        let mut command = prof(["record", "-e", "cpu-clock", "-o", "out"]);
        command.args(flags).arg("--").arg(program).args(["alone", "60000"]).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Some(Self { child: command.spawn().unwrap(), folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn dump(&self) -> Run {
        run(&mut prof(["dump", &self.child.id().to_string()]))
    }
}

/// Sends a line, and returns the line that comes back.
fn ask(mut stream: &UnixStream, line: &str) -> String {
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

/// Connects to the socket that `prof dump` asks.
fn connect(recording: &Recording) -> UnixStream {
    let address = SocketAddr::from_abstract_name(format!("prof-record-{}", recording.child.id())).unwrap();
    let begin = Instant::now();
    loop {
        match UnixStream::connect_addr(&address) {
            Ok(stream) => return stream,
            Err(error) => assert!(begin.elapsed() < Duration::from_secs(20), "{error}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_socket_takes_commands() {
    let Some(recording) = Recording::begin(&["--overwrite"], |_| ()) else { return };
    let stream = connect(&recording);
    assert_eq!(ask(&stream, "ping\n"), "ack\n");
    // Who goes away in the middle of a word, and who says what is none.
    assert!(ask(&connect(&recording), "\x1b[2J\n").starts_with("error: "));
    connect(&recording).write_all(b"du").unwrap();
    thread::sleep(Duration::from_millis(200));
    let path = recording.dump().ok();
    let path = Path::new(path.text().trim_end());
    assert!(path.is_absolute());
    let before = Folded::parse(folded(path, &[]).ok().text()).total();
    assert!(before > 10, "{before}");
    // While it samples nothing, nothing comes.
    assert_eq!(ask(&stream, "disable\n"), "ack\n");
    let dump = |line: &str| {
        let answer = ask(&stream, line);
        let path = recording.path(answer.trim_end().strip_prefix("ack ").unwrap());
        Folded::parse(folded(&path, &[]).ok().text()).total()
    };
    let stopped = dump("dump\n");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(dump("dump\n"), stopped);
    assert_eq!(ask(&stream, "enable\n"), "ack\n");
    thread::sleep(Duration::from_millis(300));
    assert!(dump("dump\n") > stopped + 10);
    assert_eq!(ask(&stream, "stop\n"), "ack\n");
    let run_ = finish(recording.child);
    assert_eq!(run_.code, 128 + 15, "{}", run_.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_pipe_whose_other_end_dies_hangs_nothing() {
    let make = |folder: &Path| {
        for name in ["commands", "answers"] {
            assert!(Command::new("mkfifo").arg(folder.join(name)).status().unwrap().success());
        }
    };
    let flags = ["-D", "-1", "--control", "fifo:commands,answers"];
    let Some(recording) = Recording::begin(&flags, make) else { return };
    let say = |text: &str| {
        let mut pipe = OpenOptions::new().write(true).open(recording.path("commands")).unwrap();
        pipe.write_all(text.as_bytes()).unwrap();
    };
    // Nobody reads the answers; in the end the pipe is full of them.
    for _ in 0..2000 {
        say("ping\n");
    }
    let mut answers = File::open(recording.path("answers")).unwrap();
    let mut first = [0; 4];
    answers.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"ack\n");
    drop(answers);
    say("dump\n");
    say("enable\n");
    // It has 2000 commands to answer first.
    let file = recording.path("out");
    until("there are samples in the file", || fs::metadata(&file).unwrap().len() > 16 << 10);
    say("stop");
    let run_ = finish(recording.child);
    assert_eq!(run_.code, 128 + 15, "{}", run_.stderr);
    let total = Folded::parse(folded(&file, &[]).ok().text()).total();
    assert!((10..2000).contains(&total), "{total} samples: {}", run_.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn only_recordings_are_sent_the_signal_that_ends_others() {
    let run_ = run(&mut prof(["dump", &std::process::id().to_string()]));
    assert_eq!(run_.code, 1);
    assert!(run_.stderr.contains("is no recording that keeps a window"), "{}", run_.stderr);
    let run_ = run(&mut prof(["dump", "4194305"]));
    assert!(run_.stderr.contains("does not exist"), "{}", run_.stderr);
    if !may_record() {
        return;
    }
    // A recording without a window would end.
    let folder = folder();
    let script = format!("sleep 0.3; {} dump $PPID; sleep 0.3", env!("CARGO_BIN_EXE_prof"));
    let words = ["record", "-e", "cpu-clock", "-o", "prof.data", "-a", "--", "sh", "-c", &script];
    let run_ = run(prof(words).current_dir(folder.path()));
    assert!(run_.stderr.contains("is no recording that keeps a window"), "{}", run_.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn files_that_follow_each_other_have_all_samples_and_names() {
    let (Some(program), true) = (programs::c("shares"), may_record()) else { return };
    for (when, fewest) in [("--switch-output=1M", 2), ("--switch-output", 2)] {
        let folder = folder();
        let script = "\"$0\" alone 200; kill -USR2 $PPID; sleep 0.2; \"$0\" alone 200";
        let words = ["record", "-F", "9997", "-e", "cpu-clock", when, "-o", "out", "--", "sh", "-c", script];
        let run_ = run(prof(words).arg(&program).current_dir(folder.path())).ok();
        let files = dumps(folder.path());
        assert!(files.len() >= fewest, "{files:?}: {}", run_.stderr);
        let stacks: Vec<Folded> =
            files.iter().map(|file| Folded::parse(folded(file, &[]).ok().text())).collect();
        let total: u64 = stacks.iter().map(Folded::total).sum();
        assert_eq!(total, figure(summary(&run_), "samples"), "{}", run_.stderr);
        for (file, stacks) in files.iter().zip(&stacks).filter(|(_, stacks)| stacks.total() > 200) {
            assert!(stacks.with("sixty") * 2 > stacks.total() - 100, "{}: {}", file.display(), run_.stderr);
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_is_watched_for_makes_a_dump() {
    let (Some(program), true) = (programs::c("shares"), may_record()) else { return };
    let record = |when: &str, script: &str| {
        let folder = folder();
        let words =
            ["record", "--overwrite", "-e", "cpu-clock", "--dump-when", when, "-o", "out", "--", "sh", "-c"];
        let run_ = run(prof(words).arg(script).arg(&program).current_dir(folder.path()));
        (dumps(folder.path()).len(), run_)
    };
    // At once: the first one waits.
    thread::scope(|scope| {
        scope.spawn(|| {
            let (files, run_) = record(
                "file:sign",
                "sleep 0.5; touch sign; sleep 1; rm sign; sleep 0.5; touch sign; sleep 1; rm sign",
            );
            assert_eq!((files, run_.code), (3, 0), "{}", run_.stderr);
            assert!(run_.stderr.contains("prof: sign is there: writing a file"), "{}", run_.stderr);
        });
        // On a machine with far too much to do, a program that wants a CPU has a part of one.
        let (files, run_) = record("cpu:5%:1s", "sleep 1; \"$0\" alone 2500");
        assert_eq!((files, run_.code), (2, 0), "{}", run_.stderr);
        assert!(run_.stderr.contains("CPU use was above 5 % for 1 s"), "{}", run_.stderr);
    });
    for (when, code, expected) in
        [("exit:nonzero", 0, 0), ("exit:nonzero", 3, 1), ("exit:4", 3, 0), ("exit:4", 4, 1)]
    {
        let (files, run_) = record(when, &format!("exit {code}"));
        assert_eq!((files, run_.code), (expected, code), "{when}: {}", run_.stderr);
    }
}

/// Listens where a recording would, as another user, and answers with its first argument as often as the second says.
const FALSE_RECORDING: &str = "import os, socket, sys\n\
    os.setgroups([]); os.setgid(12345); os.setuid(12345)\n\
    listener = socket.socket(socket.AF_UNIX); listener.bind('\\0prof-record-%d' % os.getpid()); listener.listen(5)\n\
    print(os.getpid(), flush=True)\n\
    connection, _ = listener.accept(); connection.recv(10)\n\
    try:\n    for _ in range(int(sys.argv[2])): connection.sendall(os.fsencode(sys.argv[1]).replace(b'$', b'\\n'))\n\
    except OSError: pass";

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_a_stranger_answers_is_not_believed() {
    use std::os::unix::fs::MetadataExt;
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        programs::skip("only root may act as another user");
        return;
    }
    if !programs::has("python3") {
        return;
    }
    let flood = "A".repeat(1 << 16);
    for (answer, times, why) in [
        ("ack /etc/shadow\u{1b}[2J$", "1", "not believed"),
        ("ack /etc/shadow$", "1", "not believed"),
        (&flood, "1000000", "does not answer as a recording does"),
    ] {
        let mut stranger = Command::new("python3");
        let stranger = stranger.args(["-c", FALSE_RECORDING, answer, times]).stdout(Stdio::piped());
        let mut stranger = stranger.spawn().unwrap();
        let mut pid = String::new();
        BufReader::new(stranger.stdout.take().unwrap()).read_line(&mut pid).unwrap();
        let dump = run(&mut prof(["dump", pid.trim()]));
        let _ = stranger.kill();
        stranger.wait().unwrap();
        assert_eq!((dump.code, dump.text()), (1, ""), "{}", dump.stderr);
        assert!(dump.stderr.contains(why) && !dump.stderr.contains('\u{1b}'), "{}", dump.stderr);
    }
}
