//! The machine that an object is for, and its call instructions.

use core::fmt;

use crate::x86_64::address_bytes;

/// The instruction set of an object: `e_machine`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Machine(pub u16);

impl Machine {
    /// `EM_386`.
    pub const I386: Self = Self(3);
    /// `EM_MIPS`.
    pub const MIPS: Self = Self(8);
    /// `EM_PPC64`.
    pub const PPC64: Self = Self(21);
    /// `EM_S390`.
    pub const S390: Self = Self(22);
    /// `EM_ARM`.
    pub const ARM: Self = Self(40);
    /// `EM_X86_64`.
    pub const X86_64: Self = Self(62);
    /// `EM_AARCH64`.
    pub const AARCH64: Self = Self(183);
    /// `EM_RISCV`.
    pub const RISCV: Self = Self(243);
    /// `EM_LOONGARCH`.
    pub const LOONGARCH: Self = Self(258);
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::I386 => f.write_str("I386"),
            Self::MIPS => f.write_str("MIPS"),
            Self::PPC64 => f.write_str("PPC64"),
            Self::S390 => f.write_str("S390"),
            Self::ARM => f.write_str("ARM"),
            Self::X86_64 => f.write_str("X86_64"),
            Self::AARCH64 => f.write_str("AARCH64"),
            Self::RISCV => f.write_str("RISCV"),
            Self::LOONGARCH => f.write_str("LOONGARCH"),
            Self(other) => write!(f, "Machine({other})"),
        }
    }
}

impl Machine {
    /// Returns true if a call instruction ends right where `before` ends; `before` are the bytes up to a return address, of which
    /// the last 8 are enough. `None` for machines whose instructions are not known here.
    pub fn ends_in_call(self, before: &[u8]) -> Option<bool> {
        match self {
            Self::X86_64 | Self::I386 => Some(ends_in_x86_call(before)),
            Self::AARCH64 => Some(before.last_chunk::<4>().is_some_and(|word| {
                let word = u32::from_le_bytes(*word);
                // BL; BLR and its pointer-authenticating forms BLRAA(Z), BLRAB(Z).
                word >> 26 == 0b10_0101
                    || word & 0xffff_fc1f == 0xd63f_0000
                    || word & 0xfeff_f800 == 0xd63f_0800
            })),
            _ => None,
        }
    }
}

/// `call rel32` (e8), or `call r/m64` (ff /2) of any length, with or without a REX prefix.
fn ends_in_x86_call(before: &[u8]) -> bool {
    if let [.., 0xe8, _, _, _, _] = before {
        return true;
    }
    (2..=7).any(|length| {
        let Some(&[0xff, modrm, ref rest @ ..]) =
            before.len().checked_sub(length).and_then(|at| before.get(at..))
        else {
            return false;
        };
        let sib = rest.first().copied().unwrap_or_default();
        modrm >> 3 & 7 == 2 && rest.len() == address_bytes(modrm, sib)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_recognised() {
        let x86 = Machine::X86_64;
        assert_eq!(x86.ends_in_call(&[0xe8, 1, 2, 3, 4]), Some(true));
        assert_eq!(x86.ends_in_call(&[0xff, 0xd0]), Some(true)); // call *%rax
        assert_eq!(x86.ends_in_call(&[0x41, 0xff, 0xd4]), Some(true)); // call *%r12
        assert_eq!(x86.ends_in_call(&[0xff, 0x15, 1, 2, 3, 4]), Some(true)); // call *0x4030201(%rip)
        assert_eq!(x86.ends_in_call(&[0xff, 0x54, 0x24, 0x08]), Some(true)); // call *8(%rsp)
        assert_eq!(x86.ends_in_call(&[0xff, 0x14, 0xc5, 1, 2, 3, 4]), Some(true)); // call *0x4030201(,%rax,8)
        assert_eq!(x86.ends_in_call(&[0xff, 0xe0]), Some(false)); // jmp *%rax
        assert_eq!(x86.ends_in_call(&[0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90]), Some(false));
        assert_eq!(x86.ends_in_call(&[]), Some(false));
        let arm = Machine::AARCH64;
        assert_eq!(arm.ends_in_call(&0x9400_0001_u32.to_le_bytes()), Some(true)); // bl
        assert_eq!(arm.ends_in_call(&0xd63f_0100_u32.to_le_bytes()), Some(true)); // blr x8
        assert_eq!(arm.ends_in_call(&0xd73f_0911_u32.to_le_bytes()), Some(true)); // blraa x8, x17
        assert_eq!(arm.ends_in_call(&0xd65f_03c0_u32.to_le_bytes()), Some(false)); // ret
        assert_eq!(Machine::RISCV.ends_in_call(&[0; 8]), None);
    }
}
