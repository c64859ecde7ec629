//! The stage that unwinds samples while recording, between the rings and a consumer; and the sizes of stack copies.

mod copy_size;
mod early;
mod encoding;
mod execs;
mod fresh_maps;
mod in_order;
mod machine;
mod ordered;
mod record_size;
mod totals;
mod waiting;

pub use copy_size::CopySizes;
pub(crate) use copy_size::largest_copy;
pub use encoding::Encoding;
pub use in_order::InOrder;
pub use ordered::OrderedConsumer;
pub(crate) use record_size::{ChainLimits, room_for_copy};
pub use stacks::{Mechanisms, RefusedTables};
pub use totals::StackTotals;
