//! Perf maps, which anybody can put into `/tmp`: they name generated code only where they can be its process's own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use tempfile::TempDir;

use super::folded::Folded;
use super::prof::{Run, folded, folder, may_record, record};
use super::programs::{self, skip};

/// A recording of a program that generated code, and its map. Both go with it.
struct Recorded {
    _folder: TempDir,
    recording: PathBuf,
    map: PathBuf,
}

impl Recorded {
    /// Without the names, which are looked for when it is read.
    fn new(arguments: &[&str]) -> Option<Self> {
        Self::with(&["--no-names"], arguments)
    }

    fn with(options: &[&str], arguments: &[&str]) -> Option<Self> {
        if !cfg!(target_arch = "x86_64") {
            skip("the program writes code of x86-64");
            return None;
        }
        let program = programs::c("generated")?;
        if !may_record() {
            return None;
        }
        let folder = folder();
        let command: Vec<&OsStr> =
            [program.as_os_str()].into_iter().chain(arguments.iter().map(OsStr::new)).collect();
        let (recording, run) = record(folder.path(), options, &command);
        let pid = run.ok().text().trim().to_owned();
        Some(Self { _folder: folder, recording, map: PathBuf::from(format!("/tmp/perf-{pid}.map")) })
    }

    /// What is drawn, after the map was changed so.
    fn after(&self, change: impl FnOnce(&PathBuf)) -> Run {
        change(&self.map);
        folded(&self.recording, &[]).ok()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.map);
    }
}

fn has_name(run: &Run) -> bool {
    Folded::parse(run.text()).with("spin_generated") > 0
}

fn is_refused(run: &Run, why: &str) {
    assert!(!has_name(run), "{}", run.text());
    assert!(run.stderr.contains("is not used") && run.stderr.contains(why), "{}", run.stderr);
}

#[test]
fn a_map_of_the_process_names_its_code() {
    let Some(recorded) = Recorded::new(&["200"]) else { return };
    let run = recorded.after(|_| {});
    assert!(has_name(&run), "{}{}", run.text(), run.stderr);
    assert!(!run.stderr.contains("perf-"), "{}", run.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recording_carries_the_names_of_a_map_that_is_removed_later() {
    let Some(recorded) = Recorded::with(&[], &["200"]) else { return };
    let run = recorded.after(|map| fs::remove_file(map).unwrap());
    assert!(has_name(&run), "{}{}", run.text(), run.stderr);
    let mode = fs::metadata(&recorded.recording).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn code_that_a_child_inherits_has_the_names_of_its_parents_map() {
    let Some(recorded) = Recorded::new(&["200", "fork"]) else { return };
    let run = recorded.after(|_| {});
    assert!(has_name(&run), "{}{}", run.text(), run.stderr);
}

/// A perf map has no times: which of the two functions ran, nobody can tell.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn code_at_an_address_that_is_used_again_has_both_names() {
    for options in [&["--no-names"][..], &[]] {
        let Some(recorded) = Recorded::with(options, &["200", "again"]) else { return };
        let run = recorded.after(|_| {});
        let folded = Folded::parse(run.text());
        let both = folded.with("spin_again (or spin_generated)");
        assert!(both > 0 && folded.with("spin_generated") == 0, "{}", run.text());
        if !options.is_empty() {
            assert!(run.stderr.contains("several functions at one address"), "{}", run.stderr);
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn code_of_a_program_after_exec_has_no_name_of_the_one_before() {
    for options in [&["--no-names"][..], &[]] {
        let Some(recorded) = Recorded::with(options, &["200", "exec"]) else { return };
        let run = recorded.after(|_| {});
        let folded = Folded::parse(run.text());
        let (named, nameless) = (folded.with("spin_generated"), folded.with("[anon]"));
        assert!(named > 0 && nameless > 0 && named < 2 * nameless && nameless < 2 * named, "{}", run.text());
        assert!(run.stderr.contains("another program that the process ran wrote it"), "{}", run.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_link_is_not_followed() {
    let Some(recorded) = Recorded::new(&["100"]) else { return };
    let elsewhere = folder();
    let run = recorded.after(|map| {
        fs::copy(map, elsewhere.path().join("map")).unwrap();
        fs::remove_file(map).unwrap();
        symlink(elsewhere.path().join("map"), map).unwrap();
    });
    is_refused(&run, "it is no regular file");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_file_with_other_names_is_nobodys_map() {
    let Some(recorded) = Recorded::new(&["100"]) else { return };
    let other = recorded.map.with_extension("map.other");
    let run = recorded.after(|map| fs::hard_link(map, &other).unwrap());
    fs::remove_file(other).unwrap();
    is_refused(&run, "the file has other names, too");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_map_of_another_user_is_not_used() {
    let Some(recorded) = Recorded::new(&["100"]) else { return };
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) != 0) {
        skip("giving a file away needs root");
        return;
    }
    let run = recorded.after(|map| chown(map, Some(65_534), None).unwrap());
    is_refused(&run, "it belongs to another user than the process");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_map_without_an_end_takes_no_memory() {
    let Some(recorded) = Recorded::new(&["100"]) else { return };
    let run = recorded.after(|map| {
        let file = fs::File::options().append(true).open(map).unwrap();
        file.set_len(1 << 36).unwrap();
    });
    assert!(run.stderr.contains("only the last 256 MiB are read"), "{}", run.stderr);
}
