//! System calls that old kernels lack, containers forbid, or limits refuse: a recording still ends, or says what is the matter.

use std::process::{Child, Command, Stdio};

use super::prof::{Run, folded, folder, may_record, run};
use super::programs;

/// `asm-generic/unistd.h`; the numbers of system calls since Linux 5 are the same everywhere.
const PIDFD_OPEN: i32 = 434;
const EPERM: i32 = 1;
const EMFILE: i32 = 24;
const ENOSYS: i32 = 38;
const CONFINEMENTS: [i32; 3] = [ENOSYS, EPERM, EMFILE];

/// `prof`, for which a system call fails.
fn refused(call: i32, errno: i32, words: &[&str]) -> Option<Command> {
    let mut command = Command::new(programs::c("refuse")?);
    command.args([&call.to_string(), &errno.to_string(), env!("CARGO_BIN_EXE_prof")]).args(words);
    Some(command)
}

fn sleeper() -> Child {
    Command::new("sleep").arg("1").stdin(Stdio::null()).spawn().unwrap()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn without_pidfd_open_the_end_of_a_command_ends_its_recording() {
    if programs::c("refuse").is_none() || !may_record() {
        return;
    }
    for errno in CONFINEMENTS {
        let folder = folder();
        let faces: [&[&str]; 4] = [
            &["record", "-e", "cpu-clock", "-o", "prof.data"],
            &["flame", "-o", "flame.svg"],
            &["stat", "-e", "task-clock"],
            &["record", "-e", "cpu-clock", "-a", "-o", "all.data"],
        ];
        for face in faces {
            let words = [face, &["--", "sh", "-c", "exit 3"]].concat();
            let ended = run(refused(PIDFD_OPEN, errno, &words).unwrap().current_dir(folder.path()));
            // A flame graph of a command without samples has its own code.
            assert!(
                ended.code == 3 || face[0] == "flame",
                "{errno} {face:?}: {} {}",
                ended.code,
                ended.stderr
            );
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn without_pidfd_open_the_end_of_a_process_ends_its_recording() {
    if programs::c("refuse").is_none() || !may_record() {
        return;
    }
    let ends = |errno, face: &[&str], target| {
        let folder = folder();
        let mut child = sleeper();
        let pid = child.id().to_string();
        // The child is waited for meanwhile: otherwise its end would be that of the test.
        let waiting = std::thread::spawn(move || child.wait());
        let words = [face, &[target, &pid]].concat();
        let ended = run(refused(PIDFD_OPEN, errno, &words).unwrap().current_dir(folder.path()));
        assert_eq!(ended.code, 0, "{errno} {words:?}: {}", ended.stderr);
        waiting.join().unwrap().unwrap();
    };
    let faces = [&["record", "-e", "cpu-clock", "-o", "prof.data"][..], &["stat", "-e", "task-clock"]];
    // All at once: everybody sleeps.
    std::thread::scope(|scope| {
        for errno in CONFINEMENTS {
            for face in faces {
                for target in ["-p", "-t"] {
                    scope.spawn(move || ends(errno, face, target));
                }
            }
        }
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn without_pidfd_open_a_zombie_has_ended() {
    if programs::c("refuse").is_none() || !may_record() {
        return;
    }
    let folder = folder();
    let mut child = sleeper();
    let pid = child.id().to_string();
    let words = ["record", "-e", "cpu-clock", "-o", "prof.data", "-p", &pid];
    // Nobody waits for the child before the recording has ended.
    run(refused(PIDFD_OPEN, ENOSYS, &words).unwrap().current_dir(folder.path())).ok();
    child.wait().unwrap();
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn without_pidfd_open_the_samples_are_the_same() {
    let Some(program) = programs::c("shares") else { return };
    if programs::c("refuse").is_none() || !may_record() {
        return;
    }
    let folder = folder();
    let program = program.to_str().unwrap();
    let words = ["record", "-F", "999", "-e", "cpu-clock", "-o", "prof.data", "--", program, "alone", "300"];
    run(refused(PIDFD_OPEN, ENOSYS, &words).unwrap().current_dir(folder.path())).ok();
    let Run { stderr, .. } = folded(&folder.path().join("prof.data"), &[]).ok();
    assert!(!stderr.contains("lost"), "{stderr}");
}

#[cfg(target_arch = "x86_64")]
const PERF_EVENT_OPEN: i32 = 298;
#[cfg(not(target_arch = "x86_64"))]
const PERF_EVENT_OPEN: i32 = 241;

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_forbidden_perf_event_open_is_no_feature_that_is_missing() {
    if programs::c("refuse").is_none() {
        return;
    }
    for words in [&["record", "-o", "/dev/null", "--", "true"][..], &["stat", "--", "true"]] {
        let refused = run(&mut refused(PERF_EVENT_OPEN, ENOSYS, words).unwrap());
        assert_eq!(refused.code, 1);
        let cause = "this kernel has no perf_event_open, or a seccomp filter (of a container) forbids it";
        assert!(refused.stderr.contains(cause), "{words:?}: {}", refused.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn too_many_open_files_are_called_so() {
    // With some limits it does not get as far as to say anything.
    for limit in 5..20 {
        let script = format!("ulimit -n {limit}; exec \"$0\" record -o /dev/null -- true");
        let refused = run(Command::new("sh").args(["-c", &script, env!("CARGO_BIN_EXE_prof")]));
        assert_eq!(refused.code, 1, "{limit}: {}", refused.stderr);
        let is_said = ["Too many open files", "file descriptors are needed"];
        assert!(is_said.iter().any(|words| refused.stderr.contains(words)), "{limit}: {}", refused.stderr);
    }
}
