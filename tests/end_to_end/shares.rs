//! Known shares of CPU time come out as they are.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use super::folded::Folded;
use super::prof::{folded, folder, may_record, record};
use super::{perf, programs};

/// Five standard deviations of a binomial share, and half a point for the program's own loop.
fn tolerance(share: f64, samples: u64) -> f64 {
    5.0 * (share * (1.0 - share) / samples as f64).sqrt() + 0.005
}

/// What the program printed of itself: `sixty 0.5998`.
fn truth(stdout: &str) -> BTreeMap<String, f64> {
    let line = |line: &str| {
        let (name, share) = line.split_once(' ')?;
        Some((name.to_owned(), share.parse().ok()?))
    };
    let truth: BTreeMap<String, f64> = stdout.lines().filter_map(line).collect();
    assert_eq!(truth.len(), 3, "{stdout:?}");
    truth
}

fn check(truth: &BTreeMap<String, f64>, folded: &Folded, who: &str) {
    let functions: u64 = truth.keys().map(|name| folded.with(name)).sum();
    assert!(functions * 100 >= folded.total() * 95, "{who}: {functions} of {} samples", folded.total());
    for (name, share) in truth {
        let seen = folded.with(name) as f64 / functions as f64;
        let off = (seen - share).abs();
        assert!(off <= tolerance(*share, functions), "{who}: {name} has {seen:.4} instead of {share:.4}");
    }
}

fn in_mode(mode: &str) {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let milliseconds = "1000";
    let ours = folder();
    let (file, run) =
        record(ours.path(), &[], &[program.as_os_str(), OsStr::new(mode), OsStr::new(milliseconds)]);
    let run = run.ok();
    let flame = folded(&file, &[]).ok();
    let stacks = Folded::parse(flame.text());
    check(&truth(run.text()), &stacks, "prof");
    // A second of CPU time at 4,999 Hz, in all threads and processes together.
    let total = stacks.total();
    assert!((4500..5600).contains(&total), "{total} samples of a second at 4,999 Hz\n{}", run.stderr);

    if perf::is_here() {
        let theirs = folder();
        let file = perf::record(theirs.path(), &[], &mut |command| {
            command.arg(&program).args([mode, milliseconds]);
        });
        let folded = perf::fold(perf::script(theirs.path(), &file).ok().text());
        check(&truth(run.text()), &folded, "perf");
        assert_near(total, folded.total());
    }
}

/// perf and we take the same number of samples from the same work, give or take the edges.
fn assert_near(ours: u64, theirs: u64) {
    let (least, most) = (ours.min(theirs), ours.max(theirs));
    assert!((most - least) * 100 <= most * 8, "{ours} samples, perf takes {theirs}");
}

#[test]
fn known_shares_alone() {
    in_mode("alone");
}

#[test]
fn known_shares_in_threads() {
    in_mode("threads");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn known_shares_in_forked_processes() {
    in_mode("forks");
}

fn rust_names(mangling: &str) {
    let Some(program) = programs::rust("shares", mangling) else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, run) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("500")]);
    run.ok();
    let flame = folded(&file, &[]).ok();
    let stacks = Folded::parse(flame.text());
    // Inlined frames stand where they were called, and generic methods are named without hash and mangling.
    for (ends, inner) in [("sixty", "spin"), ("thirty", "{closure"), ("ten", "spin")] {
        let below = stacks.count(|stack| {
            let at = stack.iter().position(|frame| names(frame, ends));
            at.is_some_and(|at| {
                stack[at + 1..].iter().any(|frame| frame.contains(inner) && frame.ends_with("_[i]"))
            })
        });
        assert!(below > 0, "no {inner} below {ends}:\n{}", flame.text());
    }
    let mangled = |frame: &String| frame.starts_with("_ZN") || frame.starts_with("_R");
    assert!(!stacks.stacks.keys().flatten().any(mangled), "mangled:\n{}", flame.text());
    // The compiler lays out each loop as it likes: the order is sure, the exact shares are not.
    let of = |function| stacks.count(|stack| stack.iter().any(|frame| names(frame, function)));
    assert!(of("sixty") > of("thirty") && of("thirty") > of("ten"), "{}", flame.text());
    let plain = Folded::parse(folded_without_inlines(&file).as_str());
    assert!(plain.stacks.keys().flatten().all(|frame| !frame.ends_with("_[i]")));
    assert_eq!(plain.total(), stacks.total());
}

fn folded_without_inlines(file: &Path) -> String {
    folded(file, &["--no-inline"]).ok().text().to_owned()
}

/// Returns true if a frame is the function of this name, in whatever module and whatever brackets.
fn names(frame: &str, function: &str) -> bool {
    frame.rsplit("::").next().is_some_and(|last| super::folded::plain(last) == function)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn rust_programs_with_legacy_names() {
    rust_names("legacy");
}

#[test]
fn rust_programs_with_v0_names() {
    rust_names("v0");
}

#[test]
fn cxx_names_and_inlined_frames() {
    let Some(program) = programs::cxx("inlines") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, run) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("300")]);
    run.ok();
    let flame = folded(&file, &[]).ok();
    let stacks = Folded::parse(flame.text());
    let chain = stacks.count(|stack| {
        let at = |part: &str| stack.iter().position(|frame| frame.contains(part));
        let places = [at("shapes::area<shapes::Circle>"), at("Circle::area"), at("detail::spin")];
        places.iter().all(Option::is_some) && places.is_sorted()
    });
    assert!(chain * 10 >= stacks.total() * 8, "{chain} of {}:\n{}", stacks.total(), flame.text());
}
