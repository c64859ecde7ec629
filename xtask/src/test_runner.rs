//! `cargo test --workspace` for CI, and a second look at live tests.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The tests that record what the machine does while they run.
const LIVE: [&str; 4] = ["-p", "prof-cli", "--test", "end_to_end"];
/// How often a live test that failed in company has to pass alone.
const ALONE: usize = 3;
/// More than so many that fail are no accident.
const MOST: usize = 3;

/// Runs all tests.
///
/// A live test measures a machine that it shares with the other tests. One that fails there is run by itself, three
/// times in a row, and has failed if one of these fails: what the machine did is told from what we did. Both are in
/// the output, and a test that needs this is to be mended.
///
/// # Errors
/// Where a test fails, and where `cargo` cannot be run.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut all = Command::new("cargo");
    let Outcome { failed, passes, .. } = test(all.args(["test", "--workspace", "--no-fail-fast"]), root)?;
    if passes {
        return Ok(());
    }
    if failed.is_empty() || failed.len() > MOST {
        bail!("{} tests failed", failed.len());
    }
    for round in 1..=ALONE {
        eprintln!("== again, alone ({round} of {ALONE}): {}", failed.join(" "));
        let mut again = Command::new("cargo");
        again.arg("test").args(LIVE).args(["--", "--test-threads=1", "--exact"]).args(&failed);
        let Outcome { passed, passes, .. } = test(&mut again, root)?;
        if !passes || passed != failed.len() {
            bail!("{} failed", failed.join(" "));
        }
    }
    eprintln!("failed beside other tests, passed alone, and should be mended: {}", failed.join(" "));
    Ok(())
}

/// What the test runner said.
#[derive(Default, Debug)]
struct Outcome {
    failed: Vec<String>,
    passed: usize,
    /// True if it ended with success.
    passes: bool,
}

/// Runs the tests of a command, and prints what it prints.
fn test(command: &mut Command, root: &Path) -> anyhow::Result<Outcome> {
    let mut child = command
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let stdout = child.stdout.take().context("no output to read")?;
    let mut outcome = Outcome::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        outcome.note(&line);
    }
    outcome.passes = child.wait()?.success();
    Ok(outcome)
}

impl Outcome {
    /// Learns from a line of libtest's: `test NAME ... ok` or `… FAILED`.
    fn note(&mut self, line: &str) {
        let Some((name, result)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... "))
        else {
            return;
        };
        match result {
            "ok" => self.passed += 1,
            "FAILED" => self.failed.push(name.to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_from_what_libtest_prints() {
        let mut outcome = Outcome::default();
        let printed = "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d ... ignored\n\
                       test result: FAILED. 1 passed; 1 failed; 1 ignored";
        printed.lines().for_each(|line| outcome.note(line));
        assert_eq!((outcome.failed, outcome.passed), (vec!["c".to_owned()], 1));
    }
}
