//! Applies a row: turns a frame's registers into its caller's.

use gimli::{EndianSlice, EvaluationResult, Expression, LittleEndian, Location as Piece, Value};

use crate::memory::ReadMemory;
use crate::registers::Registers;
use crate::row::{CfaRule, Location, Row};

/// The reason why a row could not be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The word at this address (Avma) cannot be read.
    Unreadable(u64),
    /// The row needs a register that is not known, or its expression is wrong.
    Impossible,
}

/// The maximum number of operations of an expression, more than any real one has. It ends loops.
const MAX_OPERATIONS: u32 = 256;

/// Evaluates `row` with all registers of the frame. Yields the caller's registers, its program counter among them; `None`
/// where the return address is undefined: this is the thread's first frame.
pub(crate) fn evaluate<M: ReadMemory>(
    row: &Row,
    registers: &Registers,
    memory: &mut M,
) -> Result<Option<Registers>, Fault> {
    let architecture = registers.architecture();
    let cfa = match &row.cfa {
        CfaRule::RegisterOffset { register, offset } => {
            registers.get(*register).ok_or(Fault::Impossible)?.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => evaluate_expression(expression, row, None, registers, memory)?,
    };
    let stack_pointer = registers.stack_pointer().unwrap_or_default();
    let mut caller = registers.clone();
    if !row.signal_frame {
        // A call may change all registers but the callee-saved ones, so the caller's are unknown. At a signal, the kernel saves and restores all.
        caller.keep(architecture.callee_saved_mask());
    }
    caller.set(architecture.stack_pointer(), cfa);
    let return_address = match row.location(row.return_address) {
        Some(Location::Undefined) => return Ok(None),
        Some(Location::Same) => registers.get(row.return_address),
        Some(location) => Some(value_at(location, cfa, row, registers, memory)?),
        // AArch64: the link register still holds it.
        None => registers.get(row.return_address),
    };
    let return_address = return_address.ok_or(Fault::Impossible)?;
    for (register, location) in &row.locations {
        if *register == row.return_address {
            continue;
        }
        let value = match location {
            Location::Same => registers.get(*register),
            // Popped by an epilogue already, as in `CompactRule::apply`.
            Location::AtOffset(offset) if cfa.wrapping_add_signed(*offset) < stack_pointer => {
                registers.get(*register)
            }
            _ => value_at(location, cfa, row, registers, memory).ok(),
        };
        match value {
            Some(value) => caller.set(*register, value),
            None => caller.forget(*register),
        }
    }
    if let Some(link_register) = architecture.link_register()
        && row.return_address == link_register
    {
        caller.set(link_register, return_address);
    }
    caller.set(architecture.program_counter(), return_address);
    Ok(Some(caller))
}

fn value_at<M: ReadMemory>(
    location: &Location,
    cfa: u64,
    row: &Row,
    registers: &Registers,
    memory: &mut M,
) -> Result<u64, Fault> {
    let read = |memory: &mut M, address| memory.read_word(address).ok_or(Fault::Unreadable(address));
    match location {
        Location::Undefined | Location::Same => Err(Fault::Impossible),
        Location::AtOffset(offset) => read(memory, cfa.wrapping_add_signed(*offset)),
        Location::Offset(offset) => Ok(cfa.wrapping_add_signed(*offset)),
        Location::Register(register) => registers.get(*register).ok_or(Fault::Impossible),
        Location::AtExpression(expression) => {
            let address = evaluate_expression(expression, row, Some(cfa), registers, memory)?;
            read(memory, address)
        }
        Location::Expression(expression) => {
            evaluate_expression(expression, row, Some(cfa), registers, memory)
        }
    }
}

/// Runs a DWARF expression (DWARF 5, section 6.4.2.3: `initial`, the CFA, is on the stack at first for registers).
fn evaluate_expression<M: ReadMemory>(
    expression: &[u8],
    row: &Row,
    initial: Option<u64>,
    registers: &Registers,
    memory: &mut M,
) -> Result<u64, Fault> {
    let mut evaluation = Expression(EndianSlice::new(expression, LittleEndian)).evaluation(row.encoding);
    evaluation.set_max_iterations(MAX_OPERATIONS);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut state = evaluation.evaluate();
    loop {
        state = match state {
            Ok(EvaluationResult::Complete) => break,
            Ok(EvaluationResult::RequiresMemory { address, size, .. }) => {
                let word = memory.read_word(address).ok_or(Fault::Unreadable(address))?;
                let bits = u32::from(size.min(8)) * 8;
                let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
                evaluation.resume_with_memory(Value::Generic(word & mask))
            }
            Ok(EvaluationResult::RequiresRegister { register, .. }) => {
                let value = u8::try_from(register.0).ok().and_then(|register| registers.get(register));
                evaluation.resume_with_register(Value::Generic(value.ok_or(Fault::Impossible)?))
            }
            _ => return Err(Fault::Impossible),
        };
    }
    match evaluation.as_result() {
        [piece] => match piece.location {
            Piece::Address { address } => Ok(address),
            Piece::Value { value: Value::Generic(value) } => Ok(value),
            _ => Err(Fault::Impossible),
        },
        _ => Err(Fault::Impossible),
    }
}
