//! The layouts of each event's samples, before and after the stage, and the limits of their call chains.

use decoder::{Attr, Endian, RecordLayout};
use host::sysctl;
use stacks::MAX_CHAIN_ADDRESSES;
use tracker::chain_limit;

/// The layouts in which the samples of an event come, and in which they are forwarded.
#[derive(Debug)]
pub(super) struct Layouts {
    pub(super) recorded: RecordLayout,
    pub(super) written: RecordLayout,
    pub(super) has_stacks: bool,
    /// True if samples have a chain by frame pointers, and the link register for the caller that it lacks.
    pub(super) has_leaf_registers: bool,
    /// Bytes of each stack copy; 0 where there are none.
    pub(super) copy_size: u32,
    /// Maximum number of addresses in a call chain.
    pub(super) max_addresses: u16,
    /// Maximum number of addresses in the kernel's call chains.
    pub(super) kernels_limit: u16,
}

impl Layouts {
    /// Returns true if a copy of `length` bytes was cut by its size, and not by the end of the stack. Where a record has no room
    /// for the size beside its other parts, the kernel makes the copy shorter by these (`perf_sample_ustack_size()`): an eighth
    /// at most is allowed for them.
    pub(super) fn is_full(&self, length: usize) -> bool {
        let size = self.copy_size as usize;
        (size - size / 8..=size).contains(&length)
    }

    /// Makes those of an event that is recorded with one attr and forwarded with another, in a group of `members` events.
    pub(super) fn new(recorded: &Attr, written: &Attr, members: usize, keep_stacks: bool) -> Self {
        let room = u16::try_from(written.room_for_call_chain(members)).unwrap_or(u16::MAX);
        Self {
            recorded: RecordLayout::new(recorded, Endian::NATIVE),
            written: RecordLayout::new(written, Endian::NATIVE),
            has_stacks: recorded.sample_format.has_stack_copies(),
            has_leaf_registers: !keep_stacks && recorded.sample_format.has_walk_and_registers(),
            copy_size: recorded.sample_stack_user,
            max_addresses: max_chain_addresses(recorded).min(room),
            kernels_limit: kernels_limit(recorded),
        }
    }
}

/// Returns the maximum number of addresses in the call chains of an event (0: no limit of its own).
pub(super) fn max_chain_addresses(attr: &Attr) -> u16 {
    match attr.sample_max_stack {
        0 => MAX_CHAIN_ADDRESSES,
        max => max.min(MAX_CHAIN_ADDRESSES),
    }
}

/// Returns the maximum number of addresses in the kernel's call chains of an event.
fn kernels_limit(attr: &Attr) -> u16 {
    let allowed = sysctl::perf_event_max_stack();
    match attr.sample_max_stack {
        0 => allowed.unwrap_or_else(|| chain_limit(attr)),
        asked => asked.min(allowed.unwrap_or(asked)),
    }
}
