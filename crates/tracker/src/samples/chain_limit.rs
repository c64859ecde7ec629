//! Call chains that the kernel has cut because they reached their maximum number of addresses (`get_perf_callchain()` in
//! kernel/events/callchain.c).

use alloc::vec::Vec;

use decoder::values::U64s;
use decoder::{Attr, context};
use model::TruncationReason;

/// The default of `kernel.perf_event_max_stack` (`PERF_MAX_STACK_DEPTH`), for attrs without a limit of their own.
pub const DEFAULT_CHAIN_LIMIT: u16 = 127;

/// Returns the maximum number of addresses in the call chains of an event.
pub fn chain_limit(attr: &Attr) -> u16 {
    match attr.sample_max_stack {
        0 => DEFAULT_CHAIN_LIMIT,
        limit => limit,
    }
}

/// Returns a call chain of the kernel with [`TruncationReason::AddressLimit`] at its end, if it has as many addresses as `limit`
/// allows: it goes on where they end, unless the stack happens to be just as deep. Returns `None` for any other chain.
pub fn mark_cut_chain(chain: U64s<'_>, limit: u16) -> Option<Vec<u64>> {
    if chain.len() <= usize::from(limit) {
        // Before the addresses there is at least one context marker.
        return None;
    }
    let is_address = |value: &u64| *value < context::MAX;
    let last_context = chain.iter().rfind(|value| !is_address(value));
    let addresses = chain.iter().filter(is_address).count();
    let is_marked =
        chain.iter().next_back().is_some_and(|last| TruncationReason::from_marker(last).is_some());
    if addresses != usize::from(limit) || last_context == Some(context::USER_DEFERRED) || is_marked {
        return None;
    }
    // The mark is an address of user space.
    let context = (last_context != Some(context::USER)).then_some(context::USER);
    Some(chain.iter().chain(context).chain([TruncationReason::AddressLimit(limit).marker()]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use decoder::Endian;

    fn marked(chain: &[u64], limit: u16) -> Option<Vec<u64>> {
        let bytes: Vec<u8> = chain.iter().flat_map(|value| value.to_le_bytes()).collect();
        mark_cut_chain(U64s::new(&bytes, Endian::Little), limit)
    }

    #[test]
    fn only_a_chain_of_as_many_addresses_as_allowed_is_cut() {
        let mark = TruncationReason::AddressLimit(4).marker();
        let whole = [context::KERNEL, 1, 2, context::USER, 3, 4];
        assert_eq!(marked(&whole, 4), Some([&whole[..], &[mark]].concat()));
        assert_eq!((marked(&whole, 3), marked(&whole, 5)), (None, None), "the limit was another one");
        assert_eq!(marked(&[], 1), None);
        assert_eq!(marked(&[context::USER], 1), None);
    }

    #[test]
    fn the_mark_is_the_users_though_the_kernels_part_took_all_addresses() {
        let mark = TruncationReason::AddressLimit(2).marker();
        assert_eq!(
            marked(&[context::KERNEL, 1, 2, context::USER], 2),
            Some(vec![context::KERNEL, 1, 2, context::USER, mark])
        );
        assert_eq!(
            marked(&[context::KERNEL, 1, 2], 2),
            Some(vec![context::KERNEL, 1, 2, context::USER, mark])
        );
    }

    #[test]
    fn a_chain_that_says_how_it_ends_is_left_alone() {
        let mark = TruncationReason::CopyTooSmall.marker();
        assert_eq!(marked(&[context::USER, 1, 2, mark], 3), None);
        assert_eq!(
            marked(&[context::KERNEL, 1, context::USER_DEFERRED, 77], 2),
            None,
            "the rest comes later"
        );
    }
}
