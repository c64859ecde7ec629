//! Finds the frame pointer of a frame that no inner frame has saved.
//!
//! Threads that are read from outside lack it: `/proc/PID/task/TID/syscall` has only the stack pointer and the instruction pointer.

use super::Walk;
use super::without_tables::MAX_PUSHED_ARGUMENTS;
use crate::memory::ReadMemory;
use crate::objects::Objects;
use crate::rule::CompactRule;
use crate::unwind::rules::Position;

/// The maximum number of words that are searched for the return address of a call of one function.
const MAX_SEARCHED_WORDS: u64 = 4096;

/// What speaks for a word being the return address of a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    /// It follows an indirect call, or one of another function, which may have jumped here; or it lies in generated code.
    Call,
    /// It follows a direct call of this function.
    OwnCall,
}

impl<'s, O: Objects, M: ReadMemory> Walk<'_, 's, O, M> {
    /// Finds the frame pointer that `rule` needs at `position`, if no inner frame has saved it: by the size of the frame that the function
    /// makes, if a call stands before the return address that it leads to; else by the only word of the stack that follows a direct call of
    /// this very function. Where there are several, or none (a call by way of a stub or a pointer), nothing is known, and the stack ends
    /// there.
    pub(super) fn recover_frame_pointer(&mut self, position: Position<'s>, rule: &CompactRule) -> Option<()> {
        let frame_pointer = self.registers.architecture().frame_pointer();
        if self.registers.frame_pointer().is_some() || rule.base_below(0).0 != frame_pointer {
            return None;
        }
        let value = self.by_frame_size(position, rule).or_else(|| self.by_only_call(position, rule))?;
        self.registers.set(frame_pointer, value);
        Some(())
    }

    /// Returns the frame pointer by the size of the frame. Arguments of the call may have been pushed below it.
    fn by_frame_size(&mut self, position: Position<'s>, rule: &CompactRule) -> Option<u64> {
        let size = self.rules.bytes_below_frame_pointer(self.objects, position.location()?)?;
        let lowest = self.registers.stack_pointer()?.checked_add(size)?;
        for pushed in 0..=MAX_PUSHED_ARGUMENTS {
            let value = lowest.checked_add(pushed * 8)?;
            let least = if pushed == 0 { Evidence::Call } else { Evidence::OwnCall };
            if self.evidence(position, rule.return_address_above(value)) >= Some(least) {
                return Some(value);
            }
        }
        None
    }

    /// Returns the frame pointer below the only word of the stack that follows a direct call of the function.
    fn by_only_call(&mut self, position: Position<'s>, rule: &CompactRule) -> Option<u64> {
        let stack_pointer = self.registers.stack_pointer()?;
        let mut found = None;
        for index in 0..MAX_SEARCHED_WORDS {
            let place = stack_pointer.checked_add(index * 8)?;
            if self.memory.copy.word(place).is_none() {
                break;
            }
            if self.evidence(position, place) == Some(Evidence::OwnCall) && found.replace(place).is_some() {
                return None;
            }
        }
        Some(rule.base_below(found?).1)
    }

    /// Returns what speaks for the word at `place` being the return address of the function at `position`.
    fn evidence(&mut self, position: Position<'s>, place: u64) -> Option<Evidence> {
        let architecture = self.registers.architecture();
        let word = self.memory.copy.word(place)?;
        let word = architecture.strip_pointer_bits(word, self.space.highest_address());
        let caller = self.return_address(word)?;
        if caller.mapping == position.mapping
            && let Some(target) = self.call_target(caller)
        {
            let mapping = position.mapping?;
            let tables = self.objects.tables(mapping.object?)?;
            let function = mapping.file_offset_of(position.lookup.0)?;
            let target = mapping.file_offset_of(target);
            if target.is_some_and(|target| tables.share_function(target, function)) {
                return Some(Evidence::OwnCall);
            }
        }
        // The instructions of generated code are not at hand.
        (self.follows_call(caller) != Some(false)).then_some(Evidence::Call)
    }
}
