//! perf reads what we record, without a warning and with the same result.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::folded::{Folded, plain};
use super::prof::{UNREAD, figure, folded, folder, may_record, record, run};
use super::{perf, programs};

/// Runs perf on our file; it must say nothing on stderr.
fn reads(folder: &Path, args: &[&str], file: &Path) -> String {
    let run = run(perf::perf(folder).args(args).arg("-i").arg(file));
    assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
    assert_eq!(run.stderr, "", "{args:?}");
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn script_report_and_header() {
    let Some(program) = programs::c("paths") else { return };
    if !may_record() || !perf::is_here() {
        return;
    }
    let folder = folder();
    let (file, run) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("2"), OsStr::new("300")]);
    let summary = run.ok().stderr;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    let script = reads(folder.path(), &["script", "-F", "comm,tid,ip,sym,dso"], &file);
    let theirs = perf::fold(&script);
    assert_eq!(theirs.total(), figure(&summary, "samples"), "{summary}");
    let ours = Folded::parse(folded(&file, &["--no-inline", "--modules-only"]).ok().text());
    assert_eq!(ours.total(), theirs.total());
    let bare = |frame: &str| plain(frame).to_owned();
    let common = ours.map(bare).in_common(&theirs);
    assert!(common * 1000 >= theirs.total() * 995, "{common} of {}", theirs.total());

    let report = reads(folder.path(), &["report", "--stdio", "--no-children"], &file);
    assert!(report.contains("of event 'cpu-clock'"), "{report}");
    assert!(report.contains("step_a0"), "{report}");

    let header = reads(folder.path(), &["report", "--header-only"], &file);
    for needed in [
        "# hostname :",
        "# os release :",
        "# arch :",
        "# nrcpus online :",
        "# cpudesc :",
        "# cmdline :",
        "# event : name = cpu-clock",
        "# total memory :",
    ] {
        assert!(header.contains(needed), "no {needed:?} in\n{header}");
    }
    let command_line = header.lines().find(|line| line.starts_with("# cmdline :")).unwrap();
    assert!(command_line.contains("record") && command_line.contains("paths"), "{command_line}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_header_describes_the_machine_as_perfs_does() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() || !perf::is_here() {
        return;
    }
    let folder = folder();
    let (file, run) = record(
        folder.path(),
        &["-k", "monotonic"],
        &[program.as_os_str(), OsStr::new("alone"), OsStr::new("100")],
    );
    run.ok();
    let theirs = perf::record(folder.path(), &["-k", "monotonic"], &mut |command| {
        command.arg("true");
    });
    let [ours, theirs] =
        [&file, &theirs].map(|file| reads(folder.path(), &["report", "--header-only", "-I"], file));
    // All of a machine but what changes: free memory, and the order of PMUs.
    let machine = |header: &str| -> Vec<String> {
        let start = "# sibling sockets";
        let lines = header.lines().skip_while(|line| !line.starts_with(start));
        let lines = lines.take_while(|line| !line.starts_with("# missing features"));
        let changing = ["meminfo", "pmu mappings", "sample", "reference time", "time of"];
        lines.filter(|line| !changing.iter().any(|word| line.contains(word))).map(str::to_owned).collect()
    };
    assert!(machine(&theirs).len() > 3, "{theirs}");
    assert_eq!(machine(&ours), machine(&theirs));
    for needed in ["# pmu mappings:", "# reference time:", "# clockid: monotonic"] {
        assert!(ours.contains(needed), "no {needed:?} in\n{ours}");
    }
    let times = reads(folder.path(), &["script", "-F", "time"], &file);
    let times: Vec<&str> = times.lines().map(|line| line.trim().trim_end_matches(':')).collect();
    let said = |name: &str| ours.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert_eq!(said("# time of first sample :"), times.iter().min().copied());
    assert_eq!(said("# time of last sample :"), times.iter().max().copied());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn build_ids_are_those_of_the_files() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() || !perf::is_here() || !programs::has("readelf") {
        return;
    }
    let folder = folder();
    let (file, run_) =
        record(folder.path(), &[], &[program.as_os_str(), OsStr::new("alone"), OsStr::new("100")]);
    run_.ok();
    let listed = reads(folder.path(), &["buildid-list"], &file);
    let line = format!("{} {}", super::names::build_id(&program), program.display());
    assert!(listed.lines().any(|listed| listed == line), "{line} is not in {listed}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_older_recording_is_kept() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, first) = record(folder.path(), &[], &[OsStr::new("true")]);
    first.ok();
    let before = std::fs::read(&file).unwrap();
    record(folder.path(), &[], &[OsStr::new("true")]).1.ok();
    assert_eq!(std::fs::read(folder.path().join("prof.data.old")).unwrap(), before);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn lost_samples_are_counted_alike() {
    let Some(program) = programs::c("paths") else { return };
    if !may_record() || !perf::is_here() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let run_ = run(super::prof::prof(["record", "-F", "40000", "-e", "cpu-clock", "-m", "4K", "-o"])
        .arg(&file)
        .arg("--")
        .args(UNREAD)
        .arg(&program)
        .args(["2", "600"]))
    .ok();
    let lost = figure(&run_.stderr, "lost");
    assert!(lost > 0, "{}", run_.stderr);
    let dump = run(perf::perf(folder.path()).args(["report", "-D", "-i"]).arg(&file)).ok();
    let dump = String::from_utf8_lossy(&dump.stdout).into_owned();
    let counted: u64 = dump
        .lines()
        .filter(|line| line.contains("PERF_RECORD_LOST_SAMPLES"))
        .filter_map(|line| line.rsplit([':', ' ']).find_map(|word| word.parse::<u64>().ok()))
        .sum();
    assert_eq!(counted, lost, "{}", run_.stderr);
    let samples = dump.lines().filter(|line| line.contains("PERF_RECORD_SAMPLE")).count() as u64;
    assert_eq!(samples, figure(&run_.stderr, "samples"), "{}", run_.stderr);
    assert_eq!(Folded::parse(folded(&file, &[]).ok().text()).total(), samples);
}
