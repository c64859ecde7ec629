//! Stacks of real programs, stopped by gdb at chosen instructions: registers, memory and mappings as they were, and
//! gdb's own backtrace as the truth.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test stops where it cannot go on"
)]

mod debugger;
mod programs;

use std::path::Path;

use debugger::{Stop, run_to_stops};
use model::{FrameAddress, TruncationReason};
use prof_unwinder::{StackEnd, UnwoundStack};
use programs::build;

/// Unwinds at each stop, and asks for gdb's frames.
#[track_caller]
fn assert_same_as_gdb(program: &Path, script: &str, least_stops: usize) {
    let stops = run_to_stops(program, script);
    assert!(stops.len() >= least_stops, "only {} stops", stops.len());
    for (index, stop) in stops.iter().enumerate() {
        let unwound = stop.unwind();
        let found: Vec<u64> = unwound.addresses().map(|frame| frame.address().0).collect();
        assert_eq!(hex(&found), hex(&stop.frames), "stop {index}\n{}", stop.describe());
        assert_eq!(unwound.end, StackEnd::Complete, "stop {index}\n{}", stop.describe());
        for (frame, interrupted) in unwound.addresses().zip(&stop.interrupted) {
            let is_instruction_pointer = matches!(frame, FrameAddress::InstructionPointer(_));
            assert_eq!(is_instruction_pointer, *interrupted, "stop {index}, {frame:x?}\n{}", stop.describe());
        }
    }
}

fn hex(addresses: &[u64]) -> Vec<String> {
    addresses.iter().map(|address| format!("{address:#x}")).collect()
}

/// Names of the unwound frames, as gdb knows them; for stacks that gdb itself cannot follow.
fn names(stop: &Stop) -> Vec<String> {
    let unwound = stop.unwind();
    unwound.addresses().map(|frame| stop.name_of(frame)).collect()
}

/// Each instruction of prologues, bodies and epilogues.
const EVERY_INSTRUCTION_OF_A_CALL: &str = "
run_to('saves_registers')
step(120)
";

#[test]
fn every_instruction_of_gcc_code_without_frame_pointers() {
    let Some(program) = build("gcc -O2 -fomit-frame-pointer", "calls.c") else { return };
    assert_same_as_gdb(&program.path(), EVERY_INSTRUCTION_OF_A_CALL, 120);
}

#[test]
fn every_instruction_of_clang_code_without_frame_pointers() {
    let Some(program) = build("clang -O2 -fomit-frame-pointer", "calls.c") else { return };
    assert_same_as_gdb(&program.path(), EVERY_INSTRUCTION_OF_A_CALL, 120);
}

#[test]
fn a_realigned_frame_with_alloca() {
    for compiler in ["gcc -O2 -fomit-frame-pointer", "gcc -O2 -mstackrealign", "clang -O1 -fno-pie -no-pie"] {
        let Some(program) = build(compiler, "calls.c") else { return };
        assert_same_as_gdb(&program.path(), "run_to('*realigned')\nstep(150)", 150);
    }
}

#[test]
fn lazy_binding_through_the_procedure_linkage_table() {
    for compiler in ["gcc -O2 -Wl,-z,lazy", "gcc -O2 -Wl,-z,lazy -fcf-protection=none -no-pie"] {
        let Some(program) = build(compiler, "calls.c") else { return };
        // The stub, the resolver, and on into printf.
        let script = "run_to(\"*'printf@plt'\")\nstop()\nstep(1500)";
        assert_same_as_gdb(&program.path(), script, 1500);
    }
}

#[test]
fn a_signal_handler_on_the_same_stack() {
    for compiler in ["gcc -O2", "gcc -O2 -static"] {
        let Some(program) = build(compiler, "signal.c") else { return };
        // From the handler back through the trampoline into what was interrupted; then the instruction that traps.
        let script = "run_to('in_handler')\nstep(40)\nrun_to('in_handler')\nstop()";
        assert_same_as_gdb(&program.path(), script, 41);
    }
}

#[test]
fn a_signal_handler_on_its_own_stack() {
    let Some(program) = build("gcc -O2", "signal.c") else { return };
    let script = "gdb.execute('set args other')\nrun_to('in_handler')\nstop()\nrun_to('in_handler')\nstop()";
    assert_same_as_gdb(&program.path(), script, 2);
}

#[test]
fn threads_of_all_kinds_of_linking() {
    let compilers = [
        "gcc -O2 -pthread",
        "gcc -O2 -pthread -static",
        "gcc -O2 -pthread -static-pie",
        "clang -O2 -pthread -no-pie",
    ];
    for compiler in compilers {
        let Some(program) = build(compiler, "thread.c") else { return };
        let script = "run_to('main')\nstop()\nrun_to('leaf')\nstep(4)";
        assert_same_as_gdb(&program.path(), script, 5);
    }
}

#[test]
fn rust_threads_and_closures() {
    for compiler in
        ["rustc -O", "rustc -O -Clink-arg=-fuse-ld=bfd", "rustc -Copt-level=0 -Cforce-frame-pointers=no"]
    {
        let Some(program) = build(compiler, "threads.rs") else { return };
        let script = "run_to('leaf')\nstep(60)\nrun_to('leaf')\nstep(10)";
        assert_same_as_gdb(&program.path(), script, 70);
    }
}

#[test]
fn assembler_without_tables() {
    let Some(program) = build("gcc -O2", "assembler.c") else { return };
    let stops = run_to_stops(
        &program.path(),
        "run_to('no_frame')\nstep(3)\nrun_to('leaf')\nstop()\nrun_to('no_frame')\nstep(2)",
    );
    assert_eq!(stops.len(), 6);
    // Its frame half made and made: the caller keeps its own frame pointer.
    for stop in run_to_stops(&program.path(), "run_to('*with_frame')\nstop()\nstep(3)") {
        let names = names(&stop);
        assert_eq!(names[..3], ["with_frame", "caller", "main"], "{}", stop.describe());
        let caller = stop.unwind().frames[1].stack_pointer;
        assert_eq!(stop.unwind().frames.len(), 6, "{names:?} {caller:#x}");
    }
    for stop in &stops {
        let names = names(stop);
        let asm = if names[0] == "leaf" { &["leaf", "with_frame"][..] } else { &["no_frame"] };
        let expected: Vec<&str> = asm.iter().copied().chain(["caller", "main"]).collect();
        assert_eq!(names[..expected.len()], expected, "{}", stop.describe());
        assert_eq!(stop.unwind().end, StackEnd::Complete, "{names:?}");
    }
}

#[test]
fn goroutines() {
    for command in ["go build", "go build -ldflags=-w"] {
        let Some(program) = build(command, "goroutines.go") else { return };
        let by_name = "run_to('*\\'main.leaf\\'')\nstop()\nstep(1)";
        for stop in run_to_stops(&program.path(), by_name) {
            assert_eq!(names(&stop).len(), 34, "{:?} {}", names(&stop), stop.describe());
            assert_eq!(stop.unwind().end, StackEnd::Complete);
        }
    }
}

/// A thread that the runtime has made ends where it begins, whatever the frame pointer still holds.
#[test]
fn threads_of_gos_runtime() {
    let Some(program) = build("go build", "goroutines.go") else { return };
    // Of the first thread, and of one that the runtime has made.
    let starts = "run_to('*\\'runtime.mstart0\\'')\nstop()\ngdb.execute('continue', to_string=True)\nstop()";
    for stop in run_to_stops(&program.path(), starts) {
        let names = names(&stop);
        assert!(names[0] == "runtime.mstart0" && names[1].starts_with("runtime.mstart"), "{names:?}");
        assert_eq!(stop.unwind().end, StackEnd::Complete, "{names:?} {}", stop.describe());
    }
}

/// musl has no unwind tables at all, and gdb is lost in it.
#[test]
fn musl_without_tables() {
    for compiler in ["musl-gcc -O2", "musl-gcc -O2 -static"] {
        let Some(program) = build(compiler, "signal.c") else { return };
        for arguments in ["", "other"] {
            let script = format!(
                "gdb.execute('set args {arguments}')\nrun_to('in_handler')\nstop()\nrun_to('in_handler')\nstop()"
            );
            let stops = run_to_stops(&program.path(), &script);
            for (stop, raised) in stops.iter().zip([true, false]) {
                let names = names(stop);
                let unwound = stop.unwind();
                assert_eq!(names[..2], ["in_handler", if raised { "handler" } else { "skip" }], "{names:?}");
                assert!(
                    matches!(unwound.frames[3].address, FrameAddress::InstructionPointer(_)),
                    "{names:?}"
                );
                let raises = names.iter().position(|name| name == "raises").unwrap_or_default();
                assert_eq!(raises, if raised { 5 } else { 4 }, "{names:?}");
                assert_eq!(names.last().unwrap(), "_start", "{names:?}");
                assert_eq!(unwound.end, StackEnd::Complete);
            }
        }
        let Some(program) = build(compiler, "thread.c") else { return };
        let stops = run_to_stops(&program.path(), "run_to('main')\nstop()\nrun_to('leaf')\nstep(4)");
        assert_eq!(names(&stops[0]).last().unwrap(), "_start");
        assert_eq!(names(&stops[1])[..2], ["leaf", "work"]);
        for stop in &stops {
            assert_eq!(stop.unwind().end, StackEnd::Complete, "{:?}", names(stop));
            assert!(stop.unwind().frames.len() <= 4, "{:?}", names(stop));
        }
    }
}

/// Threads that are read from outside have no frame pointer.
#[test]
fn two_registers_give_the_callers_that_all_give() {
    let flags = "-O2 -fno-omit-frame-pointer";
    let compilers = [
        format!("gcc {flags}"),
        format!("gcc {flags} -fstack-clash-protection -fstack-protector-all -fcf-protection"),
        format!("clang {flags}"),
        format!("clang {flags} -fstack-clash-protection"),
        "gcc -Os -fno-omit-frame-pointer".to_owned(),
        "gcc -O0".to_owned(),
        "gcc -O2 -fomit-frame-pointer".to_owned(),
    ];
    for compiler in compilers {
        let Some(program) = build(&compiler, "waits.c") else { continue };
        let script = "run_to('nanosleep')\nstop()\n".repeat(9);
        let stops = run_to_stops(&program.path(), &script);
        assert_eq!(stops.len(), 9);
        for stop in &stops {
            let (all, two) = (stop.unwind(), stop.unwind_from_outside());
            let of = |stack: &UnwoundStack| -> Vec<String> {
                stack.addresses().map(|address| stop.name_of(address)).collect()
            };
            assert_eq!(of(&two), of(&all), "{compiler}");
            assert_eq!((two.end, two.frames), (all.end, all.frames), "{compiler}");
        }
    }
}

/// What the copy does not hold is said to be missing, and nothing is made up.
#[test]
fn copies_of_all_sizes_end_too_small_or_complete() {
    let Some(program) = build("gcc -O2 -fomit-frame-pointer", "calls.c") else { return };
    let stops = run_to_stops(&program.path(), "run_to('saves_registers')\nstep(20)");
    for stop in stops.iter().step_by(5) {
        let whole = stop.unwind();
        for size in (0..8192).step_by(104) {
            let cut = stop.unwind_copy(size, false);
            let frames = cut.frames.len();
            assert_eq!(cut.frames, whole.frames[..frames]);
            match cut.end {
                StackEnd::Complete => assert_eq!(frames, whole.frames.len()),
                end => assert_eq!(end, StackEnd::Truncated(TruncationReason::CopyTooSmall), "{size}"),
            }
            // With the rest at hand the same stack is complete.
            let late = stop.unwind_copy(size, true);
            assert_eq!(late.frames, whole.frames);
            assert_eq!(late.frames_from_copy, frames);
        }
    }
}
