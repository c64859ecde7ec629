//! Programs of runtimes in which three functions take known shares, with what `--runtimes` sets.

use std::fs::File;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;

use super::attaching::cpu_time;
use super::flags::cgroup;
use super::folded::{Folded, plain};
use super::prof::{Run, may_record, prof, run, until};
use super::programs::{self, skip};

/// Samples below which shares say little.
const ENOUGH: u64 = 500;

/// Records a program, and holds that its functions have their shares, and that nearly all samples below `begin` are in one.
fn check(command: &mut Command, begin: &str) {
    // Node leaves a log in its folder.
    let folder = tempfile::tempdir().unwrap();
    check_stacks(&run(command.current_dir(folder.path())).ok(), begin);
}

fn check_stacks(out: &Run, begin: &str) {
    let stacks = Folded::parse(out.text());
    let has = |stack: &[String], name: &str| {
        // `sixty shares.py`, `Shares.sixty`
        let is = |word: &str| word == name;
        stack.iter().any(|frame| {
            plain(frame).split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(is)
        })
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

pub(crate) fn fixture(name: &str) -> PathBuf {
    programs::repository().join("fixtures/programs").join(name)
}

/// The first of these programs that is installed and says its version; says that there is none.
pub(crate) fn installed(names: &[&str]) -> Option<PathBuf> {
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
        skip(&format!("{} is not installed", names.join(" or ")));
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
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_python_have_their_shares() {
    if let Some(python) = installed(&["python3.14", "python3.13", "python3.12"]).filter(|_| may_record()) {
        run_python(&python);
    }
}

/// The interpreter has no frame pointers, and nothing in a perf map says how to go through its trampolines.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn stacks_lead_through_python_in_every_thread() {
    let python = installed(&["python3.14", "python3.13", "python3.12"]).filter(|_| may_record());
    let Some(python) = python else { return };
    let out = run(flame().arg(python).arg(fixture("callbacks.py")).arg("1")).ok();
    let stacks = Folded::parse(out.text());
    let is = |frame: &String, name: &str| frame.starts_with(&format!("{name} "));
    let of = |wanted: &dyn Fn(&[String]) -> bool| stacks.count(|stack| wanted(stack));
    let all = of(&|stack| stack.iter().any(|frame| is(frame, "leaf")));
    assert!(all >= ENOUGH, "{all} samples: {}", out.stderr);
    let whole = of(&|stack| {
        let place = |name: &str| stack.iter().position(|frame| is(frame, name));
        let (root, work) = (place("<module>").or(place("Thread._bootstrap")), place("work"));
        root.is_some() && root < work && work < place("leaf")
    });
    assert!(whole * 100 >= all * 99, "{whole} of {all}: {}", out.text());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_node_have_their_shares() {
    if let Some(node) = installed(&["node"]).filter(|_| may_record()) {
        check(flame().arg(node).arg(fixture("shares.js")).arg("3"), "shares");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_java_have_their_shares() {
    if let Some(java) = installed(&["java"]).filter(|_| may_record()) {
        // Compiled code of a caller has what it called in itself, without a name.
        let whole = ["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Shares::*"];
        check(flame().arg(java).args(whole).arg(fixture("Shares.java")).arg("3"), "Shares");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_mono_have_their_shares() {
    let Some(compiler) = found(&["mcs"], |path| path.is_file()).filter(|_| may_record()) else { return };
    let Some(mono) = installed(&["mono"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("shares.exe");
    let out = format!("-out:{}", program.display());
    assert!(Command::new(compiler).arg(out).arg(fixture("Shares.cs")).status().unwrap().success());
    check(flame().arg(mono).arg(program).arg("3"), "Shares");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_of_erlang_have_their_shares() {
    let Some(compiler) = found(&["erlc"], |path| path.is_file()).filter(|_| may_record()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let compiled = Command::new(compiler).arg("-o").args([folder.path(), &fixture("shares.erl")]).status();
    assert!(compiled.unwrap().success());
    let run = ["-noshell", "-eval", "shares:main(2000), halt()."];
    check(flame().args(["erl", "-pa"]).arg(folder.path()).args(run), "repeat");
}

/// A Java virtual machine that runs the program for a while, without being asked for names.
struct Jvm {
    child: Child,
    folder: tempfile::TempDir,
}

impl Jvm {
    /// Starts it with further options, and lets it run for so many seconds of CPU time.
    fn start(options: &[&str], seconds: f64) -> Option<Self> {
        let java = installed(&["java"]).filter(|_| may_record())?;
        let folder = tempfile::tempdir().unwrap();
        let printed = File::create(folder.path().join("printed")).unwrap();
        let whole = ["-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Shares::*"];
        let mut command = Command::new(java);
        command.arg("-XX:+PreserveFramePointer").args(whole).args(options).arg(fixture("Shares.java"));
        let child = command.arg("60").current_dir(folder.path()).stdout(printed).spawn().unwrap();
        let jvm = Self { child, folder };
        until("it has run", || cpu_time(jvm.child.id()) > seconds);
        Some(jvm)
    }

    fn record(&self, seconds: &str) -> Run {
        self.record_at("4999", seconds)
    }

    fn record_at(&self, rate: &str, seconds: &str) -> Run {
        let pid = self.child.id().to_string();
        let record = [
            "record",
            "--runtimes",
            "-d",
            seconds,
            "-F",
            rate,
            "-e",
            "cpu-clock",
            "-o",
            "p.data",
            "-p",
            &pid,
        ];
        run(prof(record).current_dir(self.folder.path())).ok()
    }

    /// Holds that it still runs, and has printed nothing.
    fn is_unharmed(&mut self) -> bool {
        let printed = std::fs::read(self.folder.path().join("printed")).unwrap();
        let left_behind = [".attach_pid", "tmp/.attach_pid"];
        let left_behind = left_behind.iter().any(|start| {
            let name = format!("{start}{}", self.child.id());
            self.folder.path().join(&name).exists() || Path::new("/").join(&name).exists()
        });
        self.child.try_wait().unwrap().is_none() && printed.is_empty() && !left_behind
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", self.child.id()));
        let _ = std::fs::remove_file(format!("/tmp/.java_pid{}", self.child.id()));
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_java_that_is_attached_to_tells_its_names() {
    // The program is compiled before it runs.
    let Some(mut jvm) = Jvm::start(&[], 3.0) else { return };
    let out = jvm.record("2");
    assert!(out.stderr.contains("asked java for the names of its code"), "{}", out.stderr);
    assert!(jvm.is_unharmed());
    check_stacks(
        &run(prof(["flame", "--folded", "-i", "p.data"]).current_dir(jvm.folder.path())).ok(),
        "Shares",
    );
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_java_that_forbids_attaching_is_left_alone() {
    let Some(mut jvm) = Jvm::start(&["-XX:+DisableAttachMechanism"], 0.5) else { return };
    let out = jvm.record("0.3");
    assert!(out.stderr.contains("attaching to it is disabled"), "{}", out.stderr);
    assert!(jvm.is_unharmed(), "SIGQUIT makes it print its threads");
}

/// A virtual machine prints its threads if the file that announces an attachment is gone when it sees the signal.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_java_that_has_no_cpu_time_prints_nothing_later() {
    let Some(mut jvm) = Jvm::start(&[], 0.5) else { return };
    let Some(cgroup) = cgroup("frozen") else { return skip("cgroups of version 2 cannot be made here") };
    let pid = jvm.child.id();
    std::fs::write(cgroup.join("cgroup.procs"), pid.to_string()).unwrap();
    let freeze = |frozen: &str| std::fs::write(cgroup.join("cgroup.freeze"), frozen).is_ok();
    if freeze("0") {
        // It has too few samples to be asked before the end.
        let out = thread::scope(|scope| {
            scope.spawn(|| {
                let before = cpu_time(pid);
                until("it has samples", || cpu_time(pid) > before + 0.15);
                freeze("1");
            });
            jvm.record_at("19", "3")
        });
        assert!(freeze("0"));
        assert!(out.stderr.contains("does not answer within a second"), "{}", out.stderr);
        until("it listens", || Path::new(&format!("/tmp/.java_pid{pid}")).exists());
        jvm.record("0.3");
        assert!(jvm.is_unharmed(), "it printed its threads");
    } else {
        skip("this kernel cannot freeze a cgroup");
    }
    drop(jvm);
    until("the cgroup is empty", || std::fs::remove_dir(&cgroup).is_ok());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_socket_that_is_not_its_own_is_not_talked_to() {
    let Some(mut jvm) = Jvm::start(&[], 0.5) else { return };
    let path = format!("/tmp/.java_pid{}", jvm.child.id());
    let listener = UnixListener::bind(&path).unwrap();
    let out = jvm.record("0.3");
    assert!(out.stderr.contains("is the socket of another process"), "{}", out.stderr);
    drop(listener);
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/shadow", &path).unwrap();
    let out = jvm.record("0.3");
    assert!(out.stderr.contains("is in the way"), "{}", out.stderr);
    assert!(jvm.is_unharmed());
}

/// A process in which a file of that name is mapped, but which does not handle SIGQUIT, must not be ended by it.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_process_that_only_looks_like_java_lives_on() {
    if !may_record() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy("/bin/sh", folder.path().join("libjvm.so")).unwrap();
    let script = "while :; do :; done";
    let mut child = Command::new(folder.path().join("libjvm.so")).args(["-c", script]).spawn().unwrap();
    let pid = child.id().to_string();
    let record = ["record", "--runtimes", "-d", "1", "-o", "p.data", "-p", &pid];
    let out = run(prof(record).current_dir(folder.path())).ok();
    let lives = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lives && out.stderr.contains("it does not handle SIGQUIT"), "{}", out.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn only_a_java_can_be_asked_while_it_runs() {
    let out = run(&mut prof(["record", "--runtimes=python", "-p", "1"]));
    assert_eq!(out.code, 2, "{}", out.stderr);
    assert!(out.stderr.contains("--runtimes=jvm"), "{}", out.stderr);
}

/// What V8 compiled several times is one row, with the compilers beside it; raw names tell them apart.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn tiers_of_a_function_are_one_row() {
    let Some(node) = installed(&["node"]).filter(|_| may_record()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |command: &mut Command| run(command.current_dir(folder.path())).ok();
    let mut record = prof(["record", "-e", "cpu-clock", "-F", "4999", "--runtimes", "--"]);
    in_folder(record.arg(node).arg(fixture("tiers.js")).arg("700"));
    let rows = |flags: &[&str]| {
        let report = in_folder(prof(["report", "-q", "--json"]).args(flags));
        let report: serde_json::Value = serde_json::from_str(report.text()).unwrap();
        report["rows"].as_array().unwrap().clone()
    };
    let is_fib = |row: &&serde_json::Value| row["function"].as_str().is_some_and(|name| name.contains("fib"));
    let spoken = rows(&[]);
    let [fib] = spoken.iter().filter(is_fib).collect::<Vec<_>>()[..] else { panic!("{spoken:?}") };
    assert_eq!((&fib["function"], &fib["module"]), (&"fib".into(), &"tiers.js".into()));
    assert!(fib["tiers"].as_str().unwrap().ends_with('*'), "{fib}");
    let raw = rows(&["--raw-names"]);
    let raw_fib: Vec<_> = raw.iter().filter(is_fib).collect();
    assert!(
        raw_fib.iter().all(|row| row["function"].as_str().unwrap().contains("tiers.js:2")),
        "{raw_fib:?}"
    );
    let sum: f64 = raw_fib.iter().map(|row| row["self"].as_f64().unwrap()).sum();
    assert_eq!(fib["self"].as_f64(), Some(sum));
}
