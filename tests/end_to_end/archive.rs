//! Archives: the same names without the files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::perf;
use crate::prof::{folder, may_record, prof, run};
use crate::programs;

/// Folded stacks, with the module of each function.
fn folded(file: &Path) -> String {
    run(prof(["flame", "--folded", "--modules", "-i"]).arg(file)).ok().text().to_owned()
}

#[test]
fn an_archive_has_all_names_when_the_program_is_gone() {
    let folder = folder();
    let Some(built) = programs::cxx("inlines") else { return };
    let program = folder.path().join("program");
    fs::copy(built, &program).unwrap();
    let file = folder.path().join("prof.data");
    run(prof(["record", "-q", "--no-names", "-F", "4999", "-o"])
        .arg(&file)
        .arg("--")
        .arg(&program)
        .arg("300"))
    .ok();
    let before = folded(&file);
    let archive = folder.path().join("prof.data.archive");
    run(prof(["archive"]).arg(&file)).ok();
    assert_eq!(fs::metadata(&archive).unwrap().permissions().mode() & 0o777, 0o600);
    let annotated =
        |file: &Path| run(prof(["annotate", "--hottest", "1", "--json", "-i"]).arg(file)).ok().stdout;
    let code = annotated(&file);
    fs::remove_file(&program).unwrap();
    assert_eq!(folded(&archive), before);
    assert_eq!(annotated(&archive), code, "the archive has the code of hot functions");
    assert_ne!(annotated(&file), code, "without the archive the code is gone");
    assert_ne!(folded(&file), before, "without the archive the names are gone");
    let list = run(prof(["archive", "--list"]).arg(&archive)).ok();
    assert!(list.text().contains("/program (build id"), "{}", list.text());
    // Once more: the names are replaced, not added.
    let again = folder.path().join("again");
    run(prof(["archive"]).arg(&archive).arg("-o").arg(&again)).ok();
    assert_eq!(fs::read(&again).unwrap(), fs::read(&archive).unwrap());
    let streamed = run(prof(["archive", "-o", "-"]).arg(&archive).current_dir(folder.path())).ok();
    assert_eq!(streamed.stdout, fs::read(&archive).unwrap());
    if perf::is_here() {
        let script = |file: &Path| {
            let mut script = perf::perf(folder.path());
            script.args(["script", "-i"]).arg(file);
            run(&mut script).ok().stdout
        };
        assert_eq!(script(&archive), script(&file));
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recording_can_be_an_archive_from_the_start_and_a_damaged_one_says_so() {
    let folder = folder();
    let Some(program) = programs::c("shares") else { return };
    let file = folder.path().join("prof.data");
    let mut record = prof(["record", "-q", "--archive", "-o"]);
    run(record.arg(&file).arg("--").arg(program).args(["alone", "300"])).ok();
    let list = run(prof(["archive", "--list"]).arg(&file)).ok();
    assert!(list.text().contains("function  sixty\n"), "{}", list.text());
    let mut bytes = fs::read(&file).unwrap();
    let length = bytes.len();
    bytes[length - 100..length - 60].fill(0xff);
    fs::write(&file, bytes).unwrap();
    let damaged = run(prof(["flame", "--folded", "-i"]).arg(&file)).ok();
    assert!(damaged.stderr.contains("names in the recording"), "{}", damaged.stderr);
    assert!(damaged.text().contains("sixty"), "the program is still there");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_carries_no_names_says_what_to_type() {
    let folder = folder();
    let Some(program) = programs::c("shares").filter(|_| may_record()) else { return };
    let file = folder.path().join("prof.data");
    // Without the flag, names of a program below /tmp go into the recording.
    run(prof(["record", "-q", "--no-names", "-o"]).arg(&file).arg("--").arg(program).args(["alone", "100"]))
        .ok();
    let list = run(prof(["archive", "--list"]).arg(&file));
    assert_eq!(list.code, 1);
    assert!(list.stderr.contains("try: prof archive"), "{}", list.stderr);
}

/// A script that runs a copy of the program, which is gone when the script ends.
const GONE: &str = "cp $0 $1/gone && $1/gone alone 200; rm $1/gone";

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn names_of_a_program_that_is_removed_meanwhile_are_in_the_recording() {
    let folder = folder();
    let Some(program) = programs::c("shares").filter(|_| may_record()) else { return };
    let file = folder.path().join("prof.data");
    let record = |flags: &[&str]| {
        let mut record = prof(["record", "-q", "-o"]);
        record.arg(&file).args(flags).args(["--", "sh", "-c", GONE]).arg(&program).arg(folder.path());
        run(&mut record).ok();
        folded(&file)
    };
    assert!(record(&[]).contains("sixty"));
    assert!(record(&["--call-graph", "fp"]).contains("sixty"), "without unwinding");
    assert!(record(&["--archive"]).contains("sixty"));
    assert!(!record(&["--no-names"]).contains("sixty"));
    let mut flame = prof(["flame", "--folded", "--", "sh", "-c", GONE]);
    assert!(run(flame.arg(&program).arg(folder.path())).ok().text().contains("sixty"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn programs_that_stay_where_they_are_add_nothing_to_a_recording() {
    let folder = folder();
    let Some(program) = programs::c("shares").filter(|_| may_record()) else { return };
    if program.starts_with("/tmp") {
        programs::skip("programs are built in a folder whose files are not meant to stay");
        return;
    }
    let file = folder.path().join("prof.data");
    run(prof(["record", "-q", "-o"]).arg(&file).arg("--").arg(program).args(["alone", "100"])).ok();
    assert_eq!(run(prof(["archive", "--list"]).arg(&file)).code, 1);
}
