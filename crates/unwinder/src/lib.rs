#![doc = include_str!("../README.md")]
//!
//! # How a caller is found
//!
//! - The FDE that covers the address (`.eh_frame`, then `.debug_frame`) decides. A row whose CFA is a register and an
//!   offset, with all registers saved at whole words from it, is remembered as a small rule; any other (expressions,
//!   frames made by the kernel) is evaluated with all registers. Callee-saved registers are carried from frame to frame.
//! - Code without an FDE is read on where it is about to return: its epilogue says what it restores and from where. Else
//!   the frame pointer is used where functions nearby set one up, also in the innermost frame, unless the word on top of the stack
//!   follows a direct call of just this function. Else the stack is searched for a return address. A signal trampoline
//!   without an FDE is known by its instructions.
//! - Go's tables don't say where the frame pointer is saved, and Go changes stacks behind their back; its functions keep
//!   the frame pointer chain, which is used above the innermost frame.
//!
//! A stack is complete only where the tables leave the return address undefined, where no call left the return address and its code does
//! not return (the stack of a fiber), or where a zero frame pointer marks the first frame of code without tables that keeps frame
//! pointers; and not if a step may have jumped over a frame: through an object that cannot be read, or by a search that passed over
//! another return address. A return address outside every executable mapping ends it as failed.
//!
//! No unwinding library does the fast path (framehop was considered): it would read the same tables a second time for
//! the rows it supports, carries only three registers, and takes the end of a stack on trust, so that each of its answers
//! would have to be checked against the row anyway. A rule is 40 bytes and a few loads here as well.
#![no_std]
#![warn(missing_docs)]
#![cfg_attr(
    not(test),
    warn(clippy::indexing_slicing, clippy::string_slice, clippy::panic, clippy::unreachable)
)]

extern crate alloc;

mod address_space;
mod architecture;
mod epilogue;
mod evaluate;
mod memory;
mod objects;
mod prologue;
mod registers;
mod row;
mod rule;
mod rule_cache;
mod stack;
mod tables;
mod unwind;

pub use address_space::{AddressSpace, Mapping, ObjectNumber};
pub use architecture::Architecture;
pub use memory::{NoMemory, ReadMemory, StackCopy};
pub use objects::Objects;
pub use registers::Registers;
pub use stack::{Frame, StackEnd, UnwoundStack, WatchedFrame};
pub use tables::{ObjectSections, Section, UnwindTables};
pub use unwind::{Innermost, Unwinder};

// Types that appear in the signatures of this crate's functions.
pub use elf;
pub use model;
