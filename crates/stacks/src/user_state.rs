//! What a sample says of the thread's user side.

use decoder::{CpuMode, Sample, context};
use model::{Avma, Tid, Timestamp};
use tracker::Tracker;
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
    /// The thread that they are of; 0 where the sample does not say.
    pub thread: Tid,
    /// The time of the sample; generated code may be replaced later.
    pub time: Option<Timestamp>,
}

impl<'a> UserState<'a> {
    /// Takes them out of a sample. `None` where the thread has no user side (a kernel thread), or a 32-bit one. A thread
    /// in the kernel whose stack has not one byte has none either: exec has taken its memory away, and not yet built the
    /// next.
    pub fn of(sample: &Sample<'a>, architecture: Architecture) -> Option<Self> {
        let state = Self::with_any_copy(sample, architecture)?;
        (sample.mode != CpuMode::Kernel || !state.stack.bytes.is_empty()).then_some(state)
    }

    /// The same, also where a thread in the kernel has no byte of stack: it may be about to get the page that its stack
    /// pointer is in.
    pub fn with_any_copy(sample: &Sample<'a>, architecture: Architecture) -> Option<Self> {
        let recorded = sample.user_registers.as_ref().filter(|registers| registers.abi == ABI_64)?;
        let registers = Registers::from_perf(architecture, |number| recorded.get(number));
        let start = registers.stack_pointer()?;
        registers.program_counter()?;
        let stack = StackCopy { start, bytes: sample.user_stack.unwrap_or_default() };
        let thread = sample.thread.map_or(Tid(0), |(_, thread)| thread);
        Some(Self { registers, stack, thread, time: sample.time })
    }
}

/// Returns true if the sampled thread runs a 32-bit program, whose stacks nobody unwinds here.
pub fn is_of_32_bits(sample: &Sample<'_>) -> bool {
    sample.user_registers.as_ref().is_some_and(|registers| registers.abi == ABI_32)
}

/// Returns the user instruction of a 32-bit program, if its sample has it.
pub fn instruction_of_32_bits(sample: &Sample<'_>, architecture: Architecture) -> Option<u64> {
    let registers = sample.user_registers.as_ref().filter(|_| is_of_32_bits(sample))?;
    registers.get(architecture.perf_number(architecture.program_counter())?)
}

/// Returns true if the user's instruction that a sample names is in no mapping of the process: exec has taken that away, and not yet
/// started the next program.
pub fn names_no_mapping(sample: &Sample<'_>, tracker: &Tracker) -> bool {
    let Some((pid, _)) = sample.thread else { return false };
    let instruction = user_part(sample).nth(1);
    instruction.is_some_and(|address| tracker.mapping(pid, Avma(address)).is_none())
}

/// The kernel's part of a call chain, which comes first.
pub fn kernel_part<'a>(sample: &Sample<'a>) -> impl Iterator<Item = u64> + use<'a> {
    sample.callchain.into_iter().flat_map(|chain| chain.iter()).take_while(|value| !is_user_mark(value))
}

/// The user part, as the kernel found it: its mark, the instruction, and for each frame pointer on the way the return address
/// above it.
pub fn user_part<'a>(sample: &Sample<'a>) -> impl Iterator<Item = u64> + Clone + use<'a> {
    sample.callchain.into_iter().flat_map(|chain| chain.iter()).skip_while(|value| !is_user_mark(value))
}

/// Returns true if the user part of a chain begins here, or goes on with an instruction pointer.
pub fn is_user_mark(value: &u64) -> bool {
    [context::USER, context::USER_DEFERRED].contains(value)
}

/// This machine's architecture, if stacks can be unwound on it.
pub fn native() -> Option<Architecture> {
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
        assert!(names_no_mapping(&sample, &Tracker::new()));
        assert!(!names_no_mapping(&Sample { callchain: None, ..sample }, &Tracker::new()));
        assert!(!names_no_mapping(&Sample { thread: None, ..sample }, &Tracker::new()));
    }
}
