//! Stacks through generated code that tables describe, and other code that is loaded in its place.

use std::sync::Arc;

use elf::{Machine, SectionReader};
use model::{Avma, FileOffset};
use prof_unwinder::{
    AddressSpace, Architecture, Innermost, Mapping, NoMemory, ObjectNumber, Objects, Registers, StackCopy,
    StackEnd, UnwindTables, Unwinder, UnwoundStack,
};

use crate::made::{BASE, One, TEXT, cie, eh_frame, object, space, words};

const STACK: u64 = 0x7ffe_0000_0000;
const FUNCTION: u64 = 0x100;
/// Where generated code lies.
const GENERATED: u64 = 0x7000_0000;

/// The program, and generated code with a frame of two words, then of three.
struct Runtime {
    program: One,
    generated: [One; 2],
    loaded: usize,
}

impl Objects for Runtime {
    type Bytes = SectionReader<Vec<u8>>;

    fn tables(&mut self, number: ObjectNumber) -> Option<Arc<UnwindTables<Self::Bytes>>> {
        match number.0 {
            0 => self.program.tables(number),
            number => self.generated[number as usize - 1].tables(ObjectNumber(0)),
        }
    }

    fn generated(&mut self, address: Avma) -> Option<(ObjectNumber, FileOffset)> {
        let offset = address.0.checked_sub(GENERATED)?;
        Some((ObjectNumber(self.loaded as u32), FileOffset(TEXT + offset)))
    }
}

/// Functions of one size, each with these instructions in the table.
fn functions(kinds: &[&[u8]]) -> One {
    // CFA: rsp + 8; the return address is below it.
    let cie = cie("zR", 1, 16, &[0x0c, 7, 8, 0x80 | 16, 1]);
    let functions: Vec<_> =
        (0_u32..).zip(kinds).map(|(index, kind)| (index * FUNCTION as u32, FUNCTION as u32, *kind)).collect();
    let code = vec![0xcc; kinds.len() * FUNCTION as usize];
    One::new(object(Machine::X86_64, &code, &eh_frame(&cie, &functions), &[]))
}

fn mapped() -> AddressSpace {
    let mut space = space(2 * FUNCTION);
    space.insert(Mapping {
        range: Avma(GENERATED)..Avma(GENERATED + FUNCTION),
        file_offset: FileOffset(0),
        object: None,
        executable: true,
    });
    space
}

#[test]
fn a_stack_leads_through_described_code_and_other_code_that_is_loaded_in_its_place() {
    // Threads begin in the first function of the program; the second has a frame of two words.
    let mut runtime = Runtime {
        program: functions(&[&[0x07, 16], &[0x0e, 16]]),
        generated: [functions(&[&[0x0e, 16]]), functions(&[&[0x0e, 24]])],
        loaded: 1,
    };
    let mapped = mapped();
    let (begin, inner) = (BASE + TEXT + 8, BASE + TEXT + FUNCTION + 8);
    let (caller, other_caller) = (inner + 16, inner + 32);
    let stack = words(&[0, GENERATED + 8, 0, caller, other_caller, begin, begin, 0]);
    let mut registers = Registers::new(Architecture::X86_64);
    registers.set(7, STACK);
    registers.set(16, inner);
    let innermost = Innermost { registers: &registers, stack: StackCopy { start: STACK, bytes: &stack } };
    let unwind = |unwinder: &mut Unwinder, runtime: &mut Runtime| {
        let mut unwound = UnwoundStack::default();
        unwinder.unwind(&mapped, runtime, &innermost, &mut NoMemory, &mut unwound);
        assert_eq!(unwound.end, StackEnd::Complete);
        unwound.addresses().map(|address| address.address().0).collect::<Vec<_>>()
    };
    let mut unwinder = Unwinder::default();
    assert_eq!(unwind(&mut unwinder, &mut runtime), [inner, GENERATED + 8, caller, begin]);
    runtime.loaded = 2;
    let second = [inner, GENERATED + 8, other_caller, begin];
    assert_eq!(unwind(&mut unwinder, &mut runtime), second, "at the same addresses, in the same mappings");
}
