//! The commands of README and of the book run as they stand there, and the action's script does what the action needs.
//!
//! A ```` ```console ```` block holds commands (`$ …`) and what they print. `BLESS=1` writes anew what they print; a ```` ```sh ````
//! block shows what cannot run here (other machines, containers, installations).

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::prof::{folder, may_record, run};
use super::programs::{has, repository, skip};

/// Lines that a page shows of what a command prints.
const SHOWN: usize = 10;
/// Characters of such a line.
const WIDE: usize = 150;

fn pages() -> Vec<PathBuf> {
    let book = fs::read_dir(repository().join("docs/src")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = book.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.push(repository().join("README.md"));
    pages.sort();
    pages
}

/// A folder with `fixtures`, and one with the programs for `PATH`.
fn at_home(root: &Path) -> String {
    symlink(repository().canonicalize().unwrap().join("fixtures"), root.join("fixtures")).unwrap();
    let programs = root.join(".programs");
    fs::create_dir(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_prof"), programs.join("prof")).unwrap();
    let cargo_prof = Path::new(env!("CARGO_BIN_EXE_prof")).with_file_name("cargo-prof");
    if cargo_prof.exists() {
        symlink(cargo_prof, programs.join("cargo-prof")).unwrap();
    }
    format!("{}:{}", programs.display(), std::env::var("PATH").unwrap())
}

/// Runs the commands of a page in a folder of its own. Returns the page with what they printed.
fn played(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap();
    let root = folder();
    let path = at_home(root.path());
    let mut played = String::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = line == "```console" && !in_block;
        }
        let command = line.strip_prefix("$ ").filter(|_| in_block);
        if !in_block || command.is_some() || line.starts_with("```") {
            played.push_str(line);
            played.push('\n');
        }
        let Some(command) = command else { continue };
        let mut shell = Command::new("bash");
        // As on a terminal: what goes to standard error stands among the rest.
        shell.args(["-c", &format!("exec 2>&1; {command}")]).current_dir(root.path()).env("PATH", &path);
        // A page shows what a person at home sees.
        shell.env_remove("CARGO").env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR");
        let run = run(&mut shell);
        let printed = String::from_utf8_lossy(&run.stdout).into_owned();
        assert_eq!(run.code, 0, "{}: {command}: {printed}", page.display());
        let printed = printed.replace(&format!("{}/", root.path().display()), "");
        for line in printed.lines().take(SHOWN) {
            played.extend(line.trim_end().chars().take(WIDE));
            played.push('\n');
        }
        if printed.lines().count() > SHOWN {
            played.push_str("…\n");
        }
    }
    played
}

/// Returns true if lines of output follow each command where they do in the other, so that no page shows what is not printed.
fn shapes(page: &str) -> Vec<(String, bool)> {
    let mut shapes: Vec<(String, bool)> = Vec::new();
    let mut in_block = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_block = line == "```console" && !in_block;
        } else if in_block {
            match line.strip_prefix("$ ") {
                Some(command) => shapes.push((command.to_owned(), false)),
                None => shapes.last_mut().expect("a block begins with a command").1 = true,
            }
        }
    }
    shapes
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn every_documented_command_runs() {
    if !may_record() || !["gcc", "perf", "rustc", "cargo", "unshare"].iter().all(|tool| has(tool)) {
        return;
    }
    if !Path::new(env!("CARGO_BIN_EXE_prof")).with_file_name("cargo-prof").exists() {
        skip("cargo-prof is not built: cargo build -p cargo-prof");
    }
    let check = |page: &PathBuf| {
        if page.ends_with("cargo.md")
            && !Path::new(env!("CARGO_BIN_EXE_prof")).with_file_name("cargo-prof").exists()
        {
            return;
        }
        let played = played(page);
        if std::env::var_os("BLESS").is_some() {
            fs::write(page, played).unwrap();
        } else {
            assert_eq!(shapes(&fs::read_to_string(page).unwrap()), shapes(&played), "{}", page.display());
        }
    };
    // Two at once: some commands wait.
    let pages = pages();
    let (some, others) = pages.split_at(pages.len() / 2);
    thread::scope(|scope| {
        scope.spawn(|| some.iter().for_each(check));
        others.iter().for_each(check);
    });
}

/// `cargo prof` divides the command line among programs by tables of their options.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn cargo_prof_passes_every_option_of_prof_on() {
    let cargo_prof = Path::new(env!("CARGO_BIN_EXE_prof")).with_file_name("cargo-prof");
    if !cargo_prof.exists() {
        skip("cargo-prof is not built: cargo build -p cargo-prof");
        return;
    }
    let mut known = HashSet::new();
    for command in ["record", "flame"] {
        let help = Command::new(env!("CARGO_BIN_EXE_prof")).args([command, "--help"]).output().unwrap();
        for line in String::from_utf8(help.stdout).unwrap().lines() {
            // `  -F, --freq <HZ>  Samples per second`
            let Some((short, long)) = line.trim_start().split_once("--") else { continue };
            let is_option = line.starts_with("  ") && (short.is_empty() || short.len() == "-F, ".len());
            let Some(name) = long.split([' ', '[', '.']).next().filter(|_| is_option) else { continue };
            // `cargo prof` chooses the recording, records it once, and opens the picture unless it is told not to. An option of both
            // commands is the recorder's where they disagree about its value.
            if ["input", "open", "help", "runs", "against"].contains(&name) || !known.insert(name.to_owned())
            {
                continue;
            }
            let value = if long[name.len()..].starts_with(" <") { "=1" } else { "" };
            let option = format!("--{name}{value}");
            let parsed = Command::new(&cargo_prof).args(["prof", &option, "--version"]).output().unwrap();
            assert!(parsed.status.success(), "{option} of prof {command}: {parsed:?}");
        }
    }
    assert!(known.len() > 50, "only {} options were found", known.len());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_action_installs_records_and_sums_up() {
    if !may_record() || !has("curl") {
        return;
    }
    let root = folder();
    let path = |name: &str| root.path().join(name);
    // Most of it is for debuggers, and takes seconds to pack.
    let program = Path::new(env!("CARGO_BIN_EXE_prof"));
    let small = Command::new("strip").arg("-o").arg(path("prof")).arg(program).status();
    if !small.is_ok_and(|status| status.success()) {
        fs::copy(program, path("prof")).unwrap();
    }
    let packed = Command::new("tar")
        .args(["--transform=s,^,prof-0/,", "-czf"])
        .arg(path("prof.tar.gz"))
        .arg("-C")
        .arg(root.path())
        .arg("prof")
        .status();
    assert!(packed.unwrap().success());
    fs::remove_file(path("prof")).unwrap();
    let step = |step: &str, search: &str| {
        let mut bash = Command::new("bash");
        bash.arg(repository().join("action/steps.sh")).arg(step).current_dir(root.path());
        bash.env("RUNNER_TEMP", root.path())
            .env("GITHUB_PATH", path("path"))
            .env("GITHUB_OUTPUT", path("output"));
        bash.env("GITHUB_STEP_SUMMARY", path("summary.md")).env("PROF_ARCHIVE", path("prof.tar.gz"));
        bash.env("PROF_NAME", "demo").env("PROF_RUN", "seq 300000 | sort -n > /dev/null; exit 3");
        bash.env("PROF_RECORD_OPTIONS", "-F 2999 -e cpu-clock").env("PATH", search);
        run(&mut bash)
    };
    let search = std::env::var("PATH").unwrap();
    step("install", &search).ok();
    let installed = fs::read_to_string(path("path")).unwrap();
    let recorded = step("record", &format!("{}:{search}", installed.trim()));
    assert_eq!(recorded.code, 3, "the command's own code: {}", recorded.stderr);
    for line in fs::read_to_string(path("output")).unwrap().lines() {
        let file = line.split_once('=').unwrap().1;
        assert!(fs::metadata(file).unwrap().len() > 1000, "{line}");
    }
    let summary = fs::read_to_string(path("summary.md")).unwrap();
    assert!(summary.contains(" samples (2,999 Hz cpu-clock"), "{summary}");
    let explained = run(Command::new("prof").env("PATH", format!("{}:{search}", installed.trim())).args([
        "explain",
        "-q",
        "-i",
        path("prof/demo.data").to_str().unwrap(),
    ]))
    .ok();
    let lines: Vec<&str> = explained.text().lines().filter(|line| line.len() > 20).collect();
    assert!(lines.len() > 3 && lines.iter().all(|line| summary.contains(line)), "{summary}");
}
