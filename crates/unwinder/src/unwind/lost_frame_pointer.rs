//! Recovers the frame pointer where the sample does not have it: for a thread that is read from outside,
//! `/proc/PID/task/TID/syscall` has only the stack pointer and the instruction pointer.

use super::{Objects, Position, Walk};
use crate::memory::ReadMemory;
use crate::rule::CompactRule;

/// The maximum number of words that are searched for a return address.
const MAX_SEARCHED_WORDS: u64 = 4096;

impl<'s, O: Objects, M: ReadMemory> Walk<'_, 's, O, M> {
    /// Finds the frame pointer that `rule` needs at `position`, if no inner frame has saved it: by the only word of the stack
    /// that follows a direct call of this very function. Where there are several, or none (a call by way of a stub or a
    /// pointer), nothing is known, and the stack ends there.
    pub(super) fn recover_frame_pointer(&mut self, position: Position<'s>, rule: &CompactRule) -> Option<()> {
        let frame_pointer = self.registers.architecture().frame_pointer();
        if self.registers.frame_pointer().is_some() || rule.base_below(0).0 != frame_pointer {
            return None;
        }
        let mapping = position.mapping?;
        let tables = self.objects.tables(mapping.object?)?;
        let function = mapping.file_offset_of(position.lookup.0)?;
        let stack_pointer = self.registers.stack_pointer()?;
        let mut found = None;
        for index in 0..MAX_SEARCHED_WORDS {
            let place = stack_pointer.checked_add(index * 8)?;
            let Some(word) = self.memory.copy.word(place) else { break };
            let caller = self.return_address(word).filter(|caller| caller.mapping == position.mapping);
            let Some(target) = caller.and_then(|caller| self.call_target(caller)) else { continue };
            let target = mapping.file_offset_of(target);
            if target.is_some_and(|target| tables.share_function(target, function))
                && found.replace(place).is_some()
            {
                return None;
            }
        }
        let (register, value) = rule.base_below(found?);
        self.registers.set(register, value);
        Some(())
    }
}
