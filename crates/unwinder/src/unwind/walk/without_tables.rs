//! Steps through code without a row of an unwind table: by the frame pointer, or by return addresses found on the stack.

use alloc::sync::Arc;

use elf::ReadAt;
use model::{FileOffset, FrameAddress, TruncationReason};

use super::{Step, Walk, truncated};
use crate::memory::ReadMemory;
use crate::objects::Objects;
use crate::rule::{CompactRule, NearCode, Rule};
use crate::rule_cache::CodeLocation;
use crate::stack::StackEnd;
use crate::tables::UnwindTables;
use crate::unwind::rules::{Position, resume_offset};

/// The maximum number of words that a stub of a procedure linkage table has pushed on top of the return address.
const MAX_WORDS_PUSHED_BY_STUB: u64 = 2;

/// The maximum number of words that a function has pushed as arguments of the function that it calls.
pub(super) const MAX_PUSHED_ARGUMENTS: u64 = 6;

/// The maximum size of a function without an FDE.
const MAX_FUNCTION_BYTES: u64 = 64 << 10;

/// The maximum size of a frame of generated code. The kernel copies no more of a stack.
const MAX_GENERATED_FRAME_BYTES: u64 = 64 << 10;

/// The maximum number of words of a frame without tables that are searched for a return address.
const MAX_SEARCHED_FRAME_WORDS: u64 = 128;

impl<'s, O: Objects, M: ReadMemory> Walk<'_, 's, O, M> {
    /// Returns the position in the trampoline of a return probe (uretprobe), if the return address leads there: to the first instruction of
    /// a mapping without code before it, which no call leaves behind. The kernel has put it in place of the caller's address, which is
    /// nowhere in the process's memory. The frames above that caller are found as above code without tables.
    pub(super) fn trampoline_of_return_probe(&self, pc: u64) -> Option<Position<'s>> {
        let position = self.instruction_pointer(pc);
        let begins_there = position.mapping.is_some_and(|mapping| {
            mapping.executable && mapping.range.start.0 == pc && mapping.file_offset == FileOffset(0)
        });
        begins_there.then_some(position)
    }

    /// Steps to the caller of code without an FDE: assembler, stubs, generated code.
    ///
    /// Set `saves_frame_pointer` if each function with a frame keeps its caller's frame pointer below the return address. `near` is the code
    /// around the address, if it has been searched.
    pub(super) fn step_without_tables(
        &mut self,
        position: Position<'s>,
        saves_frame_pointer: bool,
        near: Option<Arc<NearCode>>,
    ) -> Result<Step, StackEnd> {
        if !self.code_without_tables {
            return Err(truncated(TruncationReason::NoUnwindData));
        }
        let at_call = matches!(position.address, FrameAddress::ReturnAddress(_));
        let is_generated = position.mapping.is_some_and(|mapping| mapping.object.is_none());
        // Trampolines of interpreters that are built without frame pointers have any value there: in a thread, often one from the
        // heap above its stack.
        let is_no_frame_pointer = is_generated && self.frame_pointer_is_far();
        let near = near.unwrap_or_else(|| self.find_near_code(position));
        let keeps_frame_pointer = near.keeps_frame_pointer && !is_no_frame_pointer;
        if at_call && keeps_frame_pointer && self.frame_pointer_is_plausible() {
            self.step_by_frame_pointer(false)?;
            return Ok(Step::Guess);
        }
        if at_call && is_generated && self.came_by_frame_pointer && self.registers.frame_pointer() == Some(0)
        {
            // Generated code that keeps frame pointers marks its first frame as C libraries do (Erlang, V8).
            return Err(StackEnd::Complete);
        }
        if !at_call && let Some(leaf) = self.return_address_of_leaf(position) {
            self.step_from_leaf(position, leaf, saves_frame_pointer, &near.epilogues)?;
            return Ok(Step::Guess);
        }
        if !at_call && keeps_frame_pointer && self.frame_pointer_is_plausible() {
            if self.frame_pointer_leads_beyond_copy()
                && let Some((return_address, stack_pointer)) = self.return_address_of_stub(position)
            {
                self.set_leaf_caller(return_address, stack_pointer);
                return Ok(Step::Guess);
            }
            self.step_by_frame_pointer(false)?;
            return Ok(Step::Guess);
        }
        if self.step_by_near_epilogue(position, &near.epilogues)? {
            return Ok(Step::Guess);
        }
        let found = match saves_frame_pointer {
            true => self.search_nearest_call(position).or_else(|| self.search_return_address(position)),
            false => self.search_return_address(position),
        };
        if let Some(caller) = found {
            self.step_to_found(caller, saves_frame_pointer);
            return Ok(Step::Guess);
        }
        match position.mapping {
            // "The content of the frame pointer is undefined at process entry and should be marked by zero" (System V ABI,
            // AMD64 supplement, section 3.4.1): C libraries do so where a thread begins. Code that keeps no frame pointers may have any
            // number there, 0 above all.
            Some(mapping) if mapping.object.is_some() && self.registers.frame_pointer() == Some(0) => {
                Err(match near.keeps_frame_pointer {
                    true => StackEnd::Complete,
                    false => truncated(TruncationReason::NoUnwindData),
                })
            }
            Some(_) => {
                self.step_by_frame_pointer(false)?;
                if !near.keeps_frame_pointer {
                    self.doubt.get_or_insert(TruncationReason::NoUnwindData);
                }
                Ok(Step::Guess)
            }
            None => Err(truncated(TruncationReason::MappingUnknown)),
        }
    }

    /// Steps from the innermost frame to the return address on top of the stack (with the stack pointer above it), unless an epilogue
    /// nearby or the frame pointer shows that another return address is that of this function.
    fn step_from_leaf(
        &mut self,
        position: Position<'s>,
        (return_address, stack_pointer): (u64, u64),
        saves_frame_pointer: bool,
        epilogues: &[CompactRule],
    ) -> Result<(), StackEnd> {
        for epilogue in epilogues {
            if let Some(place) = epilogue.return_address_slot(&self.registers)
                && self.frame_is_of_nearer_function(position, place, return_address)
            {
                return self.apply(epilogue).map(|_| ());
            }
        }
        // With a frame of its own already, the function has changed the frame pointer, too.
        let frame_pointer = self.registers.frame_pointer();
        let above = frame_pointer.and_then(|frame_pointer| frame_pointer.checked_add(8));
        let is_nearer = |above| self.frame_is_of_nearer_function(position, above, return_address);
        let has_frame = frame_pointer == Some(stack_pointer.wrapping_sub(16))
            || (saves_frame_pointer && above.is_some_and(is_nearer));
        if has_frame {
            // It may lie below the stack pointer: Go calls `runtime.duffcopy` with a frame that is yet to come.
            self.step_by_frame_pointer(true)
        } else {
            self.set_leaf_caller(return_address, stack_pointer);
            Ok(())
        }
    }

    /// Steps to a return address (with the stack pointer above it) that a search of the stack has found.
    fn step_to_found(&mut self, (return_address, stack_pointer): (u64, u64), saves_frame_pointer: bool) {
        self.searched = !saves_frame_pointer;
        let saved = stack_pointer.wrapping_sub(16);
        let has_frame = self.registers.stack_pointer().is_some_and(|below| below <= saved);
        self.set_leaf_caller(return_address, stack_pointer);
        if saves_frame_pointer
            && has_frame
            && let Some(frame_pointer) = self.memory.copy.word(saved)
        {
            self.registers.set(self.registers.architecture().frame_pointer(), frame_pointer);
        }
    }

    /// Searches the code around the address, and caches what it shows.
    fn find_near_code(&mut self, position: Position<'s>) -> Arc<NearCode> {
        let tables_of = |place: CodeLocation| Some((place, self.objects.tables(place.object)?));
        let Some((place, tables)) = position.location().and_then(tables_of) else { return Arc::default() };
        let near = Arc::new(near_code(&*tables, place));
        self.rules.replace(place, Rule::NearCode(Arc::clone(&near)));
        near
    }

    /// Steps by one of the epilogues next to the address: a function's own epilogue tells the size of its frame. An epilogue is taken to
    /// be the function's own if the frame's return address follows a direct call of a function that begins shortly below, or at least a
    /// call that may have led here. Returns false where there is none.
    fn step_by_near_epilogue(
        &mut self,
        position: Position<'s>,
        epilogues: &[CompactRule],
    ) -> Result<bool, StackEnd> {
        let (mut possible, mut beyond) = (None, false);
        for epilogue in epilogues {
            let Some(place) = epilogue.return_address_slot(&self.registers) else { continue };
            let Some(word) = self.memory.read_word(place) else {
                beyond |= self.memory.copy.ends_below(place);
                continue;
            };
            let pushed = (0..=MAX_PUSHED_ARGUMENTS).find(|pushed| {
                let word = self.memory.copy.word(place.wrapping_add(pushed * 8));
                let function = word.and_then(|word| self.call_target(self.return_address(word)?));
                function.is_some_and(|function| is_within_function(function, position.lookup.0))
            });
            if let Some(pushed) = pushed {
                return self.apply(&epilogue.with_pushed(pushed)).map(|_| true);
            }
            if possible.is_none() && self.may_have_called(word, position) == Some(true) {
                possible = Some(epilogue);
            }
        }
        match possible {
            // A search would find remains of earlier calls in this very frame, unless a thread begins here.
            _ if beyond && self.registers.frame_pointer() != Some(0) => {
                Err(truncated(TruncationReason::CopyTooSmall))
            }
            Some(epilogue) => self.apply(epilogue).map(|_| true),
            None => Ok(false),
        }
    }

    /// Steps to the caller of an innermost frame in Go code without an FDE.
    pub(super) fn step_into_go(&mut self, position: Position<'s>) -> Result<Step, StackEnd> {
        let frame_pointer = self.registers.frame_pointer();
        let step = self.step_without_tables(position, true, Some(Arc::default()));
        if step.is_err() {
            self.frame_pointer_beyond_copy = frame_pointer;
        }
        step
    }

    /// Steps to the caller of a return address in Go code, whose functions keep the frame pointer chain also across the stacks of a thread.
    pub(super) fn step_in_go(&mut self, rule: Option<CompactRule>) -> Result<(), StackEnd> {
        let frame_pointer = self.registers.frame_pointer();
        let words_beyond_copy = self.memory.words_beyond_copy;
        let Err(end) = self.step_by_frame_pointer(true) else { return Ok(()) };
        if self.step_to_first_go_frame(rule).is_some() {
            return Ok(());
        }
        match end {
            // Zeroes that were read after the sample may be in memory that the stack has left.
            StackEnd::Complete if words_beyond_copy > 0 => Err(truncated(TruncationReason::NoUnwindData)),
            StackEnd::Truncated(_) => {
                self.frame_pointer_beyond_copy = frame_pointer;
                Err(end)
            }
            _ => Err(end),
        }
    }

    /// Steps by the frame pointer, which points to the caller's frame pointer below the return address. Set `may_switch` if the caller may
    /// be on another stack.
    pub(super) fn step_by_frame_pointer(&mut self, may_switch: bool) -> Result<(), StackEnd> {
        let architecture = self.registers.architecture();
        let no_data = truncated(TruncationReason::NoUnwindData);
        let frame_pointer = self.registers.frame_pointer().ok_or(no_data)?;
        if frame_pointer == 0 && may_switch {
            return Err(StackEnd::Complete);
        }
        let below = self.registers.stack_pointer().is_none_or(|stack_pointer| frame_pointer < stack_pointer);
        if frame_pointer % 8 != 0 || (below && !may_switch) {
            return Err(no_data);
        }
        let read = |walk: &mut Self, address: u64| match walk.memory.read_word(address) {
            Some(word) => Ok(word),
            None if walk.memory.copy.ends_below(address) => Err(truncated(TruncationReason::CopyTooSmall)),
            None if may_switch => Err(truncated(TruncationReason::OtherStack)),
            None => Err(no_data),
        };
        let return_address = read(self, frame_pointer.wrapping_add(8))?;
        let callers_frame_pointer = read(self, frame_pointer)?;
        self.registers.keep(architecture.callee_saved_mask());
        self.registers.set(architecture.frame_pointer(), callers_frame_pointer);
        self.registers.set(architecture.stack_pointer(), frame_pointer.wrapping_add(16));
        self.registers.set(architecture.program_counter(), return_address);
        self.led_by_frame_pointer = true;
        Ok(())
    }

    /// Steps to a goroutine's first frame where the frame pointer leads out of the copy: a thread that Go's runtime has created still has
    /// the frame pointer of its creator. The frame is the last but one of the thread if the code that ends the thread has called it.
    pub(super) fn step_to_first_go_frame(&mut self, rule: Option<CompactRule>) -> Option<()> {
        let architecture = self.registers.architecture();
        let mut caller = self.registers.clone();
        match rule {
            Some(rule) => {
                rule.apply(&mut caller, &mut self.memory).ok()?;
            }
            None => {
                // The first functions have no frames of their own.
                let stack_pointer =
                    caller.stack_pointer().filter(|_| architecture.link_register().is_none())?;
                caller.set(architecture.program_counter(), self.memory.read_word(stack_pointer)?);
                caller.set(architecture.stack_pointer(), stack_pointer.checked_add(8)?);
            }
        }
        let pc = architecture.strip_pointer_bits(caller.program_counter()?, self.space.highest_address());
        let (tables, offset) = self.tables_and_offset(self.return_address(pc)?)?;
        let is_first = architecture.ends_in_call(&tables.code_before(offset))
            && architecture.exits(&tables.code_from(offset));
        if !is_first {
            return None;
        }
        // The frame pointer is that of another thread.
        caller.set(architecture.frame_pointer(), 0);
        self.registers = caller;
        Some(())
    }

    fn set_leaf_caller(&mut self, return_address: u64, stack_pointer: u64) {
        let architecture = self.registers.architecture();
        self.registers.keep(architecture.callee_saved_mask());
        self.registers.set(architecture.stack_pointer(), stack_pointer);
        self.registers.set(architecture.program_counter(), return_address);
    }

    /// Finds the return address of an innermost function without tables that has no frame (yet), and the caller's stack pointer: a word
    /// at the top of the stack, or the link register, that follows a direct call of this very function.
    fn return_address_of_leaf(&mut self, position: Position<'s>) -> Option<(u64, u64)> {
        let architecture = self.registers.architecture();
        let stack_pointer = self.registers.stack_pointer()?;
        if let Some(link_register) = architecture.link_register() {
            let link = self.registers.get(link_register)?;
            let link = architecture.strip_pointer_bits(link, self.space.highest_address());
            return self.calls_into(link, position).then_some((link, stack_pointer));
        }
        (0..=MAX_WORDS_PUSHED_BY_STUB).find_map(|pushed| {
            let place = stack_pointer.checked_add(pushed * 8)?;
            let word = self.memory.copy.word(place)?;
            self.calls_into(word, position).then_some((word, place.checked_add(8)?))
        })
    }

    /// Returns true if `return_address` is the remains of an earlier call. The word at `place` is the return address if the function has
    /// its frame. It decides where it follows a call of a function that begins nearer below `position`, or of the same one.
    fn frame_is_of_nearer_function(
        &mut self,
        position: Position<'s>,
        place: u64,
        return_address: u64,
    ) -> bool {
        let Some(above) = self.memory.copy.word(place) else { return false };
        let mut callee = |word| self.return_address(word).and_then(|caller| self.call_target(caller));
        let (Some(by_frame), Some(by_top)) = (callee(above), callee(return_address)) else { return false };
        (by_top..=position.lookup.0).contains(&by_frame)
    }

    /// Finds the return address of an innermost stub that was reached by a jump (a tail call through the procedure linkage table), and
    /// the caller's stack pointer: the word on top of the stack, if it follows a call in the same mapping.
    fn return_address_of_stub(&mut self, position: Position<'s>) -> Option<(u64, u64)> {
        let stack_pointer = self.registers.stack_pointer()?;
        let word = self.memory.copy.word(stack_pointer)?;
        let caller = self.return_address(word)?;
        let follows = self.follows_call(caller) == Some(true) && caller.mapping == position.mapping;
        follows.then_some((word, stack_pointer.checked_add(8)?))
    }

    /// Returns true if the frame pointer is further above the stack pointer than a frame of generated code is large.
    fn frame_pointer_is_far(&self) -> bool {
        let (Some(above), Some(below)) = (self.registers.frame_pointer(), self.registers.stack_pointer())
        else {
            return false;
        };
        above.checked_sub(below).is_some_and(|size| size > MAX_GENERATED_FRAME_BYTES)
    }

    /// Returns true if the copy does not hold the return address above the frame pointer.
    fn frame_pointer_leads_beyond_copy(&self) -> bool {
        let place = self.registers.frame_pointer().and_then(|frame_pointer| frame_pointer.checked_add(8));
        place.is_some_and(|place| self.memory.copy.word(place).is_none())
    }

    /// Returns true if `return_address` follows a direct call of a function that begins at or shortly below `position`, with no FDE either.
    fn calls_into(&mut self, return_address: u64, position: Position<'s>) -> bool {
        let target = self.return_address(return_address).and_then(|caller| self.call_target(caller));
        let Some(target) = target else { return false };
        if !is_within_function(target, position.lookup.0) {
            return false;
        }
        let callee = self.instruction_pointer(target);
        callee.mapping.is_some()
            && matches!(self.rule(callee), Rule::FramePointer | Rule::NearCode(_) | Rule::Go(None))
    }

    /// Returns the target of the direct call before a return address.
    pub(super) fn call_target(&mut self, caller: Position<'s>) -> Option<u64> {
        let architecture = self.registers.architecture();
        let (tables, offset) = self.tables_and_offset(caller)?;
        let displacement = architecture.direct_call_displacement(&tables.code_before(offset))?;
        Some(caller.address.address().0.wrapping_add_signed(displacement))
    }

    /// Searches the stack upwards for the return address of a function without tables and without a frame pointer: the first word that
    /// follows a call which may have led here. Returns it with the caller's stack pointer.
    fn search_return_address(&mut self, position: Position<'s>) -> Option<(u64, u64)> {
        let architecture = self.registers.architecture();
        let stack_pointer = self.registers.stack_pointer()?;
        if let (Some(link_register), FrameAddress::InstructionPointer(_)) =
            (architecture.link_register(), position.address)
            && let Some(link) = self.registers.get(link_register)
            && self.may_have_called(link, position) == Some(true)
        {
            return Some((link, stack_pointer));
        }
        let mut is_doubtful = false;
        let found = (0..MAX_SEARCHED_FRAME_WORDS).find_map(|index| {
            let place = stack_pointer.checked_add(index * 8)?;
            let word = self.memory.copy.word(place)?;
            let may_have_called = self.may_have_called(word, position);
            is_doubtful |= may_have_called == Some(false);
            may_have_called.filter(|may| *may).and_then(|_| Some((word, place.checked_add(8)?)))
        });
        if is_doubtful && found.is_some() {
            // A return address in between may be that of a frame which was reached by a jump, and not the remains of an earlier call.
            self.doubt.get_or_insert(TruncationReason::NoUnwindData);
        }
        found
    }

    /// Searches as [`Self::search_return_address`], where a large frame may hold the remains of earlier calls: takes the word that follows
    /// a direct call of the function which begins nearest below `position`. Of several such words it takes the outermost one, since
    /// remains of the same call lie further in.
    fn search_nearest_call(&mut self, position: Position<'s>) -> Option<(u64, u64)> {
        let stack_pointer = self.registers.stack_pointer()?;
        let mut nearest = None;
        for index in 0..MAX_SEARCHED_FRAME_WORDS {
            let place = stack_pointer.checked_add(index * 8)?;
            let Some(word) = self.memory.copy.word(place) else { break };
            let function = self.return_address(word).and_then(|caller| self.call_target(caller));
            let function = function.filter(|&function| is_within_function(function, position.lookup.0));
            if function.is_some() && function >= nearest.map(|(function, _)| function) {
                nearest = function.zip(place.checked_add(8).map(|above| (word, above)));
            }
        }
        nearest.map(|(_, found)| found)
    }

    /// Returns `Some(true)` if `word` is a return address behind a call that may have led to `position`: an indirect call, one of
    /// another object's function (by way of a stub), or of a function that begins at or shortly below; `Some(false)` behind another call,
    /// and `None` if it is no return address.
    fn may_have_called(&mut self, word: u64, position: Position<'s>) -> Option<bool> {
        let word = self.registers.architecture().strip_pointer_bits(word, self.space.highest_address());
        let caller = self.return_address(word)?;
        match self.follows_call(caller) {
            Some(true) => {}
            // Where the object cannot be read, nobody knows.
            None if caller.mapping.is_some_and(|mapping| mapping.object.is_some()) => {
                self.doubt = Some(TruncationReason::ObjectUnreadable);
                return None;
            }
            _ => return None,
        }
        Some(match self.call_target(caller) {
            Some(target) if caller.mapping == position.mapping => {
                is_within_function(target, position.lookup.0) || matches!(self.rule(caller), Rule::Outermost)
            }
            _ => true,
        })
    }

    fn frame_pointer_is_plausible(&mut self) -> bool {
        let (Some(frame_pointer), Some(stack_pointer)) =
            (self.registers.frame_pointer(), self.registers.stack_pointer())
        else {
            return false;
        };
        if frame_pointer < stack_pointer || frame_pointer % 8 != 0 {
            return false;
        }
        let Some(word) = frame_pointer.checked_add(8).and_then(|place| self.memory.copy.word(place)) else {
            // Beyond the copy: nothing speaks against it.
            return self.memory.copy.ends_below(frame_pointer);
        };
        let word = self.registers.architecture().strip_pointer_bits(word, self.space.highest_address());
        match self.return_address(word) {
            Some(caller) => self.follows_call(caller) != Some(false),
            None => false,
        }
    }
}

/// Returns true if code at `address` may belong to a function without an FDE that begins at `start`.
fn is_within_function(start: u64, address: u64) -> bool {
    address.checked_sub(start).is_some_and(|distance| distance <= MAX_FUNCTION_BYTES)
}

/// Returns what the code around an address shows: the rules of the next epilogue and of the one before, as compilers put code that seldom
/// runs behind a function's end; and whether functions keep frame pointers.
fn near_code<D: ReadAt>(tables: &UnwindTables<D>, place: CodeLocation) -> NearCode {
    /// Bytes.
    const MAX_EPILOGUE_DISTANCE_BYTES: u64 = 4 << 10;
    let Some(at) = resume_offset(place) else { return NearCode::default() };
    let (start, end) =
        (at.0.saturating_sub(MAX_FUNCTION_BYTES), at.0.saturating_add(MAX_EPILOGUE_DISTANCE_BYTES));
    let architecture = tables.architecture();
    let code = tables.code_in(start..end);
    let (before, ahead) = code.split_at(code.len().min((at.0 - start) as usize));
    let (_, behind) = before.split_at(before.len().saturating_sub(MAX_EPILOGUE_DISTANCE_BYTES as usize));
    let next = CompactRule::of_epilogues(architecture, ahead).next();
    let last = CompactRule::of_epilogues(architecture, behind).last();
    NearCode {
        epilogues: next.into_iter().chain(last.filter(|last| next != Some(*last))).collect(),
        keeps_frame_pointer: architecture.sets_frame_pointer(before),
    }
}
