//! Instructions as text.

#[cfg(feature = "disassembly")]
mod aarch64;
#[cfg(feature = "disassembly")]
mod x86;

use elf::Machine;
use model::Svma;

/// True if this build can disassemble: the cargo feature `disassembly`.
pub const HAS_DISASSEMBLY: bool = cfg!(feature = "disassembly");

/// The syntax in which instructions of x86 are written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Syntax {
    /// AT&T's, as `objdump -d` writes them.
    #[default]
    Att,
    /// Intel's, as `objdump -d -M intel` writes them.
    Intel,
}

/// A decoded instruction.
pub(super) struct Decoded {
    /// Offset of its first byte, from the start of the code.
    pub(super) position: usize,
    /// Its length in bytes; at least one.
    pub(super) bytes: usize,
    pub(super) address: Svma,
    pub(super) text: String,
    /// The address that it jumps to or calls, where the instruction itself states one.
    pub(super) target: Option<Svma>,
}

/// Decodes the instructions of one machine.
#[cfg_attr(not(feature = "disassembly"), allow(dead_code, reason = "there is none in this build"))]
pub(super) struct Disassembler {
    machine: Machine,
    syntax: Syntax,
}

impl Disassembler {
    /// `None` for a machine whose instructions are not known, and in a build that knows none.
    pub(super) fn new(machine: Machine, syntax: Syntax) -> Option<Self> {
        let is_known = matches!(machine, Machine::X86_64 | Machine::I386 | Machine::AARCH64);
        (HAS_DISASSEMBLY && is_known).then_some(Self { machine, syntax })
    }

    /// Decodes at most `max` instructions of `code`, whose first byte lies at `start`, from `position` on.
    #[cfg(feature = "disassembly")]
    pub(super) fn decode(&self, code: &[u8], start: Svma, position: usize, max: usize) -> Vec<Decoded> {
        match self.machine {
            Machine::AARCH64 => aarch64::decode(code, start, position, max),
            Machine::I386 => x86::decode(32, self.syntax, code, start, position, max),
            _ => x86::decode(64, self.syntax, code, start, position, max),
        }
    }

    /// Decodes nothing: there is no such disassembler in this build.
    #[cfg(not(feature = "disassembly"))]
    pub(super) fn decode(&self, _: &[u8], _: Svma, _: usize, _: usize) -> Vec<Decoded> {
        Vec::new()
    }
}

#[cfg(test)]
#[cfg(feature = "disassembly")]
mod tests {
    use super::*;

    fn texts(machine: Machine, syntax: Syntax, code: &[u8]) -> Vec<(u64, String, Option<u64>)> {
        let disassembler = Disassembler::new(machine, syntax).unwrap();
        let decoded = disassembler.decode(code, Svma(0x1000), 0, 100);
        decoded.into_iter().map(|one| (one.address.0, one.text, one.target.map(|target| target.0))).collect()
    }

    #[test]
    fn instructions_of_x86_are_as_objdump_writes_them() {
        let code = [0x55, 0x48, 0x89, 0xe5, 0x75, 0xfa, 0xe8, 0x00, 0x01, 0x00, 0x00, 0xc3];
        let att = texts(Machine::X86_64, Syntax::Att, &code);
        assert_eq!(att[0], (0x1000, "push %rbp".to_owned(), None));
        assert_eq!(att[1].1, "mov %rsp,%rbp");
        assert_eq!((att[2].1.as_str(), att[2].2), ("jne 0x1000", Some(0x1000)));
        assert_eq!((att[3].1.as_str(), att[3].2), ("call 0x110b", Some(0x110b)));
        assert_eq!(texts(Machine::X86_64, Syntax::Intel, &code)[1].1, "mov rbp,rsp");
    }

    #[test]
    fn bytes_that_are_no_instruction_are_shown_as_such() {
        let bad = texts(Machine::X86_64, Syntax::Att, &[0x06, 0xff, 0xff]);
        assert_eq!(bad[0].1, "(bad)");
    }

    #[test]
    fn branches_of_aarch64_say_where_they_lead() {
        // b.ne 0xffc; bl 0x1104; ret
        let code = [0xe1, 0xff, 0xff, 0x54, 0x40, 0x00, 0x00, 0x94, 0xc0, 0x03, 0x5f, 0xd6];
        let found = texts(Machine::AARCH64, Syntax::Att, &code);
        assert_eq!(found[0].2, Some(0xffc), "{found:?}");
        assert_eq!(found[1].2, Some(0x1104), "{found:?}");
        assert!(found[2].1.starts_with("ret"), "{found:?}");
    }
}
