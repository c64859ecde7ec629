//! The rings of one CPU, which two threads empty in turns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::sys::perf_event::PerfEvent;
use host::sys::ring::RingMapping;

use super::memory::Spare;
use super::protocol::{Shrink, as_it_is, drain};
use super::stack_place::StackPlace;
use super::strangers::Strangers;
use crate::consumer::{Chunk, RingKind};
use crate::control::messages::{Closed, Message, Outbox};

/// A ring with the events that write into it; the first maps it.
pub(crate) struct RingSource {
    pub(crate) kind: RingKind,
    pub(crate) mapping: RingMapping,
    pub(crate) events: Vec<Arc<PerfEvent>>,
    /// The kernel's head when [`Rings::written`] was asked last.
    head: u64,
    /// True if it may have had no room for a record when it was emptied last: the LOST record that would say so comes with the
    /// next one.
    was_full: bool,
}

/// The largest record, bytes: its size has 16 bits.
const LARGEST_RECORD: u64 = 1 << 16;

impl RingSource {
    pub(crate) fn new(kind: RingKind, mapping: RingMapping, events: Vec<Arc<PerfEvent>>) -> Self {
        Self { kind, mapping, events, head: 0, was_full: false }
    }

    /// The number of bytes that the kernel has written since this was asked last.
    fn written(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.head, self.mapping.head());
        self.head.wrapping_sub(before)
    }

    /// Leaves what it holds as a message.
    fn empty(
        &mut self,
        mut bytes: Vec<u8>,
        samples: &Samples,
        shrink: Shrink<'_>,
        messages: &Outbox,
    ) -> Result<(), Closed> {
        let stacks = samples.stacks.as_ref().filter(|_| self.kind == RingKind::Samples);
        let drained = match &samples.strangers {
            Some(strangers) => {
                let mut shrink =
                    |sample: &[u8], into: &mut Vec<u8>| strangers.leave(sample) || shrink(sample, into);
                drain(&mut self.mapping, stacks, &mut shrink, &mut bytes)
            }
            None => drain(&mut self.mapping, stacks, shrink, &mut bytes),
        };
        if drained.fill > 0 {
            let size = self.mapping.data_size() as u64;
            // Rings of a few pages are for records that are much smaller.
            self.was_full = size.saturating_sub(drained.fill) < LARGEST_RECORD.min(size / 4);
        }
        messages.leave(Message::Chunk(Chunk { ring: self.kind, bytes, drained }))
    }
}

/// Some rings that one thread reads. Who empties them has them for itself until the records are in the channel, so
/// that those of one ring are there in its order.
pub(super) struct Rings {
    rings: Mutex<Vec<RingSource>>,
    samples: Samples,
}

/// The stack copies of the samples in some rings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// The place of their stack copies.
    pub(crate) stacks: Option<StackPlace>,
    /// The processes whose samples are left there; only where samples have stack copies.
    pub(crate) strangers: Option<Arc<Strangers>>,
}

impl Rings {
    pub(super) fn new(rings: Vec<RingSource>, samples: Samples) -> Self {
        Self { rings: Mutex::new(rings), samples }
    }

    /// The events of each ring.
    pub(super) fn events(&self) -> Vec<Vec<Arc<PerfEvent>>> {
        self.lock().iter().map(|ring| ring.events.clone()).collect()
    }

    /// Returns the fill of the fullest ring, from 0 to 1.
    pub(super) fn fill(&self) -> f64 {
        self.most(|ring| ring.mapping.fill())
    }

    /// Returns the number of rings of samples that were full when they were emptied last.
    pub(super) fn full(&self) -> usize {
        self.lock().iter().filter(|ring| ring.kind == RingKind::Samples && ring.was_full).count()
    }

    /// Returns the amount written into the busiest ring since the last call, in sizes of a ring.
    pub(super) fn written(&self) -> f64 {
        self.most(RingSource::written)
    }

    fn most(&self, bytes: impl Fn(&mut RingSource) -> u64) -> f64 {
        let part = |ring: &mut RingSource| bytes(ring) as f64 / ring.mapping.data_size() as f64;
        self.lock().iter_mut().map(part).fold(0.0, f64::max)
    }

    /// Empties all, and says whether there was anything. Where all memory waits to be written, waits for it; the records
    /// wait in their rings.
    pub(super) fn empty(&self, spare: &Spare, messages: &Outbox) -> Result<bool, Closed> {
        let (mut rings, mut left, mut index) = (self.lock(), false, 0);
        let mut waited_for = None;
        while let Some(ring) = rings.get_mut(index) {
            if ring.mapping.fill() > 0 || waited_for.is_some() {
                let Some(bytes) = waited_for.take().or_else(|| spare.take()) else {
                    // Who gives memory back may want to empty them first.
                    drop(rings);
                    messages.wake();
                    waited_for = Some(spare.wait().ok_or(Closed)?);
                    rings = self.lock();
                    continue;
                };
                ring.empty(bytes, &self.samples, &mut as_it_is, messages)?;
                left = true;
            }
            index += 1;
        }
        Ok(left)
    }

    /// Empties all if they hold no more than `budget`, which gets smaller by that.
    pub(super) fn empty_little(
        &self,
        budget: &mut u64,
        spare: &Spare,
        shrink: Shrink<'_>,
        messages: &Outbox,
    ) -> bool {
        let mut rings = self.lock();
        let fill = rings.iter().map(|ring| ring.mapping.fill()).fold(0, u64::saturating_add);
        let Some(rest) = budget.checked_sub(fill) else { return false };
        *budget = rest;
        rings.iter_mut().filter(|ring| ring.mapping.fill() > 0).all(|ring| {
            let bytes = spare.take().unwrap_or_else(|| Vec::with_capacity(ring.mapping.data_size()));
            ring.empty(bytes, &self.samples, shrink, messages).is_ok()
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RingSource>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
