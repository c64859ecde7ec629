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
#[ignore = "of the second ring: cargo xtask ci"]
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
#[ignore = "of the second ring: cargo xtask ci"]
fn a_script_whose_interpreter_is_missing_is_126_and_a_missing_file_127() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (_, run) = record(folder.path(), &[], &[script.as_os_str()]);
    assert_eq!(run.code, 126, "{}", run.stderr);
    assert!(run.stderr.contains("interpreter"), "{}", run.stderr);
    // With a slash in its name a command is not looked for in PATH.
    for missing in ["/nonexistent", "./no-such-program"] {
        let (code, stderr) = code_of(&[missing]);
        assert_eq!(code, 127, "{stderr}");
        assert!(stderr.contains(missing) && !stderr.contains("PATH"), "{stderr}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn wrong_usage_says_what_would_be_right() {
    let cases: [(&[&str], &str); 11] = [
        (&["record", "-p", "postgres"], "pgrep -n 'postgres'"),
        (&["record", "-p", "-1"], "numbers from 1 on"),
        (&["record", "-t", "x"], "pgrep -n 'x'"),
        (&["record", "-d", "-1", "--", "true"], "a number of seconds above 0"),
        (&["record", "-F", "-1", "--", "true"], "samples per second"),
        (&["record", "-c", "-1", "--", "true"], "a number from 1 to"),
        (&["record", "-m", "-1", "--", "true"], "a number of pages"),
        (&["top", "--delay-secs", "-1"], "a number of seconds"),
        (&["flame", "--tid", "x"], "a number from 0 to"),
        (&["diff"], "try: prof diff BEFORE AFTER"),
        (&["diff", "a", "b", "c"], "try: prof diff a -- b c"),
    ];
    for (args, right) in cases {
        let run = run(&mut prof(args));
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(right), "{args:?}: {}", run.stderr);
        for wrong in ["invalid digit", "to pass '-", "similar: "] {
            assert!(!run.stderr.contains(wrong), "{args:?}: {}", run.stderr);
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_usage_of_the_command_that_was_typed_is_shown() {
    for (args, usage) in [
        (&["diff", "a"][..], "Usage: prof diff [OPTIONS]"),
        (&["-q", "diff", "a"], "Usage: prof diff [OPTIONS]"),
        (&["flame", "--nope"], "Usage: prof flame [OPTIONS]"),
        (&["flame", "--opem"], "a similar argument exists: '--open'"),
        (&["record", "--frequency", "99"], "a similar argument exists: '--freq'"),
    ] {
        let run = run(&mut prof(args));
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(usage), "{args:?}: {}", run.stderr);
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
#[ignore = "of the second ring: cargo xtask ci"]
fn an_event_that_does_not_exist_is_named() {
    let folder = folder();
    let run =
        run(prof(["record", "-e", "no-such-event", "-o"]).arg(folder.path().join("a")).args(["--", "true"]));
    assert!(matches!(run.code, 1 | 2), "{}", run.stderr);
    assert!(run.stderr.contains("no-such-event"), "{}", run.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn an_output_that_cannot_be_written_is_named() {
    let folder = folder();
    let output = folder.path().join("no/such/folder/prof.data");
    let run = run(prof(["record", "-o"]).arg(&output).args(["--", "true"]));
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("no/such/folder"), "{}", run.stderr);
}
