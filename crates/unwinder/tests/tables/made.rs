//! Objects and unwind tables put together byte by byte.

use std::sync::Arc;

use elf::{Machine, Object, SectionReader};
use model::{Avma, FileOffset};
use prof_unwinder::{
    AddressSpace, Innermost, Mapping, NoMemory, ObjectNumber, ObjectSections, Objects, Registers, StackCopy,
    UnwindTables, Unwinder, UnwoundStack,
};

/// Where the object's first byte is stated to be.
pub(crate) const BASE: u64 = 0x40_0000;
/// Where its code begins, in the file.
pub(crate) const TEXT: u64 = 0x1000;
/// Length of the code.
pub(crate) const TEXT_SIZE: usize = 0x1000;
/// Where its `.eh_frame` begins, in the file.
pub(crate) const EH_FRAME: u64 = 0x2000;

/// An ELF file with `.text`, `.eh_frame` and, where given, `.eh_frame_hdr`; one segment maps all of it.
pub(crate) fn object(machine: Machine, text: &[u8], eh_frame: &[u8], header: &[u8]) -> Vec<u8> {
    let mut file = vec![0; EH_FRAME as usize];
    file[TEXT as usize..TEXT as usize + text.len()].copy_from_slice(text);
    file.extend(eh_frame);
    let header_at = file.len() as u64;
    file.extend(header);
    let names_at = file.len() as u64;
    let names = b"\0.text\0.eh_frame\0.eh_frame_hdr\0.shstrtab\0";
    file.extend(names);
    let sections_at = file.len() as u64;
    let mut section = |name: u32, kind: u32, flags: u64, offset: u64, size: u64| {
        let address = if flags == 0 { 0 } else { BASE + offset };
        file.extend(name.to_le_bytes());
        file.extend(kind.to_le_bytes());
        for word in [flags, address, offset, size, 0, 1, 0] {
            file.extend(word.to_le_bytes());
        }
    };
    section(0, 0, 0, 0, 0);
    section(1, 1, 6, TEXT, TEXT_SIZE as u64);
    section(7, 1, 2, EH_FRAME, eh_frame.len() as u64);
    section(17, if header.is_empty() { 8 } else { 1 }, 2, header_at, header.len() as u64);
    section(31, 3, 0, names_at, names.len() as u64);
    let size = file.len() as u64;
    let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    head.extend(2_u16.to_le_bytes());
    head.extend(machine.0.to_le_bytes());
    head.extend(1_u32.to_le_bytes());
    head.extend((BASE + TEXT).to_le_bytes());
    head.extend(64_u64.to_le_bytes());
    head.extend(sections_at.to_le_bytes());
    head.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 5, 4] {
        head.extend(half.to_le_bytes());
    }
    // PT_LOAD, readable and executable.
    head.extend(1_u32.to_le_bytes());
    head.extend(5_u32.to_le_bytes());
    for word in [0, BASE, BASE, size, size, 0x1000] {
        head.extend(word.to_le_bytes());
    }
    file[..head.len()].copy_from_slice(&head);
    file
}

/// `.eh_frame`: one CIE, and an FDE for each (offset in the code, length, instructions).
pub(crate) fn eh_frame(cie: &[u8], functions: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut section = entry(0, cie);
    for (start, length, instructions) in functions {
        let at = section.len() as u32;
        let place = EH_FRAME as u32 + at + 8;
        let mut body = (TEXT as u32 + start).wrapping_sub(place).to_le_bytes().to_vec();
        body.extend(length.to_le_bytes());
        body.push(0);
        body.extend(*instructions);
        section.extend(entry(at + 4, &body));
    }
    section.extend([0; 4]);
    section
}

fn entry(id: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize((body.len() + 4).next_multiple_of(8) - 4 + 4, 0);
    let mut entry = (body.len() as u32 + 4).to_le_bytes().to_vec();
    entry.extend(id.to_le_bytes());
    entry.extend(body);
    entry
}

/// The body of a CIE: version 1, augmentation `augmentation` (`zR` and marks without data), addresses relative to their
/// place, 4 bytes.
pub(crate) fn cie(augmentation: &str, code: u8, return_address: u8, instructions: &[u8]) -> Vec<u8> {
    let mut body = vec![1];
    body.extend(augmentation.as_bytes());
    // Data alignment −8, one byte of augmentation data.
    body.extend([0, code, 0x78, return_address, 1, 0x1b]);
    body.extend(instructions);
    body
}

/// One object.
pub(crate) struct One(pub(crate) Option<Arc<UnwindTables<SectionReader<Vec<u8>>>>>);

impl One {
    pub(crate) fn new(file: Vec<u8>) -> Self {
        Self(
            Object::parse(file)
                .ok()
                .and_then(|object| ObjectSections::from_object(&Arc::new(object)))
                .map(UnwindTables::new)
                .map(Arc::new),
        )
    }
}

impl Objects for One {
    type Bytes = SectionReader<Vec<u8>>;

    fn tables(&mut self, _: ObjectNumber) -> Option<Arc<UnwindTables<SectionReader<Vec<u8>>>>> {
        self.0.clone()
    }
}

/// A process that has mapped the code, or only the beginning of it, where it wants to be.
pub(crate) fn space(size: u64) -> AddressSpace {
    let mut space = AddressSpace::default();
    space.insert(Mapping {
        range: Avma(BASE + TEXT)..Avma(BASE + TEXT + size),
        file_offset: FileOffset(TEXT),
        object: Some(ObjectNumber(0)),
        executable: true,
    });
    space
}

/// Unwinds a stack that begins at the stack pointer.
pub(crate) fn unwind(objects: &mut One, registers: &Registers, stack: &[u8]) -> UnwoundStack {
    unwind_by(&mut Unwinder::default(), &space(TEXT_SIZE as u64), objects, registers, stack)
}

/// The same with an unwinder that may know something.
pub(crate) fn unwind_by(
    unwinder: &mut Unwinder,
    space: &AddressSpace,
    objects: &mut One,
    registers: &Registers,
    stack: &[u8],
) -> UnwoundStack {
    let stack = StackCopy { start: registers.stack_pointer().unwrap_or_default(), bytes: stack };
    let mut unwound = UnwoundStack::default();
    let innermost = Innermost { registers, stack };
    unwinder.unwind(space, objects, &innermost, &mut NoMemory, &mut unwound);
    unwound
}

/// The bytes of a stack of words.
pub(crate) fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The addresses of the frames found.
pub(crate) fn addresses(stack: &UnwoundStack) -> Vec<u64> {
    stack.addresses().map(|frame| frame.address().0).collect()
}
