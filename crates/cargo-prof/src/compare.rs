//! `cargo prof --base REV`: builds another revision, too, records both in turns, and prints what changed.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};

use crate::arguments::Arguments;
use crate::build::{self, Target, Workspace};
use crate::profile::Environment;
use crate::record::{code, prof, program_words, status};

/// The number of pairs of runs where `--runs` is not given. `prof diff` needs eight for a verdict.
const DEFAULT_RUNS: u32 = 10;

/// Builds, records and compares. Returns the exit code of `prof diff`.
///
/// # Errors
/// There is no such revision, one of the builds fails, or `prof` cannot be run.
pub fn run(
    arguments: &Arguments,
    base: &str,
    workspace: &Workspace,
    environment: &Environment,
) -> anyhow::Result<ExitCode> {
    if arguments.cargo_value("--manifest-path").is_some_and(|path| Path::new(path).is_absolute()) {
        bail!("--base builds the manifest of another checkout, too; try a relative --manifest-path");
    }
    let checkout = Checkout::create(base, &workspace.output.join("base"))?;
    let target = build::build(arguments, environment, None)?;
    let base_target = build::build(arguments, environment, Some(&checkout.place()))
        .with_context(|| format!("cannot build {base}"))?;
    let folder = workspace.output.join(format!("{}.runs", target.name));
    let mut record = prof("record");
    if !arguments.record.iter().any(|word| word.starts_with("--runs=")) {
        record.arg("--runs").arg(DEFAULT_RUNS.to_string());
    }
    record.args(&arguments.record).arg("-o").arg(&folder);
    record.arg("--against").arg(quoted(&program_words(arguments, &base_target)));
    record.arg("--").args(program_words(arguments, &target));
    record.env("LD_LIBRARY_PATH", joined(&target, &base_target)?);
    if arguments.runs_in_package() {
        record.current_dir(&target.package).env("CARGO_MANIFEST_DIR", &target.package);
    }
    let recorded = status(&mut record)?;
    if !folder.join("runs.json").exists() {
        // prof has printed the reason.
        return Ok(ExitCode::from(code(recorded)));
    }
    Ok(ExitCode::from(code(status(prof("diff").arg(&folder))?)))
}

/// The search path for shared libraries of both programs; where both have one of a name, that of the newer is taken.
fn joined(target: &Target, base: &Target) -> anyhow::Result<OsString> {
    let paths = [target, base].map(|target| target.library_path());
    let folders = paths.iter().flat_map(|path| std::env::split_paths(path));
    std::env::join_paths(folders).context("a folder of libraries has a colon in its name")
}

/// Quotes words so that a shell, or `prof record --against`, reads them as they are.
fn quoted(words: &[OsString]) -> OsString {
    let mut line = OsString::new();
    for word in words {
        if !line.is_empty() {
            line.push(" ");
        }
        line.push("'");
        line.push(word.to_string_lossy().replace('\'', "'\\''"));
        line.push("'");
    }
    line
}

/// A checkout of the base revision beside the pictures, which is removed with the value.
struct Checkout {
    folder: PathBuf,
    /// The folder of git's repository that we are in, from its top.
    within: PathBuf,
}

impl Checkout {
    /// Checks the revision out into a folder below `folder`.
    fn create(revision: &str, folder: &Path) -> anyhow::Result<Self> {
        let commit =
            git(["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")])
                .ok()
                .with_context(|| format!("git knows no revision `{revision}` here"))?;
        let within = git(["rev-parse", "--show-prefix"])?;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        // Absolute: git takes paths from the top of its repository.
        let folder = folder.canonicalize().with_context(|| format!("cannot read {}", folder.display()))?;
        let checkout = Self { folder: folder.join("checkout"), within: PathBuf::from(within) };
        // One may be left of a run that was killed.
        checkout.remove();
        let made = Command::new("git")
            .args(["worktree", "add", "--quiet", "--force", "--detach"])
            .arg(&checkout.folder)
            .arg(&commit)
            .stdout(Stdio::null())
            .status()
            .context("cannot run git")?;
        if !made.success() {
            bail!("git cannot check {revision} out into {}", checkout.folder.display());
        }
        Ok(checkout)
    }

    /// Returns where to build it: in the same folder of the repository as we are in, into a target folder of its own.
    fn place(&self) -> build::Place {
        build::Place { folder: self.folder.join(&self.within), target: self.folder.with_file_name("target") }
    }

    fn remove(&self) {
        let remove = Command::new("git")
            .args(["worktree", "remove", "--force", "--force"])
            .arg(&self.folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        // There may be none.
        drop(remove);
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Returns what git prints, without the line break.
fn git<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> anyhow::Result<String> {
    let output = Command::new("git").args(words).stdin(Stdio::null()).output().context("cannot run git")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["a", "b c", "it's", "$x"].map(OsString::from);
        assert_eq!(quoted(&words), "'a' 'b c' 'it'\\''s' '$x'");
    }
}
