//! Unwinds stacks: each by a [`walk`], whose outer part may be that of the thread's earlier stack.

mod rules;
mod walk;

use model::{Avma, FrameAddress, Tid};

use self::rules::{Position, Rules, return_address_in};
use self::walk::Walk;
use crate::address_space::AddressSpace;
use crate::architecture::Architecture;
use crate::memory::{ReadMemory, StackCopy};
use crate::objects::Objects;
use crate::registers::Registers;
use crate::reuse::{CodeVersion, StackMemory, StackTrace, Steps, TraceReuse};
use crate::row::Location;
use crate::rule::Rule;
use crate::stack::{StackEnd, UnwoundStack};

/// The innermost frame, from which a stack is unwound.
#[derive(Clone, Debug)]
pub struct Innermost<'a> {
    /// The registers of the sampled thread.
    pub registers: &'a Registers,
    /// The copy of its stack.
    pub stack: StackCopy<'a>,
    /// The thread. Its stacks are alike, so that a walk can take over the outer frames of an earlier one.
    pub thread: Tid,
}

/// Unwinds stacks of one architecture. Caches the rule of each address it has met, for all processes, and the last stacks of some
/// threads. Each thread that unwinds needs its own.
#[derive(Debug)]
pub struct Unwinder {
    rules: Rules,
    /// The last stacks of threads, in slots by thread id modulo their number.
    traces: [StackTrace; TRACE_SLOTS],
    steps: Steps,
    frame_limit: u16,
    earlier_stacks: bool,
    code_without_tables: bool,
}

/// The number of threads whose last stacks are kept.
const TRACE_SLOTS: usize = 32;

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
        Self {
            rules: Rules::default(),
            traces: Default::default(),
            steps: Steps::default(),
            frame_limit: frame_limit.max(1),
            earlier_stacks: true,
            code_without_tables: true,
        }
    }

    /// Chooses whether the outer part of a stack is taken over from the thread's earlier one (the default), or each stack is walked whole.
    #[must_use]
    pub fn with_earlier_stacks(self, earlier_stacks: bool) -> Self {
        Self { earlier_stacks, ..self }
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
        let slot = innermost.thread.0.unsigned_abs() as usize % TRACE_SLOTS;
        let mut trace = self.traces.get_mut(slot).map(core::mem::take).unwrap_or_default();
        let mut steps = core::mem::take(&mut self.steps);
        steps.clear();
        let memory = StackMemory::new(innermost.stack, beyond, steps);
        let registers = innermost.registers.clone();
        // Before the walk: where code is loaded during it, the next stack differs in its version and is walked whole.
        let code = CodeVersion::of(space, objects);
        let (limit, without_tables) = (self.frame_limit, self.code_without_tables);
        let mut walk = Walk::new(&mut self.rules, space, objects, memory, registers, limit, without_tables);
        let has_watched = walk.has_watched();
        let (mut steps, taken_over) = walk.run(stack, TraceReuse::new(&trace, code));
        if stack.end == StackEnd::Complete && self.earlier_stacks && !has_watched {
            let architecture = innermost.registers.architecture();
            trace.record(architecture, code, taken_over, &stack.frames, &mut steps);
        }
        if let Some(kept) = self.traces.get_mut(slot) {
            *kept = trace;
        }
        self.steps = steps;
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
