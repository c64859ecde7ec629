//! Instructions of x86, by iced-x86.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Instruction, IntelFormatter, OpKind,
};
use model::Svma;

use super::{Decoded, Syntax};

/// Decodes instructions of the mode with addresses of `bits` bits, as [`Disassembler::decode`](super::Disassembler::decode).
pub(super) fn decode(
    bits: u32,
    syntax: Syntax,
    code: &[u8],
    start: Svma,
    position: usize,
    max: usize,
) -> Vec<Decoded> {
    let Some(rest) = code.get(position..) else { return Vec::new() };
    let address = start.0.wrapping_add(position as u64);
    let mut decoder = Decoder::with_ip(bits, rest, address, DecoderOptions::NONE);
    let mut formatter: Box<dyn Formatter> = match syntax {
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
    let mut decoded = Vec::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() && decoded.len() < max {
        decoder.decode_out(&mut instruction);
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        // With scales always shown, the formatter ends a base without an index in a comma: `(%rbp,)`.
        let text = text.replace(",)", ")");
        decoded.push(Decoded {
            position: position + (instruction.ip().wrapping_sub(address)) as usize,
            bytes: instruction.len().max(1),
            address: Svma(instruction.ip()),
            text,
            target: target_of(&instruction),
        });
    }
    decoded
}

fn target_of(instruction: &Instruction) -> Option<Svma> {
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
