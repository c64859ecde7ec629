//! Complete stacks: of programs without frame pointers, whatever the rings.

use std::collections::HashMap;
use std::process::Command;

use super::folded::Folded;
use super::prof::{figure, folded, folder, may_record, prof, record, run};
use super::{perf, programs};

/// Records `paths`, built without frame pointers; returns the folded stacks and what `prof` said.
fn recorded(flags: &[&str]) -> Option<(Folded, String)> {
    let program = programs::c_built("paths", "nofp", &["-O2", "-fomit-frame-pointer"])?;
    if !may_record() {
        return None;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut record = prof(["record", "-e", "cpu-clock", "-F", "499"]);
    record.args(flags).arg("-o").arg(&file).arg("--").arg(&program).args(["2", "300"]);
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
#[ignore = "of the second ring: cargo xtask ci"]
fn copies_fit_the_smallest_ring() {
    let Some((stacks, stderr)) = recorded(&["-m", "4K"]) else { return };
    assert!(stderr.contains("(copies of 1 KiB)"), "{stderr}");
    assert_complete(&stacks, &stderr);
    assert!(figure(&stderr, "lost") * 2 < figure(&stderr, "samples"), "{stderr}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn copies_of_a_size_asked_for_fit_the_ring_too() {
    let Some((stacks, stderr)) = recorded(&["-m", "8K", "--call-graph", "dwarf,65528"]) else {
        return;
    };
    assert!(stderr.contains("stack copies of 2048 bytes instead of 65528"), "{stderr}");
    assert_complete(&stacks, &stderr);
}

/// The addresses of each sample's frames, innermost first, by thread and time: what `script -F tid,time,ip,sym,dso --ns`
/// printed, ours or perf's.
fn stacks_by_moment(script: &str) -> HashMap<String, Vec<u64>> {
    let mut stacks = HashMap::new();
    for sample in script.split("\n\n") {
        let mut lines = sample.trim_start_matches('\n').lines();
        let Some(moment) = lines.next() else { continue };
        let moment = moment.split_whitespace().collect::<Vec<_>>().join(" ");
        let address = |line: &str| u64::from_str_radix(line.split_whitespace().next()?, 16).ok();
        stacks.insert(moment, lines.filter_map(address).collect());
    }
    stacks
}

/// The stacks of one file as perf finds them, and as we do.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn they_are_no_shorter_than_those_that_perf_unwinds() {
    let Some(program) = programs::c_built("paths", "nofp", &["-O2", "-fomit-frame-pointer"]) else { return };
    if !perf::is_here() {
        return;
    }
    let folder = folder();
    let file = perf::record(folder.path(), &["-F", "1999", "--call-graph", "dwarf"], &mut |record| {
        record.arg(&program).args(["2", "250"]);
    });
    let asked = ["script", "--no-inline", "--ns", "-F", "tid,time,ip,sym,dso", "-i"];
    let theirs = run(perf::perf(folder.path()).args(asked).arg(&file).args(["--max-stack", "65535"])).ok();
    let ours = run(prof(asked).arg(&file)).ok();
    let (theirs, ours) = (stacks_by_moment(theirs.text()), stacks_by_moment(ours.text()));
    assert!(theirs.len() > 100, "{}", theirs.len());
    // perf prints offsets in files, and the calls themselves instead of what they return to.
    let same = |&(their, our): &(&u64, &u64)| {
        [0, 1].iter().any(|more| their.wrapping_add(*more).wrapping_sub(*our).is_multiple_of(4096))
    };
    let (mut as_long, mut same_so_far) = (0, 0);
    for (moment, theirs) in &theirs {
        // What perf makes of a return address of 0.
        let theirs: Vec<u64> = theirs.iter().copied().filter(|&address| address != u64::MAX).collect();
        let ours: &[u64] = ours.get(moment).unwrap_or_else(|| panic!("no sample of {moment:?}"));
        // The mark of an incomplete stack is no frame.
        let frames = ours.iter().filter(|&&address| model::TruncationReason::from_marker(address).is_none());
        let agreeing = theirs.iter().zip(ours).take_while(same).count();
        as_long += usize::from(frames.count() >= theirs.len());
        same_so_far += usize::from(agreeing == theirs.len());
    }
    assert!(as_long * 100 >= theirs.len() * 95, "{as_long} of {} are as long", theirs.len());
    assert!(same_so_far * 100 >= theirs.len() * 90, "{same_so_far} of {} are the same", theirs.len());
}

/// Where a stack is about to get the page of its stack pointer, there is nothing to copy.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn those_that_are_just_growing_are_whole_too() {
    let Some(program) = programs::c_built("deep", "large-frames", &["-DFRAME=8192"]) else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut record = prof(["record", "-e", "page-faults", "-c", "1", "-o"]);
    // It stays that deep for as long as a slow recorder takes to read what copies lack.
    run(record.arg(&file).arg("--").arg(&program).args(["100", "1500"])).ok();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    let deepest = |stack: &[String]| stack.last().is_some_and(|frame| frame == "descend");
    let growing = stacks.count(deepest);
    let whole = stacks.count(|stack| deepest(stack) && stack.get(1).is_some_and(|frame| frame == "_start"));
    assert!(growing >= 100 && whole * 10 >= growing * 9, "{whole} of {growing}: {:?}", stacks.stacks);
    assert_eq!(stacks.count(|stack| stack.iter().any(|frame| frame == "[unknown]")), 0);
}

/// Switches come in bursts, and have small copies. Samples of a clock keep theirs, which a compiler needs.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn those_of_a_clock_are_as_whole_beside_switches_as_without() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let source = programs::repository().join("fixtures/programs/big.rs");
    for flags in [&["--off-cpu"][..], &["--off-cpu", "--call-graph", "dwarf,65528"]] {
        let mut record = prof(["record", "-e", "cpu-clock", "-F", "1997"]);
        record.args(flags).arg("-o").arg(&file).args(["--", "rustc", "-O", "--out-dir"]);
        let recorded = run(record.arg(folder.path()).arg(&source)).ok();
        let stacks = Folded::parse(folded(&file, &[]).ok().text());
        let cut = stacks.count(|stack| stack.iter().any(|frame| frame.starts_with("[truncated")));
        let all = stacks.total();
        assert!(all > 100 && cut * 10 < all, "{flags:?}: {cut} of {all} are cut: {}", recorded.stderr);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn those_deeper_than_a_limit_are_cut_there_and_say_so() {
    let flags = ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(program) = programs::c_built("deep", "frame-pointers", &flags) else { return };
    if !may_record() {
        return;
    }
    let kernels = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_stack").unwrap_or_default();
    let above_kernels = (kernels.trim().parse().unwrap_or(127) + 100).to_string();
    for (method, limit) in [
        (&["--call-graph", "fp"][..], kernels.trim()),
        (&["--call-graph", "fp", "--max-stack", "20"], "20"),
        (&["--call-graph", "dwarf,65528"], "7000"),
        (&[], "7000"),
        (&["--max-stack", &above_kernels], &above_kernels),
    ] {
        let folder = folder();
        let words = [program.as_os_str(), "50000".as_ref(), "300".as_ref()];
        let file = folder.path().join("prof.data");
        let mut record = prof(["record", "-e", "cpu-clock", "-F", "299"]);
        let recorded = run(record.args(method).arg("-o").arg(&file).arg("--").args(words)).ok();
        let flame = folded(&file, &[]).ok();
        let stacks = Folded::parse(flame.text()).only(|stack| stack.iter().any(|frame| frame == "bottom"));
        let mark = format!("[truncated: limit of {limit} addresses]");
        let ends = |with: &str| stacks.count(|stack| stack.get(1).is_some_and(|end| end.starts_with(with)));
        let (all, cut, at_limit) = (stacks.total(), ends("[truncated: "), ends(&mark));
        assert!(all > 50 && cut == all, "{cut} of {all} have a mark: {method:?}");
        // Copies are cut before the limit where the program has ended before its memory is read.
        assert!(at_limit > all / 20, "{at_limit} of {all} end at the limit: {method:?} {}", recorded.stderr);
        let hint = format!("of the stacks are cut at {limit} addresses");
        let notes = run(prof(["explain", "--notes", "-i"]).arg(&file)).ok();
        assert!(notes.text().contains(&hint), "{}", notes.text());
        let raised = "--max-stack 7000";
        assert_eq!(notes.text().contains(raised), limit != "7000", "{}", notes.text());
        if method.first() != Some(&"--call-graph") || method.get(1) != Some(&"fp") {
            let complete = recorded.stderr.split("stacks ").nth(1).and_then(|rest| rest.split(' ').next());
            let complete: f64 =
                complete.and_then(|share| share.parse().ok()).expect("a share of complete stacks");
            assert!(complete < 30.0, "{}", recorded.stderr);
            let reason = format!(" early: limit of {limit} addresses");
            assert!(recorded.stderr.contains(&reason), "{}", recorded.stderr);
            assert_eq!(recorded.stderr.contains(raised), limit != "7000", "{}", recorded.stderr);
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn those_of_fibers_and_of_handlers_on_a_stack_of_their_own_are_whole() {
    let Some(program) = programs::c("other_stacks") else { return };
    if !may_record() {
        return;
    }
    for (kind, burning) in [("fiber", "in_fiber"), ("handler", "on_alarm")] {
        let folder = folder();
        let words = [program.as_os_str(), kind.as_ref(), "250".as_ref()];
        let (file, recorded) = record(folder.path(), &[], &words);
        let recorded = recorded.ok();
        let stacks = Folded::parse(folded(&file, &[]).ok().text());
        let burns = |stack: &[String]| stack.iter().any(|frame| frame == burning);
        let is_whole = |stack: &[String]| stack.get(1).is_some_and(|frame| !frame.starts_with("[truncated"));
        let (all, whole) = (stacks.count(burns), stacks.count(|stack| burns(stack) && is_whole(stack)));
        // The interrupted function's stack is read when the handler may have returned already.
        assert!(all > 200 && whole * 10 >= all * 7, "{kind}: {whole} of {all}: {}", recorded.stderr);
        let interrupted = ["main", "be_interrupted", "burn_until"];
        let in_order = |stack: &[String]| {
            let mut frames = stack.iter();
            interrupted.iter().all(|&function| frames.any(|frame| frame == function))
        };
        let with_callers = stacks.count(|stack| burns(stack) && in_order(stack));
        assert!(
            kind == "fiber" || with_callers * 10 >= all * 7,
            "{with_callers} of {all}: {:?}",
            stacks.stacks
        );
    }
}

/// The kernel tells of no mapping that mremap makes.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn code_that_was_moved_is_found_in_the_living_process() {
    let flags = ["-O2", "-fomit-frame-pointer"];
    let Some(program) = programs::c_built("moved", "nofp", &flags) else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let (file, recorded) = record(folder.path(), &[], &[program.as_os_str(), "2000".as_ref()]);
    recorded.ok();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    let is_whole = |stack: &[String]| stack.get(1).is_some_and(|frame| frame == "_start");
    let found = stacks.count(|stack| is_whole(stack) && stack.iter().any(|frame| frame == "wander"));
    assert!(found * 4 > stacks.total(), "{found} of {}: {:?}", stacks.total(), stacks.stacks);
}

/// Go's runtime works on stacks of its own, in memory far from those of the goroutines that called it; and its assembler
/// uses the frame pointer for other things.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn those_of_go_lead_from_the_runtimes_stacks_to_the_goroutines() {
    for stripped in [false, true] {
        let Some(program) = programs::go("garbage", stripped) else { return };
        if !may_record() {
            return;
        }
        let folder = folder();
        let (file, recorded) = record(folder.path(), &[], &[program.as_os_str(), "1000".as_ref()]);
        recorded.ok();
        let stacks = Folded::parse(folded(&file, &[]).ok().text());
        // Where goroutines and the threads of the runtime begin. Newer versions of Go clear the frame pointer where the
        // scheduler takes over (mcall, morestack in asm_amd64.s): the goroutine may run elsewhere by then.
        let first =
            ["runtime.goexit", "runtime.clone", "runtime.rt0_go", "runtime.mcall", "runtime.morestack"];
        let begins = |frame: &str| first.iter().any(|&first| frame.starts_with(first));
        let user = stacks.count(|stack| stack.iter().any(|frame| !frame.ends_with("_[k]")));
        let whole = stacks.count(|stack| stack.get(1).is_some_and(|frame| begins(frame)));
        let with = |name: &str| stacks.count(|stack| stack.iter().any(|frame| frame.contains(name)));
        // The latter uses the frame pointer for itself. Since Go 1.24 it lies in crypto/internal/fips140.
        let (switched, hashing) = (with("runtime.systemstack"), with("sha256.block"));
        assert!(switched > 10 && hashing > 10, "{switched} on the runtime's stacks, {hashing} in assembler");
        let others = stacks.only(|stack| !stack.get(1).is_some_and(|frame| begins(frame)));
        assert!(user > 100 && whole * 100 >= user * 98, "{whole} of {user} are whole, but not {others:?}");
    }
}

/// Stacks of 32-bit programs are followed by frame pointers, or end with a reason where there are only copies of them.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn those_of_32_bit_programs_say_what_they_are() {
    let folder = folder();
    let program = folder.path().join("paths-32");
    let source = programs::repository().join("fixtures/programs/paths.c");
    let flags = ["-m32", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"];
    let built = Command::new("gcc").args(flags).args([&program, &source]).output();
    if !built.is_ok_and(|output| output.status.success()) {
        return programs::skip("no 32-bit programs can be built here (Debian: gcc-multilib)");
    }
    if !may_record() {
        return;
    }
    let words = [program.as_os_str(), "2".as_ref(), "250".as_ref()];
    let (file, recorded) = record(folder.path(), &[], &words);
    let recorded = recorded.ok();
    assert!(recorded.stderr.contains("are of 32-bit programs"), "{}", recorded.stderr);
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    let deep = stacks.count(|stack| stack.len() > 5 && stack.iter().any(|frame| frame == "work"));
    assert!(deep * 2 > stacks.total(), "{deep} of {}", stacks.total());

    let (file, recorded) = record(folder.path(), &["--keep-stacks"], &words);
    recorded.ok();
    let stacks = Folded::parse(folded(&file, &[]).ok().text());
    let told = stacks.count(|stack| stack.get(1).is_some_and(|frame| frame == "[truncated: no unwind data]"));
    assert!(told * 2 > stacks.total(), "{told} of {}", stacks.total());
}

/// The recording of a machine whose files lie in a folder here: names and unwind tables come from there.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn copies_are_unwound_by_the_files_below_symfs() {
    let flags = ["-O2", "-fomit-frame-pointer", "-static"];
    let Some(program) = programs::c_built("paths", "static", &flags) else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let there = folder.path().join("there");
    std::fs::copy(&program, &there).unwrap();
    let (file, run) =
        record(folder.path(), &["--keep-stacks"], &[there.as_os_str(), "2".as_ref(), "300".as_ref()]);
    run.ok();
    let user = |flags: &[&str]| {
        let stacks = Folded::parse(folded(&file, &[&["--no-kernel"], flags].concat()).ok().text());
        (
            // Its threads begin in the library.
            stacks.count(|stack| {
                stack.get(1).is_some_and(|frame| frame == "_start" || frame.contains("__clone3"))
            }),
            stacks.total(),
        )
    };
    let (whole, all) = user(&[]);
    assert!(whole * 10 >= all * 8, "{whole} of {all}");

    let copies = folder.path().join("files");
    let copy = copies.join(there.strip_prefix("/").unwrap());
    std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
    std::fs::rename(&there, &copy).unwrap();
    assert_eq!(user(&["--symfs", copies.to_str().unwrap()]), (whole, all));
    assert_eq!(user(&[]).0, 0, "without its tables nobody can tell");
}
