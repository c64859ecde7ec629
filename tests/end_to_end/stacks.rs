//! Complete stacks: of programs without frame pointers, whatever the rings.

use super::folded::Folded;
use super::prof::{figure, folded, folder, may_record, prof, run};
use super::programs;

/// Records `paths`, built without frame pointers; returns the folded stacks and what `prof` said.
fn recorded(flags: &[&str]) -> Option<(Folded, String)> {
    let program = programs::c_built("paths", "nofp", &["-O2", "-fomit-frame-pointer"])?;
    if !may_record() {
        return None;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut record = prof(["record", "-e", "cpu-clock", "-F", "499"]);
    record.args(flags).arg("-o").arg(&file).arg("--").arg(&program).args(["2", "600"]);
    let recorded = run(&mut record).ok();
    let flame = folded(&file, &[]).ok();
    Some((Folded::parse(flame.text()), recorded.stderr))
}

/// Samples below the first frame of a thread. A few begin before the program: in `execve`, and in the dynamic linker.
fn assert_complete(stacks: &Folded, stderr: &str) {
    let begins =
        |frame: &str| ["_start", "clone", "__clone3", "clone3"].contains(&super::folded::plain(frame));
    let whole = stacks.count(|stack| stack.get(1).is_some_and(|frame| begins(frame)));
    let user = stacks.count(|stack| stack.iter().any(|frame| !frame.ends_with("_[k]")));
    assert!(user > 100 && whole * 100 >= user * 97, "{whole} of {user} are whole: {stderr}");
    assert!(stderr.contains(" % complete (copies of "), "{stderr}");
}

#[test]
fn they_are_what_is_recorded_by_default() {
    let Some((stacks, stderr)) = recorded(&[]) else { return };
    assert_complete(&stacks, &stderr);
}

#[test]
fn copies_fit_the_smallest_ring() {
    let Some((stacks, stderr)) = recorded(&["-m", "4K"]) else { return };
    assert!(stderr.contains("(copies of 1 KiB)"), "{stderr}");
    assert_complete(&stacks, &stderr);
    assert!(figure(&stderr, "lost") * 2 < figure(&stderr, "samples"), "{stderr}");
}

#[test]
fn copies_of_a_size_asked_for_fit_the_ring_too() {
    let Some((stacks, stderr)) = recorded(&["-m", "8K", "--call-graph", "dwarf,65528"]) else {
        return;
    };
    assert!(stderr.contains("stack copies of 2048 bytes instead of 65528"), "{stderr}");
    assert_complete(&stacks, &stderr);
}
