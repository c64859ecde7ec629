//! AArch64 frames: the link register, frame records, signed return addresses, signal frames.

use elf::Machine;
use model::{Avma, FrameAddress, TruncationReason};
use prof_unwinder::{Architecture, Registers, StackEnd, Unwinder};

use crate::made::{
    BASE, EH_FRAME, One, TEXT, TEXT_SIZE, addresses, cie, eh_frame, object, space, unwind, words,
};

const SP: u64 = 0xffff_e000_0000;
const LINK: u8 = 30;

/// Code addresses.
const fn code(offset: u64) -> u64 {
    BASE + TEXT + offset
}

/// `leaf` at 0x100 keeps its return address in x30; `caller` at 0x200 signs and saves it, with x19 and the frame
/// record; `first` at 0x300 has none. Nothing describes 0x800 and above.
fn program() -> One {
    let mut text = vec![0; TEXT_SIZE];
    let mut put = |offset: usize, words: &[u32]| {
        for (index, word) in words.iter().enumerate() {
            text[offset + index * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
    };
    put(0x21c, &[0x97ff_ffb9]); // bl leaf
    put(0x31c, &[0x97ff_ffb9]); // bl caller
    put(0x800, &[0x9100_03fd]); // mov x29, sp
    put(0x81c, &[0x97ff_fe79]); // bl caller
    put(0x900, &[0xd280_1168, 0xd400_0001]); // mov x8, #139; svc #0
    let section = eh_frame(
        // DW_CFA_def_cfa sp, 0
        &cie("zR", 4, LINK, &[0x0c, 31, 0]),
        &[
            (0x100, 0x40, &[]),
            // advance 1; DW_CFA_AARCH64_negate_ra_state; advance 1; def_cfa_offset 48; x29 at −48, x30 at −40, x19 at −32
            (0x200, 0x40, &[0x41, 0x2d, 0x41, 0x0e, 48, 0x80 | 29, 6, 0x80 | 30, 5, 0x80 | 19, 4]),
            // DW_CFA_undefined x30
            (0x300, 0x40, &[0x07, 30]),
        ],
    );
    One::new(object(Machine::AARCH64, &text, &section, &[]))
}

fn registers(pc: u64, sp: u64, fp: u64, link: u64) -> Registers {
    let mut registers = Registers::new(Architecture::Aarch64);
    for (register, value) in [(32, pc), (31, sp), (29, fp), (30, link), (19, 0x19)] {
        registers.set(register, value);
    }
    registers
}

#[test]
fn a_leaf_returns_by_the_link_register_and_signatures_are_stripped() {
    let signed = 0x0037_0000_0000_0000 | code(0x320);
    let stack = words(&[0, signed, 0x1919, 0, 0, 0, 0, 0]);
    let unwound = unwind(&mut program(), &registers(code(0x104), SP, 0, code(0x220)), &stack);
    assert_eq!(addresses(&unwound), [code(0x104), code(0x220), code(0x320)]);
    assert_eq!(unwound.end, StackEnd::Complete);
    assert_eq!(unwound.frames[2].stack_pointer, SP + 48);
}

#[test]
fn a_caller_that_never_saved_its_link_register_is_no_endless_loop() {
    // The "caller" claims to be a leaf: its return address is itself.
    let unwound = unwind(&mut program(), &registers(code(0x104), SP, 0, code(0x108)), &words(&[0; 64]));
    assert_eq!(addresses(&unwound), [code(0x104), code(0x108)]);
    assert_eq!(unwound.end, StackEnd::Truncated(TruncationReason::RuleFailed));
}

#[test]
fn frame_records_lead_through_code_without_tables() {
    let stack = words(&[0, 0, SP + 32, 0, SP + 48, code(0x820), SP + 0x1000, code(0x320), 0, 0]);
    let unwound = unwind(&mut program(), &registers(code(0x840), SP, SP + 48, 1), &stack);
    assert_eq!(addresses(&unwound), [code(0x840), code(0x320)]);
    assert_eq!(unwound.end, StackEnd::Complete);
}

#[test]
fn a_signal_trampoline_is_known_by_its_instructions() {
    let mut stack = vec![0; 128 + 176 + 8 + 33 * 8];
    let mut set = |register: usize, value: u64| {
        stack[128 + 176 + 8 + register * 8..][..8].copy_from_slice(&value.to_le_bytes());
    };
    // Interrupted at the very first instruction of `leaf`.
    set(32, code(0x100));
    set(31, SP + 0x200);
    set(30, code(0x320));
    let unwound = unwind(&mut program(), &registers(code(0x104), SP, 0, code(0x900)), &stack);
    assert_eq!(addresses(&unwound), [code(0x104), code(0x900), code(0x100), code(0x320)]);
    assert_eq!(unwound.frames[2].address, FrameAddress::InstructionPointer(Avma(code(0x100))));
    assert_eq!(unwound.end, StackEnd::Complete);
}

#[test]
fn a_frame_pointer_of_zero_is_no_end_where_code_keeps_none() {
    // `bl` at 0x804 and 0x824, and no prologue: each frame has 2 KiB, more than is searched for a return address.
    let mut text = vec![0; TEXT_SIZE];
    for (at, target) in [(0x804, 0x840), (0x824, 0x800)] {
        let displacement = ((target - at) / 4) as u32 & 0x3ff_ffff;
        text[at as usize..][..4].copy_from_slice(&(0x9400_0000 | displacement).to_le_bytes());
    }
    let section = eh_frame(&cie("zR", 4, LINK, &[0x0c, 31, 0]), &[(0x300, 0x40, &[0x07, 30])]);
    let mut program = One::new(object(Machine::AARCH64, &text, &section, &[]));
    let mut stack = vec![0; 1024];
    (stack[256], stack[512]) = (code(0x808), code(0x828));
    let unwound = unwind(&mut program, &registers(code(0x848), SP, 0, 1), &words(&stack));
    assert_eq!(addresses(&unwound), [code(0x848)]);
    assert_eq!(unwound.end, StackEnd::Truncated(TruncationReason::NoUnwindData));
    // Near enough, they are found.
    (stack[2], stack[4]) = (code(0x808), code(0x828));
    let unwound = unwind(&mut program, &registers(code(0x848), SP, 0, 1), &words(&stack));
    assert_eq!(addresses(&unwound), [code(0x848), code(0x808), code(0x828)]);
    assert_eq!(unwound.end, StackEnd::Truncated(TruncationReason::NoUnwindData));
}

#[test]
fn the_link_register_tells_the_caller_of_a_leaf_as_long_as_its_table_says_so() {
    let mut unwinder = Unwinder::default();
    let mut caller_of = |pc, link| {
        let (space, architecture) = (space(TEXT_SIZE as u64), Architecture::Aarch64);
        let caller = unwinder.caller_of_leaf(architecture, &space, &mut program(), Avma(code(pc)), link);
        caller.map(|caller| caller.0)
    };
    let signed = 0x0037_0000_0000_0000 | code(0x220);
    // In `leaf`, and in `caller` before it saves x30.
    assert_eq!(caller_of(0x104, signed), Some(code(0x220)));
    assert_eq!(caller_of(0x200, code(0x320)), Some(code(0x320)));
    // Behind that; in the first function; in code without a table; no address of code.
    for (pc, link) in
        [(0x210, code(0x320)), (0x304, code(0x220)), (0x840, code(0x220)), (0x104, 0), (0x104, 8)]
    {
        assert_eq!(caller_of(pc, link), None, "{pc:#x} {link:#x}");
    }
}

/// `.eh_frame` of `clang --target=aarch64-linux-gnu -O2 -mbranch-protection=pac-ret+b-key -c` (LLVM 14) of
/// `int f(int a) { int b = g(a); return b + g(b); }`, which GNU as writes alike; linked to [`EH_FRAME`], with `f` at 0x200.
fn signed_by_b_key(augmentation: [u8; 3]) -> Vec<u8> {
    let mut section = vec![0x14, 0, 0, 0, 0, 0, 0, 0, 1];
    section.extend(augmentation);
    section.extend([0, 1, 0x7c, 0x1e, 1, 0x1b, 0x0c, 0x1f, 0, 0, 0, 0]);
    section.extend([0x1c, 0, 0, 0, 0x1c, 0, 0, 0]);
    section.extend((TEXT as u32 + 0x200).wrapping_sub(EH_FRAME as u32 + 0x20).to_le_bytes());
    // advance 4; negate_ra_state; advance 12; def_cfa x29, 32; x19 at −16, x30 at −24, x29 at −32
    section.extend([0x30, 0, 0, 0, 0, 0x44, 0x2d, 0x4c, 0x0c, 0x1d, 0x20]);
    section.extend([0x93, 4, 0x9e, 6, 0x9d, 8, 0, 0, 0]);
    section.extend([0; 4]);
    section
}

#[test]
fn tables_of_the_b_key_and_of_tagged_memory_are_read() {
    let search_table = |section: &[u8]| {
        let mut header = vec![1, 0x1b, 3, 0x3b];
        let at = EH_FRAME as u32 + section.len() as u32;
        header.extend((EH_FRAME as u32).wrapping_sub(at + 4).to_le_bytes());
        header.extend(1_u32.to_le_bytes());
        header.extend((TEXT as u32 + 0x200).wrapping_sub(at).to_le_bytes());
        header.extend((EH_FRAME as u32 + 0x18).wrapping_sub(at).to_le_bytes());
        header
    };
    let signed = 0x0037_0000_0000_0000 | code(0x320);
    let stack = words(&[0, 0, 0x1234, signed, 0x19, 0, 0, 0]);
    for augmentation in [*b"zRB", *b"zRG", *b"zBR"] {
        let section = signed_by_b_key(augmentation);
        for header in [search_table(&section), Vec::new()] {
            let mut text = vec![0; TEXT_SIZE];
            // bl f
            text[0x31c..0x320].copy_from_slice(&0x97ff_ffb9_u32.to_le_bytes());
            let mut program = One::new(object(Machine::AARCH64, &text, &section, &header));
            let unwound = unwind(&mut program, &registers(code(0x218), SP, SP + 16, 1), &stack);
            assert_eq!(addresses(&unwound), [code(0x218), code(0x320)], "{augmentation:?}");
            assert_eq!(unwound.frames[1].stack_pointer, SP + 48);
        }
    }
}

#[test]
fn the_length_of_vectors_gives_the_frame_that_they_lie_in() {
    // The caller of `leaf` keeps 16 bytes and two vectors: its CFA is sp + 16 + 16 × VG, and x29 and x30 are saved at sp.
    let at_sp = [0x8f, 0];
    let cfa = [0x8f, 16, 0x92, 46, 0, 0x40, 0x1e, 0x22]; // breg31 16; bregx VG 0; lit16; mul; plus
    let caller: Vec<u8> = [&[0x0f, 8][..], &cfa, &[0x10, 29, 2], &at_sp, &[0x10, 30, 2, 0x8f, 8]].concat();
    let section = eh_frame(
        &cie("zR", 4, LINK, &[0x0c, 31, 0]),
        &[(0x100, 0x40, &[]), (0x200, 0x40, &caller), (0x300, 0x40, &[0x07, 30])],
    );
    let mut text = vec![0; TEXT_SIZE];
    for offset in [0x21c, 0x31c] {
        text[offset..][..4].copy_from_slice(&0x97ff_ffb9_u32.to_le_bytes());
    }
    let mut program = One::new(object(Machine::AARCH64, &text, &section, &[]));
    let stack = words(&[0, code(0x320), 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut innermost = registers(code(0x104), SP, 0, code(0x220));
    let unwound = unwind(&mut program, &innermost, &stack);
    assert_eq!(unwound.end, StackEnd::Truncated(TruncationReason::RuleFailed));
    // 256 bits.
    innermost.set(46, 4);
    let unwound = unwind(&mut program, &innermost, &stack);
    assert_eq!(addresses(&unwound), [code(0x104), code(0x220), code(0x320)]);
    assert_eq!(unwound.end, StackEnd::Complete);
    assert_eq!(unwound.frames[2].stack_pointer, SP + 80);
}
