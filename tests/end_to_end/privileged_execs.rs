//! Programs with more rights than who starts them: the kernel ends the events of a process at such an exec.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::bad_input::copy_program;
use super::folded::Folded;
use super::prof::{Run, figure, folder, may_record, prof, run};
use super::programs::{self, has, skip};
use super::unprivileged::as_nobody;

const AS_NOBODY: &str = "setpriv --reuid=65534 --clear-groups";

/// Copies `program` to `place`, for everybody to run with root's rights. Returns false where the file system does not allow that.
fn copy_with_rights_of_root(program: &Path, place: &Path) -> bool {
    if !nix::unistd::Uid::effective().is_root() || !has("setpriv") {
        skip("only root makes a program of root");
        return false;
    }
    std::fs::set_permissions(place.parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let set = |program: &Path, place: &Path| {
        copy_program(program, place);
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o4755)).unwrap();
    };
    let id = place.with_extension("id");
    set(Path::new("/usr/bin/id"), &id);
    let who = run(Command::new("sh").arg("-c").arg(format!("{AS_NOBODY} {} -u", id.display())));
    if who.text().trim() != "0" {
        skip("this file system gives no program the rights of its owner");
        return false;
    }
    set(program, place);
    true
}

/// Samples in `work`, which is below the program's `main`.
fn samples(file: &Path) -> u64 {
    let folded = run(prof(["flame", "--folded", "-i"]).arg(file)).ok();
    Folded::parse(folded.text()).with("work")
}

/// Records `shares`, run by nobody with root's rights, for 600 ms of CPU time.
fn record_as_root(folder: &Path, flags: &[&str]) -> Option<(u64, Run)> {
    let program = programs::c("shares")?;
    let privileged = folder.join("shares");
    if !may_record() || !copy_with_rights_of_root(&program, &privileged) {
        return None;
    }
    let file = folder.join("prof.data");
    let script = format!("{AS_NOBODY} {} alone 600; true", privileged.display());
    let recorded = run(prof(["record", "-e", "cpu-clock", "-o"])
        .arg(&file)
        .args(flags)
        .args(["--", "sh", "-c", &script]))
    .ok();
    Some((samples(&file), recorded))
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn whole_cpus_see_all_of_a_program_with_more_rights() {
    let folder = folder();
    let Some((samples, recorded)) = record_as_root(folder.path(), &[]) else { return };
    assert!(samples > 500, "{samples}: {}", recorded.stderr);
    assert!(!recorded.stderr.contains("more rights"), "{}", recorded.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn events_of_tasks_are_opened_again_on_a_program_with_more_rights() {
    let folder = folder();
    // Too fast for whole CPUs.
    let Some((samples, recorded)) = record_as_root(folder.path(), &["-F", "4999"]) else { return };
    assert!(samples > 1_000, "{samples}: {}", recorded.stderr);
    assert!(recorded.stderr.contains("more rights: opened again"), "{}", recorded.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_user_is_told_that_the_kernel_ends_the_events() {
    let Some(program) = programs::c("shares") else { return };
    let folder = folder();
    let privileged = folder.path().join("shares");
    if !may_record() || !copy_with_rights_of_root(&program, &privileged) {
        return;
    }
    let recorded = as_nobody(
        folder.path(),
        &["record", "-e", "cpu-clock:u", "-o", "x.data", "--", privileged.to_str().unwrap(), "alone", "100"],
    );
    let Some(recorded) = recorded else { return };
    let recorded = recorded.ok();
    assert_eq!(figure(&recorded.stderr, "samples"), 0);
    assert!(
        recorded.stderr.contains("nothing of them is recorded from then on; try: sudo prof record -a"),
        "{}",
        recorded.stderr
    );
    assert!(!recorded.stderr.contains("-F"), "a higher rate does not help: {}", recorded.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn counting_tells_that_the_kernel_ends_the_events() {
    let Some(program) = programs::c("shares") else { return };
    let folder = folder();
    let privileged = folder.path().join("shares");
    if !may_record() || !copy_with_rights_of_root(&program, &privileged) {
        return;
    }
    let count = |program: &Path| {
        let script = format!("{AS_NOBODY} {} alone 200; true", program.display());
        run(&mut prof(["stat", "-e", "page-faults", "--", "sh", "-c", &script])).ok().stderr
    };
    let with_more_rights = count(&privileged);
    assert!(with_more_rights.contains("of CPU time were not counted"), "{with_more_rights}");
    assert!(with_more_rights.contains("try: sudo prof stat -a"), "{with_more_rights}");
    let ordinary = folder.path().join("ordinary");
    copy_program(&program, &ordinary);
    std::fs::set_permissions(&ordinary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let whole = count(&ordinary);
    assert!(!whole.contains("not counted"), "{whole}");
}
