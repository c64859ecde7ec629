//! Opens sampling events once for each size of stack copies, since the size of an open event cannot change: one of them is enabled.

use std::io;

use decoder::attr::TYPE_BREAKPOINT;
use decoder::{Attr, AttrFlags, ChainLimits, SampleFormat};
use host::sys::perf_event::PerfEvent;
use host::sysctl;

use super::descriptors::Descriptors;
use super::opened::{OpenEvent, Opened};
use crate::attr::{self, rate_of};
use crate::event::{Event, Rate};
use crate::notice::Notice;
use crate::options::{CallChain, Options};
use crate::unwind::{CopySizes, largest_copy};

/// An event with a period of at least this is taken for one of the fast ones (cycles, instructions, nanoseconds), whose rate has a
/// bound. Of others the rate is unknown.
const MIN_KNOWN_RATE_PERIOD: u64 = 10_000;
/// The rate that no fast event exceeds.
const MAX_COUNTS_PER_SECOND: u64 = 6_000_000_000;

/// The kernel's defaults (kernel/events/callchain.c), where the settings cannot be read.
const DEFAULT_MAX_STACK_ADDRESSES: u16 = 127;
const DEFAULT_MAX_STACK_CONTEXTS: u16 = 8;

/// Returns the sizes of stack copies that suit rings of `ring` bytes: a single one where it was asked for, or where there are too few
/// descriptors for variants, or variants cannot be exchanged.
pub(super) fn copy_sizes(
    options: &Options,
    events: &[Event],
    ring: u64,
    descriptors: Descriptors,
    notices: &mut dyn FnMut(Notice),
) -> CopySizes {
    let room = room_beside_other_parts(options, events);
    let chains = events.iter().map(|event| options.call_chain_of(event));
    // A size that follows the stacks suits all events; of fixed sizes, the largest does.
    let chain = chains.filter(|chain| matches!(chain, CallChain::Stacks { .. })).reduce(larger_copies);
    match chain.unwrap_or(options.call_chain) {
        CallChain::Stacks { size: Some(asked), .. } => {
            let given = asked.min(largest_copy(ring)).min(room);
            if given < asked {
                let ring = (given < room).then_some(ring);
                notices(Notice::CopiesShrunk { asked, given, ring });
            }
            CopySizes::fixed(given)
        }
        CallChain::Stacks { size: None, keep } => {
            let allowed = sysctl::perf_event_max_sample_rate().unwrap_or(u64::MAX);
            let mut rates = events.iter().map(|event| match rate_of(event, options) {
                Rate::Frequency(hertz) => Some(hertz.min(allowed)),
                Rate::Period(period) if period >= MIN_KNOWN_RATE_PERIOD => {
                    Some(MAX_COUNTS_PER_SECOND / period)
                }
                Rate::Period(_) => None,
            });
            let rate = rates.try_fold(0_u64, |sum, rate| Some(sum.saturating_add(rate?)));
            let sizes = CopySizes::for_rings(ring, room, rate);
            // Groups cannot be exchanged without losing counts.
            let grouped = events.iter().any(|event| event.leader.is_some());
            let all = Descriptors { events: events.len() * (1 + sizes.others().count()), ..descriptors };
            // A processor has four breakpoints, and each variant would take one. Disabling a breakpoint on another CPU while it is
            // hit, as a change of sizes does, has ended programs by SIGTRAP in virtual machines.
            let breaks = events.iter().any(|event| event.attr.kind == TYPE_BREAKPOINT);
            let is_fixed = keep || grouped || breaks || all.check().is_err();
            if is_fixed { sizes.without_choice() } else { sizes }
        }
        _ => CopySizes::default(),
    }
}

/// Returns the largest stack copy, in bytes, for which the samples of all `events` have room.
fn room_beside_other_parts(options: &Options, events: &[Event]) -> u32 {
    let limits = ChainLimits {
        addresses: sysctl::perf_event_max_stack().unwrap_or(DEFAULT_MAX_STACK_ADDRESSES).into(),
        markers: sysctl::perf_event_max_contexts_per_stack().unwrap_or(DEFAULT_MAX_STACK_CONTEXTS).into(),
    };
    let room = |event: &Event| {
        let members = events.iter().filter(|other| event.leader.is_some() && other.leader == event.leader);
        attr::sampler(event, options, 0, 0).room_for_stack_copy(members.count(), limits)
    };
    let copying = |event: &&Event| matches!(options.call_chain_of(event), CallChain::Stacks { .. });
    events.iter().filter(copying).map(room).min().unwrap_or(u32::MAX)
}

/// Returns a copy of each event that copies stacks for each size but the initial one; none is open or enabled.
pub(super) fn variants(events: &[OpenEvent], sizes: &CopySizes) -> Vec<OpenEvent> {
    let variants = sizes.others().flat_map(|size| {
        events.iter().enumerate().filter(|(_, event)| copies_stacks(event)).map(move |(index, event)| {
            let mut attr = Attr { sample_stack_user: size, ..event.attr.clone() };
            attr.flags.remove(AttrFlags::ENABLE_ON_EXEC);
            attr.flags.insert(AttrFlags::DISABLED);
            let name = event.name.clone();
            let selected = event.selected.clone();
            let instances = Vec::new();
            OpenEvent {
                name,
                attr,
                leader: None,
                selected,
                instances,
                variant_of: Some(index),
                part_of: None,
            }
        })
    });
    variants.collect()
}

impl Opened {
    /// Enables the variants of the events whose stack copies have `size` bytes, and then disables the others: no sample is missed,
    /// and for a moment both run. Returns false where that is the current size, or there is no variant of it.
    pub(crate) fn set_copy_size(&mut self, size: u32) -> bool {
        if size == self.copy_size || !self.copy_sizes.contains(size) {
            return false;
        }
        self.copy_size = size;
        if self.paused {
            return true;
        }
        let has_size = |event: &OpenEvent| event.attr.sample_stack_user == size;
        for (enable, act) in
            [(true, PerfEvent::enable as fn(&PerfEvent) -> io::Result<()>), (false, PerfEvent::disable)]
        {
            let is_held = |event: &OpenEvent| self.switches_held && event.watches();
            let concerned = |event: &&OpenEvent| {
                copies_stacks(event) && has_size(event) == enable && !(enable && is_held(event))
            };
            for event in self.events.iter().filter(concerned) {
                // Errors are ignored: they are of events whose threads have ended.
                event.instances.iter().for_each(|instance| drop(act(instance)));
            }
        }
        true
    }
}

fn larger_copies(a: CallChain, b: CallChain) -> CallChain {
    match (a, b) {
        (CallChain::Stacks { size: Some(size), .. }, CallChain::Stacks { size: Some(other), keep }) => {
            CallChain::Stacks { size: Some(size.max(other)), keep }
        }
        (CallChain::Stacks { size: None, .. }, _) => a,
        _ => b,
    }
}

fn copies_stacks(event: &OpenEvent) -> bool {
    event.attr.sample_format.contains(SampleFormat::STACK_USER)
}
