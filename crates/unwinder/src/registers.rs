//! The registers of one frame.

use crate::architecture::{Architecture, VECTOR_GRANULE};

/// AArch64's 33 registers that rows speak of, and VG.
const CAPACITY: usize = 34;

/// Returns the position of the value of the register with a DWARF number.
fn position(register: u8) -> usize {
    usize::from(if register == VECTOR_GRANULE { 33 } else { register })
}

/// The registers of one frame, by their DWARF numbers, each known or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registers {
    values: [u64; CAPACITY],
    known: u64,
    architecture: Architecture,
}

impl Registers {
    /// Registers of which none is known.
    pub fn new(architecture: Architecture) -> Self {
        Self { values: [0; CAPACITY], known: 0, architecture }
    }

    /// Takes registers as a sample carries them: pairs of the bit number in `sample_regs_user` (the architecture's
    /// `asm/perf_regs.h`) and the value. Numbers that no row speaks of (flags, segments) are left out.
    pub fn from_perf(architecture: Architecture, mut value_of: impl FnMut(u32) -> Option<u64>) -> Self {
        let mut registers = Self::new(architecture);
        for register in (0..architecture.register_count()).chain(architecture.vector_granule()) {
            if let Some(value) = architecture.perf_number(register).and_then(&mut value_of) {
                registers.set(register, value);
            }
        }
        registers
    }

    /// The architecture that they are of.
    pub fn architecture(&self) -> Architecture {
        self.architecture
    }

    /// The value of the register with this DWARF number, where it is known.
    pub fn get(&self, register: u8) -> Option<u64> {
        if register < 64 && self.known >> register & 1 == 1 {
            self.values.get(position(register)).copied()
        } else {
            None
        }
    }

    /// Sets a register; numbers that the architecture does not have are ignored.
    pub fn set(&mut self, register: u8, value: u64) {
        let is_known = register < self.architecture.register_count()
            || Some(register) == self.architecture.vector_granule();
        if is_known && let Some(place) = self.values.get_mut(position(register)) {
            *place = value;
            self.known |= 1 << register;
        }
    }

    /// Marks a register as not known.
    pub(crate) fn forget(&mut self, register: u8) {
        if register < 64 {
            self.known &= !(1 << register);
        }
    }

    /// Marks all as not known but those of `mask`.
    pub(crate) fn keep(&mut self, mask: u64) {
        self.known &= mask;
    }

    /// The stack pointer.
    pub fn stack_pointer(&self) -> Option<u64> {
        self.get(self.architecture.stack_pointer())
    }

    /// The frame pointer.
    pub fn frame_pointer(&self) -> Option<u64> {
        self.get(self.architecture.frame_pointer())
    }

    /// The program counter.
    pub fn program_counter(&self) -> Option<u64> {
        self.get(self.architecture.program_counter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_numbers_become_dwarf_numbers() {
        // perf: bp 6, sp 7, ip 8, bx 1, r15 23.
        let registers = Registers::from_perf(Architecture::X86_64, |number| match number {
            1 => Some(0xb),
            7 => Some(0x7fff_0000),
            8 => Some(0x40_1000),
            23 => Some(0xf),
            _ => None,
        });
        assert_eq!(registers.get(3), Some(0xb));
        assert_eq!(registers.get(15), Some(0xf));
        assert_eq!(registers.stack_pointer(), Some(0x7fff_0000));
        assert_eq!(registers.program_counter(), Some(0x40_1000));
        assert_eq!(registers.frame_pointer(), None);
        assert_eq!(registers.get(200), None);
    }
}
