//! Every perf that is here reads and rewrites every kind of recording: `script`, `report`, `buildid-list`, `data convert`,
//! `inject -b`, `inject --jit`.
//!
//! perf itself is the one in `PATH`. Programs beside it there that are called `perf-6.12`, `perf-7.3` and so on are tried
//! too: scripts that start a perf of another release with the libraries that it needs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::prof::{Run, figure, folder, may_record, prof, run};
use super::programs::{self, has, repository, skip};

/// The releases that differ in what they do with a file: what they do not know crashes one or upsets another.
const RELEASES: [&str; 3] = ["6.1.", "6.12.", "7."];

/// A perf, and the release that it says it is.
struct Perf {
    program: PathBuf,
    release: String,
}

/// All that are installed. Says which of [`RELEASES`] is missing.
fn perfs() -> Vec<Perf> {
    let is_perf = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name == "perf" || name.starts_with("perf-")
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<Perf> = Vec::new();
    for folder in std::env::split_paths(&path) {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        for program in files.filter(is_perf) {
            let Ok(said) = Command::new(&program).arg("version").stderr(Stdio::null()).output() else {
                continue;
            };
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            let Some(release) = said.trim().strip_prefix("perf version ").map(str::to_owned) else {
                continue;
            };
            if found.iter().all(|known| known.release != release) {
                found.push(Perf { program, release });
            }
        }
    }
    for release in RELEASES {
        if !found.iter().any(|perf| perf.release.starts_with(release)) {
            skip(&format!("no perf {release}x in PATH (as perf-{release}x)"));
        }
    }
    found
}

impl Perf {
    /// Runs it in a folder, without the cache in the user's home.
    fn run(&self, folder: &Path, words: &[&OsStr]) -> Run {
        let cache = folder.join("no-cache");
        run(Command::new(&self.program).arg("--buildid-dir").arg(cache).args(words).current_dir(folder))
    }

    /// Runs it on a file, where it has to succeed, and to complain of nothing but of what the kernel lost.
    fn reads(&self, folder: &Path, words: &[&str], file: &Path) -> String {
        let mut all: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        all.extend([OsStr::new("-f"), OsStr::new("-i"), file.as_os_str()]);
        let run = self.run(folder, &all);
        let about = format!("perf {} {words:?} {}: {}", self.release, file.display(), run.stderr);
        assert_eq!(run.code, 0, "{about}");
        let of_loss = ["", "Warning:", "Processed ", "Check IO/CPU overload"];
        let is_of_loss = |line: &str| {
            of_loss.iter().any(|start| match *start {
                "" => line.is_empty(),
                start => line.starts_with(start),
            })
        };
        let converts = words.first() == Some(&"data");
        assert!(converts || run.stderr.lines().all(is_of_loss), "{about}");
        String::from_utf8_lossy(&run.stdout).into_owned()
    }

    fn samples(&self, folder: &Path, file: &Path) -> usize {
        times(&self.reads(folder, &["script", "-F", "time"], file))
    }

    /// Does everything with a file. Returns what `inject --jit` made of it.
    fn uses(&self, folder: &Path, file: &Path, samples: u64, program: &str) -> PathBuf {
        let about = format!("perf {}, {}", self.release, file.display());
        self.reads(folder, &["script", "--no-inline"], file);
        assert_eq!(self.samples(folder, file) as u64, samples, "{about}");
        self.reads(folder, &["report", "--stdio", "--no-inline"], file);
        let listed = self.reads(folder, &["buildid-list"], file);
        assert!(listed.lines().any(|line| line.ends_with(program)), "{about}: {listed}");
        self.reads(folder, &["data", "convert", "--to-json", "converted.json", "--force"], file);

        let [with_ids, with_code] = ["ids", "jit"].map(|suffix| folder.join(format!("injected.{suffix}")));
        self.reads(folder, &["inject", "-b", "-o", with_ids.to_str().unwrap()], file);
        assert_eq!(self.samples(folder, &with_ids) as u64, samples, "{about}, after inject -b");
        let listed = self.reads(folder, &["buildid-list"], &with_ids);
        assert!(listed.lines().any(|line| line.ends_with(program)), "{about}, after inject -b: {listed}");
        self.reads(folder, &["inject", "--jit", "-o", with_code.to_str().unwrap()], file);
        assert_eq!(self.samples(folder, &with_code) as u64, samples, "{about}, after inject --jit");
        with_code
    }
}

/// How many lines hold a time. perf 6.12 prints the call chains of a stream, whatever fields are asked for.
fn times(script: &str) -> usize {
    let is_time = |line: &&str| line.trim().strip_suffix(':').is_some_and(|time| time.parse::<f64>().is_ok());
    script.lines().filter(is_time).count()
}

/// How many samples `prof script` prints.
fn samples_for_us(file: &Path) -> u64 {
    let script = run(prof(["script", "-F", "time", "-i"]).arg(file)).ok();
    times(script.text()) as u64
}

/// Records with these flags into a file of that name. `None` where this machine cannot, with the reason.
fn recorded(folder: &Path, name: &str, flags: &[&str], command: &[&OsStr]) -> Option<(PathBuf, u64)> {
    let file = folder.join(name);
    let mut record = prof(["record", "-o"]);
    let run = run(record.arg(&file).args(flags).arg("--").args(command).current_dir(folder));
    if run.code != 0 {
        skip(&format!("no recording with {flags:?} here: {}", run.stderr.trim()));
        return None;
    }
    let samples = samples_for_us(&file);
    Some((file, samples))
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn every_perf_uses_every_kind_of_recording() {
    let Some(program) = programs::c("paths") else { return };
    if !may_record() || !has("perf") {
        return;
    }
    let perfs = perfs();
    let folder = folder();
    let words: [OsString; 3] = [program.clone().into(), "2".into(), "100".into()];
    let command: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
    let kinds: [(&str, &[&str]); 12] = [
        ("default", &[]),
        ("fp", &["--call-graph", "fp"]),
        // Each perf reads the kernel's names for each of its samples' files, which takes longest: some have none of them.
        ("no-stacks", &["--call-graph", "no", "--all-user"]),
        ("compressed", &["-z", "--all-user"]),
        ("copies", &["--keep-stacks", "--all-user"]),
        ("system", &["-a"]),
        ("tracepoint", &["-e", "raw_syscalls:sys_enter", "-e", "cpu-clock"]),
        ("group", &["-e", "{cpu-clock,page-faults}"]),
        ("group-values", &["-e", "{cpu-clock,page-faults}:S"]),
        ("branches", &["-b"]),
        ("extras", &["--data", "--switch-events", "--namespaces", "--intr-regs", "--call-graph", "fp"]),
        ("own-clock", &["-k", "perf", "--all-user"]),
    ];
    let mut tried = 0;
    for (name, flags) in kinds {
        let Some((file, samples)) = recorded(folder.path(), name, flags, &command) else { continue };
        assert!(samples > 0, "{name}");
        for perf in &perfs {
            // Counters are each task's own since Linux 6.12. perf takes those of several tasks for one counter, whose
            // differences give members samples that there were none of.
            let samples =
                if name == "group-values" { perf.samples(folder.path(), &file) as u64 } else { samples };
            perf.uses(folder.path(), &file, samples, "/paths");
            tried += 1;
        }
    }
    assert!(tried >= 5 * perfs.len(), "{tried}");
}

/// `inject --jit` finds the dump by its mapping, and reads it by the recording's clock.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn every_perf_puts_the_names_of_a_jitdump_into_a_recording() {
    if !may_record() || !has("perf") || !has("node") {
        return;
    }
    let perfs = perfs();
    let folder = folder();
    let script = repository().join("fixtures/programs/jit.js");
    let command = [OsStr::new("node"), OsStr::new("--perf-prof"), script.as_os_str()];
    let Some((file, samples)) = recorded(folder.path(), "node", &[], &command) else { return };
    for perf in &perfs {
        let with_code = perf.uses(folder.path(), &file, samples, "/node");
        let named = perf.reads(folder.path(), &["script", "--no-inline", "-F", "ip,sym"], &with_code);
        let of_script = named.lines().filter(|line| line.contains("spinInGeneratedCode")).count() as u64;
        // node itself takes its time to start.
        assert!(of_script * 5 > samples, "perf {}: {of_script} of {samples}", perf.release);
    }
}

/// What goes through a pipe is read by each perf as it comes, and made into a file.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn every_perf_reads_a_stream() {
    let Some(program) = programs::c("paths") else { return };
    if !may_record() || !has("perf") {
        return;
    }
    let perfs = perfs();
    let folder = folder();
    for flags in [&[][..], &["-z"], &["-e", "raw_syscalls:sys_enter", "-e", "cpu-clock"]] {
        let record = run(prof(["record", "-o", "-"]).args(flags).arg("--").arg(&program).args(["2", "100"]));
        let samples = figure(&record.stderr, "samples");
        let stream = folder.path().join("stream");
        std::fs::write(&stream, record.ok().stdout).unwrap();
        for perf in &perfs {
            let piped = |words: &[&str]| {
                let quiet = ["--buildid-dir", "no-cache"];
                let mut command = Command::new("sh");
                command.args(["-c", "exec \"$0\" \"$@\" < stream"]).arg(&perf.program).args(quiet);
                run(command.args(words).current_dir(folder.path()))
            };
            let about = format!("perf {} {flags:?}", perf.release);
            let script = piped(&["script", "-F", "time", "-i", "-"]);
            assert_eq!((script.code, script.stderr.as_str()), (0, ""), "{about}");
            assert_eq!(times(script.text()) as u64, samples, "{about}");
            let report = piped(&["report", "--stdio", "--no-inline", "-i", "-"]);
            assert_eq!((report.code, report.stderr.as_str()), (0, ""), "{about}");
            // No perf injects into streams with tracepoints, its own neither.
            if flags.contains(&"-e") {
                continue;
            }
            for what in ["-b", "--jit"] {
                let inject = piped(&["inject", what, "-i", "-", "-o", "injected"]);
                assert_eq!((inject.code, inject.stderr.as_str()), (0, ""), "{about} {what}");
                let file = folder.path().join("injected");
                let found =
                    run(Command::new(&perf.program).args(["script", "-f", "-F", "time", "-i"]).arg(&file));
                assert_eq!(found.code, 0, "{about} {what}: {}", found.stderr);
                assert_eq!(times(found.text()) as u64, samples, "{about} {what}");
            }
        }
    }
}
