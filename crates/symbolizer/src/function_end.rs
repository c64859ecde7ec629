//! The ends of functions whose symbols state no size, in objects whose symbol tables leave functions out.
//!
//! There, the next symbol is not the next function: code that no symbol describes may lie before it. So the instructions
//! are read from the start of the function on, up to the first return or jump that no branch leads past.

use elf::x86_64::Instruction;
use elf::{Machine, Object};
use gimli::{BaseAddresses, EhFrameHdr, RunTimeEndian};
use model::Svma;

use crate::MAX_TABLE_ENTRIES;

/// Finds the ends of an object's functions by their instructions.
pub(crate) struct FunctionEnds<'a, D> {
    object: &'a Object<D>,
    /// The starts of functions with unwind information, ascending: they belong to no other function.
    starts: Vec<u64>,
    /// Bytes of code that may still be read. Functions do not overlap, but in a hostile file.
    left: usize,
}

/// The effect of an instruction on where the function may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    /// The next instruction follows.
    Next,
    /// The next instruction follows, or the one at this address.
    Branch(u64),
    /// The instruction at this address follows.
    Jump(u64),
    /// None follows that the instruction itself tells.
    Stop,
}

impl<'a, D: AsRef<[u8]>> FunctionEnds<'a, D> {
    /// Reads the starts of functions in `.eh_frame_hdr`. Returns `None` for machines whose instructions are not known here.
    pub(crate) fn new(object: &'a Object<D>) -> Option<Self> {
        let is_known = matches!(object.machine(), Machine::X86_64 | Machine::AARCH64);
        is_known.then(|| Self {
            object,
            starts: starts_with_unwind_information(object),
            left: object.data().len(),
        })
    }

    /// Returns the end of the function that starts at `start`, at most `limit`.
    pub(crate) fn end_of(&mut self, start: u64, limit: u64) -> u64 {
        let next = self.starts.get(self.starts.partition_point(|&known| known <= start));
        let limit = next.map_or(limit, |&next| limit.min(next));
        let code = self.object.bytes_at(Svma(start)).unwrap_or_default();
        let size = usize::try_from(limit.saturating_sub(start)).unwrap_or(usize::MAX);
        let size = size.min(code.len()).min(self.left);
        let code = code.get(..size).unwrap_or_default();
        let end = match self.object.machine() {
            Machine::AARCH64 => end_of_code(aarch64(code, start), start, limit),
            _ => end_of_code(x86_64(code, start), start, limit),
        };
        // Labels behind all code, such as `_end`, and functions of a hostile file, end before they start.
        let length = end.saturating_sub(start);
        self.left -= size.min(usize::try_from(length).unwrap_or(size));
        end
    }
}

/// Returns the address behind the last instruction of the function that starts with these: each with its address, its
/// size in bytes and its flow.
fn end_of_code(instructions: impl Iterator<Item = (u64, u64, Flow)>, start: u64, limit: u64) -> u64 {
    let mut end = start;
    // The furthest address that a branch leads to.
    let mut furthest = start;
    for (address, size, flow) in instructions {
        end = address.saturating_add(size);
        if let Flow::Branch(target) | Flow::Jump(target) = flow
            && target < limit
        {
            furthest = furthest.max(target);
        }
        if matches!(flow, Flow::Jump(_) | Flow::Stop) && furthest < end {
            break;
        }
    }
    end.min(limit)
}

/// Decodes branches. Code ends before an instruction that is not known.
fn x86_64(code: &[u8], start: u64) -> impl Iterator<Item = (u64, u64, Flow)> {
    let mut rest = code;
    std::iter::from_fn(move || {
        let instruction = Instruction::parse(rest)?;
        let address = start.wrapping_add((code.len() - rest.len()) as u64);
        let size = (rest.len() - instruction.rest.len()) as u64;
        rest = instruction.rest;
        let target = address.wrapping_add(size).wrapping_add_signed(instruction.immediate());
        let flow = match (instruction.map, instruction.opcode) {
            (0, 0x70..=0x7f | 0xe0..=0xe3) | (1, 0x80..=0x8f) => Flow::Branch(target),
            (0, 0xe9 | 0xeb) => Flow::Jump(target),
            // ret; jmp of a register; ud2. What entry points have behind their last call, and linkers between functions: hlt, int3.
            (0, 0xc2 | 0xc3 | 0xcc | 0xf4) | (1, 0x0b) => Flow::Stop,
            (0, 0xff) if matches!(instruction.operands.first()? >> 3 & 7, 4 | 5) => Flow::Stop,
            _ => Flow::Next,
        };
        Some((address, size, flow))
    })
}

/// Decodes branches ("Arm Architecture Reference Manual for A-profile", C4.1, Branches).
fn aarch64(code: &[u8], start: u64) -> impl Iterator<Item = (u64, u64, Flow)> {
    code.chunks_exact(4).enumerate().map_while(move |(index, word)| {
        let word = u32::from_le_bytes(*word.first_chunk()?);
        let address = start.checked_add(4 * index as u64)?;
        // A distance in words, of so many bits at this place.
        let target = |bits: u32, at: u32| {
            let distance = (word << (32 - bits - at)).cast_signed() >> (32 - bits);
            address.wrapping_add_signed(4 * i64::from(distance))
        };
        let flow = match word {
            _ if word >> 26 == 0b00_0101 => Flow::Jump(target(26, 0)),
            _ if word >> 25 == 0b010_1010 || word & 0x7e00_0000 == 0x3400_0000 => Flow::Branch(target(19, 5)),
            _ if word & 0x7e00_0000 == 0x3600_0000 => Flow::Branch(target(14, 5)),
            // BR, RET and their forms with pointer authentication, but not BLR; BRK; UDF.
            _ if word >> 25 == 0b110_1011 && word >> 21 & 0b111 != 0b001 => Flow::Stop,
            _ if word & 0xffe0_001f == 0xd420_0000 || word >> 16 == 0 => Flow::Stop,
            _ => Flow::Next,
        };
        Some((address, 4, flow))
    })
}

/// Returns the starts of the functions in the search table of `.eh_frame_hdr`, ascending.
fn starts_with_unwind_information<D: AsRef<[u8]>>(object: &Object<D>) -> Vec<u64> {
    let Some(section) = object.section(".eh_frame_hdr") else { return Vec::new() };
    let Ok(data) = object.section_bytes(section) else { return Vec::new() };
    let endian = match object.endian() {
        elf::Endianness::Little => RunTimeEndian::Little,
        elf::Endianness::Big => RunTimeEndian::Big,
    };
    let bases = BaseAddresses::default().set_eh_frame_hdr(section.address.0);
    let header = EhFrameHdr::new(data, endian).parse(&bases, if object.is_64() { 8 } else { 4 });
    let Ok(header) = header else { return Vec::new() };
    let Some(table) = header.table() else { return Vec::new() };
    let (mut entries, mut starts) = (table.iter(&bases), Vec::new());
    while let Ok(Some((start, _))) = entries.next()
        && starts.len() < MAX_TABLE_ENTRIES
    {
        starts.push(start.pointer());
    }
    starts.sort_unstable();
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(code: &[u8]) -> u64 {
        end_of_code(x86_64(code, 0x1000), 0x1000, 0x1000 + code.len() as u64) - 0x1000
    }

    #[test]
    fn a_function_ends_behind_the_last_return_that_a_branch_leads_past() {
        assert_eq!(end(&[0xc3, 0x90, 0x90]), 1);
        // jne 1f; ret; 1: jmp 2f; ud2; 2: ret; nop
        assert_eq!(end(&[0x75, 1, 0xc3, 0xeb, 2, 0x0f, 0x0b, 0xc3, 0x90]), 8);
        // 1: jmp 1b; ret
        assert_eq!(end(&[0xeb, 0xfe, 0xc3]), 2);
        // jmp to another function, behind the limit; nop
        assert_eq!(end(&[0xe9, 0, 1, 0, 0, 0x90]), 5);
        // call; hlt; ret
        assert_eq!(end(&[0xe8, 0, 0, 0, 0, 0xf4, 0xc3]), 6);
        // jmp *%rax; ret
        assert_eq!(end(&[0xff, 0xe0, 0xc3]), 2);
        // rep stos %rax, (%rdi); fldt (%rdi); 1: loop 1b; ret $8; nop
        assert_eq!(end(&[0xf3, 0x48, 0xab, 0xdb, 0x2f, 0xe2, 0xfe, 0xc2, 8, 0, 0x90]), 10);
        assert_eq!(end(&[0x90, 0x06, 0xc3]), 1, "no instruction in 64 bits");
        assert_eq!(end(&[0x90, 0x90]), 2, "to the limit");
        assert_eq!(end(&[]), 0);
    }

    #[test]
    fn branches_of_aarch64_are_followed() {
        let end = |words: &[u32]| {
            let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            (end_of_code(aarch64(&code, 0x1000), 0x1000, 0x1000 + code.len() as u64) - 0x1000) / 4
        };
        const NOP: u32 = 0xd503_201f;
        const RET: u32 = 0xd65f_03c0;
        assert_eq!(end(&[NOP, RET, NOP]), 2);
        assert_eq!(end(&[0xb400_0040, RET, RET, NOP]), 3, "cbz x0, .+8");
        assert_eq!(end(&[0x5400_0041, RET, RET, NOP]), 3, "b.ne .+8");
        assert_eq!(end(&[0x3600_0040, RET, RET, NOP]), 3, "tbz w0, #0, .+8");
        assert_eq!(end(&[0x1400_0002, NOP, RET, NOP]), 3, "b .+8");
        assert_eq!(end(&[NOP, 0x17ff_ffff, NOP]), 2, "b .-4");
        assert_eq!(end(&[0xd63f_0000, 0xd61f_0000, NOP]), 2, "blr x0; br x0");
        assert_eq!(end(&[0xd73f_0801, 0xd71f_0801, NOP]), 2, "blraa; braa");
        assert_eq!(end(&[NOP, 0xd65f_0bff, NOP]), 2, "retaa");
        assert_eq!(end(&[NOP, 0xd420_0000, NOP]), 2, "brk #0");
        assert_eq!(end(&[NOP, 0, NOP]), 2, "udf #0");
    }
}
