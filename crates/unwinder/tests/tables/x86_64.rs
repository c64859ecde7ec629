//! x86-64 code without an FDE: which frame pointers and which words of the stack are followed.

use std::sync::Arc;

use elf::Machine;
use model::{Avma, FileOffset, Svma, TruncationReason};
use prof_unwinder::{
    AddressSpace, Architecture, Innermost, Mapping, NoMemory, ObjectNumber, Objects, Registers, StackCopy,
    StackEnd, UnwindTables, Unwinder, UnwoundStack,
};

use crate::made::{
    BASE, One, TEXT, TEXT_SIZE, addresses, cie, eh_frame, object, space, unwind, unwind_by, words,
};

const SP: u64 = 0x7ffe_0000_0000;

/// Code addresses.
const fn code(offset: u64) -> u64 {
    BASE + TEXT + offset
}

/// `first` at 0x300 is where the thread begins, and calls the code at 0x800; so does the function at 0x400, which keeps a frame
/// pointer. Nothing describes 0x800 and above.
fn program() -> One {
    program_with(0, &[])
}

/// The same with these instructions there.
fn program_with(at: usize, instructions: &[u8]) -> One {
    let mut text = vec![0x90; TEXT_SIZE];
    let mut call = |before: usize, target: usize| {
        text[before - 5] = 0xe8;
        text[before - 4..before].copy_from_slice(&(target as i32 - before as i32).to_le_bytes());
    };
    call(0x320, 0x800);
    call(0x420, 0x800);
    call(0x820, 0x900);
    // push %rbp; mov %rsp, %rbp
    text[0x800..0x804].copy_from_slice(&[0x55, 0x48, 0x89, 0xe5]);
    text[at..at + instructions.len()].copy_from_slice(instructions);
    let section = eh_frame(
        // DW_CFA_def_cfa rsp, 8; the return address at −8
        &cie("zR", 1, 16, &[0x0c, 7, 8, 0x90, 1]),
        // DW_CFA_undefined rip; DW_CFA_def_cfa rbp, 16
        &[(0x300, 0x40, &[0x07, 16]), (0x400, 0x40, &[0x0c, 6, 16])],
    );
    One::new(object(Machine::X86_64, &text, &section, &[]))
}

#[test]
fn functions_are_delimited_where_tables_cover_them() {
    let one = program();
    let tables = one.0.as_ref().unwrap();
    let function = |offset| tables.function_at(FileOffset(TEXT + offset));
    let range = |start, end| Some(Svma(code(start))..Svma(code(end)));
    assert_eq!(function(0x300), range(0x300, 0x340));
    assert_eq!(function(0x43f), range(0x400, 0x440));
    assert_eq!((function(0x2ff), function(0x440), function(0x800)), (None, None, None));
    assert_eq!(tables.function_at(FileOffset(u64::MAX)), None);
}

fn registers(pc: u64, fp: u64) -> Registers {
    let mut registers = Registers::new(Architecture::X86_64);
    for (register, value) in [(16, pc), (7, SP), (6, fp)] {
        registers.set(register, value);
    }
    registers
}

#[test]
fn the_frame_pointer_leads_on_from_the_innermost_frame_too() {
    // Room, 0x900's frame record, room, 0x800's.
    let stack = words(&[1, SP + 40, code(0x820), 2, 3, 0x1234, code(0x320), 4]);
    let unwound = unwind(&mut program(), &registers(code(0x910), SP + 8), &stack);
    assert_eq!(addresses(&unwound), [code(0x910), code(0x820), code(0x320)]);
    assert_eq!(unwound.end, StackEnd::Complete);
}

#[test]
fn a_frame_pointer_beyond_the_copy_is_taken_at_its_word() {
    let unwound = unwind(&mut program(), &registers(code(0x910), SP + 0x1000), &words(&[1, 2, 3]));
    assert_eq!(addresses(&unwound), [code(0x910)]);
    assert_eq!(unwound.end, StackEnd::Truncated(TruncationReason::CopyTooSmall));
}

#[test]
fn a_stub_reached_by_a_jump_returns_to_the_word_on_top_of_the_stack() {
    // 0x800 called 0x900, which jumped on to a stub at 0xc00; the frame pointer is some number of the callers'.
    let stack = words(&[code(0x820), SP + 24, 7, 8, code(0x320)]);
    let unwound = unwind(&mut program(), &registers(code(0xc00), SP + 0x1000), &stack);
    assert_eq!(addresses(&unwound)[..2], [code(0xc00), code(0x820)]);
    // A word that follows no call is none.
    let stack = words(&[code(0x828), SP + 24, 7, 8, code(0x320)]);
    let unwound = unwind(&mut program(), &registers(code(0xc00), SP + 0x1000), &stack);
    assert_eq!(addresses(&unwound), [code(0xc00)]);
}

#[test]
fn the_epilogue_next_to_the_address_tells_a_frame_from_traces_of_earlier_calls() {
    // add $0x20, %rsp; pop %rbx; ret
    let epilogue = [0x48, 0x83, 0xc4, 0x20, 0x5b, 0xc3];
    let registers = registers(code(0x840), 1);
    // Before the end of the function, and in what lies behind that.
    for at in [0x880, 0x830] {
        let mut program = program_with(at, &epilogue);
        for trace in [1, 3] {
            let mut stack = [1, 2, 3, 4, 5, code(0x320), 6];
            stack[trace] = code(0x320);
            let unwound = unwind(&mut program, &registers, &words(&stack));
            assert_eq!(addresses(&unwound), [code(0x840), code(0x320)]);
            assert_eq!((unwound.frames[1].stack_pointer, unwound.end), (SP + 48, StackEnd::Complete));
        }
        // Two words are pushed for another function.
        let unwound = unwind(&mut program, &registers, &words(&[8, 9, 1, 2, 3, 4, 5, code(0x320), 6]));
        assert_eq!((unwound.frames[1].stack_pointer, unwound.end), (SP + 64, StackEnd::Complete));
        let unwound = unwind(&mut program, &registers, &words(&[1, 2, 3, code(0x320)]));
        assert_eq!(addresses(&unwound), [code(0x840)]);
        assert_eq!(unwound.end, StackEnd::Truncated(TruncationReason::CopyTooSmall));
        // It may be another function's: where nothing was called there, a search has to do.
        let unwound = unwind(&mut program, &registers, &words(&[1, 2, 3, code(0x320), 4, 5, 6]));
        assert_eq!(addresses(&unwound), [code(0x840), code(0x320)]);
        assert_eq!(unwound.frames[1].stack_pointer, SP + 32);
    }
}

#[test]
fn a_searched_caller_that_leads_nowhere_is_none() {
    let stack = words(&[1, 2, 3, code(0x420), 4, 5, 6]);
    let unwound = unwind(&mut program(), &registers(code(0x840), 1), &stack);
    assert_eq!(addresses(&unwound), [code(0x840)]);
    assert_eq!(unwound.end, StackEnd::Truncated(TruncationReason::NoUnwindData));
}

/// As [`program`], in code that keeps no frame pointers; that at 0x840 calls the one at 0xa00.
fn program_without_frame_pointers() -> One {
    let mut text = vec![0x90; TEXT_SIZE];
    for (before, target) in [(0x320, 0x800), (0x860, 0xa00), (0x820, 0x900)] {
        text[before - 5] = 0xe8;
        text[before - 4..before].copy_from_slice(&(target - before as i32).to_le_bytes());
    }
    let section = eh_frame(&cie("zR", 1, 16, &[0x0c, 7, 8, 0x90, 1]), &[(0x300, 0x40, &[0x07, 16])]);
    One::new(object(Machine::X86_64, &text, &section, &[]))
}

#[test]
fn the_frame_pointer_of_an_outer_frame_jumps_over_none() {
    // 0x800 and 0x900 leave the frame pointer as it was: of a frame further out.
    let stack = words(&[1, code(0x820), 2, code(0x320), 3, 4, 0, code(0x320)]);
    let unwound = unwind(&mut program_without_frame_pointers(), &registers(code(0x910), SP + 48), &stack);
    assert_eq!(addresses(&unwound), [code(0x910), code(0x820), code(0x320)]);
    assert_eq!((unwound.frames[2].stack_pointer, unwound.end), (SP + 32, StackEnd::Complete));
}

#[test]
fn a_stack_is_not_complete_where_frames_may_be_missing() {
    // A frame that is larger than what is searched, and a frame pointer of zero.
    let mut stack = vec![0; 512];
    stack[256] = code(0x820);
    let unwound = unwind(&mut program_without_frame_pointers(), &registers(code(0x910), 0), &words(&stack));
    assert_eq!(addresses(&unwound), [code(0x910)]);
    assert_eq!(unwound.end, StackEnd::Truncated(TruncationReason::NoUnwindData));
    // 0xa00 was called and jumped to 0x900: its caller's return address does not tell that.
    let stack = words(&[1, code(0x860), 2, code(0x320), 3]);
    let unwound = unwind(&mut program_without_frame_pointers(), &registers(code(0x910), 1), &stack);
    assert_eq!(unwound.end, StackEnd::Truncated(TruncationReason::NoUnwindData));
}

#[test]
fn a_stack_through_an_object_that_cannot_be_read_is_not_complete() {
    // The program lies as in `program`; above it a library that has no file any more.
    let mut space = space(TEXT_SIZE as u64);
    let library = BASE + 0x10_0000;
    space.insert(Mapping {
        range: Avma(library)..Avma(library + 0x1000),
        file_offset: FileOffset(0),
        object: Some(ObjectNumber(7)),
        executable: true,
    });
    let mut objects = WithoutLibrary(program());
    // By the frame pointer, by the next return address that can be checked, and where there is none.
    for stack in [
        &[1, 2, 0x1234, library + 0x20, 3, 0, code(0x320), 4],
        &[1, library + 0x20, 2, 3, code(0x320), 4, 5, 6],
        &[1, library + 0x20, 2, 3, 4, 5, 6, 7],
    ] {
        for fp in [SP + 40, 1] {
            let registers = registers(library + 0x40, fp);
            let bytes = words(stack);
            let copy = StackCopy { start: SP, bytes: &bytes };
            let innermost = Innermost { registers: &registers, stack: copy };
            let mut unwound = UnwoundStack::default();
            Unwinder::default().unwind(&space, &mut objects, &innermost, &mut NoMemory, &mut unwound);
            let end = StackEnd::Truncated(TruncationReason::ObjectUnreadable);
            assert_eq!(unwound.end, end, "{:x?}", addresses(&unwound));
        }
    }
}

/// Objects of which only the first can be read.
struct WithoutLibrary(One);

impl Objects for WithoutLibrary {
    type Bytes = <One as Objects>::Bytes;

    fn tables(&mut self, object: ObjectNumber) -> Option<Arc<UnwindTables<Self::Bytes>>> {
        self.0.tables(object).filter(|_| object == ObjectNumber(0))
    }
}

#[test]
fn absurd_frame_pointers_end_the_stack() {
    for fp in [SP + 4, SP - 8, 1, u64::MAX, u64::MAX - 7] {
        let unwound = unwind(&mut program(), &registers(code(0x910), fp), &words(&[0; 32]));
        assert_eq!(addresses(&unwound), [code(0x910)], "{fp:#x}");
        assert!(matches!(unwound.end, StackEnd::Truncated(_)), "{fp:#x}");
    }
}

#[test]
fn a_frame_pointer_of_zero_ends_generated_code_that_keeps_frame_pointers() {
    let mut generated = AddressSpace::default();
    let range = Avma(0x10_0000)..Avma(0x20_0000);
    generated.insert(Mapping { range, file_offset: FileOffset(0), object: None, executable: true });
    let end = |fp: u64, stack: &[u64]| {
        let registers = registers(0x10_0010, fp);
        let mut unwinder = Unwinder::default();
        let unwound = unwind_by(&mut unwinder, &generated, &mut program(), &registers, &words(stack));
        (addresses(&unwound).len(), unwound.end)
    };
    let no_data = StackEnd::Truncated(TruncationReason::NoUnwindData);
    // Two frame records, of which the second has no caller's frame pointer.
    let stack = [1, SP + 32, 0x10_0100, 2, 0, 0x10_0200, 3, 4];
    assert_eq!(end(SP + 8, &stack), (3, StackEnd::Complete));
    // Some register's zero says nothing of code that may not keep frame pointers.
    assert_eq!(end(0, &[1, 2, 3, 4]), (1, no_data));
    // Nor does a record whose frame pointer leads elsewhere.
    assert_eq!(end(SP + 8, &[1, 7, 0x10_0100, 2, 0, 3, 4, 5]), (2, no_data));
}
