//! Registers, a stack copy and unwind sections: a walk through them.
//!
//! Of the input, the first byte chooses the architecture; 33 words are the registers; then come stack, code and
//! `.eh_frame`, each behind its length (16 bits), and `.debug_frame`.

use std::sync::Arc;

use elf::{Object, SectionReader};
use model::{Avma, FileOffset};
use unwinder::{
    AddressSpace, Architecture, Innermost, Mapping, NoMemory, ObjectNumber, ObjectSections, Objects,
    Registers, StackCopy, UnwindTables, Unwinder, UnwoundStack,
};

use crate::objects::{self, CODE};

/// As many as the architecture with the most has.
const REGISTERS: usize = 33;
/// Where the stack of the seeds begins.
const STACK: u64 = 0x7ffc_0000_0000;
/// `e_machine`.
const MACHINE: std::ops::Range<usize> = 18..20;
const AARCH64: u16 = 183;

struct One(Option<Arc<UnwindTables<SectionReader<Vec<u8>>>>>);

impl Objects for One {
    type Bytes = SectionReader<Vec<u8>>;

    fn tables(&mut self, _: ObjectNumber) -> Option<Arc<UnwindTables<SectionReader<Vec<u8>>>>> {
        self.0.clone()
    }
}

pub(super) fn run(bytes: &[u8]) {
    let unwound = unwind(bytes);
    assert!(unwound.frames.len() <= usize::from(Unwinder::FRAME_LIMIT));
    for frame in unwound.frames.iter().skip(1) {
        let address = frame.address.address();
        assert!((Avma(CODE)..=Avma(2 * CODE)).contains(&address), "no code at {address:?}");
    }
}

fn unwind(bytes: &[u8]) -> UnwoundStack {
    let mut rest = bytes;
    let machine = take(&mut rest, 1).first().copied().unwrap_or_default();
    let architecture = if machine % 2 == 0 { Architecture::X86_64 } else { Architecture::Aarch64 };
    let mut registers = Registers::new(architecture);
    let (words, _) = take(&mut rest, REGISTERS * 8).as_chunks();
    for (register, word) in (0..architecture.register_count()).zip(words) {
        registers.set(register, u64::from_le_bytes(*word));
    }
    let stack = take_counted(&mut rest);
    let code = take_counted(&mut rest);
    let eh_frame = take_counted(&mut rest);
    let mut file = objects::object(&[(".eh_frame", eh_frame), (".debug_frame", rest)]);
    let code = code.get(..CODE as usize).unwrap_or(code);
    file[CODE as usize..CODE as usize + code.len()].copy_from_slice(code);
    if architecture == Architecture::Aarch64 {
        file[MACHINE].copy_from_slice(&AARCH64.to_le_bytes());
    }
    let object = Object::parse(file).ok();
    let tables =
        object.and_then(|object| ObjectSections::from_object(&Arc::new(object))).map(UnwindTables::new);
    walk(&mut One(tables.map(Arc::new)), &registers, stack)
}

fn walk(objects: &mut One, registers: &Registers, stack: &[u8]) -> UnwoundStack {
    let mut space = AddressSpace::default();
    space.insert(Mapping {
        range: Avma(CODE)..Avma(2 * CODE),
        file_offset: FileOffset(CODE),
        object: Some(ObjectNumber(0)),
        executable: true,
    });
    let stack = StackCopy { start: registers.stack_pointer().unwrap_or_default(), bytes: stack };
    let mut unwound = UnwoundStack::default();
    let innermost = Innermost { registers, stack };
    Unwinder::default().unwind(&space, objects, &innermost, &mut NoMemory, &mut unwound);
    unwound
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(length.min(rest.len()));
    *rest = left;
    taken
}

fn take_counted<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = take(rest, 2).first_chunk().map_or(0, |length| u16::from_le_bytes(*length));
    take(rest, usize::from(length))
}

fn counted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u16).to_le_bytes());
    out.extend(bytes);
}

/// One CIE and one FDE for all of the code. `id` tells `.eh_frame` (0) from `.debug_frame` (all ones).
fn frames(id: u32, return_address: u8, initial: &[u8], function: &[u8]) -> Vec<u8> {
    let mut section = Vec::new();
    let mut entry = |body: &[u8]| {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(8) + 4, 0);
        section.extend((body.len() as u32).to_le_bytes());
        section.extend(body);
    };
    // Version 1, no augmentation, code and data alignment 1 and -8.
    let cie = [&id.to_le_bytes()[..], &[1, 0, 1, 0x78, return_address], initial].concat();
    entry(&cie);
    // Back to the CIE: from here in the one section, from the section's beginning in the other.
    let length = (cie.len().next_multiple_of(8) + 8) as u32;
    let to_cie = if id == 0 { length + 4 } else { 0 };
    let range = [CODE, 0x800].map(u64::to_le_bytes).concat();
    entry(&[&to_cie.to_le_bytes()[..], &range, function].concat());
    section
}

/// A few frames of each kind: pushed, addressed by the frame pointer, by an expression; in either section.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    // The CFA is rsp + 8, the return address lies below it; or it is x29 + 0, with x30 saved at -8.
    let pushes: &[u8] = &[0x0c, 7, 8, 0x90, 1];
    let expression: &[u8] = &[0x0f, 2, 0x77, 8, 0x90, 1];
    let linked: &[u8] = &[0x0c, 31, 16, 0x9e, 1];
    let calls = [0xe8, 0, 0, 0, 0].repeat(16);
    let stack: Vec<u8> = (1..64).flat_map(|index: u64| (CODE + index * 5).to_le_bytes()).collect();
    let seed = |machine: u8, eh_frame: &[u8], debug_frame: &[u8]| {
        let mut bytes = vec![machine];
        let (pc, sp, fp) = if machine == 0 { (16, 7, 6) } else { (32, 31, 29) };
        for register in 0..REGISTERS {
            let value = match register {
                _ if register == pc => CODE + 3,
                _ if register == sp => STACK,
                _ if register == fp => STACK + 64,
                _ => CODE + register as u64,
            };
            bytes.extend(value.to_le_bytes());
        }
        counted(&mut bytes, &stack);
        counted(&mut bytes, &calls);
        counted(&mut bytes, eh_frame);
        bytes.extend(debug_frame);
        bytes
    };
    let none = u32::MAX;
    vec![
        seed(0, &frames(0, 16, pushes, &[0x41, 0x0e, 16, 0x86, 2]), &[]),
        seed(0, &frames(0, 16, expression, &[]), &frames(none, 16, pushes, &[])),
        seed(0, &[], &frames(none, 16, pushes, &[0x44, 0x0d, 6])),
        seed(0, &[], &[]),
        seed(1, &frames(0, 30, linked, &[]), &[]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_have_stacks() {
        let frames: Vec<usize> = seeds().iter().map(|seed| unwind(seed).frames.len()).collect();
        let (tableless, others) = (frames[3], [frames[0], frames[1], frames[2], frames[4]]);
        assert!(others.iter().all(|&frames| frames > 8) && tableless > 1, "{frames:?}");
    }
}
