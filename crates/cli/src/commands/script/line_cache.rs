//! Addresses of processes whose lines are known: most of a call chain is found here.

use export::script::ChainLineId;
use tracker::{AddressSpace, Generation};

use model::{AddressKind, EventIndex};

/// Everything that the line of an address in a call chain depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LineKey {
    pub(super) generation: Generation,
    pub(super) address: u64,
    pub(super) event: EventIndex,
    pub(super) kind: AddressKind,
    pub(super) context: Option<AddressSpace>,
}

impl LineKey {
    /// The slot that it belongs into. Addresses are close together, and so are generations.
    fn slot(&self) -> usize {
        let mixed = self.address ^ self.generation.as_u64().rotate_left(40) ^ u64::from(self.event.0) << 56;
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOT_BITS)) as usize
    }
}

const SLOT_BITS: u32 = 17;

/// Remembers the lines of line_cache. LineCache that share a slot displace each other: the memory is bounded, and no choice of
/// addresses makes it slow.
pub(super) struct LineCache {
    slots: Vec<Option<(LineKey, ChainLineId)>>,
}

impl Default for LineCache {
    fn default() -> Self {
        Self { slots: vec![None; 1 << SLOT_BITS] }
    }
}

impl LineCache {
    /// Returns the line of a frame: as remembered, or as `find` has it.
    #[inline]
    pub(super) fn get_or_find(&mut self, frame: LineKey, find: impl FnOnce() -> ChainLineId) -> ChainLineId {
        let Some(slot) = self.slots.get_mut(frame.slot()) else { return find() };
        match slot {
            Some((known, line)) if *known == frame => *line,
            _ => slot.insert((frame, find())).1,
        }
    }

    /// Forgets all lines of line_cache.
    pub(super) fn clear(&mut self) {
        self.slots.fill(None);
    }
}
