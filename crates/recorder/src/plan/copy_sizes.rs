//! Opens sampling events once for each size of stack copies, since the size of an open event cannot change: one of them is enabled.

use decoder::attr::TYPE_BREAKPOINT;
use decoder::{Attr, AttrFlags, ChainLimits};

use super::descriptors::Descriptors;
use super::facts::Facts;
use super::{PlannedEvent, Stop};
use crate::attr::{self, rate_of};
use crate::event::{Event, Rate};
use crate::notice::Notice;
use crate::options::{CallChain, Options};
use crate::unwind::{Arrival, CopySizes, PerArrival, largest_copy};

/// The rate that no event exceeds whose rate has a bound ([`Arrival::Paced`]).
const MAX_COUNTS_PER_SECOND: u64 = 6_000_000_000;

/// The kernel's defaults (kernel/events/callchain.c), where the settings cannot be read.
const DEFAULT_MAX_STACK_ADDRESSES: u16 = 127;
const DEFAULT_MAX_STACK_CONTEXTS: u16 = 8;

/// Returns the sizes of stack copies that suit rings of `ring` bytes: a single one where it was asked for, or where there are too few
/// descriptors for variants, or variants cannot be exchanged. Where it was asked for, stacks of waits have smaller copies as long as the
/// rings have no room for it: the user asked for waits, and not for every switch.
pub(super) fn copy_sizes(
    options: &Options,
    events: &[Event],
    ring: u64,
    descriptors: Descriptors,
    facts: &Facts,
    notices: &mut Vec<Notice>,
) -> Result<PerArrival<CopySizes>, Stop> {
    let room = room_beside_other_parts(options, events, facts);
    let of_kind = |arrival: Arrival| {
        let is_of_kind = move |event: &&Event| {
            let copies = matches!(options.call_chain_of(event), CallChain::Stacks { .. });
            copies && Arrival::at_rate(rate_of(event, options)) == arrival
        };
        events.iter().filter(is_of_kind)
    };
    let mut asked_for = None;
    let mut sizes_of = |arrival: Arrival| {
        // A size that follows the stacks suits all events; of fixed sizes, the largest does.
        let chain = of_kind(arrival).map(|event| options.call_chain_of(event)).reduce(larger_copies);
        let are_waits =
            arrival == Arrival::Bursty && of_kind(arrival).all(|event| event.watches || event.read_outside);
        match chain {
            Some(CallChain::Stacks { size: Some(asked), .. }) => {
                let given = asked.min(largest_copy(ring)).min(room);
                asked_for = asked_for.max(Some((asked, given)));
                if are_waits { CopySizes::asked_in_bursts(given) } else { CopySizes::fixed(given) }
            }
            Some(_) => {
                let sizes = CopySizes::for_rings(ring, room, rate_of_all(of_kind(arrival), options, facts));
                if are_waits { sizes.beginning_small() } else { sizes }
            }
            None => CopySizes::default(),
        }
    };
    let sizes = PerArrival { paced: sizes_of(Arrival::Paced), bursty: sizes_of(Arrival::Bursty) };
    if let Some((asked, given)) = asked_for
        && given < asked
    {
        let ring = (given < room).then_some(ring);
        notices.push(Notice::CopiesShrunk { asked, given, ring });
    }
    // Groups cannot be exchanged without losing counts.
    let grouped = events.iter().any(|event| event.leader.is_some());
    let open = |arrival: Arrival| of_kind(arrival).count() * sizes.of(arrival).others().count();
    let variants = open(Arrival::Paced) + open(Arrival::Bursty);
    let all = Descriptors { events: events.len() + variants, ..descriptors };
    // A processor has four breakpoints, and each variant would take one. Disabling a breakpoint on another CPU while it is
    // hit, as a change of sizes does, has ended programs by SIGTRAP in virtual machines.
    let breaks = events.iter().any(|event| event.attr.kind == TYPE_BREAKPOINT);
    let keeps = options.keeps_stacks();
    let is_fixed = keeps || grouped || breaks || (variants > 0 && !all.are_allowed(facts)?);
    Ok(if is_fixed { sizes.map(CopySizes::without_choice) } else { sizes })
}

/// Returns the number of samples per second and CPU of all these events; `None` where it cannot be known.
fn rate_of_all<'e>(events: impl Iterator<Item = &'e Event>, options: &Options, facts: &Facts) -> Option<u64> {
    let allowed = facts.settings.max_sample_rate.unwrap_or(u64::MAX);
    events.map(|event| rate_of(event, options)).try_fold(0_u64, |sum, rate| {
        let rate = match rate {
            Rate::Frequency(hertz) => hertz.min(allowed),
            Rate::Period(_) if Arrival::at_rate(rate) == Arrival::Bursty => return None,
            Rate::Period(period) => MAX_COUNTS_PER_SECOND / period,
        };
        Some(sum.saturating_add(rate))
    })
}

/// Returns the largest stack copy, in bytes, for which the samples of all `events` have room.
fn room_beside_other_parts(options: &Options, events: &[Event], facts: &Facts) -> u32 {
    let limits = ChainLimits {
        addresses: facts.settings.max_stack.unwrap_or(DEFAULT_MAX_STACK_ADDRESSES).into(),
        markers: facts.settings.max_contexts.unwrap_or(DEFAULT_MAX_STACK_CONTEXTS).into(),
    };
    let room = |event: &Event| {
        let members = events.iter().filter(|other| event.leader.is_some() && other.leader == event.leader);
        attr::sampler(event, options, 0, 0).room_for_stack_copy(members.count(), limits)
    };
    let copying = |event: &&Event| matches!(options.call_chain_of(event), CallChain::Stacks { .. });
    events.iter().filter(copying).map(room).min().unwrap_or(u32::MAX)
}

/// Returns a copy of each event that copies stacks for each size but the initial one: disabled, until that size is chosen.
pub(super) fn variants(events: &[PlannedEvent], sizes: &PerArrival<CopySizes>) -> Vec<PlannedEvent> {
    let copying = events.iter().enumerate().filter(|(_, event)| event.copies_stacks());
    let variants = copying.flat_map(|(index, event)| {
        sizes.of(Arrival::of(&event.attr)).others().map(move |size| {
            let mut attr = Attr { sample_stack_user: size, ..event.attr.clone() };
            attr.flags.remove(AttrFlags::ENABLE_ON_EXEC);
            attr.flags.insert(AttrFlags::DISABLED);
            PlannedEvent { attr, leader: None, variant_of: Some(index), part_of: None, ..event.clone() }
        })
    });
    variants.collect()
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
