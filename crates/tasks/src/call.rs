//! Call instructions before return addresses.

use elf::Machine;

/// The call instruction before a return address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    /// It calls the function at this address.
    Direct(u64),
    /// It calls what a register or memory says.
    Indirect,
}

/// Bytes before a return address that tell of the call.
pub(crate) const CALL_BYTES: u64 = 8;

impl Call {
    /// Returns the call instruction that ends at `address`, behind the bytes `before`; `None` where none does.
    pub(crate) fn before(machine: Machine, before: &[u8], address: u64) -> Option<Self> {
        if !machine.ends_in_call(before)? {
            return None;
        }
        let word = before.last_chunk::<4>().map(|word| i32::from_le_bytes(*word))?;
        let distance = match machine {
            Machine::X86_64 => {
                let mut other = before.to_vec();
                let opcode = other.len().checked_sub(5).and_then(|at| other.get_mut(at));
                // The byte may be a part of a longer, indirect call: without it, that is still one.
                let is_direct = opcode.is_some_and(|opcode| std::mem::take(opcode) == 0xe8);
                (is_direct && machine.ends_in_call(&other) == Some(false)).then_some(i64::from(word))
            }
            // BL: 26 bits, the distance from the instruction in words.
            _ if word.cast_unsigned() >> 26 == 0b10_0101 => Some(i64::from(word << 6 >> 6) * 4 - 4),
            _ => None,
        };
        Some(distance.map_or(Self::Indirect, |distance| Self::Direct(address.wrapping_add_signed(distance))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_lead_to_functions() {
        let x86 = |before: &[u8]| Call::before(Machine::X86_64, before, 0x1000);
        assert_eq!(x86(&[0x90, 0x90, 0xe8, 0xf0, 0xff, 0xff, 0xff]), Some(Call::Direct(0xff0)));
        assert_eq!(x86(&[0x90, 0x90, 0x90, 0xff, 0xd0]), Some(Call::Indirect));
        // call *0x12e8(%rip)
        assert_eq!(x86(&[0x90, 0xff, 0x15, 0xe8, 0x12, 0, 0]), Some(Call::Indirect));
        // call *0x4e8(%rbx): the distance begins where a direct call would have its opcode.
        assert_eq!(x86(&[0x90, 0x90, 0xff, 0x93, 0xe8, 0x04, 0, 0]), Some(Call::Indirect));
        assert_eq!(x86(&[0x90; 8]), None);
        let arm = |word: u32| Call::before(Machine::AARCH64, &word.to_le_bytes(), 0x1000);
        assert_eq!(arm(0x9400_0001), Some(Call::Direct(0x1000)));
        assert_eq!(arm(0x97ff_ffff), Some(Call::Direct(0xff8)));
        assert_eq!(arm(0xd63f_0100), Some(Call::Indirect));
        assert_eq!(arm(0xd65f_03c0), None);
    }
}
