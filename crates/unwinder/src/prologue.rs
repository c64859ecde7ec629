//! The instructions by which a function makes its frame: how far its stack pointer lies below its frame pointer.

use elf::x86_64::Instruction;

use crate::Architecture;

/// Returns how many bytes the stack pointer lies below the frame pointer when the instructions up to the first branch of `code` have
/// run. `code` begins right behind the instruction that sets the frame pointer, and `before` ends with that instruction. Returns `None`
/// where that is another instruction, and where one that is not known here, or changes the stack pointer by a register, comes first.
pub(crate) fn bytes_below_frame_pointer(
    architecture: Architecture,
    before: &[u8],
    code: &[u8],
) -> Option<u64> {
    match architecture {
        Architecture::X86_64 => match before {
            [.., 0x48, 0x89, 0xe5] | [.., 0x48, 0x8b, 0xec] => x86_64(code),
            _ => None,
        },
        Architecture::Aarch64 => {
            let word = u32::from_le_bytes(*before.last_chunk()?);
            // add x29, sp, #n (mov x29, sp)
            let sets = word & 0xffc0_03ff == 0x9100_03fd;
            sets.then(|| aarch64(u64::from(word >> 10 & 0xfff), code)).flatten()
        }
    }
}

fn aarch64(mut depth: u64, code: &[u8]) -> Option<u64> {
    for word in code.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)) {
        let is_branch = word << 1 >> 27 == 0b0_0101 // b, bl
            || word >> 25 == 0b110_1011 // br, blr, ret
            || word >> 24 == 0x54 // b.cond
            || word << 1 >> 26 == 0b01_1010 // cbz, cbnz
            || word << 1 >> 26 == 0b01_1011; // tbz, tbnz
        if is_branch {
            break;
        }
        match word & 0xff80_03ff {
            // sub sp, sp, #n{, lsl #12}
            0xd100_03ff => depth += u64::from(word >> 10 & 0xfff) << (12 * (word >> 22 & 1)),
            // Any other instruction whose result is the stack pointer, or that writes it back.
            _ if word & 0x1f == 31 && word >> 24 & 0x5f == 0x11 => return None,
            _ if word & 0xffe0_ffff == 0xcb20_63ff || word & 0x3bc0_03e0 == 0x2980_03e0 => return None,
            _ => {}
        }
    }
    Some(depth)
}

fn x86_64(code: &[u8]) -> Option<u64> {
    let (mut depth, mut rest) = (0_i64, code);
    // The depth that r11 stands for: large frames are touched page by page until the stack pointer has come there.
    let mut probed = None;
    let mut is_allocated = false;
    while !rest.is_empty() {
        let instruction = Instruction::parse(rest)?;
        let operands = instruction.operands;
        let imm = instruction.immediate();
        match (instruction.map, instruction.opcode) {
            // push of rax, rbx, or r12 to r15, before the rest of the frame is made. Any other is an argument of a call.
            (0, 0x50..=0x57) => {
                let register = instruction.opcode & 7 | instruction.rex << 3 & 8;
                if is_allocated || !matches!(register, 0 | 3 | 12..=15) {
                    break;
                }
                depth += 8;
            }
            // call, jmp, ret, push of a number or of memory
            (0, 0xe8 | 0xe9 | 0xeb | 0xc2 | 0xc3 | 0xcc | 0x68 | 0x6a) => break,
            (0, 0xff) if operands.first()? >> 3 & 7 > 1 => break,
            (0, 0x75) if imm < 0 && probed.is_some() => depth = probed.take()?,
            (0, 0x70..=0x7f) | (1, 0x80..=0x8f | 0x05 | 0x0b) => break,
            // sub $n, %rsp; add $-n, %rsp
            (0, 0x81 | 0x83) if instruction.rex & 8 != 0 && operands.first() == Some(&0xec) => {
                (depth, is_allocated) = (depth + imm, true);
            }
            (0, 0x81 | 0x83) if instruction.rex & 8 != 0 && operands.first() == Some(&0xc4) && imm < 0 => {
                (depth, is_allocated) = (depth - imm, true);
            }
            // lea n(%rsp), %r11 or %rsp
            (0, 0x8d) if instruction.rex == 0xc && matches!(operands, [0x5c | 0x9c, 0x24, ..]) => {
                probed = Some(depth - imm);
            }
            (0, 0x8d) if instruction.rex == 8 && matches!(operands, [0x64 | 0xa4, 0x24, ..]) => {
                (depth, is_allocated) = (depth - imm, true);
            }
            // leave
            (0, 0xc9) => return None,
            _ if writes_stack_pointer(&instruction) => return None,
            _ => {}
        }
        rest = instruction.rest;
    }
    u64::try_from(depth).ok()
}

/// Returns true if the result may be in the stack pointer: as the operand of ModRM's last field, or of its middle one.
fn writes_stack_pointer(instruction: &Instruction<'_>) -> bool {
    let Some(&modrm) = instruction.operands.first().filter(|_| instruction.map == 0) else { return false };
    let is_result = modrm >> 6 == 3 && modrm & 7 == 4 && instruction.rex & 1 == 0;
    let is_second = modrm >> 3 & 7 == 4 && instruction.rex & 4 == 0;
    match instruction.opcode {
        // cmp and test change nothing.
        0x38..=0x3f | 0x84 | 0x85 => false,
        0x80..=0x83 => is_result && modrm & 0x38 != 0x38,
        opcode @ 0x00..=0x3f => {
            if opcode & 2 == 0 {
                is_result
            } else {
                is_second
            }
        }
        0x88 | 0x89 | 0xc7 => is_result,
        0x8a | 0x8b | 0x8d | 0x63 => is_second,
        0x87 => is_result || is_second,
        0x5c => instruction.rex & 1 == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `code`, in hexadecimal digits, makes of a frame whose frame pointer has just been set.
    fn size(code: &str) -> Option<u64> {
        bytes_below_frame_pointer(Architecture::X86_64, &[0x55, 0x48, 0x89, 0xe5], &bytes(code))
    }

    fn bytes(code: &str) -> alloc::vec::Vec<u8> {
        code.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    #[test]
    fn pushes_and_subtractions_make_the_frame() {
        // push %r15; push %r14; push %rbx; sub $0x28, %rsp; mov (%rdi), %rbx; lock decl 0x28(%rbx); jne
        assert_eq!(size("41 57 41 56 53 48 83 ec 28 48 8b 1f f0 ff 4b 28 75 0f"), Some(0x40));
        // sub $0x110, %rsp; mov %fs:0x28, %rax; mov %rax, -8(%rbp); xor %eax, %eax; call
        let code = "48 81 ec 10 01 00 00 64 48 8b 04 25 28 00 00 00 48 89 45 f8 31 c0 e8 00 00 00 00";
        assert_eq!(size(code), Some(0x110));
        // push %r12; mov %ecx, %r12d; push %rbx; movzwl (%rdi), %ecx; call
        assert_eq!(size("41 54 41 89 cc 53 0f b7 0f e8 00 00 00 00"), Some(16));
        // add $-128, %rsp; vmovups %ymm0, -0x30(%rbp); movabs $1, %rax; jmp
        assert_eq!(size("48 83 c4 80 c5 fc 11 45 d0 48 b8 01 00 00 00 00 00 00 00 eb 00"), Some(128));
        assert_eq!(size("c3"), Some(0));
    }

    #[test]
    fn arguments_are_no_part_of_the_frame() {
        // sub $8, %rsp; push %rax; push $9; call. And: push $9; call. And: push %rdi; call.
        assert_eq!(size("48 83 ec 08 50 6a 09 e8 00 00 00 00"), Some(8));
        assert_eq!(size("53 6a 09 e8 00 00 00 00"), Some(8));
        assert_eq!(size("53 57 e8 00 00 00 00"), Some(8));
    }

    #[test]
    fn large_frames_are_touched_page_by_page() {
        // lea -0x11000(%rsp), %r11; sub $0x1000, %rsp; orq $0, (%rsp); cmp %r11, %rsp; jne; sub $0x178, %rsp; call
        let code = "4c 8d 9c 24 00 f0 fe ff 48 81 ec 00 10 00 00 48 83 0c 24 00 4c 39 dc 75 ef 48 81 ec 78 01 00 00 \
                    e8 00 00 00 00";
        assert_eq!(size(code), Some(0x11178));
    }

    #[test]
    fn nothing_is_said_of_other_frames() {
        // sub %rax, %rsp; and $-32, %rsp; mov %rax, %rsp; an instruction that is not known; half an instruction.
        for code in ["48 29 c4 e8", "48 83 e4 e0 e8", "48 89 c4 e8", "62 f1 7c", "48 81 ec 00"] {
            assert_eq!(size(code), None, "{code}");
        }
        let code = bytes("48 83 ec 28 c3");
        assert_eq!(bytes_below_frame_pointer(Architecture::X86_64, &[0x55, 0x90, 0x89, 0xe5], &code), None);
        assert_eq!(bytes_below_frame_pointer(Architecture::Aarch64, &[1], &[]), None);
    }

    #[test]
    fn frames_of_aarch64_lie_at_a_fixed_distance() {
        let size = |before: u32, code: &[u32]| {
            let code: alloc::vec::Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes_below_frame_pointer(Architecture::Aarch64, &before.to_le_bytes(), &code)
        };
        // mov x29, sp; bl. add x29, sp, #0x40; bl. mov x29, sp; sub sp, sp, #0x1, lsl #12; sub sp, sp, #0x20; mov x0, x1; cbz x0; sub
        assert_eq!(size(0x9100_03fd, &[0x9400_0001]), Some(0));
        assert_eq!(size(0x9101_03fd, &[0x9400_0001]), Some(0x40));
        let large = [0xd140_07ff, 0xd100_83ff, 0xaa01_03e0, 0xb400_0040, 0xd100_83ff];
        assert_eq!(size(0x9100_03fd, &large), Some(0x1020));
        // sub sp, sp, x0; mov sp, x0; stp x0, x1, [sp, #-16]!; and what sets no frame pointer.
        for other in [0xcb20_63ff, 0x9100_001f, 0xa9bf_07e0] {
            assert_eq!(size(0x9100_03fd, &[other]), None, "{other:x}");
        }
        assert_eq!(size(0x9100_03fc, &[0x9400_0001]), None);
    }
}
