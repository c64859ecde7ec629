//! Where results go: pipes, devices, folders that others can write to, and standard error that nobody reads.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::folded::Folded;
use super::prof::{RECORDERS, figure, finish, folded, folder, may_record, prof, record, run};
use super::programs::{self, skip};

const PROF: &str = env!("CARGO_BIN_EXE_prof");

/// The command of [`programs::c`] that runs for so many milliseconds.
fn load(milliseconds: &str) -> Option<[String; 3]> {
    let program = programs::c("shares")?;
    Some([program.to_str()?.to_owned(), "alone".to_owned(), milliseconds.to_owned()])
}

/// Runs a script of bash, with `$PROF` and the words of the load behind it.
fn bash(folder: &Path, script: &str, load: &[String]) -> super::prof::Run {
    run(Command::new("bash").args(["-c", script, "bash"]).args(load).env("PROF", PROF).current_dir(folder))
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_named_pipe_is_waited_for_and_gets_all_samples() {
    let Some(load) = load("300") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (pipe, file) = (folder.path().join("pipe"), folder.path().join("file"));
    make_pipe(&pipe);
    let in_company = RECORDERS.read();
    let child = prof(["record", "-F", "4999", "-e", "cpu-clock", "-o"])
        .arg(&pipe)
        .arg("--")
        .args(&load)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(200));
    let mut bytes = Vec::new();
    fs::File::open(&pipe).unwrap().read_to_end(&mut bytes).unwrap();
    let recorded = finish(child).ok();
    drop(in_company);
    fs::write(&file, bytes).unwrap();
    assert!(recorded.stderr.contains("waiting until somebody reads it"), "{}", recorded.stderr);
    let total = Folded::parse(folded(&file, &[]).ok().text()).total();
    assert_eq!(total, figure(&recorded.stderr, "samples"), "{}", recorded.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn ctrl_c_ends_the_wait_for_a_reader() {
    let folder = folder();
    let pipe = folder.path().join("pipe");
    make_pipe(&pipe);
    for command in
        [vec!["record", "-o", "pipe", "--", "touch", "ran"], vec!["flame", "-o", "pipe", "--", "true"]]
    {
        let mut child = Command::new("env")
            .args(["--default-signal=INT", PROF])
            .args(command)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0; 6];
        child.stderr.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"prof: ");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        let ended = finish_without_output(child);
        assert_eq!(ended, 130);
    }
    assert!(!folder.path().join("ran").exists());
}

/// The exit code, 128 and the signal's number for one.
fn finish_without_output(mut child: std::process::Child) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        }
        if start.elapsed() > Duration::from_secs(60) {
            let _ = child.kill();
            panic!("hangs");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn descriptors_by_name_are_written_as_they_are() {
    let Some(load) = load("200") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    for script in [
        "\"$PROF\" record -F 4999 -e cpu-clock -o /dev/stdout -- \"$@\" > out",
        "\"$PROF\" record -F 4999 -e cpu-clock -o /dev/fd/7 -- \"$@\" 7> out",
        "\"$PROF\" record -F 4999 -e cpu-clock -o /dev/stdout -- \"$@\" | cat > out",
        "\"$PROF\" record -F 4999 -e cpu-clock -o >(cat > out; : > done) -- \"$@\"; while [ ! -e done ]; do sleep 0.01; done",
    ] {
        let recorded = bash(folder.path(), script, &load).ok();
        let total = Folded::parse(folded(&folder.path().join("out"), &[]).ok().text()).total();
        assert_eq!(total, figure(&recorded.stderr, "samples"), "{script}: {}", recorded.stderr);
    }
    let stdout = fs::symlink_metadata("/dev/stdout").unwrap();
    assert!(!stdout.is_file(), "it was replaced");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_cannot_be_written_to_is_named() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, first) = record(
        folder.path(),
        &[],
        &[
            OsStr::new("sh"),
            OsStr::new("-c"),
            OsStr::new("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"),
        ],
    );
    first.ok();
    for (output, why) in [
        ("/dev/full", "No space left"),
        ("/dev/urandom", "character device"),
        ("inside/", "directory"),
        ("missing/out", "there is no folder missing"),
        ("/dev/fd/88", "descriptor 88 is not open"),
    ] {
        fs::create_dir_all(folder.path().join("inside")).unwrap();
        let commands = [
            vec!["flame", "-o", output],
            vec!["script", "-o", output],
            vec!["record", "-o", output, "--", "true"],
        ];
        for command in commands {
            let failed = run(prof(&command).current_dir(folder.path()));
            assert_eq!(failed.code, 1, "{command:?}: {}", failed.stderr);
            let error = failed.stderr.lines().find(|line| line.contains("error: ")).unwrap_or_default();
            assert!(error.contains(output) && error.contains(why), "{command:?}: {}", failed.stderr);
        }
    }
    assert!(folded(&file, &[]).code == 0);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_picture_of_nothing_names_no_file_of_ours() {
    if !may_record() {
        return;
    }
    let failed = run(&mut prof(["flame", "--folded", "--", "true"]));
    if failed.code != 0 {
        assert!(failed.stderr.contains("cannot draw what was recorded"), "{}", failed.stderr);
        assert!(!failed.stderr.contains("/tmp"), "{}", failed.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn an_empty_pipe_is_told_what_fills_it() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let drawn = bash(folder.path(), "\"$PROF\" record -q -- true | \"$PROF\" flame --folded -i -", &[]);
    assert_eq!(drawn.code, 1);
    assert!(drawn.stderr.contains("prof record -o - -- COMMAND | prof flame"), "{}", drawn.stderr);
}

/// A folder of another user, in which that user has put something by the name of a recording.
fn trap(folder: &Path, set: impl FnOnce(&Path)) -> Option<PathBuf> {
    if !nix::unistd::Uid::effective().is_root() {
        skip("only root sets traps in another user's name");
        return None;
    }
    let theirs = folder.join("theirs");
    fs::create_dir(&theirs).unwrap();
    let path = theirs.join("prof.data");
    set(&path);
    for trap in [&path, &theirs] {
        std::os::unix::fs::lchown(trap, Some(65534), Some(65534)).unwrap();
    }
    Some(path)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn links_of_others_lead_nowhere() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let victim = folder.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
    let Some(path) = trap(folder.path(), |path| symlink(&victim, path).unwrap()) else { return };
    for (kind, old) in [("the link itself", true), ("the name of the older one", false)] {
        run(prof(["record", "-o"]).arg(&path).args(["--", "true"])).ok();
        assert_eq!(fs::read(&victim).unwrap(), b"precious", "{kind}");
        assert!(fs::symlink_metadata(&path).unwrap().is_file(), "{kind}");
        let old_path = path.with_extension("data.old");
        assert_eq!(fs::symlink_metadata(&old_path).unwrap().is_symlink(), old, "{kind}");
    }
    // A link in the place of the folder.
    let link = folder.path().join("link");
    symlink(folder.path(), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
    let failed = run(prof(["record", "-o"]).arg(link.join("victim")).args(["--", "true"]));
    assert_eq!((failed.code, fs::read(&victim).unwrap()), (1, b"precious".to_vec()), "{}", failed.stderr);
    assert!(failed.stderr.contains("is a link of user 65534"), "{}", failed.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_pipe_of_others_is_not_waited_for() {
    let folder = folder();
    let Some(path) = trap(folder.path(), make_pipe) else { return };
    for command in [["record", "-o"], ["flame", "-o"], ["script", "-o"]] {
        let mut refused = prof(command);
        refused.arg(&path);
        if command[0] != "script" {
            refused.args(["--", "true"]);
        }
        let refused = run(&mut refused);
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(refused.stderr.contains("a named pipe of user 65534"), "{}", refused.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn sudo_gives_results_to_who_typed_it() {
    if !may_record() || !nix::unistd::Uid::effective().is_root() {
        return skip("only root gives files away");
    }
    let folder = folder();
    chown(folder.path(), Some(65534), None).unwrap();
    symlink(".", folder.path().join("link")).unwrap();
    std::os::unix::fs::lchown(folder.path().join("link"), Some(65534), None).unwrap();
    let path = folder.path().join("link/prof.data");
    run(prof(["record", "-o"])
        .arg(&path)
        .args(["--", "true"])
        .env("SUDO_UID", "65534")
        .env("SUDO_GID", "65534"))
    .ok();
    let file = fs::metadata(folder.path().join("prof.data")).unwrap();
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (65534, 65534, 0o600));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn standard_error_that_nobody_reads_costs_no_recording() {
    let Some(load) = load("200") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    for (number, script) in [
        // The summary finds no reader.
        "\"$PROF\" record -vv -e cpu-clock -o \"$0\" -- \"$@\" 2>&1 > /dev/null | head -1; exit ${PIPESTATUS[0]}",
        "\"$PROF\" record -vv -e cpu-clock -o \"$0\" -- \"$@\" 2> /dev/full",
        "\"$PROF\" record -vv -e cpu-clock -o \"$0\" -- \"$@\" 2>&-",
    ]
    .iter()
    .enumerate()
    {
        let file = format!("{number}.data");
        let mut command = Command::new("bash");
        command.args(["-c", script, &file]).args(&load).env("PROF", PROF).current_dir(folder.path());
        let recorded = run(&mut command);
        assert_eq!((recorded.code, recorded.stderr.as_str()), (0, ""), "{script}");
        let total = Folded::parse(folded(&folder.path().join(file), &[]).ok().text()).total();
        assert!(total > 20, "{script}");
    }
    let failed = bash(folder.path(), "\"$PROF\" flame -i missing 2> /dev/full", &[]);
    assert_eq!(failed.code, 1);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_command_finds_signals_as_they_were() {
    if !may_record() || !programs::has("grep") {
        return;
    }
    let folder = folder();
    let look = "grep -E 'SigIgn|SigBlk' /proc/self/status";
    for trap in [":", "trap '' PIPE", "trap '' INT HUP TERM QUIT", "trap '' XFSZ USR1"] {
        let plain = bash(folder.path(), &format!("{trap}; exec {look}"), &[]).ok();
        let recorded =
            bash(folder.path(), &format!("{trap}; exec \"$PROF\" record -q -o f -- {look}"), &[]).ok();
        assert_eq!(recorded.text(), plain.text(), "{trap}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_hangup_that_is_ignored_ends_nothing() {
    let Some(load) = load("500") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let script = "trap '' HUP INT; \"$PROF\" record -F 4999 -e cpu-clock -o f -- \"$@\" & sleep 0.2; kill -HUP $!; wait $!";
    let recorded = bash(folder.path(), script, &load).ok();
    assert!(figure(&recorded.stderr, "samples") > 1500, "{}", recorded.stderr);
    // `kill -INT` of a background job is meant, though its shell lets it ignore Ctrl-C.
    let script = "trap '' INT; \"$PROF\" record -F 4999 -e cpu-clock -o f -- \"$@\" & sleep 0.3; kill -INT $!; wait $!; kill %2 2>/dev/null; :";
    let start = Instant::now();
    let recorded = bash(folder.path(), script, &[load[0].clone(), load[1].clone(), "1500".to_owned()]);
    assert!(figure(&recorded.stderr, "samples") > 0, "{}", recorded.stderr);
    assert!(figure(&recorded.stderr, "samples") < 6000, "{:?}: {}", start.elapsed(), recorded.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn without_memory_it_ends_with_a_sentence() {
    let Some(load) = load("400") else { return };
    if !may_record() || !programs::has("prlimit") {
        return;
    }
    let folder = folder();
    let (file, first) = record(folder.path(), &[], &load.iter().map(OsStr::new).collect::<Vec<_>>());
    first.ok();
    let mut endings = Vec::new();
    for megabytes in [12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024] {
        let limit = format!("--as={}", megabytes << 20);
        let flame = run(Command::new("prlimit").args([&limit, PROF, "flame", "--folded", "-i"]).arg(&file));
        let recording = run(Command::new("prlimit")
            .args([&limit, PROF, "record", "-e", "cpu-clock", "-o"])
            .arg(folder.path().join("limited"))
            .args(["--", "true"]));
        for (what, ended) in [("flame", flame), ("record", recording)] {
            // Below some limit not even the program is loaded.
            let is_loaders = ended.stderr.contains("error while loading shared libraries");
            let was_loaded = ended.stderr.contains("prof: ") && !is_loaders || ended.code == 0;
            endings.push(format!("{what} with {megabytes} MiB: {} {}", ended.code, ended.stderr));
            if was_loaded {
                assert!(matches!(ended.code, 0 | 1), "{}", endings.join("\n"));
            }
            assert!(!ended.stderr.contains("panicked"), "{}", endings.join("\n"));
        }
    }
    assert!(endings.iter().any(|ending| ending.contains("memory")), "{}", endings.join("\n"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_name_that_cannot_be_taken_is_told_before_the_command_runs() {
    if !may_record() {
        return;
    }
    let folder = folder();
    fs::write(folder.path().join("prof.data"), "older").unwrap();
    fs::create_dir(folder.path().join("prof.data.old")).unwrap();
    let failed = run(prof(["record", "--", "touch", "ran"]).current_dir(folder.path()));
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    assert!(failed.stderr.contains("prof.data.old is a directory"), "{}", failed.stderr);
    assert!(!folder.path().join("ran").exists());
    assert_eq!(fs::read(folder.path().join("prof.data")).unwrap(), b"older");
}
