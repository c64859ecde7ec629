//! Walks one stack, frame by frame.

mod unknown_frame_pointer;
mod without_tables;

use alloc::sync::Arc;
use core::cell::Cell;
use core::ops::Range;

use model::{Avma, FileOffset, FrameAddress, TruncationReason};

use super::rules::{Position, Rules, return_address_in};
use crate::address_space::{AddressSpace, Mapping};
use crate::evaluate::{Fault, evaluate};
use crate::memory::{ReadMemory, StackMemory};
use crate::objects::Objects;
use crate::registers::Registers;
use crate::rule::{CompactRule, Rule};
use crate::stack::{Frame, StackEnd, UnwoundStack, WatchedFrame};
use crate::tables::UnwindTables;

/// The maximum number of steps to another stack (signal stacks, coroutines) in one walk. It ends walks over cyclic stacks, which have to
/// step down once per cycle.
const MAX_STACK_SWITCHES: u32 = 16;

/// The maximum number of frames whose registers are recorded: 300 bytes each.
const MAX_WATCHED_FRAMES: usize = 64;

/// The way in which a caller was found. It decides how the caller is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// By a row. `stays_on_stack` is false if the caller may be on another stack.
    Row { stays_on_stack: bool },
    /// By a row or frame that the kernel made: the address above is an instruction pointer.
    SignalFrame,
    /// By the frame pointer, or the return address of a function without tables.
    Guess,
    /// By the frame pointer in Go code, which links the stacks of one thread.
    GoFramePointer,
}

/// A walk over one stack.
pub(super) struct Walk<'w, 's, O, M> {
    rules: &'w mut Rules,
    frame_limit: u16,
    /// False to end stacks at code without unwind tables ([`Unwinder::with_code_without_tables`](crate::Unwinder::with_code_without_tables)).
    code_without_tables: bool,
    space: &'s AddressSpace,
    objects: &'w mut O,
    memory: StackMemory<'w, M>,
    registers: Registers,
    switches: u32,
    /// The mapping found last: most callers are in the same one.
    recent: Cell<Option<&'s Mapping>>,
    /// The address of the walk that lies in no known executable mapping ([`UnwoundStack::unmapped`]).
    unmapped: Option<Avma>,
    /// The frame pointer of the outermost frame, if it points outside of the copy ([`UnwoundStack::frame_pointer_beyond_copy`]).
    frame_pointer_beyond_copy: Option<u64>,
    /// True if the caller about to be found comes from a search of the stack.
    searched: bool,
    /// True if the current or last step goes by the frame pointer.
    led_by_frame_pointer: bool,
    /// True if the step before that one went by the frame pointer.
    came_by_frame_pointer: bool,
    /// The reason why some step may have jumped over frames, so that the stack is not complete though its first frame is found.
    doubt: Option<TruncationReason>,
    /// True if a signal interrupted the thread on another stack than the one that was copied.
    on_other_stack: bool,
    /// The code whose frames are wanted with their registers ([`Objects::watched`]).
    watched: Arc<[Range<Avma>]>,
}

impl<'w, 's, O: Objects, M: ReadMemory> Walk<'w, 's, O, M> {
    pub(super) fn new(
        rules: &'w mut Rules,
        space: &'s AddressSpace,
        objects: &'w mut O,
        memory: StackMemory<'w, M>,
        registers: Registers,
        frame_limit: u16,
        code_without_tables: bool,
    ) -> Self {
        let watched = objects.watched();
        Self {
            rules,
            frame_limit,
            code_without_tables,
            space,
            objects,
            memory,
            registers,
            switches: 0,
            recent: Cell::new(None),
            unmapped: None,
            frame_pointer_beyond_copy: None,
            searched: false,
            led_by_frame_pointer: false,
            doubt: None,
            on_other_stack: false,
            came_by_frame_pointer: false,
            watched,
        }
    }

    /// Walks the whole stack into `stack`, which is empty.
    pub(super) fn run(&mut self, stack: &mut UnwoundStack) {
        stack.end = match (self.push_frames(stack), self.doubt) {
            // Without the file of an object, its unwind data are not missing but unread.
            (StackEnd::Complete | StackEnd::Truncated(TruncationReason::NoUnwindData), Some(reason)) => {
                truncated(reason)
            }
            (end, _) => end,
        };
        (stack.unmapped, stack.frame_pointer_beyond_copy) = (self.unmapped, self.frame_pointer_beyond_copy);
    }

    fn push_frames(&mut self, stack: &mut UnwoundStack) -> StackEnd {
        let (Some(pc), Some(sp)) = (self.registers.program_counter(), self.registers.stack_pointer()) else {
            return StackEnd::Truncated(TruncationReason::RuleFailed);
        };
        let mut position = self.instruction_pointer(pc);
        stack.frames.push(Frame { address: position.address, stack_pointer: sp });
        stack.frames_from_copy = 1;
        self.record_watched(position, stack);
        if position.mapping.is_none_or(|mapping| !mapping.executable) {
            self.unmapped = Some(Avma(pc));
        }
        // The number of frames before the first one that a search has found.
        let mut sure = None;
        loop {
            let frame_limit = self.frame_limit;
            if stack.frames.len() >= usize::from(frame_limit) {
                return truncated(TruncationReason::AddressLimit(frame_limit));
            }
            position = match self.caller(position) {
                Ok(caller) => caller,
                Err(StackEnd::Truncated(TruncationReason::RuleFailed | TruncationReason::MappingUnknown))
                    if let Some(sure) = sure =>
                {
                    // The search has found the remains of an earlier call, as they lead nowhere.
                    stack.frames.truncate(sure);
                    stack.frames_from_copy = stack.frames_from_copy.min(sure);
                    self.unmapped = None;
                    return truncated(TruncationReason::NoUnwindData);
                }
                Err(end) => return end,
            };
            if core::mem::take(&mut self.searched) && sure.is_none() {
                sure = Some(stack.frames.len());
            }
            let stack_pointer = self.registers.stack_pointer().unwrap_or_default();
            stack.frames.push(Frame { address: position.address, stack_pointer });
            self.record_watched(position, stack);
            if self.memory.words_beyond_copy == 0 {
                stack.frames_from_copy = stack.frames.len();
            }
        }
    }

    /// Records the registers of the newest frame, if its code is watched.
    fn record_watched(&self, position: Position<'s>, stack: &mut UnwoundStack) {
        if stack.watched.len() < MAX_WATCHED_FRAMES
            && self.watched.iter().any(|code| code.contains(&position.lookup))
        {
            let registers = self.registers.clone();
            stack.watched.push(WatchedFrame { index: stack.frames.len() - 1, registers });
        }
    }

    /// Steps to the caller and checks it.
    fn caller(&mut self, position: Position<'s>) -> Result<Position<'s>, StackEnd> {
        let stack_pointer = self.registers.stack_pointer().unwrap_or_default();
        self.came_by_frame_pointer = core::mem::take(&mut self.led_by_frame_pointer);
        let step = self.step(position);
        let step = step?;
        self.check_growth(position, step, stack_pointer)?;
        let pc = self.registers.program_counter().unwrap_or_default();
        let pc = self.registers.architecture().strip_pointer_bits(pc, self.space.highest_address());
        if step == Step::SignalFrame {
            let interrupted_at = self.registers.stack_pointer().unwrap_or_default();
            self.on_other_stack |= !self.memory.copy.contains(interrupted_at);
            let interrupted = self.instruction_pointer(pc);
            if interrupted.mapping.is_some_and(|mapping| mapping.executable) {
                return Ok(interrupted);
            }
            // A call to nowhere raised the signal.
            self.step_over_call_to_nowhere()?;
            let pc = self.registers.program_counter().unwrap_or_default();
            return self.return_address(pc).ok_or(truncated(TruncationReason::MappingUnknown));
        }
        let failed = match step {
            Step::Guess => TruncationReason::NoUnwindData,
            _ => TruncationReason::MappingUnknown,
        };
        if pc == 0 && self.registers.frame_pointer() == Some(0) && step != Step::GoFramePointer {
            // Runtimes put zeroes above the first frame of a stack. Go does not, and clears memory that stacks have left.
            return Err(StackEnd::Complete);
        }
        let Some(caller) = self.return_address(pc) else {
            if let Some(trampoline) = self.trampoline_of_return_probe(pc) {
                return Ok(trampoline);
            }
            if step != Step::Guess {
                self.unmapped = Some(Avma(pc));
            }
            return Err(truncated(failed));
        };
        let is_late = self.memory.words_beyond_copy > 0;
        if is_late && self.on_other_stack && self.is_of_other_call(position, caller) {
            return Err(truncated(TruncationReason::RuleFailed));
        }
        if (is_late || step == Step::Guess)
            && self.follows_call(caller) == Some(false)
            && !matches!(self.rule(caller), Rule::Outermost)
        {
            return Err(truncated(match step {
                Step::Guess => TruncationReason::NoUnwindData,
                _ => TruncationReason::RuleFailed,
            }));
        }
        Ok(caller)
    }

    /// Turns the registers into the caller's.
    fn step(&mut self, position: Position<'s>) -> Result<Step, StackEnd> {
        match self.rule(position) {
            Rule::Compact(rule) => {
                self.recover_frame_pointer(position, &rule);
                self.apply(&rule)
            }
            Rule::Row(row) => {
                match evaluate(&row, &self.registers, &mut self.memory).map_err(|fault| self.fault(fault))? {
                    None => Err(StackEnd::Complete),
                    Some(registers) => {
                        self.registers = registers;
                        Ok(if row.signal_frame {
                            Step::SignalFrame
                        } else {
                            Step::Row { stays_on_stack: false }
                        })
                    }
                }
            }
            Rule::Go(rule) => match (position.address, rule) {
                (FrameAddress::InstructionPointer(_), Some(rule)) => self.apply(&rule),
                (FrameAddress::InstructionPointer(_), None) => self.step_into_go(position),
                (FrameAddress::ReturnAddress(_), rule) => {
                    self.step_in_go(rule)?;
                    Ok(Step::GoFramePointer)
                }
            },
            Rule::Epilogue(rule) => {
                // Code behind a call that does not return may look like an epilogue, but is none.
                self.apply(&rule).map(|_| Step::Guess)
            }
            Rule::SignalTrampoline => self.step_over_signal_frame(),
            Rule::FramePointer => self.step_without_tables(position, false, None),
            Rule::Unreadable => {
                self.doubt = Some(TruncationReason::ObjectUnreadable);
                self.step_without_tables(position, false, Some(Arc::default()))
            }
            Rule::NearCode(near) => self.step_without_tables(position, false, Some(near)),
            Rule::Outermost => Err(StackEnd::Complete),
            Rule::Malformed => Err(truncated(TruncationReason::RuleFailed)),
        }
    }

    fn apply(&mut self, rule: &CompactRule) -> Result<Step, StackEnd> {
        rule.apply(&mut self.registers, &mut self.memory).map_err(|fault| self.fault(fault))?;
        Ok(Step::Row { stays_on_stack: rule.stays_on_stack(self.registers.architecture()) })
    }

    /// Restores all registers from where the kernel saved them.
    fn step_over_signal_frame(&mut self) -> Result<Step, StackEnd> {
        let architecture = self.registers.architecture();
        let frame = self.registers.stack_pointer().unwrap_or_default();
        let mut interrupted = Registers::new(architecture);
        for register in 0..architecture.register_count() {
            if let Some(offset) = architecture.signal_frame_offset(register) {
                let value = self.read(frame.wrapping_add(offset))?;
                interrupted.set(register, value);
            }
        }
        // The kernel saves vectors elsewhere, and a handler has those of its thread.
        if let Some(register) = architecture.vector_granule()
            && let Some(length) = self.registers.get(register)
        {
            interrupted.set(register, length);
        }
        self.registers = interrupted;
        Ok(Step::SignalFrame)
    }

    /// Steps over a call to an address without code: its return address is still on top of the stack.
    fn step_over_call_to_nowhere(&mut self) -> Result<(), StackEnd> {
        let architecture = self.registers.architecture();
        let return_address = match architecture.link_register() {
            Some(link_register) => self.registers.get(link_register).unwrap_or_default(),
            None => {
                let stack_pointer = self.registers.stack_pointer().unwrap_or_default();
                let word = self.read(stack_pointer)?;
                self.registers.set(architecture.stack_pointer(), stack_pointer.wrapping_add(8));
                word
            }
        };
        self.registers.set(architecture.program_counter(), return_address);
        Ok(())
    }

    /// Checks that the caller's frame lies above its callee's. Otherwise the step must have changed stacks, which a walk may do
    /// [`MAX_STACK_SWITCHES`] times.
    fn check_growth(
        &mut self,
        position: Position<'s>,
        step: Step,
        stack_pointer: u64,
    ) -> Result<(), StackEnd> {
        let above = self.registers.stack_pointer().unwrap_or_default();
        let leaf = self.registers.architecture().link_register().is_some()
            && matches!(position.address, FrameAddress::InstructionPointer(_));
        if above > stack_pointer || (leaf && above == stack_pointer) {
            return Ok(());
        }
        let may_switch = !matches!(step, Step::Row { stays_on_stack: true } | Step::Guess);
        if !may_switch || self.switches >= MAX_STACK_SWITCHES {
            return Err(truncated(TruncationReason::RuleFailed));
        }
        self.switches += 1;
        Ok(())
    }

    fn fault(&self, fault: Fault) -> StackEnd {
        match fault {
            Fault::Unreadable(_) if self.on_other_stack => truncated(TruncationReason::OtherStack),
            Fault::Unreadable(address) if self.memory.copy.ends_below(address) => {
                truncated(TruncationReason::CopyTooSmall)
            }
            Fault::Impossible if self.registers.frame_pointer().is_none() => {
                truncated(TruncationReason::FramePointerUnknown)
            }
            _ => truncated(TruncationReason::RuleFailed),
        }
    }

    fn read(&mut self, address: u64) -> Result<u64, StackEnd> {
        match self.memory.read_word(address) {
            Some(word) => Ok(word),
            None => Err(self.fault(Fault::Unreadable(address))),
        }
    }

    fn rule(&mut self, position: Position<'s>) -> Rule {
        self.rules.find(self.objects, position)
    }

    /// Returns true if a call instruction ends right before the return address; `None` where the code is not at hand.
    fn follows_call(&mut self, caller: Position<'s>) -> Option<bool> {
        let architecture = self.registers.architecture();
        if let Some((tables, offset)) = self.tables_and_offset(caller) {
            return Some(architecture.ends_in_call(&tables.code_before(offset)));
        }
        let word = self.memory.beyond.read_word(caller.address.address().0.checked_sub(8)?)?;
        Some(architecture.ends_in_call(&word.to_le_bytes()))
    }

    /// Returns true if the caller of an interrupted instruction has called another function of the same object: the memory was read when
    /// the thread had gone on.
    fn is_of_other_call(&mut self, interrupted: Position<'s>, caller: Position<'s>) -> bool {
        let FrameAddress::InstructionPointer(_) = interrupted.address else { return false };
        let Some(target) = self.call_target(caller) else { return false };
        let called = self.instruction_pointer(target);
        let mut function = |position: Position<'s>| {
            let location = position.location()?;
            Some((location.object, self.objects.tables(location.object)?.function_at(location.offset)?))
        };
        let called = function(called);
        called.is_some() && called != function(interrupted)
    }

    /// Returns the tables of the object that holds a return address, and the address's offset in the file.
    fn tables_and_offset(
        &mut self,
        caller: Position<'s>,
    ) -> Option<(Arc<UnwindTables<O::Bytes>>, FileOffset)> {
        let mapping = caller.mapping?;
        // The byte before is in the mapping; the return address itself may lie at its end.
        let offset = mapping.file_offset_of(caller.lookup.0)?.checked_add(1)?;
        Some((self.objects.tables(mapping.object?)?, offset))
    }

    fn instruction_pointer(&self, pc: u64) -> Position<'s> {
        let lookup = Avma(pc);
        Position { address: FrameAddress::InstructionPointer(lookup), lookup, mapping: self.mapping(lookup) }
    }

    /// Returns the position of a return address, if code can run right before it.
    fn return_address(&self, pc: u64) -> Option<Position<'s>> {
        return_address_in(self.mapping(Avma(pc.checked_sub(1)?)), Avma(pc))
    }

    fn mapping(&self, address: Avma) -> Option<&'s Mapping> {
        if let Some(recent) = self.recent.get().filter(|recent| recent.range.contains(&address)) {
            return Some(recent);
        }
        let found = self.space.find(address)?;
        self.recent.set(Some(found));
        Some(found)
    }
}

fn truncated(reason: TruncationReason) -> StackEnd {
    StackEnd::Truncated(reason)
}
