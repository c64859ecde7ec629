//! What is remembered of one address, applied to its neighbours: the tables of a real program, this test's.

use std::sync::Arc;

use elf::Object;
use model::{Avma, FileOffset};
use prof_unwinder::{
    AddressSpace, Architecture, Innermost, Mapping, NoMemory, ObjectNumber, Registers, StackCopy,
    UnwindTables, Unwinder, UnwoundStack,
};

use crate::made::{One, words};

const STACK: u64 = 0x7ffe_0000_0000;
const WORDS: u64 = 256;

/// Not all addresses: each needs an unwinder that knows nothing.
const STRIDE: u64 = 37;
const MOST: u64 = 20_000;

#[test]
fn an_address_is_unwound_alike_whatever_was_unwound_before() {
    let Some((native, fixed)) = (match std::env::consts::ARCH {
        "x86_64" => Some((Architecture::X86_64, 7)),
        "aarch64" => Some((Architecture::Aarch64, 31)),
        _ => None,
    }) else {
        println!("skipped: stacks of this architecture cannot be unwound");
        return;
    };
    let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let object = Arc::new(Object::parse(file).unwrap());
    let text = object.section(".text").unwrap();
    let (start, size, offset) = (text.address.0, text.size, text.file_offset.0);
    let mut objects = One(UnwindTables::new(object).map(Arc::new));
    let mut space = AddressSpace::default();
    space.insert(Mapping {
        range: Avma(start)..Avma(start + size),
        file_offset: FileOffset(offset),
        object: Some(ObjectNumber(0)),
        executable: true,
    });
    // Return addresses into all of the code, of which some follow a call.
    let stack = words(&(0..WORDS).map(|index| start + index * 7919 % size).collect::<Vec<_>>());
    let mut unwind = |unwinder: &mut Unwinder, pc: u64| {
        let mut registers = Registers::new(native);
        for register in 0..native.register_count() {
            registers.set(register, STACK + 64 * u64::from(register));
        }
        registers.set(fixed, STACK);
        registers.set(native.program_counter(), pc);
        let innermost = Innermost { registers: &registers, stack: StackCopy { start: STACK, bytes: &stack } };
        let mut unwound = UnwoundStack::default();
        unwinder.unwind(&space, &mut objects, &innermost, &mut NoMemory, &mut unwound);
        unwound
    };
    let mut knowing = Unwinder::default();
    let count = (size / STRIDE).min(MOST);
    // Once up and once down: a stretch is met at its beginning, and at its end.
    for index in (0..count / 2).chain((count / 2..count).rev()) {
        let pc = start + index * size / count;
        assert_eq!(unwind(&mut knowing, pc), unwind(&mut Unwinder::default(), pc), "{pc:#x}");
    }
}
