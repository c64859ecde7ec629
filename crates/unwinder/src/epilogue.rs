//! The instructions by which a function restores what it has saved, and returns.

use crate::Architecture;

/// One instruction of an epilogue; registers by their DWARF numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EpilogueInstruction {
    /// Pops a register.
    Pop(u8),
    /// Loads a register from this many bytes above the stack pointer.
    Load(u8, i64),
    /// Adds this many bytes to the stack pointer.
    Drop(i64),
    /// Returns.
    Return,
    /// Does something that the caller's frame does not depend on.
    Other,
}

/// DWARF's number of each register that x86-64's instructions number from 0 to 15.
const DWARF_NUMBERS: [u8; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

impl EpilogueInstruction {
    /// The first instruction of `code` and its size in bytes, if it is of an epilogue (Intel's manual, volume 2).
    pub(crate) fn parse(architecture: Architecture, code: &[u8]) -> Option<(Self, usize)> {
        if architecture != Architecture::X86_64 {
            return None;
        }
        let register = |low: u8, high: u8| DWARF_NUMBERS.get(usize::from(low & 7 | high << 3)).copied();
        match *code {
            // pop
            [opcode @ 0x58..=0x5f, ..] => Some((Self::Pop(register(opcode, 0)?), 1)),
            [0x41, opcode @ 0x58..=0x5f, ..] => Some((Self::Pop(register(opcode, 1)?), 2)),
            // mov (%rsp), register
            [rex @ (0x48 | 0x4c), 0x8b, modrm, 0x24, ..] if modrm & 0xc7 == 0x04 => {
                Some((Self::Load(register(modrm >> 3, rex >> 2 & 1)?, 0), 4))
            }
            // mov disp(%rsp), register
            [rex @ (0x48 | 0x4c), 0x8b, modrm, 0x24, offset, ..] if modrm & 0xc7 == 0x44 => {
                let register = register(modrm >> 3, rex >> 2 & 1)?;
                Some((Self::Load(register, i64::from(offset.cast_signed())), 5))
            }
            [rex @ (0x48 | 0x4c), 0x8b, modrm, 0x24, a, b, c, d, ..] if modrm & 0xc7 == 0x84 => {
                let register = register(modrm >> 3, rex >> 2 & 1)?;
                Some((Self::Load(register, i64::from(i32::from_le_bytes([a, b, c, d]))), 8))
            }
            // add $n, %rsp; Go drops 128 bytes by subtracting -128.
            [0x48, 0x83, 0xc4, bytes, ..] => Some((Self::Drop(i64::from(bytes.cast_signed())), 4)),
            [0x48, 0x83, 0xec, bytes, ..] => Some((Self::Drop(-i64::from(bytes.cast_signed())), 4)),
            [0x48, 0x81, 0xc4, a, b, c, d, ..] => {
                Some((Self::Drop(i64::from(i32::from_le_bytes([a, b, c, d]))), 7))
            }
            // xor %eax, %eax
            [0x31, 0xc0, ..] => Some((Self::Other, 2)),
            // mov register, %eax; mov register, %rax
            [0x89, modrm, ..] if modrm & 0xc7 == 0xc0 => Some((Self::Other, 2)),
            [0x44 | 0x48 | 0x4c, 0x89, modrm, ..] if modrm & 0xc7 == 0xc0 => Some((Self::Other, 3)),
            // ret; repz ret
            [0xc3, ..] => Some((Self::Return, 1)),
            [0xf3, 0xc3, ..] => Some((Self::Return, 2)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{NoMemory, StackCopy, StackMemory};
    use crate::registers::Registers;
    use crate::rule::CompactRule;

    /// The caller's stack pointer, program counter, rbp and rbx; the stack holds the numbers of its words.
    fn caller(code: &[u8]) -> Option<[Option<u64>; 4]> {
        let architecture = Architecture::X86_64;
        let rule = CompactRule::from_epilogue(architecture, code)?;
        let bytes: [u8; 512] =
            core::array::from_fn(|index| if index % 8 == 0 { (index / 8) as u8 } else { 0 });
        let mut registers = Registers::new(architecture);
        registers.set(architecture.stack_pointer(), 0x1000);
        registers.set(6, 0xb);
        let copy = StackCopy { start: 0x1000, bytes: &bytes };
        let mut beyond = NoMemory;
        let mut memory = StackMemory::new(copy, &mut beyond);
        rule.apply(&mut registers, &mut memory).ok()?;
        Some([registers.stack_pointer(), registers.program_counter(), registers.get(6), registers.get(3)])
    }

    #[test]
    fn an_epilogue_says_what_it_restores() {
        assert_eq!(caller(&[0xc3]), Some([Some(0x1008), Some(0), Some(0xb), None]));
        assert_eq!(caller(&[0x31, 0xc0, 0xc3]), Some([Some(0x1008), Some(0), Some(0xb), None]));
        assert_eq!(caller(&[0x5d, 0xf3, 0xc3]), Some([Some(0x1010), Some(1), Some(0), None]));
        // pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret (crosscall_amd64)
        let crosscall = [0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5d, 0x5b, 0xc3];
        assert_eq!(caller(&crosscall), Some([Some(0x1038), Some(6), Some(4), Some(5)]));
        // mov 0x60(%rsp), %rbp; add $0x68, %rsp; ret (Go)
        let go = [0x48, 0x8b, 0x6c, 0x24, 0x60, 0x48, 0x83, 0xc4, 0x68, 0xc3];
        assert_eq!(caller(&go), Some([Some(0x1070), Some(13), Some(12), None]));
        // mov 0x88(%rsp), %rbp; add $0x90, %rsp; ret; and sub $-128, %rsp; ret
        let go = [0x48, 0x8b, 0xac, 0x24, 0x88, 0, 0, 0, 0x48, 0x81, 0xc4, 0x90, 0, 0, 0, 0xc3];
        assert_eq!(caller(&go), Some([Some(0x1098), Some(18), Some(17), None]));
        // add $0x18, %rsp; mov (%rsp), %rbx; mov 8(%rsp), %r12; mov 0x28(%rsp), %rbp; add $0x30, %rsp; pop %rbp; ret (crosscall2)
        let crosscall2 = [
            0x48, 0x83, 0xc4, 0x18, 0x48, 0x8b, 0x1c, 0x24, 0x4c, 0x8b, 0x64, 0x24, 0x08, 0x48, 0x8b, 0x6c,
            0x24, 0x28, 0x48, 0x83, 0xc4, 0x30, 0x5d, 0xc3,
        ];
        assert_eq!(caller(&crosscall2), Some([Some(0x1058), Some(10), Some(9), Some(3)]));
        // add $8, %rsp; mov %r12d, %eax; pop %rbx; ret
        let result = [0x48, 0x83, 0xc4, 8, 0x44, 0x89, 0xe0, 0x5b, 0xc3];
        assert_eq!(caller(&result), Some([Some(0x1018), Some(2), Some(0xb), Some(1)]));
        assert_eq!(caller(&[0x48, 0x83, 0xec, 0x80, 0xc3]), Some([Some(0x1088), Some(16), Some(0xb), None]));
    }

    #[test]
    fn epilogues_are_found_in_code() {
        let architecture = Architecture::X86_64;
        let mut registers = Registers::new(architecture);
        registers.set(architecture.stack_pointer(), 0x1000);
        let places = |code: &[u8]| -> alloc::vec::Vec<u64> {
            let rules = CompactRule::of_epilogues(architecture, code);
            rules.filter_map(|rule| rule.return_address_slot(&registers)).collect()
        };
        // mov %rdi, %rbx; call …; add $0x28, %rsp; pop %rbx; ret; nop; ret; pop %rbp; ret
        let code =
            [0x48, 0x89, 0xfb, 0xe8, 0, 1, 0, 0, 0x48, 0x83, 0xc4, 0x28, 0x5b, 0xc3, 0x90, 0xc3, 0x5d, 0xc3];
        assert_eq!(places(&code), [0x1030, 0x1008]);
        assert_eq!(places(&code[14..]), [0x1008]);
        assert!(places(&code[17..]).is_empty(), "nothing is restored or dropped");
        assert!(places(&[0x5d; 4096]).is_empty());
        assert!(places(&[]).is_empty());
    }

    #[test]
    fn other_code_is_no_epilogue() {
        assert_eq!(caller(&[]), None);
        assert_eq!(caller(&[0x90, 0xc3]), None);
        assert_eq!(caller(&[0x5d]), None);
        // mov 0x60(%rax), %rbp; ret
        assert_eq!(caller(&[0x48, 0x8b, 0x68, 0x60, 0xc3]), None);
        assert_eq!(
            caller(&[
                0x48, 0x81, 0xc4, 0xff, 0xff, 0xff, 0x7f, 0x48, 0x81, 0xc4, 0xff, 0xff, 0xff, 0x7f, 0xc3
            ]),
            None
        );
        assert_eq!(caller(&[0x5d; 64]), None);
    }
}
