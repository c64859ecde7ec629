//! The size of stack copies: one for each event, by the room of its ring (`docs/decisions/0011-sizes-of-stack-copies.md`).

use decoder::{ChainLimits, MAX_STACK_COPY_BYTES};

use super::facts::Facts;
use crate::attr::{self, rate_of};
use crate::event::{DEFAULT_STACK_COPY, Event, Rate};
use crate::notice::Notice;
use crate::options::{CallChain, Options};

/// Copies of a clock take at least this long to fill a ring, in milliseconds: longer than a busy machine lets a reader wait. With rings of
/// 16 MiB, copies up to 2,999 Hz have the largest size: rustc's stacks are 99.4 % complete (decision 11, by
/// `prof record -F 2999 -- rustc -O memchr/src/lib.rs`).
const MIN_FILL_MS: u64 = 80;

/// Copies have at least this size in bytes, as far as a ring has room for four. Events that sample each occurrence have it: they come in
/// bursts of hundreds of thousands a second. Of 87,800 page faults in a row none is lost, and 1.8 % of their stacks are cut
/// (decision 11, by `prof record -e page-faults -c 1 -- python3`).
const MIN_COPY_BYTES: u64 = 4 << 10;

/// No counter of a processor exceeds this rate, in counts per second: that of the fastest clocks.
const COUNTS_PER_SECOND: u64 = 6_000_000_000;

/// The kernel's default (kernel/events/callchain.c), where the setting cannot be read.
const DEFAULT_MAX_STACK_CONTEXTS: u16 = 8;

/// The stack copies of a recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopySizes {
    /// Bytes of a ring for samples.
    ring: u64,
    /// The largest copy, in bytes, for which samples have room.
    room: u64,
    /// The largest rate that is allowed, in samples per second.
    max_rate: u64,
}

impl CopySizes {
    /// Says how the stack copies of `events` fit into rings of `ring` bytes. Adds a notice where less is given than was asked for.
    pub(super) fn new(
        options: &Options,
        events: &[Event],
        ring: u64,
        facts: &Facts,
        notices: &mut Vec<Notice>,
    ) -> Self {
        let beside = room_beside_other_parts(options, events, facts);
        let room = u64::from(beside.min(MAX_STACK_COPY_BYTES)).min((ring / 4) & !7).max(8);
        let max_rate = facts.settings.max_sample_rate.unwrap_or(u64::MAX);
        let sizes = Self { ring, room, max_rate };
        if let Some(asked) = events.iter().filter_map(|event| asked_size(options, event)).max()
            && u64::from(asked) > room
        {
            let ring = (room < beside.into()).then_some(ring);
            notices.push(Notice::CopiesShrunk { asked, given: narrow(room), ring });
        }
        sizes
    }

    /// Returns the size of an event's copies, in bytes.
    pub(super) fn of(self, event: &Event, options: &Options) -> u32 {
        let rate = match rate_of(event, options) {
            Rate::Frequency(hertz) => hertz.min(self.max_rate),
            Rate::Period(period) => COUNTS_PER_SECOND / period.max(1),
        };
        let copies_per_fill = rate.saturating_mul(MIN_FILL_MS) / 1000;
        // With 8 KiB in the file, perf's size, no stack of `fixtures/programs/jit_frames.c` leads to its function `second`.
        let most = if options.keeps_stacks() { DEFAULT_STACK_COPY.into() } else { u64::MAX };
        let fitting = (self.ring / copies_per_fill.max(1)).clamp(MIN_COPY_BYTES, most);
        let size = asked_size(options, event).map_or(fitting, u64::from);
        narrow(size.min(self.room) & !7)
    }
}

fn narrow(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(MAX_STACK_COPY_BYTES)
}

fn asked_size(options: &Options, event: &Event) -> Option<u32> {
    match options.call_chain_of(event) {
        CallChain::Stacks { size, .. } => size,
        _ => None,
    }
}

/// Returns the largest stack copy, in bytes, for which the samples of all `events` have room.
fn room_beside_other_parts(options: &Options, events: &[Event], facts: &Facts) -> u32 {
    let limits = ChainLimits {
        addresses: facts.settings.max_stack.unwrap_or(tracker::DEFAULT_CHAIN_LIMIT).into(),
        markers: facts.settings.max_contexts.unwrap_or(DEFAULT_MAX_STACK_CONTEXTS).into(),
    };
    let room = |event: &Event| {
        let members = events.iter().filter(|other| event.leader.is_some() && other.leader == event.leader);
        attr::sampler(event, options, 0, 0).room_for_stack_copy(members.count(), limits)
    };
    let copying = |event: &&Event| matches!(options.call_chain_of(event), CallChain::Stacks { .. });
    events.iter().filter(copying).map(room).min().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_of_copies_lasts_as_long_as_a_reader_may_have_to_wait() {
        let size = |ring: u64, rate| {
            let options = Options::new(crate::options::Target::System);
            let sizes =
                CopySizes { ring, room: (ring / 4).min(MAX_STACK_COPY_BYTES.into()), max_rate: 100_000 };
            sizes.of(&Event { rate: Some(rate), ..crate::event::clock_event() }, &options)
        };
        assert_eq!(size(16 << 20, Rate::Frequency(997)), MAX_STACK_COPY_BYTES);
        assert_eq!(size(16 << 20, Rate::Frequency(2_999)), MAX_STACK_COPY_BYTES);
        assert_eq!(size(16 << 20, Rate::Frequency(9_997)), 20_992);
        assert_eq!(size(16 << 20, Rate::Frequency(u64::MAX)), 4 << 10);
        assert_eq!(size(16 << 20, Rate::Period(1)), 4 << 10);
        assert_eq!(size(16 << 20, Rate::Period(1_000_000)), 34_952);
        assert_eq!(size(512 << 10, Rate::Frequency(997)), 6_632);
        assert_eq!(size(4 << 10, Rate::Frequency(997)), 1 << 10);
    }
}
