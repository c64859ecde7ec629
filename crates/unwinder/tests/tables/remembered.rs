//! What is remembered must not show: of one address, applied to its neighbours (in the tables of a real program, this
//! test's), and of one stack, applied to the next.

use std::sync::Arc;

use elf::{Machine, Object};
use model::{Avma, FileOffset, TruncationReason};
use prof_unwinder::{
    AddressSpace, Architecture, Innermost, Mapping, NoMemory, ObjectNumber, ObjectSections, Registers,
    StackCopy, StackEnd, UnwindTables, Unwinder, UnwoundStack,
};

use crate::made::{BASE, One, TEXT, cie, eh_frame, object, space, unwind_by, words};

const STACK: u64 = 0x7ffe_0000_0000;
const WORDS: u64 = 256;

/// Not all addresses: each needs an unwinder that knows nothing.
const STRIDE: u64 = 37;
const MOST: u64 = 20_000;

#[test]
fn an_address_is_unwound_alike_whatever_was_unwound_before() {
    let Some((native, fixed)) = (match std::env::consts::ARCH {
        "x86_64" => Some((Architecture::X86_64, 7)),
        "aarch64" => Some((Architecture::Aarch64, 31)),
        _ => None,
    }) else {
        println!("skipped: stacks of this architecture cannot be unwound");
        return;
    };
    let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let object = Arc::new(Object::parse(file).unwrap());
    let text = object.section(".text").unwrap();
    let (start, size, offset) = (text.address.0, text.size, text.file_offset.0);
    let mut objects = One(ObjectSections::from_object(&object).map(UnwindTables::new).map(Arc::new));
    let mut space = AddressSpace::default();
    space.insert(Mapping {
        range: Avma(start)..Avma(start + size),
        file_offset: FileOffset(offset),
        object: Some(ObjectNumber(0)),
        executable: true,
    });
    // Return addresses into all of the code, of which some follow a call.
    let stack = words(&(0..WORDS).map(|index| start + index * 7919 % size).collect::<Vec<_>>());
    let mut unwind = |unwinder: &mut Unwinder, pc: u64| {
        let mut registers = Registers::new(native);
        for register in 0..native.register_count() {
            registers.set(register, STACK + 64 * u64::from(register));
        }
        registers.set(fixed, STACK);
        registers.set(native.program_counter(), pc);
        let innermost = Innermost { registers: &registers, stack: StackCopy { start: STACK, bytes: &stack } };
        let mut unwound = UnwoundStack::default();
        unwinder.unwind(&space, &mut objects, &innermost, &mut NoMemory, &mut unwound);
        unwound
    };
    let mut knowing = Unwinder::default();
    let count = (size / STRIDE).min(MOST);
    // Once up and once down: a stretch is met at its beginning, and at its end.
    for index in (0..count / 2).chain((count / 2..count).rev()) {
        let pc = start + index * size / count;
        assert_eq!(unwind(&mut knowing, pc), unwind(&mut Unwinder::default(), pc), "{pc:#x}");
    }
}

/// A thread that runs functions of each kind. Its stack is kept from the top downwards.
struct Thread {
    /// Outermost first.
    words: Vec<u64>,
    /// How many words there were, and what rbp and rbx were, when each function was entered.
    entered: Vec<(usize, u64, u64)>,
    pc: u64,
    rbp: u64,
    rbx: u64,
}

/// Above the stack.
const TOP: u64 = 0x7fff_0000_0000;

/// Bytes of a function. The first one is where the thread begins; the others have frames of two or three words. The last two
/// have no tables: one lies behind those that have, the other is generated, in no object.
const FUNCTION: u64 = 0x100;
const SAVES_NOTHING: u64 = 1;
const SAVES_RBP: u64 = 2;
const HAS_FRAME_POINTER: u64 = 3;
const SAVES_RBX: u64 = 4;
const WITH_TABLES: u64 = 5;
const WITHOUT_TABLES: u64 = 5;
const GENERATED: u64 = 6;
const FUNCTIONS: u64 = 7;

impl Thread {
    fn new() -> Self {
        Self { words: vec![0; 4], entered: Vec::new(), pc: BASE + TEXT + 8, rbp: 0, rbx: 0 }
    }

    fn stack_pointer(&self) -> u64 {
        TOP - 8 * self.words.len() as u64
    }

    fn call(&mut self, function: u64, random: u64) {
        self.entered.push((self.words.len(), self.rbp, self.rbx));
        self.words.push(self.pc);
        match function {
            SAVES_RBP => {
                self.words.push(self.rbp);
                self.rbp = random;
            }
            HAS_FRAME_POINTER | WITHOUT_TABLES | GENERATED => {
                self.words.push(self.rbp);
                self.rbp = self.stack_pointer();
            }
            SAVES_RBX => {
                self.words.push(self.rbx);
                self.rbx = random;
            }
            _ => {}
        }
        self.words.push(random);
        self.pc = BASE + TEXT + function * FUNCTION + 8 + random % 64;
    }

    fn return_to(&mut self, depth: usize) {
        if let Some(&(words, rbp, rbx)) = self.entered.get(depth) {
            (self.pc, self.rbp, self.rbx) = (self.words[words], rbp, rbx);
            self.words.truncate(words);
            self.entered.truncate(depth);
        }
    }

    fn registers(&self) -> Registers {
        let mut registers = Registers::new(Architecture::X86_64);
        for (register, value) in [(3, self.rbx), (6, self.rbp), (7, self.stack_pointer()), (16, self.pc)] {
            registers.set(register, value);
        }
        registers
    }
}

#[test]
fn a_stack_is_unwound_alike_whatever_the_thread_did_before() {
    // The first function says so itself (its return address is undefined), or what lies above it: zeroes.
    for first in [[0x07, 16], [0x0e, 16]] {
        stacks_of_a_thread_that_begins_in(&first);
    }
}

fn stacks_of_a_thread_that_begins_in(first: &[u8]) {
    // CFA: rsp + 8; the return address is below it.
    let cie = cie("zR", 1, 16, &[0x0c, 7, 8, 0x80 | 16, 1]);
    let kinds: [&[u8]; WITH_TABLES as usize] =
        [first, &[0x0e, 16], &[0x0e, 24, 0x80 | 6, 2], &[0x0c, 6, 16, 0x80 | 6, 2], &[0x0e, 24, 0x80 | 3, 2]];
    let functions: Vec<_> =
        (0_u32..).zip(kinds).map(|(index, kind)| (index * FUNCTION as u32, FUNCTION as u32, kind)).collect();
    // A direct call ends at each byte.
    let mut code = [0xe8; (FUNCTIONS * FUNCTION) as usize];
    // mov %rsp, %rbp
    code[(WITHOUT_TABLES * FUNCTION) as usize..][..3].copy_from_slice(&[0x48, 0x89, 0xe5]);
    let mut objects = One::new(object(Machine::X86_64, &code, &eh_frame(&cie, &functions), &[]));
    let process = |mapped_functions: u64| {
        let mut process = space(FUNCTION * mapped_functions);
        process.insert(Mapping {
            range: Avma(BASE + TEXT + GENERATED * FUNCTION)..Avma(BASE + TEXT + FUNCTIONS * FUNCTION),
            file_offset: FileOffset(0),
            object: None,
            executable: true,
        });
        process
    };
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let (mut thread, mut knowing) = (Thread::new(), Unwinder::default());
    let mut mapped = process(GENERATED);
    let (mut complete, mut deep, mut cut) = (0, 0, 0);
    for round in 0..20_000 {
        let depth = thread.entered.len();
        thread.return_to(depth.saturating_sub(random() as usize % 6));
        while thread.entered.len() < 60 && random() % 4 != 0 {
            thread.call(SAVES_NOTHING + random() % (FUNCTIONS - 1), random());
        }
        let mut stack: Vec<u64> = thread.words.iter().rev().copied().collect();
        let mut registers = thread.registers();
        // Now and then something else is there than what the thread has done, or less of it.
        match random() % 8 {
            0 => stack[random() as usize % thread.words.len()] = random(),
            1 => {
                stack[random() as usize % thread.words.len()] =
                    BASE + TEXT + random() % (FUNCTION * FUNCTIONS)
            }
            2 => registers.set(6, thread.stack_pointer() + 8 * (random() % 64)),
            3 => stack.truncate(random() as usize % thread.words.len()),
            4 => mapped = process(GENERATED - round % 2),
            _ => {}
        }
        let bytes = words(&stack);
        let mut unwind =
            |unwinder: &mut Unwinder| unwind_by(unwinder, &mapped, &mut objects, &registers, &bytes);
        let expected = unwind(&mut Unwinder::default());
        assert_eq!(unwind(&mut knowing), expected, "{round}");
        complete += usize::from(expected.end == StackEnd::Complete);
        deep += usize::from(expected.end == StackEnd::Complete && expected.frames.len() > 20);
        cut += usize::from(expected.end == StackEnd::Truncated(TruncationReason::CopyTooSmall));
    }
    assert!(complete > 5_000 && deep > 1_000 && cut > 500, "{complete}, {deep}, {cut}");
}
