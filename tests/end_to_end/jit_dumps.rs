//! jitdump files: an address that was used twice has the name of what lay there when the sample was taken.

use std::fs;
use std::path::{Path, PathBuf};

use super::folded::{Folded, plain};
use super::prof::{folded, folder, may_record, record};
use super::programs::{self, skip};
use super::{perf, prof};

/// What the process wrote; it goes with the test.
struct Dump(PathBuf);

impl Drop for Dump {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn program() -> Option<PathBuf> {
    if !cfg!(target_arch = "x86_64") {
        skip("the program writes code of x86-64");
        return None;
    }
    programs::c("jitdump")
}

fn has_shares(stacks: &Folded) {
    let all = stacks.with("first") + stacks.with("second");
    let first = stacks.with("first") as f64 / all as f64;
    assert!((0.6..0.8).contains(&first), "70 % are of the first function, not {first}");
    assert!(all as f64 > 0.9 * stacks.total() as f64, "{all} of {}", stacks.total());
}

#[test]
fn an_address_has_the_name_of_what_lay_there() {
    let Some(program) = program() else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (recording, run) = record(folder.path(), &["--no-names"], &[program.as_os_str(), "500".as_ref()]);
    let dump = Dump(PathBuf::from(format!("/tmp/jit-{}.dump", run.ok().text().trim())));
    let drawn = folded(&recording, &[]).ok();
    has_shares(&Folded::parse(drawn.text()));
    assert!(!drawn.stderr.contains("jit-"), "{}", drawn.stderr);

    // Somebody else may have put it there.
    fs::hard_link(&dump.0, folder.path().join("other")).unwrap();
    let drawn = folded(&recording, &[]).ok();
    assert_eq!(Folded::parse(drawn.text()).with("first"), 0);
    assert!(drawn.stderr.contains("is not used: the file has other names, too"), "{}", drawn.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recording_and_an_archive_carry_the_names_of_a_dump_that_is_removed_later() {
    let Some(program) = program() else { return };
    if !may_record() {
        return;
    }
    for flags in [&[][..], &["--no-names"]] {
        let folder = folder();
        let (recording, run) = record(folder.path(), flags, &[program.as_os_str(), "300".as_ref()]);
        let dump = Dump(PathBuf::from(format!("/tmp/jit-{}.dump", run.ok().text().trim())));
        let drawn = |file: &Path| {
            let run = folded(file, &["--modules"]).ok();
            assert!(!run.stderr.contains("jit-"), "{}", run.stderr);
            run.stdout
        };
        let before = drawn(&recording);
        let archived = |file: &Path, name: &str| {
            let archive = folder.path().join(name);
            prof::run(prof::prof(["archive"]).arg(file).arg("-o").arg(&archive)).ok();
            archive
        };
        let archive = archived(&recording, "archive");
        drop(dump);
        has_shares(&Folded::parse(folded(&archive, &[]).ok().text()));
        assert!(drawn(&archive) == before);
        assert!(drawn(&archived(&archive, "again")) == before, "an archive of an archive");
        if flags.is_empty() {
            assert!(drawn(&recording) == before);
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recording_of_perf_has_the_names_that_perf_gives() {
    let Some(program) = program() else { return };
    if !may_record() || !perf::is_here() {
        return;
    }
    let folder = folder();
    let recording = perf::record(folder.path(), &["-k", "mono", "-g"], &mut |command| {
        command.arg("sh").arg("-c").arg(format!("{} 500 > pid", program.display()));
    });
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    let _dump = Dump(PathBuf::from(format!("/tmp/jit-{}.dump", pid.trim())));
    let drawn = folded(&recording, &[]).ok();
    let ours = Folded::parse(drawn.text());
    has_shares(&ours);
    let injected = folder.path().join("injected.data");
    prof::run(
        perf::perf(folder.path()).args(["inject", "--jit", "-i"]).arg(&recording).arg("-o").arg(&injected),
    )
    .ok();
    let theirs = perf::fold(perf::script(folder.path(), &injected).text());
    for function in ["first", "second"] {
        assert_eq!(ours.with(function), theirs.with(function), "{function}");
    }
}

/// The stacks of `jit_frames`: nearly all lead from the program's start to one of three functions that lay at the same address.
fn has_whole_stacks(stacks: &Folded) {
    let order = |stack: &[String], function: &str| {
        let names: Vec<&str> = stack.iter().map(|frame| plain(frame)).collect();
        let chain = names.windows(4).any(|four| four == ["main", "outer", "inner", function]);
        chain && names.contains(&"_start")
    };
    let all = stacks.total() as f64;
    let mut whole = 0;
    for (function, share) in [("first", 0.6), ("second", 0.3), ("third", 0.1)] {
        let found = stacks.count(|stack| order(stack, function));
        assert!((found as f64 / all - share).abs() < 0.08, "{function}: {found} of {all}");
        let astray = stacks.with(function) - found;
        assert!(astray as f64 <= 0.01 * all, "{function}: {found} of {}", stacks.with(function));
        whole += found;
    }
    assert!(whole as f64 > 0.95 * all, "{whole} of {all}");
}

fn program_without_frame_pointers() -> Option<PathBuf> {
    program()?;
    programs::c("jit_frames")
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn generated_code_is_unwound_as_its_dump_says_while_it_runs() {
    let Some(program) = program_without_frame_pointers() else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    for flags in [["--no-names"], ["--keep-stacks"]] {
        let (recording, run) = record(folder.path(), &flags, &[program.as_os_str(), "800".as_ref()]);
        let _dump = Dump(PathBuf::from(format!("/tmp/jit-{}.dump", run.ok().text().trim())));
        has_whole_stacks(&Folded::parse(folded(&recording, &[]).ok().text()));
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn generated_code_in_a_recording_of_perf_is_unwound_as_its_dump_says() {
    let Some(program) = program_without_frame_pointers() else { return };
    if !may_record() || !perf::is_here() {
        return;
    }
    let folder = folder();
    let flags = ["-k", "mono", "--call-graph", "dwarf,16384", "-F", "997"];
    let recording = perf::record(folder.path(), &flags, &mut |command| {
        command.arg("sh").arg("-c").arg(format!("exec {} 800 > pid", program.display()));
    });
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    let _dump = Dump(PathBuf::from(format!("/tmp/jit-{}.dump", pid.trim())));
    has_whole_stacks(&Folded::parse(folded(&recording, &[]).ok().text()));
}
