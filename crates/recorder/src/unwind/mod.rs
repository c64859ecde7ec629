//! The stage that unwinds samples while recording, between the rings and a consumer; and the sizes of stack copies.

mod copy_size;
mod early;
mod execs;
mod fresh_maps;
mod machine;
mod record_size;
mod stage;
mod totals;
mod waiting;

pub use copy_size::CopySizes;
pub(crate) use copy_size::largest_copy;
pub(crate) use record_size::{ChainLimits, room_for_copy};
pub use stacks::{Mechanisms, RefusedTables};
pub use stage::Unwinding;
pub use totals::StackTotals;
