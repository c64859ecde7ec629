//! The rings of one CPU, which its reader and the writer empty in turns.

use std::mem;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use decoder::{Endian, HEADER_SIZE, RawRecord, RecordHeader, StackCopyLocator};
use host::sys::perf_event::PerfEvent;
use host::sys::ring::RingMapping;

use super::buffer_pool::BufferSource;
use super::excluded_processes::ExcludedProcesses;
use super::protocol::{Shrink, drain, keep_sample};
use crate::consumer::{Chunk, RingKind};
use crate::control::messages::{Closed, Message, Outbox};
use crate::mapped_files::MappingObserver;

/// A ring with the events that write into it; the first maps it.
pub(crate) struct RingSource {
    pub(crate) kind: RingKind,
    pub(crate) mapping: RingMapping,
    pub(crate) events: Vec<Arc<PerfEvent>>,
    /// The kernel's head at the last call of [`RingSource::take_written`].
    head: u64,
    /// The position up to which an observer has seen the records.
    observed: u64,
    /// True if the ring may have had no room for a record when it was emptied last. The LOST record that would say so comes with
    /// the next record.
    was_full: bool,
    /// True if the ring was full when it was emptied, at any time since the last call of [`SharedRings::take_filled`].
    has_filled: bool,
}

/// A ring with less room than this has none for the largest record: the kernel keeps a byte free (`CIRC_SPACE()`), and records are
/// multiples of 8.
const ROOM_FOR_ANY_RECORD_BYTES: u64 = decoder::MAX_RECORD_BYTES as u64 + 8;

impl RingSource {
    pub(crate) fn new(kind: RingKind, mapping: RingMapping, events: Vec<Arc<PerfEvent>>) -> Self {
        Self { kind, mapping, events, head: 0, observed: 0, was_full: false, has_filled: false }
    }

    /// Returns the number of bytes that the kernel has written since the last call.
    fn take_written(&mut self) -> u64 {
        let before = mem::replace(&mut self.head, self.mapping.head());
        self.head.wrapping_sub(before)
    }

    /// Tells `observer` of the records in the ring that it has not seen, except for one across the ring's end. Returns true if one of
    /// them maps a file that was not known.
    fn observe(&mut self, observer: &MappingObserver) -> bool {
        let Range { start, end } = self.mapping.refresh_unread();
        // What was emptied since needs no observer any more.
        let is_unread = self.observed.wrapping_sub(start) <= end.wrapping_sub(start);
        let mut at = if is_unread { self.observed } else { start };
        self.observed = end;
        let mut is_any_new = false;
        while at != end {
            let Some(header) = self.mapping.bytes(at, HEADER_SIZE).first_chunk() else { break };
            let size = RecordHeader::from_bytes(*header, Endian::NATIVE).size;
            if size < HEADER_SIZE || size as u64 > end.wrapping_sub(at) {
                break;
            }
            if let Ok((raw, _)) = RawRecord::parse(self.mapping.bytes(at, size), Endian::NATIVE) {
                is_any_new |= observer.observe(&raw);
            }
            at = at.wrapping_add(size as u64);
        }
        is_any_new
    }

    /// Empties the ring into `bytes`, and leaves them as a message.
    fn empty(
        &mut self,
        bytes: Vec<u8>,
        options: &DrainOptions,
        shrink: Shrink<'_>,
        messages: &Outbox,
    ) -> Result<(), Closed> {
        let stack_copies = options.stack_copies.as_ref().filter(|_| self.kind == RingKind::Samples);
        let mut chunk = Chunk::new(self.kind, bytes);
        let mut shrink = |sample: &[u8], into: &mut Chunk| {
            options.excluded.as_ref().is_some_and(|excluded| excluded.drops(sample)) || shrink(sample, into)
        };
        drain(&mut self.mapping, stack_copies, &mut shrink, &mut chunk);
        if chunk.drained.fill > 0 {
            let size = self.mapping.data_size() as u64;
            // Rings of a few pages are for records that are much smaller than the largest.
            self.was_full = size.saturating_sub(chunk.drained.fill) < ROOM_FOR_ANY_RECORD_BYTES.min(size / 4);
            self.has_filled |= self.was_full;
        }
        messages.leave(Message::Chunk(chunk))
    }
}

/// The rings that one reader empties. Whoever empties them holds the lock until the records are in the channel, so that the chunks
/// of a ring are there in its order.
pub(super) struct SharedRings {
    rings: Mutex<Vec<RingSource>>,
    options: DrainOptions,
}

/// The way in which samples are copied out of the rings.
#[derive(Clone, Debug, Default)]
pub(crate) struct DrainOptions {
    /// The locator of the stack copies, if all samples have the same parts before them.
    pub(crate) stack_copies: Option<StackCopyLocator>,
    /// The processes whose samples are not copied. Has an effect only with `stack_copies`.
    pub(crate) excluded: Option<Arc<ExcludedProcesses>>,
    /// Is told of mappings while their records are in the rings.
    pub(crate) mappings: Option<MappingObserver>,
}

impl SharedRings {
    pub(super) fn new(rings: Vec<RingSource>, options: DrainOptions) -> Self {
        Self { rings: Mutex::new(rings), options }
    }

    /// Returns the events of each ring.
    pub(super) fn events(&self) -> Vec<Vec<Arc<PerfEvent>>> {
        self.lock().iter().map(|ring| ring.events.clone()).collect()
    }

    /// Returns the fill of the fullest ring, from 0 to 1.
    pub(super) fn max_fill(&self) -> f64 {
        self.max_share(|ring| ring.mapping.fill())
    }

    /// Returns the number of rings of samples that were full when they were emptied last.
    pub(super) fn full_rings(&self) -> usize {
        self.lock().iter().filter(|ring| ring.kind == RingKind::Samples && ring.was_full).count()
    }

    /// Returns true if a ring of samples was full when it was emptied, at any time since the last call.
    pub(super) fn take_filled(&self) -> bool {
        let mut rings = self.lock();
        let of_samples = rings.iter_mut().filter(|ring| ring.kind == RingKind::Samples);
        of_samples.fold(false, |any, ring| any | mem::take(&mut ring.has_filled))
    }

    /// Returns how much was written into the busiest ring since the last call, in sizes of a ring.
    pub(super) fn take_max_written(&self) -> f64 {
        self.max_share(RingSource::take_written)
    }

    /// Returns the largest of these numbers of bytes, each as a share of its ring.
    fn max_share(&self, bytes: impl Fn(&mut RingSource) -> u64) -> f64 {
        let share = |ring: &mut RingSource| bytes(ring) as f64 / ring.mapping.data_size() as f64;
        self.lock().iter_mut().map(share).fold(0.0, f64::max)
    }

    /// Returns for each ring whether it is one for sideband records.
    pub(super) fn are_sideband(&self) -> Vec<bool> {
        self.lock().iter().map(|ring| ring.kind == RingKind::Sideband).collect()
    }

    /// Tells the observer of mappings of new records in the sideband rings, and returns true if one maps a file that was not known. Does
    /// nothing while another thread empties them: what is emptied is looked at by its receiver.
    pub(super) fn observe_mappings(&self) -> bool {
        let Some(observer) = &self.options.mappings else { return false };
        let Ok(mut rings) = self.rings.try_lock() else { return false };
        let sideband = rings.iter_mut().filter(|ring| ring.kind == RingKind::Sideband);
        sideband.fold(false, |is_any_new, ring| ring.observe(observer) | is_any_new)
    }

    /// Empties all rings, and returns true if there was anything in them. Waits for a buffer where all wait to be consumed; the
    /// records wait in their rings meanwhile.
    pub(super) fn empty(&self, buffers: &BufferSource, messages: &Outbox) -> Result<bool, Closed> {
        let (mut rings, mut was_any, mut index) = (self.lock(), false, 0);
        let mut awaited = None;
        while let Some(ring) = rings.get_mut(index) {
            if ring.mapping.fill() > 0 || awaited.is_some() {
                let Some(bytes) = awaited.take().or_else(|| buffers.try_take()) else {
                    // The writer, which returns buffers, may need the lock to empty the rings itself.
                    drop(rings);
                    messages.wake();
                    awaited = Some(buffers.take().ok_or(Closed)?);
                    rings = self.lock();
                    continue;
                };
                ring.empty(bytes, &self.options, &mut keep_sample, messages)?;
                was_any = true;
            }
            index += 1;
        }
        Ok(was_any)
    }

    /// Empties all rings if they hold at most `budget` bytes in all, and takes these off `budget`. Returns false where they hold
    /// more, or nobody receives messages any more.
    pub(super) fn empty_within(
        &self,
        budget: &mut u64,
        buffers: &BufferSource,
        shrink: Shrink<'_>,
        messages: &Outbox,
    ) -> bool {
        let mut rings = self.lock();
        let fill = rings.iter().map(|ring| ring.mapping.fill()).fold(0, u64::saturating_add);
        let Some(rest) = budget.checked_sub(fill) else { return false };
        *budget = rest;
        rings.iter_mut().filter(|ring| ring.mapping.fill() > 0).all(|ring| {
            let bytes = buffers.try_take().unwrap_or_else(|| Vec::with_capacity(ring.mapping.data_size()));
            ring.empty(bytes, &self.options, shrink, messages).is_ok()
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RingSource>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
