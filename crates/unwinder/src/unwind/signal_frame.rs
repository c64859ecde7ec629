//! Steps over the frame that the kernel puts on a stack to deliver a signal.

use super::{Objects, Step, Walk};
use crate::memory::ReadMemory;
use crate::registers::Registers;
use crate::stack::StackEnd;

impl<O: Objects, M: ReadMemory> Walk<'_, '_, O, M> {
    /// Restores all registers from where the kernel saved them.
    pub(super) fn step_over_signal_frame(&mut self) -> Result<Step, StackEnd> {
        self.memory.steps.exclude_step();
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
    pub(super) fn step_over_call_to_nowhere(&mut self) -> Result<(), StackEnd> {
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
}
