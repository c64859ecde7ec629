//! The stacks of files recorded by perf are those that `perf script` prints.

use std::path::Path;
use std::process::Command;

use super::folded::{Folded, plain};
use super::prof::{folded, folder};
use super::{perf, programs};

/// A name as far as it is compared here. Demangling is judged elsewhere: what stays is the path without template
/// arguments, parameters, return type and hash. Three differences of perf's are known and set aside:
/// - it looks callers up at the return address itself, which for `_start` of the dynamic linker, whose call is its last
///   instruction, is the label behind (`_dl_start_user`), and for the kernel's `x86_64_start_reservations`, whose last
///   call never returns, the padding behind (`__pfx_clear_bss`);
/// - it names entries of the procedure linkage table `@plt`, or after the section before them;
/// - it names functions of the vDSO only where the kernel was asked for build ids.
pub(crate) fn comparable(frame: &str) -> String {
    let frame = plain(frame).replace("(anonymous namespace)", "anonymous");
    if matches!(frame.as_str(), "_init" | "_fini") || frame.ends_with("@plt") {
        return "plt".to_owned();
    }
    if frame == "_dl_start_user" {
        return "_start".to_owned();
    }
    if frame.starts_with("__vdso_") {
        return "[vdso]".to_owned();
    }
    if frame == "__pfx_clear_bss" {
        return "x86_64_start_reservations".to_owned();
    }
    let (mut name, mut depth) = (String::new(), 0);
    for c in frame.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 && !name.is_empty() => break,
            ' ' if depth == 0 => name.clear(),
            _ if depth == 0 => name.push(c),
            _ => {}
        }
    }
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 => path.to_owned(),
        _ => name,
    }
}

/// Holds our stacks against perf's; at least 99.5 % must be the same. Of the processes named, or of all.
fn agrees(folder: &Path, file: &Path, comms: &[&str]) {
    let ours = folded(file, &["--no-inline", "--modules-only"]).ok();
    let of_comms = |stacks: Folded| {
        let stacks = stacks.only(|stack| comms.is_empty() || comms.contains(&stack[0].as_str()));
        stacks.map(comparable)
    };
    // perf has no mark where the kernel has cut a chain.
    let ours = Folded::parse(ours.text()).without(|frame| frame.starts_with("[truncated: limit of"));
    let ours = of_comms(ours);
    let theirs = of_comms(perf::fold(perf::script(folder, file).ok().text()));
    assert!(theirs.total() > 100, "perf took {} samples only", theirs.total());
    assert_eq!(ours.total(), theirs.total());
    let common = ours.in_common(&theirs);
    let report = |folded: &Folded, other: &Folded| {
        folded
            .excess(other)
            .iter()
            .take(10)
            .map(|(count, stack)| format!("{count} {stack}\n"))
            .collect::<String>()
    };
    assert!(
        common * 1000 >= theirs.total() * 995,
        "{common} of {} are the same\nours:\n{}perf's:\n{}",
        theirs.total(),
        report(&ours, &theirs),
        report(&theirs, &ours),
    );
}

fn recorded(flags: &[&str], command: &mut dyn FnMut(&mut Command)) {
    if !perf::is_here() {
        return;
    }
    let folder = folder();
    let file = perf::record(folder.path(), flags, command);
    agrees(folder.path(), &file, &[]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn many_call_chains() {
    let Some(program) = programs::c("paths") else { return };
    recorded(&[], &mut |command| {
        command.arg(&program).args(["2", "200"]);
    });
}

fn built(variant: &str, flags: &[&str]) {
    let Some(program) = programs::c_built("paths", variant, flags) else { return };
    recorded(&[], &mut |command| {
        command.arg(&program).args(["1", "100"]);
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn position_dependent_programs() {
    built("no-pie", &["-no-pie"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn static_programs() {
    built("static", &["-static"]);
    built("static-pie", &["-static-pie"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn code_segments_away_from_their_offset() {
    for linker in ["lld", "mold"] {
        if programs::has(if linker == "lld" { "ld.lld" } else { linker }) {
            built(linker, &[&format!("-fuse-ld={linker}")]);
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn programs_without_debug_information() {
    built("plain", &["-g0"]);
    built("stripped", &["-g0", "-s"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn deep_recursion() {
    let Some(program) = programs::c("deep") else { return };
    recorded(&[], &mut |command| {
        command.arg(&program).args(["100", "100"]);
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn chains_deeper_than_the_kernel_keeps() {
    let Some(program) = programs::c("deep") else { return };
    recorded(&[], &mut |command| {
        command.arg(&program).args(["1000", "100"]);
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_process_that_becomes_another() {
    let Some(program) = programs::c("execs") else { return };
    recorded(&[], &mut |command| {
        command.arg(&program).args(["7", "40"]);
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn hundreds_of_processes_in_a_shell() {
    recorded(&[], &mut |command| {
        command.args([
            "sh",
            "-c",
            "i=0; while [ $i -lt 300 ]; do echo $i | cat | tr 1 2 >/dev/null; i=$((i+1)); done",
        ]);
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn an_interpreter() {
    if !programs::has("python3") {
        return;
    }
    recorded(&[], &mut |command| {
        command.args([
            "python3",
            "-c",
            "import json\nfor i in range(60): json.loads(json.dumps(list(range(9999))))",
        ]);
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_compressor_in_threads() {
    if !programs::has("xz") {
        return;
    }
    recorded(&[], &mut |command| {
        command.args(["sh", "-c", "seq 400000 | xz -T2 -3 > /dev/null"]);
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_whole_machine() {
    if !perf::is_here() {
        return;
    }
    let folder = folder();
    let file = perf::record(folder.path(), &["-a"], &mut |command| {
        command.args(["sh", "-c", "seq 300000 | gzip > /dev/null; sleep 0.2"]);
    });
    // What else the machine does is not ours to judge: perf discards whole chains that hold one odd address.
    agrees(folder.path(), &file, &["seq", "gzip", "sh", "sleep", "swapper"]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn cxx() {
    let Some(program) = programs::cxx("inlines") else { return };
    recorded(&[], &mut |command| {
        command.arg(&program).arg("150");
    });
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn user_side_only() {
    let Some(program) = programs::c("shares") else { return };
    recorded(&["--user-callchains"], &mut |command| {
        command.arg(&program).args(["threads", "100"]);
    });
}
