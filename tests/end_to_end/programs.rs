//! The programs that tests record, built from `fixtures/programs`, and the tools that tests need.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

/// Says that a test, or a part of one, is skipped, past the test runner's capture: it must be seen.
pub(crate) fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Skips for want of a program. In CI every program is there, and this is a failure.
fn skip_without(tool: &str) {
    assert!(std::env::var_os("CI").is_none(), "CI should have installed {tool}");
    skip(&format!("{tool} is not installed"));
}

/// Returns true if a program is installed; where it is not, the test is skipped.
pub(crate) fn has(tool: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).is_file()));
    if !found {
        skip_without(tool);
    }
    found
}

/// The folder of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A C program of `fixtures/programs`, built once per run.
pub(crate) fn c(name: &str) -> Option<PathBuf> {
    build(name, &format!("{name}.c"), "gcc", &["-O1", "-g", "-fno-omit-frame-pointer", "-pthread"])
}

/// A C program built in another way: `variant` names the result, `flags` make it.
pub(crate) fn c_built(name: &str, variant: &str, flags: &[&str]) -> Option<PathBuf> {
    let all = [&["-O1", "-g", "-fno-omit-frame-pointer", "-pthread"], flags].concat();
    build(&format!("{name}-{variant}"), &format!("{name}.c"), "gcc", &all)
}

/// A C++ program of `fixtures/programs`.
pub(crate) fn cxx(name: &str) -> Option<PathBuf> {
    build(name, &format!("{name}.cc"), "g++", &["-O2", "-g", "-fno-omit-frame-pointer"])
}

/// A Rust program of `fixtures/programs`, with symbols mangled as asked (`legacy`, `v0`).
pub(crate) fn rust(name: &str, mangling: &str) -> Option<PathBuf> {
    let mangling = format!("symbol-mangling-version={mangling}");
    // The older mangling is for the standard library's own build only, and asks for this.
    let unlock = if mangling.ends_with("legacy") { "-Zunstable-options" } else { "--cap-lints=allow" };
    let built = format!("{name}-{}", &mangling[24..]);
    build(
        &built,
        &format!("{name}.rs"),
        "rustc",
        &["--edition=2021", "-O", "-g", "-C", "force-frame-pointers=yes", "-C", &mangling, unlock],
    )
}

/// A Go program, stripped of its symbols and tables, or not.
pub(crate) fn go(name: &str, stripped: bool) -> Option<PathBuf> {
    let (variant, flags) = if stripped { ("stripped", "-ldflags=-s -w") } else { ("whole", "-ldflags=") };
    build(&format!("{name}-{variant}"), &format!("{name}.go"), "go", &["build", flags])
}

/// The command `go tool pprof`. Go builds it where it runs for the first time, which tests must not do beside each other: it takes
/// long, and both CPUs.
pub(crate) fn pprof() -> Command {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let out = Command::new("go").args(["tool", "-n", "pprof"]).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim().into()
    });
    Command::new(&*PROGRAM)
}

fn build(name: &str, source: &str, compiler: &str, flags: &[&str]) -> Option<PathBuf> {
    static BUILT: Mutex<BTreeMap<String, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());
    if !has(compiler) {
        return None;
    }
    // Only who needs the same program waits for it.
    let built =
        BUILT.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().clone();
    Some(built.get_or_init(|| build_once(name, source, compiler, flags)).clone())
}

fn build_once(name: &str, source: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs");
    std::fs::create_dir_all(&folder).unwrap();
    let built = folder.join(name);
    let source = repository().join("fixtures/programs").join(source);
    let newer =
        |a: &Path, b: &Path| Some(a.metadata().ok()?.modified().ok()? > b.metadata().ok()?.modified().ok()?);
    if newer(&built, &source) != Some(true) {
        let out = Command::new(compiler)
            .args(flags)
            .arg("-o")
            .arg(&built)
            .arg(&source)
            // The nightly features behind the older mangling are in every compiler, locked.
            .env("RUSTC_BOOTSTRAP", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(out.status.success(), "{compiler} {source:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    built
}
