//! The limits of a machine on what is asked for: rates, call chains, and the memory of rings.

use decoder::{Attr, SampleFormat};
use host::survey::Settings;
use host::sys::system::page_size;
use host::sysctl::DEFAULT_MAX_SAMPLE_RATE_HZ;

/// Bytes of a ring for sideband records.
pub const SIDEBAND_SIZE: u64 = 64 << 10;
/// Maximum default size of a ring for samples, in bytes: the largest stack copies fit at 2,999 Hz (`docs/decisions/0011-sizes-of-stack-copies.md`).
pub(crate) const MAX_DEFAULT_RING_BYTES: u64 = 16 << 20;
/// Maximum default size of all rings for samples together, in bytes.
const MAX_DEFAULT_TOTAL_BYTES: u64 = 256 << 20;
/// By default, all rings for samples together take at most this fraction (1/N) of main memory.
const MEMORY_PER_RING_BYTE: u64 = 32;

/// Returns the default size of each of `rings` rings for samples on a machine with `memory_kb` KiB of main memory, in bytes: a power
/// of two, at least a page.
pub fn default_ring_bytes(memory_kb: Option<u64>, rings: usize) -> u64 {
    let memory = memory_kb.unwrap_or(1 << 20).saturating_mul(1024);
    let share = MAX_DEFAULT_TOTAL_BYTES.min(memory / MEMORY_PER_RING_BYTE) / rings.max(1) as u64;
    let largest = share.clamp(1, MAX_DEFAULT_RING_BYTES);
    (1 << largest.ilog2()).max(page_size() as u64)
}

/// Returns the bytes of samples for each of `rings`: what was asked for, or what suits the machine; a power of two of pages.
pub(super) fn ring_bytes(asked: Option<u64>, rings: usize, memory_kb: Option<u64>) -> u64 {
    match asked {
        Some(size) => size.checked_next_power_of_two().unwrap_or(1 << 40).max(page_size() as u64),
        None => default_ring_bytes(memory_kb, rings),
    }
}

/// Returns the value of `kernel.perf_event_mlock_kb` that permits a ring for samples of this size per CPU, with the sideband ring and
/// the control page of each.
pub fn mlock_kb_for(ring_bytes: u64) -> u64 {
    ring_bytes.saturating_add(2 * SIDEBAND_SIZE).div_ceil(1024)
}

/// Lowers the frequency to what `kernel.perf_event_max_sample_rate` allows: the kernel refuses more (EINVAL). Where the kernel has
/// lowered the limit, the frequency becomes half of it. The limit is one of samples per tick, and at its last sample of a tick an event is
/// throttled until the next one (`__perf_event_account_interrupt()` in kernel/events/core.c). Returns what was asked for, and the lower
/// frequency.
pub(crate) fn limit_rate(attr: &mut Attr, settings: &Settings) -> Option<(u64, u64)> {
    let limit = settings.max_sample_rate.unwrap_or(u64::MAX);
    let asked = attr.sample_period;
    let allowed = attr.is_frequency().then(|| below(asked, limit)).flatten()?;
    attr.sample_period = allowed;
    Some((asked, allowed))
}

/// Returns the frequency to use in place of `asked`, if that is too high for `limit`.
fn below(asked: u64, limit: u64) -> Option<u64> {
    let is_lowered = limit < DEFAULT_MAX_SAMPLE_RATE_HZ;
    match is_lowered {
        true => (asked > limit / 4 * 3).then(|| (limit / 2).max(1)),
        false => (asked > limit).then_some(limit),
    }
}

/// Shortens the kernel's call chains to what `kernel.perf_event_max_stack` allows. Those of stack copies are made by the recorder,
/// which has no such limit. Returns what was asked for, and what is allowed, if that shortens the kernel's.
pub(super) fn limit_stack(attr: &mut Attr, settings: &Settings) -> Option<(u16, u16)> {
    let allowed = settings.max_stack?;
    let is_kernels = attr.sample_format.contains(SampleFormat::CALLCHAIN)
        && !attr.sample_format.contains(SampleFormat::STACK_USER);
    if is_kernels && attr.sample_max_stack == 0 {
        // The same for the kernel. Readers of the file know from it which call chains were cut.
        attr.sample_max_stack = allowed;
    }
    let asked = attr.sample_max_stack;
    attr.sample_max_stack = asked.min(allowed);
    (is_kernels && asked > allowed).then_some((asked, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_at_a_lowered_limit_would_throttle_at_every_tick() {
        assert_eq!(below(997, 100_000), None);
        assert_eq!(below(u64::MAX, 100_000), Some(100_000));
        assert_eq!(below(997, 1_000), Some(500));
        assert_eq!(below(997, 500), Some(250));
        assert_eq!(below(997, 1_500), None);
        assert_eq!(below(997, 1), Some(1));
    }

    #[test]
    fn sizes_are_powers_of_two_within_their_bounds() {
        let wanted = |asked, rings| ring_bytes(asked, rings, None);
        assert_eq!(wanted(Some(1), 2), page_size() as u64);
        assert_eq!(wanted(Some(100_000), 2), 131_072);
        assert_eq!(wanted(Some(u64::MAX), 2), 1 << 40);
        for cpus in [1, 2, 64, 1000, 100_000] {
            let size = wanted(None, cpus);
            assert!(size.is_power_of_two() && size <= MAX_DEFAULT_RING_BYTES);
            assert!(size == page_size() as u64 || size * cpus as u64 <= MAX_DEFAULT_TOTAL_BYTES);
        }
    }
}
