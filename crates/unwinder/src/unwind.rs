//! Unwinds stacks, each by a [`walk`].

mod rules;
mod walk;

use model::{Avma, FrameAddress};

use self::rules::{Position, Rules, return_address_in};
use self::walk::Walk;
use crate::address_space::AddressSpace;
use crate::architecture::Architecture;
use crate::memory::{ReadMemory, StackCopy, StackMemory};
use crate::objects::Objects;
use crate::registers::Registers;
use crate::row::Location;
use crate::rule::Rule;
use crate::stack::UnwoundStack;

/// The innermost frame, from which a stack is unwound.
#[derive(Clone, Debug)]
pub struct Innermost<'a> {
    /// The registers of the sampled thread.
    pub registers: &'a Registers,
    /// The copy of its stack.
    pub stack: StackCopy<'a>,
}

/// Unwinds stacks of one architecture. Caches the rule of each address it has met, for all processes. Each thread that
/// unwinds needs its own.
#[derive(Debug)]
pub struct Unwinder {
    rules: Rules,
    frame_limit: u16,
    code_without_tables: bool,
}

impl Default for Unwinder {
    fn default() -> Self {
        Self::new(Self::FRAME_LIMIT)
    }
}

impl Unwinder {
    /// The default limit of frames: as many addresses as fit into one sample record.
    pub const FRAME_LIMIT: u16 = 8_000;

    /// Creates an unwinder that ends stacks at `frame_limit` frames, for [`AddressLimit`](model::TruncationReason::AddressLimit).
    pub fn new(frame_limit: u16) -> Self {
        Self { rules: Rules::default(), frame_limit: frame_limit.max(1), code_without_tables: true }
    }

    /// Chooses whether code without unwind tables is unwound by frame pointers and instructions (the default), or ends stacks.
    #[must_use]
    pub fn with_code_without_tables(self, code_without_tables: bool) -> Self {
        Self { code_without_tables, ..self }
    }

    /// Returns the number of code locations and ranges whose rules are cached.
    pub fn cached_rules(&self) -> usize {
        self.rules.len()
    }

    /// Unwinds one stack into `stack`, whose previous contents are dropped. Words beyond the copy are asked of `beyond`;
    /// return addresses found with such a word count only where a call instruction precedes them.
    pub fn unwind<O: Objects, M: ReadMemory>(
        &mut self,
        space: &AddressSpace,
        objects: &mut O,
        innermost: &Innermost<'_>,
        beyond: &mut M,
        stack: &mut UnwoundStack,
    ) {
        stack.frames.clear();
        stack.frames_from_copy = 0;
        stack.watched.clear();
        let memory = StackMemory::new(innermost.stack, beyond);
        let registers = innermost.registers.clone();
        let (limit, without_tables) = (self.frame_limit, self.code_without_tables);
        Walk::new(&mut self.rules, space, objects, memory, registers, limit, without_tables).run(stack);
    }

    /// Returns true if a return address lies in a thread's first function; `None` where no code can run right before the address.
    pub fn is_outermost<O: Objects>(
        &mut self,
        space: &AddressSpace,
        objects: &mut O,
        return_address: Avma,
    ) -> Option<bool> {
        let position = return_address_in(space.find(Avma(return_address.0.checked_sub(1)?)), return_address)?;
        Some(matches!(self.rules.find(objects, position), Rule::Outermost))
    }

    /// Returns the caller of the function at the instruction `pc`, if the unwind tables say that the return address is still in the link
    /// register, which has the value `link`: a walk over frame pointers jumps over that caller. Returns `None` on architectures without
    /// a link register, and where no code can run right before the address.
    pub fn caller_of_leaf<O: Objects>(
        &mut self,
        architecture: Architecture,
        space: &AddressSpace,
        objects: &mut O,
        pc: Avma,
        link: u64,
    ) -> Option<Avma> {
        let link_register = architecture.link_register()?;
        let address = FrameAddress::InstructionPointer(pc);
        let is_in_register =
            match self.rules.find(objects, Position { address, lookup: pc, mapping: space.find(pc) }) {
                Rule::Compact(rule) => rule.returns_by_link_register(),
                Rule::Row(row) => {
                    let location = row.location(row.return_address);
                    row.return_address == link_register
                        && !row.signal_frame
                        && matches!(location, None | Some(Location::Same))
                }
                _ => false,
            };
        let link = Avma(architecture.strip_pointer_bits(link, space.highest_address()));
        let position = return_address_in(space.find(Avma(link.0.checked_sub(1)?)), link);
        position.filter(|_| is_in_register).map(|_| link)
    }
}
