//! Instructions of aarch64, by yaxpeax-arm.

use model::Svma;
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64;

use super::Decoded;

/// Decodes instructions as [`Disassembler::decode`](super::Disassembler::decode).
pub(super) fn decode(code: &[u8], start: Svma, position: usize, max: usize) -> Vec<Decoded> {
    let decoder = a64::InstDecoder::default();
    let words = code.get(position..).unwrap_or_default().chunks_exact(4).take(max);
    words
        .enumerate()
        .map(|(index, word)| {
            let position = position + 4 * index;
            let address = start.0.wrapping_add(position as u64);
            let decoded = decoder.decode(&mut U8Reader::new(word));
            let target = decoded.as_ref().ok().and_then(|instruction| target_of(instruction, address));
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

fn target_of(instruction: &a64::Instruction, address: u64) -> Option<Svma> {
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
