//! Instructions as text: x86 by iced-x86, aarch64 by yaxpeax-arm.

use elf::Machine;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction, IntelFormatter, OpKind,
};
use model::Svma;
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64;

/// How instructions of x86 are written.
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
    /// Where it begins, bytes from the start of the code.
    pub(super) position: usize,
    /// How many bytes it has; at least one.
    pub(super) bytes: usize,
    pub(super) address: Svma,
    pub(super) text: String,
    /// Where it jumps to or calls, where it says so itself.
    pub(super) target: Option<Svma>,
}

/// Decodes the instructions of one machine.
pub(super) struct Disassembler {
    machine: Machine,
    syntax: Syntax,
}

impl Disassembler {
    /// `None` for a machine whose instructions are not known.
    pub(super) fn new(machine: Machine, syntax: Syntax) -> Option<Self> {
        matches!(machine, Machine::X86_64 | Machine::I386 | Machine::AARCH64)
            .then_some(Self { machine, syntax })
    }

    /// Decodes at most `most` instructions of `code`, whose first byte lies at `start`, from `position` on.
    pub(super) fn decode(&self, code: &[u8], start: Svma, position: usize, most: usize) -> Vec<Decoded> {
        match self.machine {
            Machine::AARCH64 => decode_aarch64(code, start, position, most),
            Machine::I386 => self.decode_x86(32, code, start, position, most),
            _ => self.decode_x86(64, code, start, position, most),
        }
    }

    fn decode_x86(&self, bits: u32, code: &[u8], start: Svma, position: usize, most: usize) -> Vec<Decoded> {
        let Some(rest) = code.get(position..) else { return Vec::new() };
        let address = start.0.wrapping_add(position as u64);
        let mut decoder = Decoder::with_ip(bits, rest, address, DecoderOptions::NONE);
        let mut formatter: Box<dyn Formatter> = match self.syntax {
            Syntax::Att => Box::new(GasFormatter::new()),
            Syntax::Intel => Box::new(IntelFormatter::new()),
        };
        let options = formatter.options_mut();
        // As objdump writes numbers: 0x10, and addresses without leading zeros.
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_uppercase_hex(false);
        options.set_small_hex_numbers_in_decimal(false);
        options.set_branch_leading_zeros(false);
        options.set_rip_relative_addresses(true);
        options.set_show_branch_size(false);
        options.set_always_show_scale(true);
        let mut lot = Vec::new();
        let mut instruction = Instruction::default();
        while decoder.can_decode() && lot.len() < most {
            decoder.decode_out(&mut instruction);
            let mut text = String::new();
            formatter.format(&instruction, &mut text);
            lot.push(Decoded {
                position: position + (instruction.ip().wrapping_sub(address)) as usize,
                bytes: instruction.len().max(1),
                address: Svma(instruction.ip()),
                text,
                target: x86_target(&instruction),
            });
        }
        lot
    }
}

fn x86_target(instruction: &Instruction) -> Option<Svma> {
    let branches = matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::Call
            | FlowControl::XbeginXabortXend
    );
    let is_near =
        matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    (branches && is_near).then(|| Svma(instruction.near_branch_target()))
}

fn decode_aarch64(code: &[u8], start: Svma, position: usize, most: usize) -> Vec<Decoded> {
    let decoder = a64::InstDecoder::default();
    let words = code.get(position..).unwrap_or_default().chunks_exact(4).take(most);
    words
        .enumerate()
        .map(|(index, word)| {
            let position = position + 4 * index;
            let address = start.0.wrapping_add(position as u64);
            let decoded = decoder.decode(&mut U8Reader::new(word));
            let target = decoded.as_ref().ok().and_then(|instruction| a64_target(instruction, address));
            let text = match (decoded, target) {
                // The operand is a distance; what one looks for is an address.
                (Ok(instruction), Some(target)) => {
                    let text = instruction.to_string();
                    let mnemonic = text.rsplit_once(' ').map_or(text.as_str(), |(before, _)| before);
                    format!("{mnemonic} {:#x}", target.0)
                }
                (Ok(instruction), None) => instruction.to_string(),
                (Err(_), _) => "(bad)".to_owned(),
            };
            Decoded { position, bytes: 4, address: Svma(address), text, target }
        })
        .collect()
}

fn a64_target(instruction: &a64::Instruction, address: u64) -> Option<Svma> {
    use a64::{Opcode, Operand};
    let branches = matches!(
        instruction.opcode,
        Opcode::B | Opcode::BL | Opcode::Bcc(_) | Opcode::CBZ | Opcode::CBNZ | Opcode::TBZ | Opcode::TBNZ
    );
    let distance = instruction.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(distance) => Some(*distance),
        _ => None,
    });
    distance.filter(|_| branches).map(|distance| Svma(address.wrapping_add_signed(distance)))
}

#[cfg(test)]
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
