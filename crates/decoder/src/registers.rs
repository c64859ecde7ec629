//! The names of the registers in a sample: the order of each architecture's `arch/*/include/uapi/asm/perf_regs.h`.

/// The architectures whose registers have names here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Architecture {
    /// x86-64 and i386: one numbering.
    X86,
    /// 32-bit ARM.
    Arm,
    /// 64-bit ARM.
    Aarch64,
    /// RISC-V.
    Riscv,
    /// IBM Z.
    S390,
    /// POWER.
    Powerpc,
}

const X86: [&str; 24] = [
    "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS", "GS", "R8",
    "R9", "R10", "R11", "R12", "R13", "R14", "R15",
];
/// From number 32 on, two numbers each.
const X86_XMM: [&str; 16] = [
    "XMM0", "XMM1", "XMM2", "XMM3", "XMM4", "XMM5", "XMM6", "XMM7", "XMM8", "XMM9", "XMM10", "XMM11",
    "XMM12", "XMM13", "XMM14", "XMM15",
];
const ARM: [&str; 16] =
    ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "fp", "ip", "sp", "lr", "pc"];
const AARCH64: [&str; 33] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
    "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "lr",
    "sp", "pc",
];
/// `PERF_REG_ARM64_VG`: the length of SVE vectors.
const AARCH64_VG: u32 = 46;
const RISCV: [&str; 32] = [
    "pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6",
    "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];
const S390: [&str; 34] = [
    "R0", "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15",
    "FP0", "FP1", "FP2", "FP3", "FP4", "FP5", "FP6", "FP7", "FP8", "FP9", "FP10", "FP11", "FP12", "FP13",
    "FP14", "FP15", "MASK", "PC",
];
const POWERPC: [&str; 59] = [
    "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
    "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29", "r30",
    "r31", "nip", "msr", "orig_r3", "ctr", "link", "xer", "ccr", "softe", "trap", "dar", "dsisr", "sier",
    "mmcra", "mmcr0", "mmcr1", "mmcr2", "mmcr3", "sier2", "sier3", "pmc1", "pmc2", "pmc3", "pmc4", "pmc5",
    "pmc6", "sdar", "siar",
];

impl Architecture {
    /// The architecture that `uname -m` calls `machine` (the ARCH section of a recording).
    pub fn from_machine(machine: &str) -> Option<Self> {
        Some(match machine {
            "x86_64" | "amd64" | "i386" | "i486" | "i586" | "i686" => Self::X86,
            "aarch64" | "aarch64_be" | "arm64" => Self::Aarch64,
            _ if machine.starts_with("arm") => Self::Arm,
            _ if machine.starts_with("riscv") => Self::Riscv,
            _ if machine.starts_with("s390") => Self::S390,
            _ if machine.starts_with("ppc") || machine.starts_with("powerpc") => Self::Powerpc,
            _ => return None,
        })
    }

    /// The name of register `number`: a bit of `sample_regs_user` or `sample_regs_intr`.
    pub fn register_name(self, number: u32) -> Option<&'static str> {
        let index = usize::try_from(number).ok()?;
        match self {
            Self::X86 if number >= 32 => X86_XMM.get((index - 32) / 2),
            Self::X86 => X86.get(index),
            Self::Arm => ARM.get(index),
            Self::Aarch64 if number == AARCH64_VG => Some(&"vg"),
            Self::Aarch64 => AARCH64.get(index),
            Self::Riscv => RISCV.get(index),
            Self::S390 => S390.get(index),
            Self::Powerpc => POWERPC.get(index),
        }
        .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landmarks() {
        let name =
            |machine, number| Architecture::from_machine(machine).and_then(|a| a.register_name(number));
        assert_eq!(name("x86_64", 8), Some("IP"));
        assert_eq!(name("i686", 7), Some("SP"));
        assert_eq!(name("x86_64", 35), Some("XMM1"));
        assert_eq!(name("armv7l", 15), Some("pc"));
        assert_eq!(name("aarch64", 31), Some("sp"));
        assert_eq!(name("riscv64", 2), Some("sp"));
        assert_eq!(name("s390x", 33), Some("PC"));
        assert_eq!(name("ppc64le", 32), Some("nip"));
        assert_eq!(name("ppc64", 58), Some("siar"));
        assert_eq!(name("mips", 0), None);
    }
}
