//! Mapped files are known by their build ids, though no build ids are asked of the kernel: that would break perf for everybody.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::names::build_id;
use super::perf;
use super::prof::{RECORDERS, Run, folder, may_record, prof, run, run_alone, until};
use super::programs::{self, has, skip};

/// The build ids of the sampled objects by their paths, empty where there is none. An object with two ids is there twice.
fn objects(file: &Path) -> BTreeMap<(String, String), u64> {
    objects_of(run(prof(["export", "--format", "json", "-i"]).arg(file)).ok())
}

fn objects_of(json: Run) -> BTreeMap<(String, String), u64> {
    let profile: Value = serde_json::from_str(json.text()).unwrap();
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let mut objects = BTreeMap::new();
    for row in profile["events"][0]["rows"].as_array().unwrap() {
        // The innermost location of a stack is its first.
        let Some(location) = profile["stacks"][number(&row[1])].get(0) else { continue };
        let Some(mapping) = profile["locations"][number(location)]["mapping"].as_u64() else { continue };
        let mapping = &profile["mappings"][usize::try_from(mapping).unwrap()];
        let text = |key: &str| mapping[key].as_str().unwrap_or_default().to_owned();
        *objects.entry((text("name"), text("build_id"))).or_default() += row[2].as_u64().unwrap();
    }
    objects
}

/// The MMAP2 records of a recording that have the mark of a build id (`PERF_RECORD_MISC_MMAP_BUILD_ID`), and all of them.
fn marked_mappings(file: &Path) -> (usize, usize) {
    let bytes = fs::read(file).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    // `struct perf_file_header`: the records.
    let (mut at, end) = (word(40), word(40) + word(48));
    let (mut marked, mut all) = (0, 0);
    while at < end {
        let header = word(at);
        if header & 0xffff_ffff == 10 {
            all += 1;
            marked += (header >> 32 & 0x4000) >> 14;
        }
        at += header >> 48;
    }
    (marked, all)
}

/// The files of a folder whose names begin like this.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let named =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(|found| found.starts_with(name)));
    named.map(|entry| entry.path()).collect()
}

/// A recorder in the background, which is told to finish at the end.
struct Recorder(Child);

impl Recorder {
    fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let descriptors = format!("/proc/{}/fd", child.id());
        let is_event = |path: PathBuf| path.to_str() == Some("anon_inode:[perf_event]");
        until("it has opened events", || {
            let open = fs::read_dir(&descriptors).into_iter().flatten().flatten();
            open.filter_map(|open| fs::read_link(open.path()).ok()).any(is_event)
        });
        // Recorders try events for a moment before they open those of the recording.
        thread::sleep(Duration::from_millis(200));
        Self(child)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGINT);
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn perf_beside_us_reads_its_own_recording() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() || !perf::is_here() {
        return;
    }
    let folder = folder();
    let _in_company = RECORDERS.read();
    // What runs in the target is of no matter: what is asked of the kernel is.
    let mut target = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = target.id().to_string();
    let kinds: [&[&str]; 4] = [
        &["record", "-q", "-a", "-o", "ours.data"],
        &["record", "-q", "-p", &pid, "-o", "ours.data"],
        &["record", "-q", "-a", "--overwrite", "-o", "ours"],
        &["top", "-a", "--json", "--delay-secs", "60"],
    ];
    for kind in kinds {
        let _ours = Recorder::start(prof(kind).current_dir(folder.path()));
        let file = folder.path().join("theirs.data");
        let mut record = perf::perf(folder.path());
        record.args(perf::RECORD).args(["-e", "cpu-clock", "-o"]).arg(&file).arg("--").arg(&program);
        run_alone(record.args(["alone", "50"])).ok();
        let report = run_alone(perf::perf(folder.path()).args(["report", "--stdio", "-i"]).arg(&file)).ok();
        assert!(report.text().contains("shares"), "{kind:?}: {}", report.stderr);
    }
    target.kill().unwrap();
    target.wait().unwrap();
}

/// A recorder that asks for build ids. Others have to be kept away from it: their perf would read nothing.
fn asking_recorder(folder: &Path) -> Recorder {
    let mut asking = perf::perf(folder);
    asking.args(perf::RECORD);
    asking.args(["--buildid-mmap", "-a", "-e", "cpu-clock", "-F", "99", "-o", "asking.data"]);
    Recorder::start(&mut asking)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_another_recorder_asks_for_stands_in_no_record_of_ours() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() || !perf::is_here() || !has("readelf") {
        return;
    }
    let folder = folder();
    let _alone = RECORDERS.write();
    let _asking = asking_recorder(folder.path());
    let id = build_id(&program);
    let file = folder.path().join("prof.data");
    for flags in [["--call-graph", "fp"], ["--call-graph", "dwarf"]] {
        let mut record = prof(["record", "-q", "-e", "cpu-clock", "-o"]);
        record.arg(&file).args(flags).arg("--").arg(&program).args(["alone", "100"]);
        run_alone(&mut record).ok();
        let (marked, all) = marked_mappings(&file);
        assert!(all > 2 && marked == 0, "{marked} of {all}");
        let listed = run_alone(perf::perf(folder.path()).args(["buildid-list", "-i"]).arg(&file)).ok();
        assert!(listed.text().contains(&format!("{id} {}", program.display())), "{}", listed.text());
        let json = run_alone(prof(["export", "--format", "json", "-i"]).arg(&file)).ok();
        let objects = objects_of(json);
        assert!(objects.contains_key(&(program.display().to_string(), id.clone())), "{objects:?}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn files_streams_windows_and_series_have_the_ids() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() || !has("readelf") {
        return;
    }
    let folder = folder();
    let wanted = (program.display().to_string(), build_id(&program));
    for (form, milliseconds) in [
        (&["-o", "prof.data"][..], "100"),
        (&["-z", "-o", "packed.data"], "100"),
        (&["--overwrite", "-o", "window"], "100"),
        (&["--switch-output=1s", "-o", "series"], "1200"),
    ] {
        let name = form[form.len() - 1];
        let mut record = prof(["record", "-q", "-e", "cpu-clock"]);
        record.args(form).arg("--").arg(&program).args(["alone", milliseconds]).current_dir(folder.path());
        run(&mut record).ok();
        let files: Vec<PathBuf> = files(folder.path(), name);
        assert!(!files.is_empty(), "{form:?}");
        for file in files {
            let objects = objects(&file);
            assert!(objects.contains_key(&wanted), "{form:?}: {objects:?}");
            if perf::is_here() {
                let listed = run(perf::perf(folder.path()).args(["buildid-list", "-i"]).arg(&file)).ok();
                assert!(listed.text().contains(&wanted.1), "{form:?}: {}", listed.text());
            }
        }
    }
    let stream = format!(
        "{prof} record -q -e cpu-clock -o - -- {program} alone 100 | {prof} export --format json -i -",
        prof = env!("CARGO_BIN_EXE_prof"),
        program = program.display()
    );
    let objects = objects_of(run(Command::new("sh").args(["-c", &stream])).ok());
    assert!(objects.contains_key(&wanted), "{objects:?}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn programs_that_are_deleted_at_once_have_their_ids() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() || !has("readelf") {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        return skip("only root finds a deleted file through the process that maps it");
    }
    let folder = folder();
    let path = folder.path().join("gone");
    // The program runs for ten milliseconds, and its file is gone before it ends.
    let script = format!(
        "for i in $(seq 60); do cp {} {path}$i; {path}$i alone 10 & rm {path}$i; wait; done",
        program.display(),
        path = path.display()
    );
    let file = folder.path().join("prof.data");
    let mut record = prof(["record", "-q", "-F", "4999", "-e", "cpu-clock", "-o"]);
    run(record.arg(&file).args(["--", "sh", "-c", &script])).ok();
    let id = build_id(&program);
    let objects = objects(&file);
    let of_path = objects.iter().filter(|((name, _), _)| name.starts_with(path.to_str().unwrap()));
    let (mut with, mut all) = (0, 0);
    for ((_, found), samples) in of_path {
        all += samples;
        with += if *found == id { *samples } else { 0 };
    }
    assert!(all > 500 && with * 100 >= all * 98, "{with} of {all}: {objects:?}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_program_that_is_written_in_place_is_two_objects() {
    let (Some(one), Some(other)) = (programs::c("shares"), programs::c("paths")) else { return };
    if !may_record() || !has("readelf") {
        return;
    }
    let folder = folder();
    let path = folder.path().join("program");
    fs::copy(&one, &path).unwrap();
    let script =
        format!("{path} alone 100; cat {} > {path}; {path} 1 100", other.display(), path = path.display());
    let file = folder.path().join("prof.data");
    run(prof(["record", "-q", "-F", "2999", "-e", "cpu-clock", "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", &script]))
    .ok();
    let objects = objects(&file);
    for program in [&one, &other] {
        let key = (path.display().to_string(), build_id(program));
        assert!(objects.get(&key).is_some_and(|samples| *samples > 20), "{key:?} in {objects:?}");
    }
}
