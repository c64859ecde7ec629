//! Runs the tests of both rings for CI, and repeats failed live tests alone: `cargo test --workspace`, and the tests from end to end that it
//! ignores because of their time.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The tests that record what the machine does while they run. Chosen from the whole workspace, they are those that were built: one package has
/// other features of its libraries.
const LIVE: [&str; 3] = ["--workspace", "--test", "end_to_end"];
/// The test that no run of others may have beside it: it takes a CPU from everything else.
const ALONE: &str = "cpus_that_go_offline_or_come_later_are_said";
/// How often a failed live test must pass alone.
const REPETITIONS: usize = 3;
/// Maximum number of failed tests that are repeated.
const MAX_REPEATED: usize = 3;

/// Runs all tests.
///
/// A live test measures a machine that it shares with other tests. To exclude their influence, a failed one is repeated alone, three
/// times in a row, and fails if one of these runs fails. The output contains all runs, and such a test must be fixed.
///
/// # Errors
/// A test fails, or `cargo` cannot be run.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut first = Command::new("cargo");
    let first = test(first.args(["test", "--workspace", "--no-fail-fast"]), root)?;
    let mut second = Command::new("cargo");
    second.arg("test").args(LIVE).args(["--", "--ignored", "--skip", ALONE]);
    let second = test(&mut second, root)?;
    if first.passes && second.passes {
        return Ok(());
    }
    let failed = [first.failed, second.failed].concat();
    if failed.is_empty() || failed.len() > MAX_REPEATED {
        bail!("{} tests failed", failed.len());
    }
    for round in 1..=REPETITIONS {
        eprintln!("== again, alone ({round} of {REPETITIONS}): {}", failed.join(" "));
        let mut again = Command::new("cargo");
        again
            .arg("test")
            .args(LIVE)
            .args(["--", "--test-threads=1", "--include-ignored", "--exact"])
            .args(&failed);
        let Outcome { passed, passes, .. } = test(&mut again, root)?;
        if !passes || passed != failed.len() {
            bail!("{} failed", failed.join(" "));
        }
    }
    eprintln!("failed beside other tests, passed alone, must be fixed: {}", failed.join(" "));
    Ok(())
}

/// The results that the test runner printed.
#[derive(Default, Debug)]
struct Outcome {
    failed: Vec<String>,
    passed: usize,
    /// True if it exited with success.
    passes: bool,
}

/// Runs a test command, passes its output on, and collects the results.
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
        outcome.add_line(&line);
    }
    outcome.passes = child.wait()?.success();
    Ok(outcome)
}

impl Outcome {
    /// Counts the result in a line of libtest: `test NAME ... ok` or `… FAILED`.
    fn add_line(&mut self, line: &str) {
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
        printed.lines().for_each(|line| outcome.add_line(line));
        assert_eq!((outcome.failed, outcome.passed), (vec!["c".to_owned()], 1));
    }
}
