//! Caches the lines of addresses: most addresses of a call chain have been printed before.

use export::script::ChainLineId;
use tracker::{AddressSpace, Generation};

use model::{AddressKind, EventIndex};

/// The key of a line: everything on which the line of an address in a call chain depends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LineKey {
    pub(super) generation: Generation,
    pub(super) address: u64,
    pub(super) event: EventIndex,
    pub(super) kind: AddressKind,
    pub(super) context: Option<AddressSpace>,
}

impl LineKey {
    /// Returns the slot. Addresses and generations are close together, so the hash spreads them.
    fn slot(&self) -> usize {
        let mixed = self.address ^ self.generation.as_u64().rotate_left(40) ^ u64::from(self.event.0) << 56;
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOT_BITS)) as usize
    }
}

/// Binary logarithm of the number of slots.
const SLOT_BITS: u32 = 17;

/// Caches lines by key. Keys of the same slot replace each other, so memory is bounded, and no choice of addresses makes it slow.
pub(super) struct LineCache {
    slots: Vec<Option<(LineKey, ChainLineId)>>,
}

impl Default for LineCache {
    fn default() -> Self {
        Self { slots: vec![None; 1 << SLOT_BITS] }
    }
}

impl LineCache {
    /// Returns the line of a key from the cache, or calls `find` and caches its result.
    #[inline]
    pub(super) fn get_or_find(&mut self, key: LineKey, find: impl FnOnce() -> ChainLineId) -> ChainLineId {
        let Some(slot) = self.slots.get_mut(key.slot()) else { return find() };
        match slot {
            Some((known, line)) if *known == key => *line,
            _ => slot.insert((key, find())).1,
        }
    }

    /// Removes all lines.
    pub(super) fn clear(&mut self) {
        self.slots.fill(None);
    }
}
