//! Terminals and pipes.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::prof::{folder, may_record, prof, record, run};
use super::programs;

/// A picture goes beside the recording, a page as well, and no file of others is replaced.
#[test]
fn on_a_terminal_pictures_and_pages_go_beside_the_recording() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() || !programs::has("script") {
        return;
    }
    let folder = folder();
    let (_, run_) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("alone"), OsStr::new("50")]);
    run_.ok();
    std::fs::write(folder.path().join("prof.html"), "of somebody else").unwrap();
    // Whoever opens a browser here is seen.
    let opener = folder.path().join("xdg-open");
    std::fs::write(&opener, "#!/bin/sh\n: > opened\n").unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let on_terminal = |command: &str| {
        let command = format!("{} {command}", env!("CARGO_BIN_EXE_prof"));
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let mut script = Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).current_dir(folder.path()).env("PATH", path);
        // In CI, there is nobody before the screen.
        let run_ = run(script.env("DISPLAY", ":0").env("CI", "1"));
        (run_.code, String::from_utf8_lossy(&run_.stdout).into_owned())
    };
    for (command, file, start) in [
        ("flame", "prof.svg", "<?xml"),
        ("flame", "prof.svg", "<?xml"),
        ("view", "prof-2.html", "<!doctype html>"),
        (&format!("flame -- {} alone 50", program.display()), "prof.svg", "<?xml"),
    ] {
        let (code, said) = on_terminal(command);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(&format!("→ {file}")) && !said.contains("<svg"), "{said}");
        assert!(std::fs::read_to_string(folder.path().join(file)).unwrap().starts_with(start), "{file}");
    }
    assert!(!folder.path().join("prof-2.svg").exists() && !folder.path().join("opened").exists());
    let whole = on_terminal("report --limit 0").1;
    let (_, cut) = on_terminal("report");
    assert!(cut.lines().count() <= whole.lines().count() && !whole.contains("more row"), "{whole}");
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
#[ignore = "of the second ring: cargo xtask ci"]
fn nothing_is_run_to_learn_the_width_of_a_terminal() {
    let folder = folder();
    let (tool, mark) = (folder.path().join("tput"), folder.path().join("mark"));
    std::fs::write(&tool, format!("#!/bin/sh\n: > '{}'\necho 80\n", mark.display())).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    run(prof(["completions", "bash"]).env("PATH", folder.path())).ok();
    assert!(!mark.exists());
}
