//! Which function a return address is said to lie in.

use std::process::Command;

use elf::{Object, SymbolSource};
use model::{FileOffset, Resolution};
use prof_symbolizer::{LookupAddress, ObjectFiles, ObjectSymbolizer, Options};

/// Functions without room between them: one that ends in a jump, and one whose last instruction calls and gets no return.
const SOURCE: &str = "
    .globl _start, leaves, calls, after
    .text
    _start: call leaves
    .size _start, . - _start
    leaves: nop; nop; nop; jmp after
    .size leaves, . - leaves
    calls: call after
    .size calls, . - calls
    after: ret
    .size after, . - after
    .type _start, @function; .type leaves, @function; .type calls, @function; .type after, @function
";

#[test]
fn where_nothing_called_the_function_that_starts_there_is_meant() {
    if !cfg!(target_arch = "x86_64") {
        println!("skipped: the program is for x86-64");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("callers.s"), folder.path().join("callers"));
    std::fs::write(&source, SOURCE).unwrap();
    let gcc = Command::new("gcc").args(["-nostdlib", "-static", "-o"]).args([&program, &source]).output();
    if !gcc.is_ok_and(|output| output.status.success()) {
        println!("skipped: gcc is not installed");
        return;
    }
    let object = Object::parse(std::fs::read(&program).unwrap()).unwrap();
    let start = |name: &str| {
        let found = object.symbols(SymbolSource::Full).find(|symbol| symbol.name() == name.as_bytes());
        object.file_offset_of(found.unwrap().address).unwrap().0
    };
    let files =
        ObjectFiles { object: &object, debug: None, minidebug: None, supplementary: None, package: None };
    let symbolizer = ObjectSymbolizer::new(&files, Options::default());
    let returned_to =
        |offset: u64| LookupAddress { address: FileOffset(offset), lookup: FileOffset(offset - 1) };
    let places = ["leaves", "calls", "after"].map(|name| returned_to(start(name)));
    let found = symbolizer.finish(&symbolizer.plan(&places), Vec::new());
    let names: Vec<&str> = found
        .iter()
        .map(|found| match found {
            Resolution::Resolved(known) => &*known.frames[0].function,
            _ => "none",
        })
        .collect();
    // A call ends before `leaves` and before `after`, a jump before `calls`.
    assert_eq!(names, ["_start", "calls", "calls"]);
}
