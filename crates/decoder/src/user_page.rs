//! The first page of an event's mapping, `struct perf_event_mmap_page`: what a program reads of its own counters and of the clock
//! without a system call (`perf_event_open(2)`, "MMAP layout"; include/uapi/linux/perf_event.h).
//!
//! The kernel changes the page while it is read: a sequence number says whether what was read belongs together. Memory is a
//! trait here, so that the protocol can be tested; the counter and the cycles come from the caller, who alone can execute
//! `rdpmc` and `rdtsc`. `prof` itself observes other processes, whose counters no instruction reads, and keeps the times of its
//! records on clocks that the kernel converts: nothing in it needs this page but its ring's head and tail.

use core::sync::atomic::{Ordering, fence};

// Offsets in the page.
const LOCK: usize = 8;
const INDEX: usize = 12;
const OFFSET: usize = 16;
const TIME_ENABLED: usize = 24;
const TIME_RUNNING: usize = 32;
const CAPABILITIES: usize = 40;
/// `pmc_width` and `time_shift`, 16 bits each, then `time_mult`.
const WIDTH_SHIFT_MULT: usize = 48;
const TIME_OFFSET: usize = 56;
const TIME_ZERO: usize = 64;
const SIZE: usize = 72;
const TIME_CYCLES: usize = 80;
const TIME_MASK: usize = 88;
/// Bytes of a page that has `time_cycles` and `time_mask`.
const SIZE_WITH_MASK: u32 = 96;

// Bits of `capabilities`.
const BIT0_IS_DEPRECATED: u64 = 1 << 1;
const USER_RDPMC: u64 = 1 << 2;
const USER_TIME: u64 = 1 << 3;
const USER_TIME_ZERO: u64 = 1 << 4;
const USER_TIME_SHORT: u64 = 1 << 5;

/// Readings that are tried until one belongs together: the kernel changes the page at a switch of tasks, not faster.
const MOST_TRIES: usize = 1_000;

/// A mapped page. Loads must be single loads of their width (atomic, relaxed).
pub trait PageMemory {
    /// The 32 bits at `offset`, a multiple of 4 below 1,024, in the machine's byte order.
    fn load_u32(&self, offset: usize) -> u32;
    /// The 64 bits at `offset`, a multiple of 8 below 1,024, in the machine's byte order.
    fn load_u64(&self, offset: usize) -> u64;
}

/// The uses that user space may make of an event's counter and clock (`cap_user_*`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct PageCapabilities {
    /// `rdpmc` reads the counter.
    pub user_rdpmc: bool,
    /// Cycles become a time since the page was written: `time_shift`, `time_mult`, `time_offset`.
    pub user_time: bool,
    /// Cycles become a timestamp: `time_zero`, too.
    pub user_time_zero: bool,
    /// The cycle counter has fewer bits than 64: `time_cycles` and `time_mask`.
    pub user_time_short: bool,
}

impl PageCapabilities {
    /// Reads `capabilities`. From Linux 3.4 to 3.11 two of them shared bit 0, so nothing is believed where bit 1 does not say that
    /// the bits are apart.
    pub fn from_bits(bits: u64) -> Self {
        let has = |bit| bits & BIT0_IS_DEPRECATED != 0 && bits & bit != 0;
        Self {
            user_rdpmc: has(USER_RDPMC),
            user_time: has(USER_TIME),
            user_time_zero: has(USER_TIME_ZERO),
            user_time_short: has(USER_TIME_SHORT),
        }
    }
}

/// The conversion of cycles of the CPU's clock (`rdtsc`) to nanoseconds.
///
/// The manual's conversion, both ways:
///
/// ```
/// use prof_decoder::user_page::TimeConversion;
///
/// // A clock of 2.5 GHz: a cycle is 0.4 ns, as 32 bits behind the point.
/// let (time_shift, time_mult, time_zero) = (32, 1_717_986_918, 1_000_000);
/// let clock = TimeConversion { shift: time_shift, mult: time_mult, zero: time_zero, ..TimeConversion::default() };
///
/// let cycles: u64 = 10_000_000_000; // four seconds
/// let (quot, rem) = (cycles >> time_shift, cycles & ((1 << time_shift) - 1));
/// let timestamp = time_zero + quot * u64::from(time_mult) + ((rem * u64::from(time_mult)) >> time_shift);
/// assert_eq!(clock.timestamp(cycles), timestamp);
/// assert_eq!(timestamp, 1_000_000 + 3_999_999_999);
///
/// let time = timestamp - time_zero;
/// let (quot, rem) = (time / u64::from(time_mult), time % u64::from(time_mult));
/// let back = (quot << time_shift) + (rem << time_shift) / u64::from(time_mult);
/// assert_eq!(clock.cycles(timestamp), Some(back));
/// assert!(cycles.abs_diff(back) <= 3, "no more than what rounding takes");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TimeConversion {
    /// `time_shift`, in bits.
    pub shift: u16,
    /// `time_mult`: nanoseconds per cycle, shifted left.
    pub mult: u32,
    /// `time_zero`: the timestamp at 0 cycles, nanoseconds.
    pub zero: u64,
    /// `time_cycles` and `time_mask`, where the cycle counter is short: it is led on from the former.
    pub short: Option<(u64, u64)>,
}

impl TimeConversion {
    /// The timestamp at `cycles`, in nanoseconds on the kernel's own clock.
    pub fn timestamp(&self, cycles: u64) -> u64 {
        self.zero.wrapping_add(self.duration(cycles))
    }

    /// The cycles at a timestamp; `None` where the page has no rate, or the timestamp lies before 0 cycles.
    pub fn cycles(&self, timestamp: u64) -> Option<u64> {
        let time = timestamp.checked_sub(self.zero)?;
        // The manual's `(quot << shift) + (rem << shift) / mult`, without what it may lose at the top.
        let cycles = (u128::from(time) << self.shift.min(63)).checked_div(u128::from(self.mult))?;
        u64::try_from(cycles).ok()
    }

    /// Converts cycles to nanoseconds.
    fn duration(&self, cycles: u64) -> u64 {
        let cycles = match self.short {
            Some((base, mask)) => base.wrapping_add(cycles.wrapping_sub(base) & mask),
            None => cycles,
        };
        let shift = u32::from(self.shift.min(63));
        let (quot, rem) = (cycles >> shift, cycles & ((1 << shift) - 1));
        let mult = u64::from(self.mult);
        quot.wrapping_mul(mult).wrapping_add(rem.wrapping_mul(mult) >> shift)
    }
}

/// The count and times of an event's page at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PageReading {
    /// The count; `None` where `rdpmc` does not give it (the event is not on a counter, or user space may not).
    pub count: Option<u64>,
    /// Nanoseconds for which the event was enabled, up to this moment where the page allows to tell.
    pub enabled_ns: u64,
    /// Nanoseconds for which it was counting.
    pub running_ns: u64,
    /// The conversion of cycles to timestamps, where the page states one (`cap_user_time_zero`).
    pub clock: Option<TimeConversion>,
}

/// Reads a page: `cycles` is `rdtsc`, `counter` is `rdpmc` of an index. `None` where the kernel changed it at every try.
pub fn read(
    page: &impl PageMemory,
    mut cycles: impl FnMut() -> u64,
    mut counter: impl FnMut(u32) -> u64,
) -> Option<PageReading> {
    for _ in 0..MOST_TRIES {
        let sequence = page.load_u32(LOCK);
        fence(Ordering::Acquire);
        // An odd number: the kernel is writing.
        if sequence & 1 == 1 {
            continue;
        }
        let reading = read_once(page, &mut cycles, &mut counter);
        fence(Ordering::Acquire);
        if page.load_u32(LOCK) == sequence {
            return Some(reading);
        }
    }
    None
}

fn read_once(
    page: &impl PageMemory,
    cycles: &mut impl FnMut() -> u64,
    counter: &mut impl FnMut(u32) -> u64,
) -> PageReading {
    let can = PageCapabilities::from_bits(page.load_u64(CAPABILITIES));
    let (mut enabled_ns, mut running_ns) = (page.load_u64(TIME_ENABLED), page.load_u64(TIME_RUNNING));
    let index = page.load_u32(INDEX);
    let (width, shift) = halves(page.load_u32(WIDTH_SHIFT_MULT));
    let mult = page.load_u32(WIDTH_SHIFT_MULT + 4);
    let is_short = can.user_time_short && page.load_u32(SIZE) >= SIZE_WITH_MASK;
    let short = is_short.then(|| (page.load_u64(TIME_CYCLES), page.load_u64(TIME_MASK)));
    let conversion = TimeConversion { shift, mult, zero: 0, short };
    if can.user_time && enabled_ns != running_ns {
        let since = page.load_u64(TIME_OFFSET).wrapping_add(conversion.duration(cycles()));
        enabled_ns = enabled_ns.wrapping_add(since);
        if index != 0 {
            running_ns = running_ns.wrapping_add(since);
        }
    }
    let count = (can.user_rdpmc && index != 0).then(|| {
        let pmc = sign_extended(counter(index - 1), width);
        page.load_u64(OFFSET).wrapping_add(pmc)
    });
    let clock = can.user_time_zero.then(|| TimeConversion { zero: page.load_u64(TIME_ZERO), ..conversion });
    PageReading { count, enabled_ns, running_ns, clock }
}

/// Two 16-bit fields, in the order of the page.
fn halves(word: u32) -> (u16, u16) {
    let [a, b, c, d] = word.to_ne_bytes();
    (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]))
}

/// The counter has `width` bits, the highest of which is its sign: it begins below 0, to overflow after a period.
fn sign_extended(counter: u64, width: u16) -> u64 {
    match 64_u32.checked_sub(u32::from(width)) {
        Some(unused @ 1..64) => ((counter << unused).cast_signed() >> unused).cast_unsigned(),
        // A counter of no bits is 0; one of 64 bits or more needs no extension.
        Some(64) => 0,
        _ => counter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// A page, and how often its sequence number is read before the kernel has done.
    struct Page {
        bytes: [u8; 128],
        torn: Cell<u32>,
    }

    impl PageMemory for Page {
        fn load_u32(&self, offset: usize) -> u32 {
            let word = u32::from_ne_bytes(self.bytes[offset..offset + 4].try_into().unwrap());
            if offset != LOCK {
                return word;
            }
            // Each reading that is torn sees another number at its end, or an odd one at its start.
            let left = self.torn.get();
            self.torn.set(left.saturating_sub(1));
            word + left
        }

        fn load_u64(&self, offset: usize) -> u64 {
            u64::from_ne_bytes(self.bytes[offset..offset + 8].try_into().unwrap())
        }
    }

    fn page(fields: &[(usize, u64)]) -> Page {
        let mut page = Page { bytes: [0; 128], torn: Cell::new(0) };
        for &(offset, value) in fields {
            page.bytes[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        }
        page
    }

    /// `pmc_width`, `time_shift`, `time_mult`.
    fn scale(width: u16, shift: u16, mult: u32) -> (usize, u64) {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&width.to_ne_bytes());
        bytes[2..4].copy_from_slice(&shift.to_ne_bytes());
        bytes[4..].copy_from_slice(&mult.to_ne_bytes());
        (WIDTH_SHIFT_MULT, u64::from_ne_bytes(bytes))
    }

    fn lock_and_index(index: u32) -> (usize, u64) {
        let mut bytes = [0; 8];
        bytes[4..].copy_from_slice(&index.to_ne_bytes());
        (LOCK, u64::from_ne_bytes(bytes))
    }

    #[test]
    fn a_counter_is_its_offset_and_what_the_instruction_reads() {
        let all = BIT0_IS_DEPRECATED | USER_RDPMC | USER_TIME;
        let page = page(&[
            lock_and_index(3),
            (OFFSET, 1_000),
            (TIME_ENABLED, 500),
            (TIME_RUNNING, 400),
            (CAPABILITIES, all),
            scale(48, 1, 1),
            (TIME_OFFSET, 5),
        ]);
        let asked = Cell::new(u32::MAX);
        let counter = |index| {
            asked.set(index);
            (1 << 48) - 40
        };
        let reading = read(&page, || 100, counter).unwrap();
        assert_eq!((asked.get(), reading.count), (2, Some(960)), "40 below 0 of 48 bits");
        assert_eq!(
            (reading.enabled_ns, reading.running_ns),
            (555, 455),
            "5 and 50 since the page was written"
        );
        assert_eq!(reading.clock, None);
    }

    #[test]
    fn what_the_kernel_does_not_promise_is_not_used() {
        let fields = [lock_and_index(1), (TIME_ENABLED, 9), (TIME_RUNNING, 8), scale(48, 0, 1)];
        for bits in [0, 1, USER_RDPMC | USER_TIME | USER_TIME_ZERO, 1 | USER_RDPMC, BIT0_IS_DEPRECATED] {
            let mut page = page(&fields);
            page.bytes[CAPABILITIES..CAPABILITIES + 8].copy_from_slice(&bits.to_ne_bytes());
            let reading = read(&page, || panic!("no rdtsc"), |_| panic!("no rdpmc")).unwrap();
            assert_eq!((reading.count, reading.enabled_ns, reading.running_ns), (None, 9, 8), "{bits:#x}");
        }
        // An event that has no counter now is not running, and has no count.
        let all = BIT0_IS_DEPRECATED | USER_RDPMC | USER_TIME;
        let waiting = page(&[(TIME_ENABLED, 9), (TIME_RUNNING, 8), (CAPABILITIES, all), scale(48, 0, 1)]);
        let reading = read(&waiting, || 10, |_| panic!("no rdpmc")).unwrap();
        assert_eq!((reading.count, reading.enabled_ns, reading.running_ns), (None, 19, 8));
    }

    #[test]
    fn a_reading_that_the_kernel_disturbed_is_done_again() {
        let fields = [(TIME_ENABLED, 7), (TIME_RUNNING, 7), (CAPABILITIES, BIT0_IS_DEPRECATED)];
        for torn in [1, 2, 3, 10, 900] {
            let page = page(&fields);
            page.torn.set(torn);
            assert_eq!(read(&page, || 0, |_| 0).map(|reading| reading.enabled_ns), Some(7), "{torn}");
        }
        let page = page(&fields);
        page.torn.set(u32::MAX / 2);
        assert_eq!(read(&page, || 0, |_| 0), None, "a page that never rests");
    }

    #[test]
    fn a_short_cycle_counter_is_led_on() {
        let all = BIT0_IS_DEPRECATED | USER_TIME_ZERO | USER_TIME_SHORT;
        let fields = [
            (CAPABILITIES, all),
            scale(0, 0, 1),
            (TIME_ZERO, 1_000),
            (SIZE, u64::from(SIZE_WITH_MASK)),
            (TIME_CYCLES, 0x1_ffff_fff0),
            (TIME_MASK, 0xffff_ffff),
        ];
        let clock = read(&page(&fields), || 0, |_| 0).unwrap().clock.unwrap();
        // 32 bits that have wrapped.
        assert_eq!(clock.timestamp(0x10), 1_000 + 0x2_0000_0010);
    }

    #[test]
    fn no_field_of_a_page_is_trusted() {
        for shift in [0, 1, 63, 64, u16::MAX] {
            for mult in [0, 1, u32::MAX] {
                let clock = TimeConversion { shift, mult, zero: u64::MAX, short: Some((u64::MAX, u64::MAX)) };
                clock.timestamp(u64::MAX);
                assert!(mult != 0 || clock.cycles(u64::MAX).is_none());
            }
        }
        for width in [0, 1, 63, 64, 65, u16::MAX] {
            sign_extended(u64::MAX, width);
        }
        assert_eq!(TimeConversion { mult: 1, zero: 5, ..TimeConversion::default() }.cycles(4), None);
    }
}
