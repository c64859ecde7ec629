//! The user stack of a sample, from all that there is of it: registers and a copy of the stack, the kernel's own walk over
//! frame pointers, stacks that were seen earlier, and the memory of the process while it lives.
//!
//! ```text
//! Sample ──▶ UserState ┐
//! Tracker ─▶ ProcessMaps (with the unwind tables of objects) ┴─▶ ChainUnwinder ─▶ StackWalker ─▶ user part of a call chain
//! ```
//!
//! The recorder walks with a [`StackWalker`] while processes live; who reads a file has copies only, and unwinds them with a
//! [`ChainUnwinder`].

mod caller_cache;
mod chain;
mod generated_code;
mod generated_tables;
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

pub use chain::{ChainEnd, ChainUnwinder, cut};
pub use generated_tables::{GeneratedTables, TableNumbers};
pub use mechanisms::Mechanisms;
pub use object_tables::RefusedTables;
pub use process_maps::{ProcessMaps, ProcessMapsCache};
pub use table_bytes::TableBytes;
pub use user_state::{
    UserState, instruction_of_32_bits, is_of_32_bits, is_user_mark, kernel_part, names_no_mapping, native,
    user_part,
};
pub use walker::{SampledStack, StackWalker};
