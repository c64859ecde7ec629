//! Corrupt tables, absurd registers, cyclic stacks: bounded, and never a frame outside executable memory.

use elf::Machine;
use model::TruncationReason;
use prof_unwinder::{Architecture, Registers, StackEnd, Unwinder};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::made::{BASE, One, TEXT, TEXT_SIZE, cie, eh_frame, object, unwind};

const SP: u64 = 0x7ffc_0000_0000;

/// What one input of the fuzz target is cut into.
#[derive(Clone, Debug)]
struct Input {
    machine: bool,
    eh_frame: Vec<u8>,
    header: Vec<u8>,
    text: Vec<u8>,
    stack: Vec<u8>,
    registers: Vec<u64>,
}

/// The body of the fuzz target.
fn check(input: &Input) {
    let (machine, architecture) = if input.machine {
        (Machine::X86_64, Architecture::X86_64)
    } else {
        (Machine::AARCH64, Architecture::Aarch64)
    };
    let mut objects = One::new(object(machine, &input.text, &input.eh_frame, &input.header));
    assert!(objects.0.is_some());
    let mut registers = Registers::new(architecture);
    for (register, value) in input.registers.iter().enumerate() {
        registers.set(register as u8, *value);
    }
    let unwound = unwind(&mut objects, &registers, &input.stack);
    assert!(unwound.frames.len() <= usize::from(Unwinder::FRAME_LIMIT));
    for frame in unwound.frames.iter().skip(1) {
        let address = frame.address.address().0;
        assert!((BASE + TEXT..=BASE + TEXT + TEXT_SIZE as u64).contains(&address), "{address:#x}");
    }
}

/// Addresses near the code and the stack, and any others.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0..TEXT_SIZE as u64).prop_map(|offset| BASE + TEXT + offset),
        4 => (0..256_u64).prop_map(|index| SP + index * 8),
        1 => any::<u64>(),
        1 => prop_oneof![Just(0), Just(u64::MAX), Just(SP - 8), Just(SP + 1)],
    ]
}

/// Call frame instructions: the valid opcodes more often than not.
fn instructions() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        Just(vec![0x41]),
        (0..34_u8, any::<u8>()).prop_map(|(register, offset)| vec![0x80 | register, offset & 0x7f]),
        (0..34_u8, any::<u8>()).prop_map(|(register, offset)| vec![0x0c, register, offset & 0x7f]),
        (0..34_u8).prop_map(|register| vec![0x07, register]),
        Just(vec![0x0a]),
        Just(vec![0x0b]),
        vec(any::<u8>(), 1..12).prop_map(|bytes| [vec![0x0f, bytes.len() as u8], bytes].concat()),
        (0..34_u8, vec(any::<u8>(), 1..12)).prop_map(|(register, bytes)| [
            vec![0x10, register, bytes.len() as u8],
            bytes
        ]
        .concat()),
        // A branch to itself, and a division.
        Just(vec![0x0f, 3, 0x2f, 0xfd, 0xff]),
        Just(vec![0x0f, 4, 0x30, 0x31, 0x30, 0x1b]),
        any::<u8>().prop_map(|byte| vec![byte]),
    ];
    vec(opcode, 0..12).prop_map(|all| all.concat())
}

fn input() -> impl Strategy<Value = Input> {
    let tables = (instructions(), vec((0..0x800_u32, any::<u32>(), instructions()), 0..6), any::<bool>())
        .prop_map(|(initial, functions, signal)| {
            let cie = cie(if signal { "zRS" } else { "zR" }, 1, 16, &initial);
            let functions: Vec<(u32, u32, &[u8])> =
                functions.iter().map(|(start, length, code)| (*start, *length, &code[..])).collect();
            eh_frame(&cie, &functions)
        });
    let damage = vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let tables = (tables, damage).prop_map(|(mut bytes, damage)| {
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes
    });
    let header = prop_oneof![
        2 => Just(Vec::new()),
        1 => vec(any::<u8>(), 0..64).prop_map(|mut bytes| {
            let start = [1, 0x1b, 3, 0x3b];
            let count = bytes.len().min(4);
            bytes[..count].copy_from_slice(&start[..count]);
            bytes
        }),
    ];
    let stack =
        vec(word(), 0..256).prop_map(|words| words.iter().flat_map(|word| word.to_le_bytes()).collect());
    (any::<bool>(), tables, header, vec(any::<u8>(), 0..TEXT_SIZE), stack, vec(word(), 0..33)).prop_map(
        |(machine, eh_frame, header, text, stack, mut registers)| {
            for (register, value) in [(7, SP), (31, SP)] {
                if let Some(place) = registers.get_mut(register) {
                    *place = value;
                }
            }
            Input { machine, eh_frame, header, text, stack, registers }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn anything_is_bounded(input in input()) {
        check(&input);
    }
}

#[test]
fn a_cyclic_stack_ends() {
    // CFA = rbp + 16, and each saved rbp is the same.
    let section = eh_frame(&cie("zR", 1, 16, &[0x0c, 6, 16, 0x80 | 16, 1, 0x80 | 6, 2]), &[(0, 0x800, &[])]);
    let mut objects = One::new(object(Machine::X86_64, &[0xe8; 64], &section, &[]));
    let mut registers = Registers::new(Architecture::X86_64);
    for (register, value) in [(16, BASE + TEXT + 16), (7, SP), (6, SP + 64)] {
        registers.set(register, value);
    }
    let stack: Vec<u8> =
        [SP + 64, BASE + TEXT + 16].repeat(64).iter().flat_map(|word| word.to_le_bytes()).collect();
    let unwound = unwind(&mut objects, &registers, &stack);
    assert_eq!(unwound.end, StackEnd::Truncated(TruncationReason::RuleFailed));
    assert!(unwound.frames.len() < 32, "{}", unwound.frames.len());
}

#[test]
fn no_registers_and_no_stack_are_no_frames() {
    let mut objects = One::new(object(Machine::X86_64, &[], &eh_frame(&cie("zR", 1, 16, &[]), &[]), &[]));
    let nothing = unwind(&mut objects, &Registers::new(Architecture::X86_64), &[]);
    assert_eq!((nothing.frames.len(), nothing.end), (0, StackEnd::Truncated(TruncationReason::RuleFailed)));
    let mut registers = Registers::new(Architecture::X86_64);
    registers.set(16, BASE + TEXT);
    registers.set(7, SP);
    registers.set(6, SP + 64);
    let alone = unwind(&mut objects, &registers, &[]);
    assert_eq!((alone.frames.len(), alone.end), (1, StackEnd::Truncated(TruncationReason::CopyTooSmall)));
}
