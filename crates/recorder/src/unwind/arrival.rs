//! Two kinds of events, by how their samples arrive: each kind has a size of stack copies of its own
//! (`docs/decisions/0011-sizes-of-stack-copies.md`).

use decoder::Attr;

use super::copy_sizes::{CopySizeController, CopySizes};
use crate::event::Rate;

/// An event with a period of at least this counts cycles, instructions or nanoseconds, whose rate has a bound. Of others the rate is
/// unknown.
const MIN_KNOWN_RATE_PERIOD: u64 = 10_000;

/// The way in which samples of an event arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// At a rate with a bound.
    Paced,
    /// As often as something happens: in bursts of hundreds of thousands a second.
    Bursty,
}

impl Arrival {
    /// Returns how samples of an event arrive that is sampled at this rate.
    pub(crate) fn at_rate(rate: Rate) -> Self {
        match rate {
            Rate::Frequency(_) => Self::Paced,
            Rate::Period(period) if period >= MIN_KNOWN_RATE_PERIOD => Self::Paced,
            Rate::Period(_) => Self::Bursty,
        }
    }

    /// Returns how samples of an event arrive that is opened with this attr.
    pub(crate) fn of(attr: &Attr) -> Self {
        Self::at_rate(match attr.is_frequency() {
            true => Rate::Frequency(attr.sample_period),
            false => Rate::Period(attr.sample_period),
        })
    }
}

/// A value for each kind of events.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PerArrival<T> {
    /// For events that arrive at a rate with a bound.
    pub paced: T,
    /// For events that arrive in bursts.
    pub bursty: T,
}

impl<T> PerArrival<T> {
    /// Returns the value for one kind.
    pub(crate) fn of(&self, arrival: Arrival) -> &T {
        match arrival {
            Arrival::Paced => &self.paced,
            Arrival::Bursty => &self.bursty,
        }
    }

    /// Returns the value for one kind, to be changed.
    pub(crate) fn of_mut(&mut self, arrival: Arrival) -> &mut T {
        match arrival {
            Arrival::Paced => &mut self.paced,
            Arrival::Bursty => &mut self.bursty,
        }
    }

    /// Returns what `map` makes of both values.
    pub(crate) fn map<U>(&self, map: impl Fn(&T) -> U) -> PerArrival<U> {
        PerArrival { paced: map(&self.paced), bursty: map(&self.bursty) }
    }
}

impl PerArrival<CopySizeController> {
    /// Starts with the initial one of `sizes`, for rings of `ring_size` bytes.
    pub(super) fn for_rings(sizes: &PerArrival<CopySizes>, ring_size: u64) -> Self {
        sizes.map(|sizes| CopySizeController::new(sizes.clone(), ring_size))
    }

    /// Records that a ring, which both kinds share, held `fill` bytes when it was emptied. If it was nearly full, copies of events that
    /// come in bursts shrink first: a clock fills rings no faster than before, and where time goes is the first question.
    pub(super) fn record_fill(&mut self, fill: u64) {
        let paced = self.paced.take_copied_bytes();
        if !self.bursty.record_fill(fill, fill.saturating_sub(paced)) {
            self.paced.record_fill(fill, paced);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::MAX_STACK_COPY_BYTES;

    #[test]
    fn bursts_give_way_before_clocks_do() {
        const RING: u64 = 4 << 20;
        let sizes = |rate| CopySizes::for_rings(RING, MAX_STACK_COPY_BYTES, rate);
        let sizes = PerArrival { paced: sizes(Some(997)), bursty: sizes(None) };
        let mut both = PerArrival::for_rings(&sizes, RING);
        let initial = (both.paced.wanted(), both.bursty.wanted());
        assert_eq!(initial, (MAX_STACK_COPY_BYTES, 16 << 10));
        // Copies of the sizes before may still be in the rings for a while.
        let mut fill_until = |is_reached: &dyn Fn(&PerArrival<CopySizeController>) -> bool| {
            let rounds = (0..100).take_while(|_| {
                both.record_fill(RING);
                !is_reached(&both)
            });
            assert!(rounds.count() < 99);
            (both.paced.wanted(), both.bursty.wanted())
        };
        let before = fill_until(&|both| both.bursty.wanted() == 1 << 10);
        assert_eq!(before.0, MAX_STACK_COPY_BYTES, "a burst may be the reason");
        let after = fill_until(&|both| both.paced.wanted() < MAX_STACK_COPY_BYTES);
        assert_eq!(after, (16 << 10, 1 << 10));
    }

    #[test]
    fn rare_events_get_large_copies_beside_a_clock_that_fills_the_rings() {
        const RING: u64 = 4 << 20;
        let sizes = PerArrival {
            paced: CopySizes::fixed(MAX_STACK_COPY_BYTES),
            bursty: CopySizes::for_rings(RING, MAX_STACK_COPY_BYTES, None),
        };
        let mut both = PerArrival::for_rings(&sizes, RING);
        for _ in 0..20 {
            (0..24).for_each(|_| both.paced.record_stack(65_000, Some(60_000)));
            (0..4).for_each(|_| both.bursty.record_stack(4096, None));
            both.record_fill(24 * 65_528 + 4 * 4096);
        }
        assert_eq!(both.bursty.wanted(), 16 << 10);
    }

    #[test]
    fn an_attr_tells_what_a_rate_does() {
        for (rate, arrival) in [
            (Rate::Frequency(1), Arrival::Paced),
            (Rate::Period(1_000_000), Arrival::Paced),
            (Rate::Period(1), Arrival::Bursty),
        ] {
            let mut attr = Attr::default();
            let (Rate::Frequency(number) | Rate::Period(number)) = rate;
            attr.sample_period = number;
            attr.flags.set(decoder::AttrFlags::FREQ, matches!(rate, Rate::Frequency(_)));
            assert_eq!((Arrival::at_rate(rate), Arrival::of(&attr)), (arrival, arrival));
        }
    }
}
