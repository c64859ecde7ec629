//! The user registers and the stack copy of a sample.

use decoder::{CpuMode, Sample, context};
use model::{Avma, Tid, Timestamp};
use tracker::{Tracker, mark_cut_chain};
use unwinder::{Architecture, Registers, StackCopy};

/// `PERF_SAMPLE_REGS_ABI_32`
const ABI_32: u64 = 1;
/// `PERF_SAMPLE_REGS_ABI_64`
const ABI_64: u64 = 2;

/// The user registers of a sample, and the copy of its stack.
#[derive(Clone, Debug)]
pub struct UserState<'a> {
    /// The registers.
    pub registers: Registers,
    /// The copy.
    pub stack: StackCopy<'a>,
    /// The sampled thread; 0 where the sample has no thread id.
    pub thread: Tid,
    /// The time of the sample, which tells which generated code it ran.
    pub time: Option<Timestamp>,
}

impl<'a> UserState<'a> {
    /// Returns the user state of a sample. Returns `None` for a kernel thread and a 32-bit program, and for a thread in the kernel without
    /// one byte of stack: exec has taken its memory away and has not built the next program's yet.
    pub fn from_sample(sample: &Sample<'a>, architecture: Architecture) -> Option<Self> {
        let state = Self::from_sample_with_any_copy(sample, architecture)?;
        (sample.mode != CpuMode::Kernel || !state.stack.bytes.is_empty()).then_some(state)
    }

    /// Returns the user state also of a thread in the kernel without one byte of stack: it may be about to get the page of its stack
    /// pointer.
    pub fn from_sample_with_any_copy(sample: &Sample<'a>, architecture: Architecture) -> Option<Self> {
        let recorded = sample.user_registers.as_ref().filter(|registers| registers.abi == ABI_64)?;
        let registers = Registers::from_perf(architecture, |number| recorded.get(number));
        let start = registers.stack_pointer()?;
        registers.program_counter()?;
        let stack = StackCopy { start, bytes: sample.user_stack.unwrap_or_default() };
        let thread = sample.thread.map_or(Tid(0), |(_, thread)| thread);
        Some(Self { registers, stack, thread, time: sample.time })
    }
}

/// Returns true if the sampled thread runs a 32-bit program. The stacks of these are not unwound.
pub fn is_32_bit(sample: &Sample<'_>) -> bool {
    sample.user_registers.as_ref().is_some_and(|registers| registers.abi == ABI_32)
}

/// Returns the instruction pointer of a 32-bit program, if its sample has it.
pub fn instruction_of_32_bit_program(sample: &Sample<'_>, architecture: Architecture) -> Option<u64> {
    let registers = sample.user_registers.as_ref().filter(|_| is_32_bit(sample))?;
    registers.get(architecture.perf_number(architecture.program_counter())?)
}

/// Returns true if the user instruction pointer of a sample is in no mapping of the process: exec has taken its memory away and has
/// not started the next program yet.
pub fn is_outside_mappings(sample: &Sample<'_>, tracker: &Tracker) -> bool {
    let Some((pid, _)) = sample.thread else { return false };
    let instruction = user_part(sample).nth(1);
    instruction.is_some_and(|address| tracker.mapping(pid, Avma(address)).is_none())
}

/// Returns the link register of a thread that runs a 64-bit program, if its sample has it.
pub fn link_register(sample: &Sample<'_>, architecture: Architecture) -> Option<u64> {
    let registers = sample.user_registers.as_ref().filter(|registers| registers.abi == ABI_64)?;
    registers.get(architecture.perf_number(architecture.link_register()?)?)
}

/// Returns the kernel's part of a call chain, which comes first.
pub fn kernel_part<'a>(sample: &Sample<'a>) -> impl Iterator<Item = u64> + use<'a> {
    sample.callchain.into_iter().flat_map(|chain| chain.iter()).take_while(|value| !is_user_marker(value))
}

/// Returns the user part of a call chain as the kernel found it: the marker, the instruction pointer, and the return address above each
/// frame pointer.
pub fn user_part<'a>(sample: &Sample<'a>) -> impl Iterator<Item = u64> + Clone + use<'a> {
    sample.callchain.into_iter().flat_map(|chain| chain.iter()).skip_while(|value| !is_user_marker(value))
}

/// Appends the user part of the kernel's call chain, with a mark if the kernel has cut it at its `limit` of addresses.
pub fn extend_by_walk(sample: &Sample<'_>, limit: u16, chain: &mut Vec<u64>) {
    match sample.callchain.and_then(|recorded| mark_cut_chain(recorded, limit)) {
        Some(marked) => chain.extend(marked.iter().skip_while(|value| !is_user_marker(value))),
        None => chain.extend(user_part(sample)),
    }
}

/// Returns true if `value` is a marker of the user part of a chain. The address behind it is an instruction pointer.
pub fn is_user_marker(value: &u64) -> bool {
    [context::USER, context::USER_DEFERRED].contains(value)
}

/// Returns the architecture of this machine, if its stacks can be unwound.
pub fn native_architecture() -> Option<Architecture> {
    if cfg!(target_arch = "x86_64") {
        Some(Architecture::X86_64)
    } else if cfg!(target_arch = "aarch64") {
        Some(Architecture::Aarch64)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::Endian;
    use decoder::values::U64s;
    use model::{Pid, Tid};

    #[test]
    fn an_instruction_in_no_mapping_is_of_the_program_before_exec() {
        let chain: Vec<u8> =
            [context::KERNEL, 1, context::USER, 0x1234].iter().flat_map(|w| w.to_le_bytes()).collect();
        let callchain = Some(U64s::new(&chain, Endian::Little));
        let sample = Sample { thread: Some((Pid(7), Tid(7))), callchain, ..Sample::default() };
        assert!(is_outside_mappings(&sample, &Tracker::new()));
        assert!(!is_outside_mappings(&Sample { callchain: None, ..sample }, &Tracker::new()));
        assert!(!is_outside_mappings(&Sample { thread: None, ..sample }, &Tracker::new()));
    }
}
