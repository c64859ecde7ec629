use core::fmt;

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
