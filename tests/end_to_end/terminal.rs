//! Terminals and pipes.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::prof::{folder, may_record, prof, record, run};
use super::programs;

#[test]
fn no_picture_on_a_terminal() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() || !programs::has("script") {
        return;
    }
    let folder = folder();
    let (_, run_) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("alone"), OsStr::new("50")]);
    run_.ok();
    let command = format!("{} flame", env!("CARGO_BIN_EXE_prof"));
    let run_ = run(Command::new("script").args(["-qec", &command, "/dev/null"]).current_dir(folder.path()));
    let said = String::from_utf8_lossy(&run_.stdout).into_owned();
    assert!(matches!(run_.code, 1 | 2), "{} {said}", run_.code);
    assert!(!said.contains("<svg"), "the picture went to the terminal");
    assert!(said.contains("prof flame >") || said.contains("-o "), "{said}");
}

#[test]
fn no_recording_on_a_terminal() {
    if !may_record() || !programs::has("script") {
        return;
    }
    let folder = folder();
    for output in ["-", "/dev/stdout"] {
        let command = format!("{} record -o {output} -- true", env!("CARGO_BIN_EXE_prof"));
        let run_ =
            run(Command::new("script").args(["-qec", &command, "/dev/null"]).current_dir(folder.path()));
        let said = String::from_utf8_lossy(&run_.stdout).into_owned();
        assert_eq!(run_.code, 1, "{said}");
        assert!(!said.contains("PERFILE2") && said.contains("prof record -o FILE"), "{said}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let Some(program) = programs::c("paths") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (_, run_) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("2"), OsStr::new("400")]);
    run_.ok();
    // A pipe holds 64 KiB: the tables are long.
    for command in ["flame", "flame --folded", "report --tree --min 0", "report --json --min 0"] {
        let script = format!("set -o pipefail; '{}' {command} | head -c 100", env!("CARGO_BIN_EXE_prof"));
        let run_ = run(Command::new("bash").args(["-c", &script]).current_dir(folder.path()));
        assert_eq!(run_.code, 0, "{}", run_.stderr);
        assert_eq!(run_.stdout.len(), 100);
        assert!(!run_.stderr.contains("roken pipe") && !run_.stderr.contains("panicked"), "{}", run_.stderr);
    }
}

#[test]
fn nothing_is_run_to_learn_the_width_of_a_terminal() {
    let folder = folder();
    let (tool, mark) = (folder.path().join("tput"), folder.path().join("mark"));
    std::fs::write(&tool, format!("#!/bin/sh\n: > '{}'\necho 80\n", mark.display())).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    run(prof(["completions", "bash"]).env("PATH", folder.path())).ok();
    assert!(!mark.exists());
}
