//! jitdump files: an address that was used twice has the name of what lay there when the sample was taken.

use std::fs;
use std::path::PathBuf;

use super::folded::Folded;
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
