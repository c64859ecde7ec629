//! Advice on the rate of sampling and the size of rings: what to type where samples are missing, lost, or few.

use decoder::Attr;
use host::sysctl;
use model::{MissingSamples, Shortfall};

/// Maximum rate that is advised, in Hz, a prime: recording a busy program takes 3 % of a CPU then, 5 % at 19,997 Hz and 8 % at 40,009
/// (`perf stat --per-thread -- prof record -F RATE -- COMMAND`).
const MAX_ADVISED_RATE: u64 = 9_973;
/// The rate that is advised where samples are few, in Hz: five times the default of 997, and a prime like that.
const MORE_OFTEN_HZ: u64 = 4_999;
/// The size of a ring, in bytes, above which a larger one is not advised: it takes this memory on each CPU.
const MAX_ADVISED_RING: u64 = 64 << 20;
/// The ring that is advised to who has asked for none, in bytes: four times the default.
const LARGER_RING: u64 = 64 << 20;

/// Returns `kernel.perf_event_max_sample_rate`, in Hz; the kernel's default if it cannot be read.
pub fn max_sample_rate() -> u64 {
    sysctl::perf_event_max_sample_rate().unwrap_or(sysctl::DEFAULT_MAX_SAMPLE_RATE_HZ)
}

/// Returns what to type against missing samples of an event, such as `-F 9973`; `None` if nothing helps. `whole_cpu_rate` is the rate in
/// Hz at which whole CPUs would be sampled, and short lives with them; `max_rate` the kernel's limit in Hz.
pub fn for_missing_samples(
    attr: &Attr,
    missing: &MissingSamples,
    whole_cpu_rate: Option<u64>,
    max_rate: u64,
) -> Option<String> {
    match missing.reason {
        Shortfall::ShortLives => match whole_cpu_rate {
            Some(rate) => Some(format!("-F {rate}, at which whole CPUs are sampled")),
            None => higher_rate(attr, max_rate),
        },
        Shortfall::ShortRuns => Some(match higher_rate(attr, max_rate) {
            Some(flag) => format!("{flag}, or -a"),
            None => "-a".to_owned(),
        }),
        Shortfall::LateTicks => Some(lower_rate(attr, max_rate)),
        // The lines on throttling and on losses say what to try.
        Shortfall::Throttled
        | Shortfall::Unknown
        | Shortfall::MoreRights
        | Shortfall::UnreadLosses
        | Shortfall::Losses => None,
    }
}

/// Returns the flag that samples more often, such as `-F 9973`; `None` if that would not help. `max_rate` is the kernel's limit in Hz.
pub fn higher_rate(attr: &Attr, max_rate: u64) -> Option<String> {
    let asked = attr.sample_period;
    if !attr.is_frequency() {
        return (asked >= 10).then(|| format!("-c {}", asked / 10));
    }
    let ten_times = asked.saturating_mul(10);
    // Ten times the default of 997 Hz is the maximum but for 3 Hz.
    let is_nearly_most = ten_times.saturating_add(ten_times / 100) >= MAX_ADVISED_RATE;
    let rate = if is_nearly_most { MAX_ADVISED_RATE } else { ten_times }.min(max_rate);
    // Less than twice the rate finds hardly more samples.
    (rate >= asked.saturating_mul(2)).then(|| format!("-F {rate}"))
}

/// Returns the flag that samples less often, below the kernel's limit (`max_rate`, in Hz), which may have fallen since the recording
/// began.
pub fn lower_rate(attr: &Attr, max_rate: u64) -> String {
    let asked = attr.sample_period;
    let of_clock = |period: u64| 1_000_000_000 / period.max(1);
    let (rate, is_clock) = match (attr.is_frequency(), attr.is_cpu_clock()) {
        (true, _) => (asked, false),
        (false, true) => (of_clock(asked), true),
        (false, false) => return format!("-c {}", asked.saturating_mul(10)),
    };
    // The kernel throttles at the limit already: it counts samples per tick, and the last one of a tick is one too many.
    let lower = (rate / 2).min(max_rate / 2).max(1);
    if is_clock { format!("-c {}", of_clock(lower)) } else { format!("-F {lower}") }
}

/// Returns the flag for more samples of an event, which were few; `None` if it is sampled at a high rate, or at each occurrence.
pub fn more_often(attr: &Attr) -> Option<String> {
    match (attr.is_frequency(), attr.sample_period) {
        (true, hertz) => (hertz < MORE_OFTEN_HZ).then(|| format!("-F {MORE_OFTEN_HZ}")),
        (false, period) => (period >= 10).then(|| format!("-c {}", period / 10)),
    }
}

/// Returns the flag for larger rings than those of `asked` bytes (`None`: the default); `None` if they are large.
pub fn larger_ring(asked: Option<u64>) -> Option<String> {
    let larger = asked.map_or(LARGER_RING, |asked| asked.saturating_mul(4).next_multiple_of(1 << 20));
    (larger <= MAX_ADVISED_RING).then(|| format!("-m {}M", larger >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::AttrFlags;

    fn clock(sample_period: u64, flags: AttrFlags) -> Attr {
        Attr { kind: 1, config: 0, sample_period, flags, ..Attr::default() }
    }

    #[test]
    fn a_rate_is_advised_that_finds_what_is_missing() {
        let of = |attr: &Attr, reason, whole_cpu_rate, max_rate| {
            let missing = MissingSamples { event: 0, due: 680, missing: 277, period: 1_003_009, reason };
            for_missing_samples(attr, &missing, whole_cpu_rate, max_rate)
        };
        let at = |rate| clock(rate, AttrFlags::FREQ);
        let faults = Attr { config: 2, ..clock(100, AttrFlags::empty()) };
        let short = Shortfall::ShortLives;
        assert_eq!(of(&at(997), short, None, 100_000).as_deref(), Some("-F 9973"));
        assert_eq!(of(&at(997), short, None, 1_000), None);
        assert_eq!(of(&at(199), short, None, 100_000).as_deref(), Some("-F 1990"));
        assert_eq!(of(&faults, short, None, 100_000).as_deref(), Some("-c 10"));
        // A higher rate would make it worse: whole CPUs are sampled at a lower one.
        let whole = of(&at(2_999), short, Some(2_500), 100_000);
        assert_eq!(whole.as_deref(), Some("-F 2500, at which whole CPUs are sampled"));
        assert_eq!(of(&at(997), Shortfall::ShortRuns, None, 100_000).as_deref(), Some("-F 9973, or -a"));
        assert_eq!(of(&at(9_000), Shortfall::ShortRuns, None, 100_000).as_deref(), Some("-a"));
        assert_eq!(of(&at(50_000), Shortfall::LateTicks, None, 100_000).as_deref(), Some("-F 25000"));
        assert_eq!(of(&at(997), Shortfall::Throttled, None, 100_000), None);
        assert_eq!(lower_rate(&at(997), 500), "-F 250");
        assert_eq!(lower_rate(&clock(100_000, AttrFlags::empty()), 100_000), "-c 200000");
    }

    #[test]
    fn few_samples_take_a_higher_rate_than_there_was() {
        assert_eq!(more_often(&clock(997, AttrFlags::FREQ)).as_deref(), Some("-F 4999"));
        assert_eq!(more_often(&clock(9_973, AttrFlags::FREQ)), None);
        assert_eq!(more_often(&clock(1_000, AttrFlags::empty())).as_deref(), Some("-c 100"));
        assert_eq!(more_often(&clock(1, AttrFlags::empty())), None);
    }

    #[test]
    fn a_ring_is_advised_that_is_larger_than_the_one_that_was() {
        assert_eq!(larger_ring(None).as_deref(), Some("-m 64M"));
        assert_eq!(larger_ring(Some(64 << 10)).as_deref(), Some("-m 1M"));
        assert_eq!(larger_ring(Some(16 << 20)).as_deref(), Some("-m 64M"));
        assert_eq!(larger_ring(Some(64 << 20)), None);
    }
}
