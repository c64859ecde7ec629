//! Registers as text: ` ABI:2    AX:0x1    BX:0x2 `.

use decoder::registers::Architecture;
use decoder::values::Registers;

use super::number;

pub(super) fn registers(out: &mut Vec<u8>, registers: &Registers<'_>, architecture: Architecture) {
    out.extend_from_slice(b" ABI:");
    number::decimal(out, registers.abi, 0);
    out.push(b' ');
    for (register, value) in registers.iter() {
        let name = architecture.register_name(register).unwrap_or("unknown");
        number::right(out, name.as_bytes(), 5);
        out.extend_from_slice(b":0x");
        number::hex(out, value, 0);
        out.push(b' ');
    }
}
