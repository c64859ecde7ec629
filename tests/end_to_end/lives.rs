//! Processes that fork, exec and start threads are followed, each under its own name.

use std::ffi::OsStr;

use super::folded::Folded;
use super::prof::{folded, folder, may_record, prof, record, run};
use super::programs;

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn each_life_has_its_own_name_and_function() {
    let Some(program) = programs::c("execs") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, run) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("5"), OsStr::new("60")]);
    run.ok();
    let flame = folded(&file, &[]).ok();
    let stacks = Folded::parse(flame.text());
    for life in 0..=5 {
        let comm = format!("life-{life}");
        let (right, wrong) = if life % 2 == 0 { ("even", "odd") } else { ("odd", "even") };
        let of = |function: &str| {
            stacks.count(|stack| stack[0] == comm && stack.iter().any(|frame| frame == function))
        };
        assert!(of(right) > 100, "{comm} has {} samples in {right}:\n{}", of(right), flame.text());
        assert_eq!(of(wrong), 0, "{comm}");
    }
    let one = Folded::parse(folded(&file, &["--comm", "life-3"]).ok().text());
    assert!(one.total() > 100 && one.stacks.keys().all(|stack| stack[0] == "life-3"));
}

/// The events begin within `execve`, before anything of the command is mapped.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_command_is_known_from_its_first_sample_on() {
    if !may_record() {
        return;
    }
    let folder = folder();
    for _ in 0..3 {
        let file = folder.path().join("prof.data");
        run(prof(["record", "-F", "20000", "-e", "cpu-clock", "-o"]).arg(&file).args(["--", "true"])).ok();
        let flame = folded(&file, &[]).ok();
        assert!(!flame.text().contains("[unknown]"), "{}", flame.text());
    }
}

/// While exec takes the old program away, there is no stack to be cut.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn no_stack_is_cut_where_there_is_none() {
    if !may_record() {
        return;
    }
    let folder = folder();
    // Memory that exec has to take away: so it takes its time.
    let script =
        "memory=$(head -c 16000000 /dev/zero | tr '\\0' a); for i in $(seq 600); do (exec /bin/true); done";
    let (file, run) = record(folder.path(), &[], &["sh", "-c", script].map(OsStr::new));
    run.ok();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    let leaves = |stack: &[String]| stack.iter().any(|frame| frame == "begin_new_exec_[k]");
    let cut = |stack: &[String]| leaves(stack) && stack.iter().any(|frame| frame.contains("truncated"));
    assert!(stacks.count(leaves) > 20, "{} samples", stacks.count(leaves));
    assert_eq!(stacks.count(cut), 0, "{:?}", stacks.stacks.keys().find(|stack| cut(stack)));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recursion_is_shown_frame_by_frame() {
    let Some(program) = programs::c("deep") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, run) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("50"), OsStr::new("200")]);
    run.ok();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    let whole = stacks.count(|stack| {
        stack.iter().filter(|frame| *frame == "descend").count() == 51
            && stack.iter().any(|frame| frame == "main")
    });
    assert!(whole * 100 >= stacks.total() * 95, "{whole} of {}", stacks.total());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn short_lived_threads_are_not_missed() {
    let Some(program) = programs::c("churn") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, run) = record(folder.path(), &[], &[program.as_os_str(), OsStr::new("1500")]);
    let run = run.ok();
    let (short, lasting) = run.text().trim().split_once(' ').unwrap();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    let of_lasting = stacks.with("last") as f64;
    let of_short = stacks.total() as f64 - of_lasting;
    // On a machine that others use, or a virtual one, clocks tick less often than they should, for both alike.
    let rates = (of_short / short.parse::<f64>().unwrap(), of_lasting / lasting.parse::<f64>().unwrap());
    assert!((rates.0 / rates.1 - 1.0).abs() < 0.15, "{rates:?} samples a millisecond: {}", run.stderr);
    assert!(rates.1 > 1.0 && rates.1 < 1.15 * 4.999, "{rates:?}");
}
