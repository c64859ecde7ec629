//! A jitdump, read in two parts as one that grows, and a walk of a stack through the code that it tells of.

use std::io::Cursor;
use std::sync::Arc;

use generated::{JitDump, Placement};
use model::{Avma, FileOffset, Timestamp};
use stacks::{GeneratedTables, TableBytes, TableNumbers};
use unwinder::{
    AddressSpace, Architecture, Innermost, Mapping, NoMemory, ObjectNumber, Objects, Registers, StackCopy,
    UnwindTables, Unwinder, UnwoundStack,
};

/// Where the stack begins.
const STACK: u64 = 0x7ffc_0000_0000;
/// As much of a stack as a seed's frames take.
const STACK_BYTES: usize = 256;
/// Loads and moves that the tables may be of, and the bytes of these.
const MAX_LOADS: usize = 64;
const MAX_TABLE_BYTES: usize = 4096;

pub(super) fn run(bytes: &[u8]) {
    let mut dump = JitDump::default();
    for part in [bytes.get(..bytes.len() / 2).unwrap_or_default(), bytes] {
        if let Err(error) = dump.read(&mut Cursor::new(part)) {
            drop(error.to_string());
        }
    }
    for placement in dump.placements().iter().take(4096) {
        for offset in [placement.offset, placement.offset + placement.size - 1] {
            let function = dump.function(offset);
            assert!(
                function.is_some_and(|function| function.offset <= offset),
                "{placement:?} has no function"
            );
            let _ = (dump.line(offset), dump.unwinding_info(offset));
        }
    }
    unwind(bytes);
}

struct Generated {
    tables: GeneratedTables,
    time: Timestamp,
}

impl Objects for Generated {
    type Bytes = TableBytes;

    fn tables(&mut self, object: ObjectNumber) -> Option<Arc<UnwindTables<Self::Bytes>>> {
        self.tables.tables(object)
    }

    fn generated(&mut self, address: Avma) -> Option<(ObjectNumber, FileOffset)> {
        let (time, object, offset) = self.tables.find(address, self.time)?;
        assert!(time <= self.time && offset.0 <= address.0, "{address:?} was loaded at {time:?}");
        Some((object, offset))
    }
}

/// Walks a stack of return addresses into all code of the dump, from each place of it.
fn unwind(bytes: &[u8]) {
    let mut dump = JitDump::for_unwinding(MAX_LOADS, MAX_TABLE_BYTES);
    let (mut tables, mut numbers) = (GeneratedTables::default(), TableNumbers::default());
    for part in [bytes.get(..bytes.len() / 2).unwrap_or_default(), bytes] {
        let _ = dump.read(&mut Cursor::new(part));
        tables.add_new(&dump, true, &mut numbers);
    }
    assert!(dump.placements().len() <= MAX_LOADS);
    let mut space = AddressSpace::default();
    for Placement { start, size, .. } in dump.placements() {
        let range = *start..Avma(start.0.saturating_add(*size));
        space.insert(Mapping { range, file_offset: FileOffset(0), object: None, executable: true });
    }
    let returns = dump.placements().iter().map(|placement| placement.start.0.wrapping_add(1));
    let stack: Vec<u8> = returns.cycle().take(STACK_BYTES / 8).flat_map(u64::to_le_bytes).collect();
    let mut unwinder = Unwinder::default();
    let mut objects = Generated { tables, time: Timestamp(0) };
    for placement in dump.placements() {
        objects.time = placement.time;
        let architecture = Architecture::X86_64;
        let mut registers = Registers::new(architecture);
        registers.set(architecture.program_counter(), placement.start.0 + placement.size - 1);
        registers.set(architecture.stack_pointer(), STACK);
        let stack = StackCopy { start: STACK, bytes: &stack };
        let innermost = Innermost { registers: &registers, stack };
        let mut unwound = UnwoundStack::default();
        unwinder.unwind(&space, &mut objects, &innermost, &mut NoMemory, &mut unwound);
        assert!(unwound.frames.len() <= usize::from(Unwinder::FRAME_LIMIT));
        let mut alone = UnwoundStack::default();
        Unwinder::default().unwind(&space, &mut objects, &innermost, &mut NoMemory, &mut alone);
        assert_eq!(unwound, alone, "what is remembered of the stacks before shows");
    }
}

/// CIE and FDE of 16 bytes of code right before it, which push one word.
const EH_FRAME: &[u8] = b"\x14\0\0\0\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0\
    \x14\0\0\0\x1c\0\0\0\xd0\xff\xff\xff\x10\0\0\0\0\x41\x0e\x10\x86\x02\0\0\0\0\0\0";

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut dump = words(&[1 << 32 | 0x4a69_5444, 62 << 32 | 40, 42 << 32, 7, 0]);
    let mut record = |kind: u64, body: &[u8]| {
        dump.extend(words(&[(16 + body.len() as u64) << 32 | kind, 1000]));
        dump.extend(body);
    };
    record(
        2,
        &[
            words(&[0x1000, 2, 0x1000, 7 | 3 << 32]),
            b"a.py\0".to_vec(),
            words(&[0x1004, 8]),
            b"\xff\0".to_vec(),
        ]
        .concat(),
    );
    record(4, &[words(&[EH_FRAME.len() as u64, 0, 16]), EH_FRAME.to_vec()].concat());
    record(0, &[words(&[1, 0x1000, 0x1000, 16, 1]), b"py::work:a.py\0sixteen bytes !!".to_vec()].concat());
    record(1, &words(&[1, 0, 0x1000, 0x3000, 16, 1]));
    record(0, &[words(&[1, 0x1000, 0x1000, 4, 2]), b"JS:*work a.js:1\0code".to_vec()].concat());
    record(3, &[]);
    vec![dump]
}
