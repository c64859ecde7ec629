//! Instructions of x86-64, as far as it must be known how long they are and where they lead.

/// One instruction of x86-64 (Intel's manual, volume 2, appendix A), of those that compilers and C libraries use.
#[derive(Clone, Copy, Debug)]
pub struct Instruction<'a> {
    /// The low bits of the REX prefix: W, R, X, B.
    pub rex: u8,
    /// The map of the opcode: 0, 1 for 0f, 2 for 0f 38, 3 for 0f 3a.
    pub map: u8,
    /// The opcode in its map.
    pub opcode: u8,
    /// ModRM, SIB, displacement and immediate.
    pub operands: &'a [u8],
    /// The code behind the instruction.
    pub rest: &'a [u8],
}

impl<'a> Instruction<'a> {
    /// Parses the instruction at the front of `code`. Returns `None` where it is cut off, or is not known here.
    pub fn parse(code: &'a [u8]) -> Option<Self> {
        let (mut at, mut rex, mut wide) = (0, 0, false);
        let byte = |at: usize| code.get(at).copied();
        while let prefix @ (0x2e | 0x3e | 0x64 | 0x66 | 0xf0 | 0xf2 | 0xf3) = byte(at)? {
            (at, wide) = (at + 1, wide || prefix == 0x66);
        }
        let mut map = 0;
        match byte(at)? {
            prefix @ 0x40..=0x4f => (at, rex) = (at + 1, prefix & 15),
            0xc5 => (at, map) = (at + 2, 1),
            0xc4 => (at, map) = (at + 3, byte(at + 1)? & 31),
            _ => {}
        }
        if map == 0 && byte(at)? == 0x0f {
            (at, map) = match byte(at + 1)? {
                0x38 => (at + 2, 2),
                0x3a => (at + 2, 3),
                _ => (at + 1, 1),
            };
        }
        let opcode = byte(at)?;
        let modrm = byte(at + 1).unwrap_or_default();
        let word = if wide { 2 } else { 4 };
        let (has_modrm, immediate) = match (map, opcode) {
            (0, 0x00..=0x3f) if opcode & 7 < 4 => (true, 0),
            (0, 0x00..=0x3f) if opcode & 7 == 4 => (false, 1),
            (0, 0x00..=0x3f) if opcode & 7 == 5 => (false, word),
            (0, 0x50..=0x5f | 0x90..=0x99 | 0x9b | 0xc3 | 0xc9 | 0xcc) => (false, 0),
            // String instructions, and those of flags.
            (0, 0xa4..=0xa7 | 0xaa..=0xaf | 0xf4 | 0xf5 | 0xf8..=0xfd) => (false, 0),
            (0, 0x63 | 0x84..=0x8b | 0x8d | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff) => (true, 0),
            (0, 0x69 | 0x81 | 0xc7) => (true, word),
            (0, 0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6) => (true, 1),
            (0, 0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xe0..=0xe3 | 0xeb) => (false, 1),
            (0, 0xc2) => (false, 2),
            (0, 0x68 | 0xa9 | 0xe8 | 0xe9) => (false, word),
            (0, 0xb8..=0xbf) => (false, if rex & 8 != 0 { 8 } else { word }),
            (0, 0xf6) => (true, usize::from(modrm & 0x38 < 0x10)),
            (0, 0xf7) => (true, if modrm & 0x38 < 0x10 { word } else { 0 }),
            (1, 0x05 | 0x0b | 0x77) => (false, 0),
            (1, 0x80..=0x8f) => (false, 4),
            (1, 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6) | (3, _) => (true, 1),
            (1, 0x10..=0x1f | 0x28..=0x2f | 0x40..=0x6f | 0x74..=0x76 | 0x7c..=0x7f | 0x90..=0x9f)
            | (1, 0xa3..=0xaf | 0xb0..=0xc1 | 0xd0..=0xff)
            | (2, _) => (true, 0),
            _ => return None,
        };
        let memory = if !has_modrm { 0 } else { 1 + address_bytes(modrm, byte(at + 2).unwrap_or_default()) };
        let operands = code.get(at + 1..at + 1 + memory + immediate)?;
        Some(Self { rex, map, opcode, operands, rest: code.get(at + 1 + memory + immediate..)? })
    }

    /// Returns the last operand as a number: the immediate one or, where there is none, the displacement. It has one byte or four.
    pub fn immediate(&self) -> i64 {
        let is_byte = match (self.map, self.opcode) {
            (0, 0x8d) => self.operands.first().is_some_and(|modrm| modrm >> 6 == 1),
            (0, opcode) => matches!(opcode, 0x83 | 0x70..=0x7f | 0xe0..=0xe3 | 0xeb),
            _ => false,
        };
        match (self.operands.last(), self.operands.last_chunk::<4>()) {
            (Some(byte), _) if is_byte => i64::from(byte.cast_signed()),
            (_, Some(word)) => i64::from(i32::from_le_bytes(*word)),
            _ => 0,
        }
    }
}

/// Returns the size of SIB and displacement behind a ModRM byte.
pub(crate) fn address_bytes(modrm: u8, sib: u8) -> usize {
    let has_sib = modrm & 7 == 4;
    match modrm >> 6 {
        3 => 0,
        0 if modrm & 7 == 5 => 4,
        0 => usize::from(has_sib) + if has_sib && sib & 7 == 5 { 4 } else { 0 },
        1 => usize::from(has_sib) + 1,
        _ => usize::from(has_sib) + 4,
    }
}
