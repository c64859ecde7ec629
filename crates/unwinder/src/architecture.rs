//! The differences between processors: register numbers, callee-saved registers, signal trampolines, pointer bits.

use elf::Machine;

/// A processor architecture that stacks can be unwound for (64-bit, little-endian).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Architecture {
    /// x86-64. DWARF register numbers: System V ABI, AMD64 supplement, figure 3.36.
    X86_64,
    /// AArch64. DWARF register numbers: "DWARF for the Arm 64-bit Architecture", section 4.1.
    Aarch64,
}

/// rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 … r15 and the return address, by their DWARF numbers: each one's bit
/// number in `sample_regs_user` (`arch/x86/include/uapi/asm/perf_regs.h`).
const X86_64_PERF_NUMBERS: [u8; 17] = [0, 3, 2, 1, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 8];

/// The maximum number of registers in [`Architecture::callee_saved`].
pub(crate) const MAX_CALLEE_SAVED: usize = 12;

/// VG, AArch64's DWARF register 46 and bit 46 of `sample_regs_user` (`PERF_REG_ARM64_VG`): the length of SVE vectors in units of 8 bytes.
/// Frames with vectors on the stack count in it.
pub(crate) const VECTOR_GRANULE: u8 = 46;

impl Architecture {
    /// The architecture of an ELF header's `e_machine`, if stacks of it can be unwound.
    pub fn of_machine(machine: Machine) -> Option<Self> {
        match machine {
            Machine::X86_64 => Some(Self::X86_64),
            Machine::AARCH64 => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// Returns the number of registers that the rows of this architecture speak of: the general ones, the stack
    /// pointer and the program counter.
    pub const fn register_count(self) -> u8 {
        match self {
            Self::X86_64 => 17,
            Self::Aarch64 => 33,
        }
    }

    /// The bit in `sample_regs_user` of the register with the DWARF number `register`.
    #[allow(clippy::indexing_slicing, reason = "the number is checked, and `get` is not const")]
    pub const fn perf_number(self, register: u8) -> Option<u32> {
        match self {
            Self::X86_64 if register < 17 => Some(X86_64_PERF_NUMBERS[register as usize] as u32),
            // x0 … x30, sp, pc and VG have the same numbers in both (arch/arm64/include/uapi/asm/perf_regs.h).
            Self::Aarch64 if register < 33 || register == VECTOR_GRANULE => Some(register as u32),
            _ => None,
        }
    }

    /// The registers to ask the kernel for (`sample_regs_user`): all that a row may need.
    pub fn perf_mask(self) -> u64 {
        (0..self.register_count())
            .filter_map(|register| self.perf_number(register))
            .fold(0, |mask, bit| mask | 1 << bit)
    }

    /// The register to ask the kernel for, beside [`Self::perf_mask`], where the processor has vectors without a fixed length (SVE): VG. Known
    /// to Linux since 6.1, which refuses it on other processors and for events that no PMU counts.
    pub const fn vector_perf_mask(self) -> u64 {
        match self {
            Self::X86_64 => 0,
            Self::Aarch64 => 1 << VECTOR_GRANULE,
        }
    }

    /// The DWARF number of VG, the length of SVE vectors in units of 8 bytes. A thread's does not change from frame to frame.
    pub const fn vector_granule(self) -> Option<u8> {
        match self {
            Self::X86_64 => None,
            Self::Aarch64 => Some(VECTOR_GRANULE),
        }
    }

    /// The registers that unwinding needs at least.
    pub fn least_perf_mask(self) -> u64 {
        let least = [self.stack_pointer(), self.program_counter()];
        least
            .into_iter()
            .filter_map(|register| self.perf_number(register))
            .fold(0, |mask, bit| mask | 1 << bit)
    }

    /// The register to ask the kernel for with a walk over frame pointers, which does not see the caller of a function without a frame:
    /// the link register, as a mask for `sample_regs_user`. 0 where the return address is on the stack.
    pub fn leaf_perf_mask(self) -> u64 {
        self.link_register().and_then(|register| self.perf_number(register)).map_or(0, |bit| 1 << bit)
    }

    /// The stack pointer's DWARF number.
    pub const fn stack_pointer(self) -> u8 {
        match self {
            Self::X86_64 => 7,
            Self::Aarch64 => 31,
        }
    }

    /// The frame pointer's DWARF number: rbp, x29.
    pub const fn frame_pointer(self) -> u8 {
        match self {
            Self::X86_64 => 6,
            Self::Aarch64 => 29,
        }
    }

    /// The program counter's DWARF number.
    pub const fn program_counter(self) -> u8 {
        match self {
            Self::X86_64 => 16,
            Self::Aarch64 => 32,
        }
    }

    /// The register that holds the return address at a function's first instruction, where it is not on the stack.
    pub const fn link_register(self) -> Option<u8> {
        match self {
            Self::X86_64 => None,
            Self::Aarch64 => Some(30),
        }
    }

    /// The registers that a function preserves for its caller. The first is the frame pointer.
    pub const fn callee_saved(self) -> &'static [u8] {
        match self {
            Self::X86_64 => &[6, 3, 12, 13, 14, 15],
            Self::Aarch64 => &[29, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, VECTOR_GRANULE],
        }
    }

    /// [`Self::callee_saved`] as a mask of DWARF numbers.
    pub(crate) const fn callee_saved_mask(self) -> u64 {
        match self {
            Self::X86_64 => 1 << 6 | 1 << 3 | 0xf << 12,
            Self::Aarch64 => 0x7ff << 19 | 1 << VECTOR_GRANULE,
        }
    }

    /// Returns true if `code` begins with the instructions by which a signal handler returns to the kernel:
    /// `mov $15, %rax; syscall`, or `mov x8, #139; svc #0`. C libraries without unwind tables for it (musl) and the
    /// vDSO of newer arm64 kernels are known by these bytes alone.
    pub(crate) fn is_signal_trampoline(self, code: &[u8]) -> bool {
        match self {
            Self::X86_64 => code.starts_with(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05]),
            Self::Aarch64 => code.starts_with(&[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4]),
        }
    }

    /// Returns true if the instructions at a return address end the thread: `exit(2)` is the next system call. C libraries
    /// without unwind tables begin their threads in such code.
    pub(crate) fn exits(self, code: &[u8]) -> bool {
        let code = code.get(..16).unwrap_or(code);
        let contains =
            |instructions: &[u8]| code.windows(instructions.len()).any(|window| window == instructions);
        match self {
            // mov $60, %al (or %eax); syscall
            Self::X86_64 => contains(&[0xb0, 60, 0x0f, 0x05]) || contains(&[0xb8, 60, 0, 0, 0, 0x0f, 0x05]),
            // mov x8, #93; svc #0
            Self::Aarch64 => contains(&[0xa8, 0x0b, 0x80, 0xd2, 0x01, 0, 0, 0xd4]),
        }
    }

    /// Returns true if the code ends the process or switches to another stack instead of returning: a call that no code follows, without
    /// a return before it.
    pub(crate) fn ends_without_return(self, code: &[u8]) -> bool {
        /// The maximum number of bytes of such code.
        const MAX_BYTES: usize = 64;
        let code = code.get(..MAX_BYTES).unwrap_or(code);
        match self {
            // call; hlt. Compilers put ud2 there.
            Self::X86_64 => {
                let is_end = |bytes: &[u8]| {
                    matches!(bytes, [0xe8, _, _, _, _, 0xf4, _] | [0xe8, _, _, _, _, 0x0f, 0x0b])
                };
                let end = code.windows(7).position(is_end);
                end.is_some_and(|end| !code.iter().take(end).any(|byte| *byte == 0xc3))
            }
            // b; bl with nothing or nop behind it.
            Self::Aarch64 => {
                let mut words = code.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
                let is_register_branch = |word: u32| word >> 25 == 0b110_1011;
                match words.find(|&word| word << 1 >> 27 == 0b0_0101 || is_register_branch(word) || word == 0)
                {
                    Some(word) if word >> 26 == 0b00_0101 => true,
                    Some(word) if word >> 26 == 0b10_0101 => matches!(words.next(), Some(0 | 0xd503_201f)),
                    _ => false,
                }
            }
        }
    }

    /// Returns the number of bytes that [`Self::is_signal_trampoline`] looks at, and the offset in them of the last
    /// instruction.
    pub(crate) const fn signal_trampoline_length(self) -> (usize, u64) {
        match self {
            Self::X86_64 => (9, 7),
            Self::Aarch64 => (8, 4),
        }
    }

    /// Returns the offset at which the kernel saved the register with DWARF number `register`, in bytes from the
    /// stack pointer that the signal trampoline sees.
    pub(crate) fn signal_frame_offset(self, register: u8) -> Option<u64> {
        match self {
            // The `ucontext` begins at the stack pointer; its `mcontext` at 40 holds r8 … r15, rdi, rsi, rbp, rbx,
            // rdx, rax, rcx, rsp, rip (arch/x86/include/uapi/asm/sigcontext.h, struct sigcontext_64).
            Self::X86_64 => {
                let index = match register {
                    8..=15 => u64::from(register) - 8,
                    5 => 8,
                    4 => 9,
                    6 => 10,
                    3 => 11,
                    1 => 12,
                    0 => 13,
                    2 => 14,
                    7 => 15,
                    16 => 16,
                    _ => return None,
                };
                Some(40 + index * 8)
            }
            // 128 bytes of `siginfo`, then the `ucontext`, whose `mcontext` begins at 176 with the fault address, x0 …
            // x30, sp, pc (arch/arm64/include/uapi/asm/{ucontext,sigcontext}.h).
            Self::Aarch64 if register < 33 => Some(128 + 176 + 8 + u64::from(register) * 8),
            Self::Aarch64 => None,
        }
    }

    /// Returns true if a call instruction ends right where `before` ends; `before` are the bytes up to a return address.
    pub(crate) fn ends_in_call(self, before: &[u8]) -> bool {
        let machine = match self {
            Self::X86_64 => Machine::X86_64,
            Self::Aarch64 => Machine::AARCH64,
        };
        machine.ends_in_call(before) == Some(true)
    }

    /// Returns true if a return address, between these bytes, is the one that Go's runtime puts above a goroutine's first function:
    /// behind the first instruction, a `nop`, of a function that goes on to call another (`runtime.goexit`, asm_*.s). Or it is
    /// the one of that call.
    pub(crate) fn is_goexit(self, before: &[u8], from: &[u8]) -> bool {
        match self {
            // nop; call goexit1; nop, in between int3
            Self::X86_64 => matches!(
                (before, from),
                ([.., 0x90], [0xe8, _, _, _, _, 0x90, ..])
                    | ([.., 0xcc, 0x90, 0xe8, _, _, _, _], [0x90, 0xcc, ..])
            ),
            // mov x0, x0; bl goexit1
            Self::Aarch64 => {
                let word = |bytes: Option<&[u8; 4]>| bytes.map(|word| u32::from_le_bytes(*word));
                word(before.last_chunk()) == Some(0xaa00_03e0)
                    && word(from.first_chunk()).is_some_and(|word| word >> 26 == 0b10_0101)
            }
        }
    }

    /// Returns true if `code` sets up a frame pointer somewhere, as each function with a frame does in code that keeps frame pointers.
    pub(crate) fn sets_frame_pointer(self, code: &[u8]) -> bool {
        match self {
            // mov %rsp, %rbp, in both encodings.
            Self::X86_64 => {
                code.windows(3).any(|bytes| matches!(bytes, [0x48, 0x89, 0xe5] | [0x48, 0x8b, 0xec]))
            }
            // add x29, sp, #n (mov x29, sp).
            Self::Aarch64 => {
                let mut words = code.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
                words.any(|word| word & 0xffc0_03ff == 0x9100_03fd)
            }
        }
    }

    /// The target of the direct call that ends where `before` ends, as an offset from there.
    pub(crate) fn direct_call_displacement(self, before: &[u8]) -> Option<i64> {
        match self {
            Self::X86_64 => {
                let bytes = before.last_chunk::<5>()?;
                (bytes[0] == 0xe8)
                    .then(|| i64::from(i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]])))
            }
            Self::Aarch64 => {
                let word = u32::from_le_bytes(*before.last_chunk::<4>()?);
                (word >> 26 == 0b10_0101).then(|| i64::from((word << 6) as i32 >> 6) * 4 - 4)
            }
        }
    }

    /// Removes what pointer authentication or tags put above the address bits; `highest` is the highest address that
    /// any mapping of the process covers.
    pub(crate) fn strip_pointer_bits(self, address: u64, highest: u64) -> u64 {
        match self {
            Self::X86_64 => address,
            // User space has 48 address bits, or 52 where a process maps above them (arm64 memory layout document).
            Self::Aarch64 if highest >> 48 == 0 => address & ((1 << 48) - 1),
            Self::Aarch64 => address & ((1 << 52) - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_asks_for_what_perf_asks_for() {
        // perf's own mask is 0xff0fff; flags, cs and ss are of no use to an unwinder.
        assert_eq!(Architecture::X86_64.perf_mask(), 0xff_01ff);
        assert_eq!(Architecture::Aarch64.perf_mask(), 0x1_ffff_ffff);
        assert_eq!(Architecture::Aarch64.vector_perf_mask(), 1 << 46);
        assert_eq!(Architecture::X86_64.vector_perf_mask(), 0);
    }

    #[test]
    fn the_return_address_above_a_goroutine_is_known() {
        let x86 = Architecture::X86_64;
        assert!(x86.is_goexit(&[0x90], &[0xe8, 1, 2, 3, 4, 0x90]));
        assert!(!x86.is_goexit(&[0xe8, 1, 2, 3, 4], &[0xe8, 1, 2, 3, 4, 0x90]));
        assert!(!x86.is_goexit(&[0x90], &[0xe8, 1, 2, 3, 4, 0xc3]));
        assert!(x86.is_goexit(&[0xcc, 0xcc, 0x90, 0xe8, 1, 2, 3, 4], &[0x90, 0xcc, 0xcc]));
        assert!(!x86.is_goexit(&[0x48, 0xcc, 0x90, 0xe8, 1, 2, 3, 4], &[0x90, 0x90]));
        let (nop, call) = (0xaa00_03e0_u32.to_le_bytes(), 0x9400_0001_u32.to_le_bytes());
        assert!(Architecture::Aarch64.is_goexit(&nop, &call));
        assert!(!Architecture::Aarch64.is_goexit(&call, &nop));
    }

    #[test]
    fn pointer_authentication_bits_are_stripped() {
        let signed = 0x0034_aaaa_bbbb_cccc;
        assert_eq!(Architecture::Aarch64.strip_pointer_bits(signed, 0xffff_ffff_f000), 0xaaaa_bbbb_cccc);
        assert_eq!(
            Architecture::Aarch64.strip_pointer_bits(signed, 0x000f_ffff_ffff_f000),
            0x0004_aaaa_bbbb_cccc
        );
        assert_eq!(Architecture::X86_64.strip_pointer_bits(signed, 0), signed);
    }

    #[test]
    fn code_that_ends_a_process_or_fiber_does_not_return() {
        let x86 = |code: &[u8]| Architecture::X86_64.ends_without_return(code);
        // mov %rbx, %rsp; mov (%rsp), %rdi; test %rdi, %rdi; je; call setcontext; mov %rax, %rdi; call exit; hlt (glibc)
        let start_context = [
            0x48, 0x89, 0xdc, 0x48, 0x8b, 0x3c, 0x24, 0x48, 0x85, 0xff, 0x74, 8, 0xe8, 1, 2, 3, 4, 0x48,
            0x89, 0xc7, 0xe8, 1, 2, 3, 4, 0xf4, 0x66, 0x0f,
        ];
        assert!(x86(&start_context));
        // xor %rdi, %rdi; call _exit; hlt (Boost)
        assert!(x86(&[0x48, 0x31, 0xff, 0xe8, 1, 2, 3, 4, 0xf4, 0]));
        assert!(x86(&[0xe8, 1, 2, 3, 4, 0x0f, 0x0b]));
        assert!(!x86(&[0xc3, 0xe8, 1, 2, 3, 4, 0xf4, 0]), "the next function's");
        assert!(!x86(&[0xe8, 1, 2, 3, 4, 0x48, 0x89, 0xc7, 0xc3]) && !x86(&[]));
        let arm = |words: &[u32]| {
            let code: alloc::vec::Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Architecture::Aarch64.ends_without_return(&code)
        };
        // mov x0, x19; cbnz x0, setcontext; b exit (glibc). mov x0, #0; bl _exit; nop (Boost)
        assert!(arm(&[0xaa13_03e0, 0xb500_1234, 0x1400_0010, 0]));
        assert!(arm(&[0xd280_0000, 0x9400_1234, 0xd503_201f]));
        assert!(
            !arm(&[0xd280_0000, 0x9400_1234, 0xaa13_03e0])
                && !arm(&[0xd65f_03c0, 0x1400_0010])
                && !arm(&[0; 4])
        );
    }

    #[test]
    fn direct_calls_tell_their_target() {
        let displacement =
            |architecture: Architecture, before: &[u8]| architecture.direct_call_displacement(before);
        assert_eq!(displacement(Architecture::Aarch64, &0x97ff_ffff_u32.to_le_bytes()), Some(-8));
        assert_eq!(displacement(Architecture::X86_64, &[0xe8, 0xfb, 0xff, 0xff, 0xff]), Some(-5));
    }
}
