//! Exit codes: the command's own, 127 and 126 where it could not be run, 2 for wrong usage.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;

use super::prof::{folder, may_record, prof, record, run};

fn code_of(command: &[&str]) -> (i32, String) {
    let folder = folder();
    let command: Vec<&OsStr> = command.iter().map(OsStr::new).collect();
    let (_, run) = record(folder.path(), &[], &command);
    (run.code, run.stderr)
}

#[test]
fn the_code_of_the_command_is_ours() {
    if !may_record() {
        return;
    }
    assert_eq!(code_of(&["true"]).0, 0);
    assert_eq!(code_of(&["sh", "-c", "exit 7"]).0, 7);
    assert_eq!(code_of(&["sh", "-c", "kill -9 $$"]).0, 137);
    assert_eq!(code_of(&["sh", "-c", "kill -TERM $$"]).0, 143);
}

#[test]
fn a_command_that_is_not_there_is_127() {
    if !may_record() {
        return;
    }
    let (code, stderr) = code_of(&["no-such-command-here"]);
    assert_eq!(code, 127, "{stderr}");
    assert!(stderr.contains("no-such-command-here"), "{stderr}");
    assert!(!stderr.contains("os error"), "{stderr}");
}

#[test]
fn a_command_that_cannot_be_executed_is_126() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("text");
    std::fs::write(&file, "text").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    for path in [file.as_os_str(), folder.path().as_os_str()] {
        let (_, run) = record(folder.path(), &[], &[path]);
        assert_eq!(run.code, 126, "{}", run.stderr);
    }
}

#[test]
fn wrong_usage_is_2() {
    for args in [
        &["record"][..],
        &["record", "--no-such-flag"],
        &["record", "-F", "many", "--", "true"],
        &["flame", "--no-such-flag"],
        &["no-such-command"],
        &[],
    ] {
        let run = run(&mut prof(args));
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
}

#[test]
fn an_event_that_does_not_exist_is_named() {
    let folder = folder();
    let run =
        run(prof(["record", "-e", "no-such-event", "-o"]).arg(folder.path().join("a")).args(["--", "true"]));
    assert!(matches!(run.code, 1 | 2), "{}", run.stderr);
    assert!(run.stderr.contains("no-such-event"), "{}", run.stderr);
}

#[test]
fn an_output_that_cannot_be_written_is_named() {
    let folder = folder();
    let output = folder.path().join("no/such/folder/prof.data");
    let run = run(prof(["record", "-o"]).arg(&output).args(["--", "true"]));
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("no/such/folder"), "{}", run.stderr);
}
