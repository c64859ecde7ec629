//! Programs of runtimes in which three functions take known shares, with what `--runtimes` sets.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::folded::Folded;
use super::prof::{may_record, prof, run};
use super::programs;

/// Samples below which shares say little.
const ENOUGH: u64 = 500;

/// Records a program, and holds that its functions have their shares, and that nearly all samples below `begin` are in one.
fn check(command: &mut Command, begin: &str) {
    // Node leaves a log in its folder.
    let folder = tempfile::tempdir().unwrap();
    let out = run(command.current_dir(folder.path())).ok();
    let stacks = Folded::parse(out.text());
    let has = |stack: &[String], name: &str| {
        // `py::sixty:/shares.py`, `JS:*sixty`, `int Shares::sixty(int)`
        let is = |word: &str| word == name;
        stack
            .iter()
            .any(|frame| frame.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(is))
    };
    let of = |name: &str| stacks.count(|stack| has(stack, name));
    let all = stacks.count(|stack| has(stack, begin));
    let named = stacks.count(|stack| ["sixty", "thirty", "ten"].iter().any(|name| has(stack, name)));
    assert!(all >= ENOUGH, "{all} samples: {}", out.stderr);
    assert!(named * 100 >= all * 95, "{named} of {all}: {}", out.text());
    for (name, due) in [("sixty", 0.6), ("thirty", 0.3), ("ten", 0.1)] {
        let share = of(name) as f64 / named as f64;
        // One and a half points, and what so few samples may be off (three deviations).
        let chance = 3.0 * (due * (1.0 - due) / named as f64).sqrt();
        assert!((share - due).abs() < 0.015 + chance, "{name}: {share:.3} of {named}: {}", out.text());
    }
}

fn flame() -> Command {
    prof(["flame", "--folded", "--runtimes", "--"])
}

fn fixture(name: &str) -> PathBuf {
    programs::repository().join("fixtures/programs").join(name)
}

/// The first of these programs that is installed and says its version; says that there is none.
fn installed(names: &[&str]) -> Option<PathBuf> {
    let says =
        |path: &PathBuf| Command::new(path).arg("--version").output().is_ok_and(|out| out.status.success());
    found(names, says)
}

fn found(names: &[&str], is_it: impl FnMut(&PathBuf) -> bool) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&folders)
        .chain(pyenv_folders())
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(is_it);
    if found.is_none() {
        programs::skip(&format!("{} is not installed", names.join(" or ")));
    }
    found
}

/// Where pyenv keeps the programs of each version: those in `PATH` are of the chosen one.
fn pyenv_folders() -> impl Iterator<Item = PathBuf> {
    let versions = std::env::var_os("PYENV_ROOT").map(|root| PathBuf::from(root).join("versions"));
    let entries = versions.and_then(|versions| std::fs::read_dir(versions).ok());
    entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path().join("bin")))
}

fn run_python(python: &Path) {
    check(flame().arg(python).arg(fixture("shares.py")).arg("1"), "shares");
}

#[test]
fn functions_of_python_have_their_shares() {
    if let Some(python) = installed(&["python3.14", "python3.13", "python3.12"]).filter(|_| may_record()) {
        run_python(&python);
    }
}

#[test]
fn functions_of_node_have_their_shares() {
    if let Some(node) = installed(&["node"]).filter(|_| may_record()) {
        check(flame().arg(node).arg(fixture("shares.js")).arg("3"), "shares");
    }
}

#[test]
fn functions_of_java_have_their_shares() {
    if let Some(java) = installed(&["java"]).filter(|_| may_record()) {
        // Compiled code of a caller has what it called in itself, without a name.
        let whole = ["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Shares::*"];
        check(flame().arg(java).args(whole).arg(fixture("Shares.java")).arg("3"), "Shares");
    }
}

#[test]
fn functions_of_erlang_have_their_shares() {
    let Some(compiler) = found(&["erlc"], |path| path.is_file()).filter(|_| may_record()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let compiled = Command::new(compiler).arg("-o").args([folder.path(), &fixture("shares.erl")]).status();
    assert!(compiled.unwrap().success());
    let run = ["-noshell", "-eval", "shares:main(2000), halt()."];
    check(flame().args(["erl", "-pa"]).arg(folder.path()).args(run), "repeat");
}
