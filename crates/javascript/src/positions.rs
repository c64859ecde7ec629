//! The source position table of bytecode or optimized code (`src/codegen/source-position-table.cc`): for each offset in the code the place in
//! the script, and in optimized code the call that was inlined (`src/codegen/source-position.h`).

/// A table.
#[derive(Default, Debug)]
pub(crate) struct Positions(Vec<(u32, SourcePosition)>);

/// A place in a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SourcePosition {
    /// In characters from the start of the script.
    pub(crate) offset: u32,
    /// The number of the inlined call that it is in; `None` for the function itself.
    pub(crate) inlined: Option<u16>,
}

/// Bits of a position: one for positions outside of scripts, 30 for the offset and 16 for the inlined call, each of these plus 1.
const OFFSET_SHIFT: u32 = 1;
const OFFSET_MASK: i64 = (1 << 30) - 1;
const INLINED_SHIFT: u32 = 31;
const INLINED_MASK: i64 = (1 << 16) - 1;

impl SourcePosition {
    /// Decodes a position; `None` where it is of no script.
    pub(crate) fn from_raw(raw: i64) -> Option<Self> {
        let offset = (raw >> OFFSET_SHIFT & OFFSET_MASK).checked_sub(1).filter(|_| raw & 1 == 0)?;
        let inlined = (raw >> INLINED_SHIFT & INLINED_MASK).checked_sub(1);
        Some(Self {
            offset: u32::try_from(offset).ok()?,
            inlined: inlined.and_then(|number| u16::try_from(number).ok()),
        })
    }
}

impl Positions {
    /// Parses a table. What is wrong in it ends it.
    pub(crate) fn parse(table: &[u8]) -> Self {
        let mut found = Vec::new();
        let (mut code, mut raw, mut rest) = (0_i64, 0_i64, table);
        while let Some((step, behind)) = number(rest)
            && let Some((change, behind)) = number(behind)
        {
            rest = behind;
            // Expressions are told from statements by the sign.
            code = code.saturating_add(if step < 0 { -(step + 1) } else { step });
            raw = raw.wrapping_add(change);
            let Ok(offset) = u32::try_from(code) else { break };
            if let Some(position) = SourcePosition::from_raw(raw) {
                found.push((offset, position));
            }
        }
        found.shrink_to_fit();
        Self(found)
    }

    /// Returns the position of the code at an offset in bytes.
    pub(crate) fn at(&self, offset: u64) -> Option<SourcePosition> {
        let next = self.0.partition_point(|(start, _)| u64::from(*start) <= offset);
        Some(self.0.get(next.checked_sub(1)?)?.1)
    }

    /// Returns the number of bytes that it takes in memory.
    pub(crate) fn size(&self) -> usize {
        self.0.len() * size_of::<(u32, SourcePosition)>()
    }
}

/// Decodes a number of 7 bits a byte, the least significant first, with its sign in the lowest bit (`src/base/vlq.h`).
fn number(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * index as u32)?;
        if byte & 0x80 == 0 {
            let number = (value >> 1) as i64 ^ -((value & 1) as i64);
            return Some((number, bytes.get(index + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_say_offset_and_inlined_call() {
        // Of `hot`, inlined into a function of its script (Node.js 20): 40 bytes → offset 153 in call 1, 72 → 161.
        let raw = |offset: i64, inlined: i64| (offset + 1) << 1 | (inlined + 1) << 31;
        let mut table = Vec::new();
        let mut put = |value: i64| {
            let mut bits = ((value << 1) ^ (value >> 63)) as u64;
            loop {
                let byte = (bits & 0x7f) as u8;
                bits >>= 7;
                table.push(byte | if bits > 0 { 0x80 } else { 0 });
                if bits == 0 {
                    break;
                }
            }
        };
        put(40);
        put(raw(153, 1));
        put(-(32 + 1));
        put(raw(161, -1) - raw(153, 1));
        let positions = Positions::parse(&table);
        assert_eq!(positions.at(39), None);
        assert_eq!(positions.at(40), Some(SourcePosition { offset: 153, inlined: Some(1) }));
        assert_eq!(positions.at(71), Some(SourcePosition { offset: 153, inlined: Some(1) }));
        assert_eq!(positions.at(5000), Some(SourcePosition { offset: 161, inlined: None }));
        for end in 0..table.len() {
            Positions::parse(&table[..end]);
        }
        assert_eq!(Positions::parse(&[0xff; 64]).at(0), None);
        assert_eq!(SourcePosition::from_raw(raw(5, 0) | 1), None, "of no script");
    }
}
