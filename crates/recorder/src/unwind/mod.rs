//! User stacks, unwound from registers and stack copies: while recording, and for files that carry the copies.

mod chain;
mod copy_size;
mod early;
mod execs;
mod fresh_maps;
mod held;
mod image;
mod kernel_walk;
mod live_memory;
mod machine;
mod record_size;
mod sample;
mod snapshot;
mod stage;
mod tails;
mod totals;
mod walker;

pub use chain::{ChainEnd, ChainUnwinder};
pub use copy_size::CopySizes;
pub(crate) use copy_size::largest_copy;
pub(crate) use record_size::{ChainLimits, room_for_copy};
pub(crate) use sample::native;
pub use sample::{UserState, instruction_of_32_bits, is_of_32_bits};
pub use snapshot::{Snapshot, Snapshots};
pub use stage::Unwinding;
pub use totals::StackTotals;
