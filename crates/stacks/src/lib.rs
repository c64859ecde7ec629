//! Finds the user stack of a sample from registers and a copy of the stack, the kernel's own walk over frame pointers, and the
//! memory of the process while it runs.
//!
//! ```text
//! Sample ──▶ UserState ┐
//! Tracker ─▶ ProcessMaps (with the unwind tables of objects) ┴─▶ ChainUnwinder ─▶ StackWalker ─▶ user part of a call chain
//! ```
//!
//! The recorder uses a [`StackWalker`] while processes run. Recordings hold copies only; their reader uses a [`ChainUnwinder`].
//!
//! # What the caller supplies
//! The crate performs no I/O. It reads objects through [`elf::ObjectSource`], jitdumps through [`generated::DumpSource`], and memory of
//! running processes through [`model::ProcessMemory`]. A closure tells it when its time is over.

mod chain;
mod generated_code;
mod generated_tables;
mod interpreters;
mod javascript_words;
mod kernel_walk;
mod live_memory;
mod mechanisms;
mod object_tables;
mod process_maps;
mod table_bytes;
#[cfg(test)]
mod test_sources;
mod user_state;
mod walker;

pub use chain::{ChainEnd, ChainUnwinder, MAX_CHAIN_ADDRESSES, truncate_chain};
pub use generated_tables::{GeneratedTables, TableNumbers};
pub use interpreters::{MappedInterpreter, MappedRuntime};
pub use javascript_words::{IndexedWords, MappedV8, NativeFrame};
pub use mechanisms::Mechanisms;
pub use object_tables::{MAX_REMARKS, RefusedTables};
pub use process_maps::{MAX_PROCESSES, ProcessMaps, ProcessMapsCache};
pub use table_bytes::TableBytes;
pub use user_state::{
    UserState, extend_by_walk, instruction_of_32_bit_program, is_32_bit, is_outside_mappings, is_user_marker,
    kernel_part, link_register, native_architecture, user_part,
};
pub use walker::{SampledStack, StackWalker};
