//! Unwind rules in the form that is cached: a row that takes a few loads to apply, or the row itself.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::architecture::{Architecture, MAX_CALLEE_SAVED};
use crate::epilogue::EpilogueInstruction;
use crate::evaluate::Fault;
use crate::memory::ReadMemory;
use crate::registers::Registers;
use crate::row::{CfaRule, Location, Row};

/// A rule for getting from a frame to its caller.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Rule {
    /// By a row without expressions.
    Compact(CompactRule),
    /// By evaluating a row with all registers: expressions, signal frames.
    Row(Arc<Row>),
    /// By the instructions that come next: no FDE covers the address, and they restore registers and return.
    Epilogue(CompactRule),
    /// By the registers that the kernel saved when it delivered a signal. The trampoline is known by its instructions.
    SignalTrampoline,
    /// By the frame pointer: no FDE covers the address.
    FramePointer,
    /// By the frame pointer or, where the function does not keep it, by one of the epilogues next to the address. The code is searched when
    /// a walk needs it first.
    NearCode(Arc<NearCode>),
    /// By the frame pointer and, at the innermost frame, the row (if any): Go's tables say nothing of the saved frame
    /// pointer.
    Go(Option<CompactRule>),
    /// There is no caller: this is the thread's first frame.
    Outermost,
    /// There is an FDE, but it is malformed.
    Malformed,
    /// The file of the object cannot be read. By the frame pointer, or whatever the stack shows.
    Unreadable,
}

/// The code around an address without an FDE.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NearCode {
    /// The rules of the epilogues next to the address.
    pub(crate) epilogues: Box<[CompactRule]>,
    /// False if no function before the address sets up a frame pointer: it then holds any value, or belongs to some outer frame.
    pub(crate) keeps_frame_pointer: bool,
}

impl Default for NearCode {
    /// Code that cannot be read, or is known to keep frame pointers.
    fn default() -> Self {
        Self { epilogues: Box::default(), keeps_frame_pointer: true }
    }
}

/// Size of a stack word, bytes.
const WORD: i64 = 8;

/// A row whose CFA is a register and an offset, and whose registers are saved at whole words from the CFA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CompactRule {
    cfa_offset: i32,
    cfa_register: u8,
    /// The place of the return address, in words from the CFA; 0: in the link register.
    return_address: i16,
    /// The place of each of [`Architecture::callee_saved`], in words from the CFA; 0: in the register still. (Nothing is
    /// saved *at* the CFA: that word belongs to the caller.)
    saved: [i16; MAX_CALLEE_SAVED],
}

/// The maximum number of instructions of an epilogue. It restores six registers at most, drops the frame, and sets the result.
const MAX_EPILOGUE_INSTRUCTIONS: u32 = 10;

impl CompactRule {
    /// The compact form of `row`, where it has one.
    pub(crate) fn from_row(architecture: Architecture, row: &Row) -> Option<Self> {
        if row.signal_frame {
            return None;
        }
        let CfaRule::RegisterOffset { register, offset } = row.cfa else { return None };
        let mut rule = Self {
            cfa_offset: i32::try_from(offset).ok()?,
            cfa_register: register,
            return_address: 0,
            saved: [0; MAX_CALLEE_SAVED],
        };
        match row.location(row.return_address) {
            Some(location) => {
                rule.return_address = words(location)?;
                if rule.return_address == 0 && architecture.link_register().is_none() {
                    return None;
                }
            }
            None if architecture.link_register() == Some(row.return_address) => {}
            None => return None,
        }
        for (register, location) in &row.locations {
            if let Some(index) = architecture.callee_saved().iter().position(|saved| saved == register) {
                *rule.saved.get_mut(index)? = words(location)?;
            } else if *register != row.return_address && *location != Location::Undefined {
                return None;
            }
        }
        Some(rule)
    }

    /// Returns true if the return address is still in the link register.
    pub(crate) fn returns_by_link_register(&self) -> bool {
        self.return_address == 0
    }

    /// The register that the CFA is counted from, and its value in a frame whose return address lies at `place`.
    pub(crate) fn base_below(&self, place: u64) -> (u8, u64) {
        let cfa = place.wrapping_sub_signed(i64::from(self.return_address) * WORD);
        (self.cfa_register, cfa.wrapping_sub_signed(i64::from(self.cfa_offset)))
    }

    /// Returns the stack address of the return address of a frame whose base register has this value (Avma).
    pub(crate) fn return_address_above(&self, base: u64) -> u64 {
        let cfa = base.wrapping_add_signed(i64::from(self.cfa_offset));
        cfa.wrapping_add_signed(i64::from(self.return_address) * WORD)
    }

    /// Returns the rule of the epilogue that begins here, where instructions restore registers, drop the frame and
    /// return: an epilogue. Says more than a frame pointer, which code without tables may not keep. Known for x86-64.
    pub(crate) fn from_epilogue(architecture: Architecture, code: &[u8]) -> Option<Self> {
        Self::and_size_of_epilogue(architecture, code).map(|(rule, _)| rule)
    }

    fn and_size_of_epilogue(architecture: Architecture, code: &[u8]) -> Option<(Self, usize)> {
        let mut rule = Self {
            cfa_offset: 0,
            cfa_register: architecture.stack_pointer(),
            return_address: -1,
            saved: [0; MAX_CALLEE_SAVED],
        };
        // Where each register is restored from, in bytes from the stack pointer.
        let mut places = [None; MAX_CALLEE_SAVED];
        let mut dropped = 0;
        let mut rest = code;
        for _ in 0..MAX_EPILOGUE_INSTRUCTIONS {
            let (instruction, size) = EpilogueInstruction::parse(architecture, rest)?;
            rest = rest.get(size..)?;
            let (register, place) = match instruction {
                EpilogueInstruction::Pop(register) => {
                    dropped += WORD;
                    (register, dropped - WORD)
                }
                EpilogueInstruction::Load(register, offset) => (register, dropped + offset),
                EpilogueInstruction::Drop(bytes) => {
                    dropped += bytes;
                    continue;
                }
                EpilogueInstruction::Other => continue,
                EpilogueInstruction::Return => {
                    let cfa = dropped + WORD;
                    rule.cfa_offset = i32::try_from(cfa).ok()?;
                    for (saved, place) in rule.saved.iter_mut().zip(places) {
                        *saved = place.map_or(Some(0), |place| words(&Location::AtOffset(place - cfa)))?;
                    }
                    return Some((rule, code.len() - rest.len()));
                }
            };
            if let Some(index) = architecture.callee_saved().iter().position(|saved| *saved == register) {
                *places.get_mut(index)? = Some(place);
            }
        }
        None
    }

    /// The rules of the epilogues in `code`, from its beginning on, that restore or drop something. Each holds for the code
    /// around it, too, if that is of the same function, and the frame is made.
    pub(crate) fn of_epilogues(architecture: Architecture, code: &[u8]) -> impl Iterator<Item = Self> {
        let mut from = 0;
        core::iter::from_fn(move || {
            loop {
                let rest = code.get(from..).filter(|rest| !rest.is_empty())?;
                from += 1;
                if matches!(rest.first(), Some(0x41 | 0x48 | 0x58..=0x5f))
                    && let Some((rule, size)) = Self::and_size_of_epilogue(architecture, rest)
                    && i64::from(rule.cfa_offset) > WORD
                {
                    from += size - 1;
                    return Some(rule);
                }
            }
        })
    }

    /// Turns the registers of a frame into its caller's.
    #[inline]
    pub(crate) fn apply<M: ReadMemory>(
        &self,
        registers: &mut Registers,
        memory: &mut M,
    ) -> Result<(), Fault> {
        let architecture = registers.architecture();
        let cfa = registers
            .get(self.cfa_register)
            .ok_or(Fault::Impossible)?
            .wrapping_add_signed(i64::from(self.cfa_offset));
        let read = |memory: &mut M, words: i16| {
            let address = cfa.wrapping_add_signed(i64::from(words) * WORD);
            memory.read_word(address).ok_or(Fault::Unreadable(address))
        };
        let return_address = match (self.return_address, architecture.link_register()) {
            (0, Some(link_register)) => registers.get(link_register).ok_or(Fault::Impossible)?,
            (words, _) => read(memory, words)?,
        };
        let stack_pointer = registers.stack_pointer().unwrap_or_default();
        registers.keep(architecture.callee_saved_mask());
        for (&register, &words) in architecture.callee_saved().iter().zip(&self.saved) {
            // Slots below the stack pointer have been popped by an epilogue: the register is restored already, although
            // compilers do not describe that.
            if words != 0 && cfa.wrapping_add_signed(i64::from(words) * WORD) >= stack_pointer {
                match read(memory, words) {
                    Ok(value) => registers.set(register, value),
                    Err(_) => registers.forget(register),
                }
            }
        }
        if let Some(link_register) = architecture.link_register() {
            registers.set(link_register, return_address);
        }
        registers.set(architecture.stack_pointer(), cfa);
        registers.set(architecture.program_counter(), return_address);
        Ok(())
    }

    /// The same rule with `words` more words on the stack.
    pub(crate) fn with_pushed(mut self, words: u64) -> Self {
        self.cfa_offset = self.cfa_offset.saturating_add(i32::try_from(words * 8).unwrap_or(i32::MAX));
        self
    }

    /// Returns the stack address of the return address (Avma).
    pub(crate) fn return_address_slot(&self, registers: &Registers) -> Option<u64> {
        registers.get(self.cfa_register).map(|base| self.return_address_above(base))
    }

    /// Returns true if the caller's stack pointer follows from this frame's: it then lies above it, on the same stack.
    pub(crate) fn stays_on_stack(&self, architecture: Architecture) -> bool {
        self.cfa_register == architecture.stack_pointer()
    }

    /// The rule with the frame pointer saved below the return address, as each Go function with a frame has it.
    pub(crate) fn with_saved_frame_pointer(mut self) -> Self {
        if i64::from(self.cfa_offset) > WORD && self.saved[0] == 0 {
            self.saved[0] = -2;
        }
        self
    }
}

fn words(location: &Location) -> Option<i16> {
    match *location {
        Location::AtOffset(offset) if offset % WORD == 0 && offset != 0 => i16::try_from(offset / WORD).ok(),
        Location::Same => Some(0),
        _ => None,
    }
}
