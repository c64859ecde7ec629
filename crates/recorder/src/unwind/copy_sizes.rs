//! The size of stack copies: as small as the stacks of a recording allow, since the kernel copies each byte, the ring holds it and
//! the recorder reads it.
//!
//! [`CopySizes`] are the sizes for which events are opened; [`CopySizeController`] chooses one of them while recording
//! (`docs/decisions/0011-sizes-of-stack-copies.md`).

use std::time::Duration;

use decoder::MAX_STACK_COPY_BYTES;

/// The sizes to choose from, where the rings are large enough. The last is the largest that the kernel accepts.
const COPY_SIZES_BYTES: [u32; 3] = [4 << 10, 16 << 10, MAX_STACK_COPY_BYTES];

/// The largest size where it cannot change while recording: most stacks fit into it.
const MAX_FIXED_COPY_BYTES: u32 = COPY_SIZES_BYTES[1];

/// The sizes for events that sample each occurrence: they come in bursts of hundreds of thousands a second, and a ring has to
/// hold a burst. The last one is used at first and while events are rare: of 140 switches of a Python program 27 % did not fit into the
/// second, and of its 10,842 page faults 15 % were cut where copies began with the first. The first burst takes it away: of 307,000
/// page faults in a row none was lost.
const BURST_COPY_SIZES_BYTES: [u32; 3] = [1 << 10, 4 << 10, 16 << 10];

/// Events are rare if their copies, had they been of the next larger size, would have filled at most this part of a ring, one in four,
/// each of [`MIN_RARE_CHUNKS`] times in a row that a ring was emptied. Programs start slowly before hundreds of thousands of events come.
const RARE_RING_DIVISOR: u64 = 4;
const MIN_RARE_CHUNKS: u32 = 8;

/// Minimum number of copies for which a ring has room.
const MIN_COPIES_PER_RING: u64 = 4;

/// At the requested rate, copies of the initial size take at least this long to fill a ring: longer than a busy machine lets a
/// reader wait. The initial size is the largest for which that holds: programs that run for a tenth of a second, and the first
/// moments of others, are over before the size has grown.
const MIN_INITIAL_FILL_TIME: Duration = Duration::from_millis(40);

/// The same for copies of any size: even where the readers keep up, copying costs the profiled program time.
const MIN_FILL_TIME: Duration = Duration::from_millis(6);

/// The size is decided anew after this many stacks, or after [`MIN_CUT_STACKS`] that were deeper than their copies. A window is calm if
/// fewer would have been deeper than the next smaller size.
const WINDOW_STACKS: u32 = 512;
const MIN_CUT_STACKS: u32 = 4;

/// Maximum number of calm windows in a row before copies shrink, and of windows for which they do not grow after a ring nearly ran over.
/// Both begin with 1 and are doubled each time: programs have phases, and interpreters load modules before they compute; a nearly full
/// ring may have been a moment in which a virtual machine did not get its CPUs. (`docs/decisions/0011-sizes-of-stack-copies.md` has the
/// figures.)
const MAX_PATIENCE_WINDOWS: u32 = 64;

/// Maximum number of copies of the previous, larger size that may still be in the rings after a change.
const MAX_COPIES_IN_FLIGHT: u32 = 16;

/// Returns the largest copy, in bytes, of which a ring of `ring_size` bytes holds [`MIN_COPIES_PER_RING`].
pub(crate) fn largest_copy(ring_size: u64) -> u32 {
    let size = (ring_size / MIN_COPIES_PER_RING) & !7;
    u32::try_from(size).map_or(MAX_STACK_COPY_BYTES, |size| size.clamp(8, MAX_STACK_COPY_BYTES))
}

/// The sizes of stack copies that a recording chooses from, in bytes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CopySizes {
    /// From the smallest to the largest; none where no stacks are copied.
    sizes: Vec<u32>,
    /// The index of the size to begin with.
    initial: usize,
    /// The index of the largest size for events that are not rare, where their rate is unknown.
    largest_in_bursts: Option<usize>,
    /// True if the last size was asked for: copies are smaller only where the rings have no room for it.
    is_asked: bool,
}

impl CopySizes {
    /// Returns the choice of a single size.
    pub(crate) fn fixed(size: u32) -> Self {
        Self { sizes: vec![size], ..Self::default() }
    }

    /// Returns the sizes that suit rings of `ring_size` bytes. `room` is the number of bytes that a sample has for its copy
    /// ([`decoder::Attr::room_for_stack_copy`]); `rate` the number of samples per second and CPU, `None` where it cannot be known.
    pub(crate) fn for_rings(ring_size: u64, room: u32, rate: Option<u64>) -> Self {
        let largest = largest_copy(ring_size).min(room);
        let Some(rate) = rate else {
            let mut sizes = BURST_COPY_SIZES_BYTES.map(|size| size.min(largest)).to_vec();
            sizes.dedup();
            let initial = sizes.len() - 1;
            return Self { sizes, initial, largest_in_bursts: Some(1), is_asked: false };
        };
        let mut sizes: Vec<u32> = COPY_SIZES_BYTES.iter().copied().filter(|&size| size < largest).collect();
        sizes.push(largest);
        let lasts = |size: u32, time: Duration| {
            let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let per_second = u64::from(size).saturating_mul(rate);
            per_second.saturating_mul(milliseconds) / 1000 <= ring_size
        };
        let affordable = sizes.iter().take_while(|&&size| lasts(size, MIN_FILL_TIME)).count();
        sizes.truncate(affordable.max(1));
        let initial = sizes.iter().take_while(|&&size| lasts(size, MIN_INITIAL_FILL_TIME)).count();
        Self { initial: initial.saturating_sub(1), sizes, ..Self::default() }
    }

    /// Returns the sizes for events that come in bursts, where copies of `size` bytes were asked for: these as long as the rings have room
    /// for them.
    pub(crate) fn asked_in_bursts(size: u32) -> Self {
        let mut sizes: Vec<u32> =
            BURST_COPY_SIZES_BYTES.into_iter().filter(|&smaller| smaller < size).collect();
        sizes.push(size);
        Self { initial: sizes.len() - 1, sizes, largest_in_bursts: Some(1), is_asked: true }
    }

    /// Returns the same sizes, of which copies begin with the smallest: for stacks of threads that leave their CPU, which are read in their
    /// memory where the copy is too small.
    pub(crate) fn beginning_small(self) -> Self {
        Self { initial: 0, ..self }
    }

    /// Returns the single size that suits stacks of all depths, for a recording whose size cannot change.
    pub(crate) fn without_choice(&self) -> Self {
        let level = self.largest_in_bursts.unwrap_or(self.initial);
        Self::fixed(self.at(level.min(self.sizes.len().saturating_sub(1))).min(MAX_FIXED_COPY_BYTES))
    }

    /// Returns the size to begin with; 0 where no stacks are copied.
    pub(crate) fn initial(&self) -> u32 {
        self.at(self.initial)
    }

    /// Returns the size that was asked for, if copies may have a smaller one; 0 else.
    pub(crate) fn asked(&self) -> u32 {
        if self.is_asked { self.initial() } else { 0 }
    }

    /// Returns true if `size` is one of the sizes.
    pub(crate) fn contains(&self, size: u32) -> bool {
        self.sizes.contains(&size)
    }

    /// Returns all sizes but the initial one.
    pub(crate) fn others(&self) -> impl Iterator<Item = u32> {
        let initial = self.initial();
        self.sizes.iter().copied().filter(move |&size| size != initial)
    }

    fn at(&self, level: usize) -> u32 {
        self.sizes.get(level).copied().unwrap_or(0)
    }
}

/// Chooses the size of stack copies by the depth of the stacks and the fill of the rings.
#[derive(Default, Debug)]
pub(super) struct CopySizeController {
    sizes: CopySizes,
    /// The index of the chosen size.
    level: usize,
    /// The smallest and the largest level so far.
    level_range: (usize, usize),
    /// Stacks of this window.
    stacks: u32,
    /// Stacks of this window that were deeper than their copies.
    cut_stacks: u32,
    /// Stacks of this window that fit, and would not have fitted into the next smaller size.
    stacks_needing_size: u32,
    /// Windows in a row for which the next smaller size would have done.
    calm_windows: u32,
    /// The number of calm windows after which copies shrink.
    required_calm_windows: u32,
    /// The number of stacks to come that may still be copies of the previous, larger size.
    copies_in_flight: u32,
    /// The number of windows for which copies do not grow.
    growth_pause: u32,
    /// The length of the next pause, in windows.
    next_growth_pause: u32,
    ring_size: u64,
    /// Bytes of copies since [`CopySizeController::take_copied_bytes`].
    copied_bytes: u64,
    /// The number of times in a row that a ring held so little of these events when it was emptied that they seem to be rare.
    rare_chunks: u32,
}

impl CopySizeController {
    pub(super) fn new(sizes: CopySizes, ring_size: u64) -> Self {
        let level = sizes.initial;
        Self {
            sizes,
            level,
            level_range: (level, level),
            // The initial size is larger than most stacks need: it is decided after half a window.
            stacks: WINDOW_STACKS / 2,
            required_calm_windows: 1,
            next_growth_pause: 1,
            ring_size,
            ..Self::default()
        }
    }

    /// Returns the size that copies should have now, in bytes.
    pub(super) fn wanted(&self) -> u32 {
        self.sizes.at(self.level)
    }

    /// Returns the smallest and the largest size that was wanted so far, in bytes.
    pub(super) fn range(&self) -> (u32, u32) {
        (self.sizes.at(self.level_range.0), self.sizes.at(self.level_range.1))
    }

    /// Returns true if a copy of `length` bytes was cut by its size, and not by the end of the stack. Where a record has no room
    /// for the size beside its other parts, the kernel makes the copy shorter by these (`perf_sample_ustack_size()`): an eighth
    /// at most is allowed for them.
    pub(super) fn is_full(&self, length: usize) -> bool {
        let is_nearly = |size: u32| (size as usize - size as usize / 8..=size as usize).contains(&length);
        self.sizes.sizes.iter().any(|&size| is_nearly(size))
    }

    /// Records that a ring held `fill` bytes when it was emptied, at most `own_bytes` of them of these events. If it was fuller than three
    /// quarters, shrinks copies at once: the ring would have run over, had its reader come a third later. Returns false if they were
    /// the smallest already.
    pub(super) fn record_fill(&mut self, fill: u64, own_bytes: u64) -> bool {
        let (this, next) = (self.wanted().max(1), self.sizes.at(self.level + 1));
        let grown = own_bytes.saturating_mul(u64::from(next)) / u64::from(this);
        let is_rare = grown <= self.ring_size / RARE_RING_DIVISOR;
        self.rare_chunks = if is_rare { self.rare_chunks.saturating_add(1) } else { 0 };
        if fill <= self.ring_size / 4 * 3 {
            return true;
        }
        if self.level == 0 {
            return false;
        }
        if self.copies_in_flight == 0 {
            self.growth_pause = self.next_growth_pause;
            self.next_growth_pause = (self.next_growth_pause * 2).min(MAX_PATIENCE_WINDOWS);
            let smaller = self.level - 1;
            self.set_level(self.sizes.largest_in_bursts.map_or(smaller, |largest| largest.min(smaller)));
        } else {
            // These may be copies of other processes, whose stacks are not recorded.
            self.copies_in_flight -= 1;
        }
        true
    }

    /// Returns the number of bytes of the copies that were recorded since the last call.
    pub(super) fn take_copied_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.copied_bytes)
    }

    /// Records an unwound stack whose copy has `copied` bytes, of which it needed `depth`; `None` where the copy was too small.
    pub(super) fn record_stack(&mut self, copied: usize, depth: Option<u64>) {
        self.copied_bytes = self.copied_bytes.saturating_add(copied as u64);
        self.stacks += 1;
        self.copies_in_flight = self.copies_in_flight.saturating_sub(1);
        match depth {
            None => self.cut_stacks += 1,
            Some(depth) => {
                let smaller = self.level.checked_sub(1).map(|level| u64::from(self.sizes.at(level)));
                self.stacks_needing_size += u32::from(smaller.is_none_or(|smaller| depth > smaller));
            }
        }
        if self.stacks >= WINDOW_STACKS || (self.cut_stacks >= MIN_CUT_STACKS && self.growth_pause == 0) {
            self.decide();
        }
    }

    /// Ends a window: grows, shrinks or keeps the size.
    fn decide(&mut self) {
        self.growth_pause = self.growth_pause.saturating_sub(1);
        if self.cut_stacks >= MIN_CUT_STACKS && self.growth_pause == 0 && self.can_grow() {
            self.set_level(self.level + 1);
        } else if self.stacks >= WINDOW_STACKS {
            let misfits = self.cut_stacks + self.stacks_needing_size;
            let is_calm = misfits < MIN_CUT_STACKS && !self.sizes.is_asked;
            self.calm_windows = if is_calm { self.calm_windows + 1 } else { 0 };
            if self.calm_windows >= self.required_calm_windows {
                self.required_calm_windows = (self.required_calm_windows * 2).min(MAX_PATIENCE_WINDOWS);
                self.set_level(self.level.saturating_sub(1));
            }
        }
        (self.stacks, self.cut_stacks, self.stacks_needing_size) = (0, 0, 0);
    }

    /// Returns true if there is a larger size, and events are rare or may be frequent with it.
    fn can_grow(&self) -> bool {
        let largest = self.sizes.sizes.len().saturating_sub(1);
        let may_be_frequent = self.sizes.largest_in_bursts.is_none_or(|largest| self.level < largest);
        self.level < largest && (may_be_frequent || self.rare_chunks >= MIN_RARE_CHUNKS)
    }

    fn set_level(&mut self, level: usize) {
        self.copies_in_flight = if level < self.level { MAX_COPIES_IN_FLIGHT } else { 0 };
        self.level = level;
        self.level_range = (self.level_range.0.min(level), self.level_range.1.max(level));
        (self.stacks, self.cut_stacks, self.stacks_needing_size, self.calm_windows) = (0, 0, 0, 0);
        self.rare_chunks = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_ring(ring_size: u64) -> CopySizeController {
        CopySizeController::new(CopySizes::for_rings(ring_size, MAX_STACK_COPY_BYTES, Some(997)), ring_size)
    }

    fn feed(size: &mut CopySizeController, stacks: u32, depth: u64) {
        for _ in 0..stacks {
            let fits = depth <= u64::from(size.wanted());
            size.record_stack(size.wanted() as usize, fits.then_some(depth));
        }
    }

    #[test]
    fn sizes_fit_the_ring_and_the_rate() {
        let sizes = |ring, rate| {
            let sizes = CopySizes::for_rings(ring, MAX_STACK_COPY_BYTES, rate);
            (sizes.initial(), sizes.others().collect::<Vec<_>>())
        };
        assert_eq!(sizes(4 << 20, Some(997)), (65_528, vec![4 << 10, 16 << 10]));
        assert_eq!(sizes(4 << 20, Some(4_999)), (16 << 10, vec![4 << 10, 65_528]));
        assert_eq!(sizes(4 << 20, None), (16 << 10, vec![1 << 10, 4 << 10]));
        assert_eq!(sizes(4 << 10, None), (1 << 10, vec![]));
        assert_eq!(sizes(4 << 20, Some(9_997)), (4 << 10, vec![16 << 10, 65_528]));
        assert_eq!(sizes(4 << 20, Some(49_999)), (4 << 10, vec![]));
        assert_eq!(sizes(512 << 10, Some(997)), (4 << 10, vec![16 << 10, 65_528]));
        assert_eq!(sizes(128 << 10, Some(99)), (32 << 10, vec![4 << 10, 16 << 10]));
        assert_eq!(
            CopySizes::for_rings(4 << 20, MAX_STACK_COPY_BYTES, Some(997)).without_choice(),
            CopySizes::fixed(16 << 10)
        );
        assert_eq!(
            CopySizes::for_rings(4 << 20, MAX_STACK_COPY_BYTES, Some(9_997)).without_choice(),
            CopySizes::fixed(4 << 10)
        );
        assert_eq!(sizes(16 << 10, Some(997)), (4 << 10, vec![]));
        assert_eq!(sizes(4 << 10, Some(49_999)), (1 << 10, vec![]));
        assert_eq!(sizes(0, Some(u64::MAX)), (8, vec![]));
        let beside_registers = CopySizes::for_rings(4 << 20, 63_000, Some(997));
        assert_eq!(beside_registers.initial(), 63_000);
        assert_eq!(beside_registers.others().collect::<Vec<_>>(), [4 << 10, 16 << 10]);
        assert_eq!(CopySizes::for_rings(4 << 20, 2_000, Some(997)), CopySizes::fixed(2_000));
        assert_eq!((largest_copy(8 << 10), largest_copy(u64::MAX)), (2 << 10, 65_528));
    }

    #[test]
    fn the_size_follows_the_stacks() {
        let mut size = with_ring(4 << 20);
        assert_eq!(size.wanted(), 65_528);
        feed(&mut size, 2000, 30_000);
        assert_eq!(size.wanted(), 65_528);
        feed(&mut size, 2000, 9_000);
        assert_eq!(size.wanted(), 16 << 10);
        feed(&mut size, 8, 30_000);
        assert_eq!(size.wanted(), 65_528);
        feed(&mut size, 4000, 1_000);
        assert_eq!(size.wanted(), 4 << 10);
        feed(&mut size, 2000, 1_000_000);
        assert_eq!(size.wanted(), 65_528);
        assert_eq!(size.range(), (4 << 10, 65_528));
    }

    #[test]
    fn a_size_that_is_needed_again_and_again_stays() {
        let mut size = with_ring(4 << 20);
        let mut too_small = Vec::new();
        for _ in 0..5 {
            too_small.push(size.wanted() < 30_000);
            feed(&mut size, 100, 30_000);
            feed(&mut size, 2 * WINDOW_STACKS, 9_000);
        }
        assert_eq!(too_small, [false, true, false, false, false]);
    }

    #[test]
    fn only_a_copy_of_a_size_that_was_asked_for_is_full() {
        let size = with_ring(4 << 20);
        for (length, is_full) in [(0, false), (8, false), (4 << 10, true), (12_000, false), (16 << 10, true)]
        {
            assert_eq!(size.is_full(length), is_full, "{length}");
        }
        assert!(size.is_full(64_000) && !size.is_full(50_000));
    }

    #[test]
    fn hot_rings_shrink_it_at_once_and_keep_it_small_for_longer_each_time() {
        const HOT: u64 = (3 << 20) + 8;
        let mut size = with_ring(4 << 20);
        feed(&mut size, 8, 30_000);
        assert_eq!(size.wanted(), 65_528);
        size.record_fill(3 << 20, 3 << 20);
        assert_eq!(size.wanted(), 65_528);
        size.record_fill(HOT, HOT);
        assert_eq!(size.wanted(), 16 << 10);
        // The other rings may still hold copies of the size before.
        size.record_fill(HOT, HOT);
        assert_eq!(size.wanted(), 16 << 10);
        feed(&mut size, WINDOW_STACKS, 30_000);
        assert_eq!(size.wanted(), 65_528);
        feed(&mut size, WINDOW_STACKS + 1, 30_000);
        size.record_fill(HOT, HOT);
        feed(&mut size, WINDOW_STACKS, 30_000);
        assert_eq!(size.wanted(), 16 << 10);
        feed(&mut size, WINDOW_STACKS, 30_000);
        assert_eq!(size.wanted(), 65_528);
    }

    #[test]
    fn events_of_unknown_rate_get_the_largest_size_where_they_are_rare() {
        let ring = 4 << 20;
        let deep = 12 << 10;
        let bursts = || CopySizeController::new(CopySizes::for_rings(ring, MAX_STACK_COPY_BYTES, None), ring);
        assert_eq!(bursts().wanted(), 16 << 10);
        let bursts = || {
            let mut size = bursts();
            size.record_fill(ring - 1, ring - 1);
            assert_eq!(size.wanted(), 4 << 10);
            feed(&mut size, 2 * WINDOW_STACKS, 100);
            size
        };
        let mut rare = bursts();
        assert_eq!(rare.wanted(), 1 << 10);
        for _ in 0..=MIN_RARE_CHUNKS {
            rare.record_fill(ring / 2, 10 << 10);
            feed(&mut rare, MIN_CUT_STACKS, deep);
        }
        assert_eq!(rare.wanted(), 16 << 10, "whatever else fills the rings");
        let mut frequent = bursts();
        for chunk in 0..100 {
            frequent.record_fill(ring / 2, if chunk % 8 == 0 { ring / 2 } else { 10 << 10 });
            feed(&mut frequent, MIN_CUT_STACKS, deep);
        }
        assert_eq!(frequent.wanted(), 4 << 10);
        // A burst takes it away again.
        rare.record_fill(ring - 1, ring / 2);
        assert_eq!(rare.wanted(), 4 << 10);
    }

    #[test]
    fn a_size_that_was_asked_for_is_kept_until_a_burst_and_comes_back() {
        let ring = 4 << 20;
        let asked = || CopySizes::asked_in_bursts(MAX_STACK_COPY_BYTES);
        assert_eq!((asked().initial(), asked().others().count()), (MAX_STACK_COPY_BYTES, 3));
        let mut size = CopySizeController::new(asked(), ring);
        feed(&mut size, 20_000, 100);
        assert_eq!(size.wanted(), MAX_STACK_COPY_BYTES);
        size.record_fill(ring - 1, ring / 2);
        assert_eq!(size.wanted(), 4 << 10, "a burst goes on");
        feed(&mut size, 3 * WINDOW_STACKS, 60_000);
        assert_eq!(size.wanted(), 4 << 10, "these are still many");
        for expected in [16 << 10, MAX_STACK_COPY_BYTES] {
            for _ in 0..MIN_RARE_CHUNKS {
                size.record_fill(ring / 2, 40 << 10);
            }
            feed(&mut size, MIN_CUT_STACKS, 60_000);
            assert_eq!(size.wanted(), expected);
        }
    }

    #[test]
    fn one_size_stays() {
        let mut size = CopySizeController::new(CopySizes::fixed(8192), 4 << 20);
        feed(&mut size, 5000, 100);
        feed(&mut size, 5000, 100_000);
        assert!(!size.record_fill(4 << 20, 4 << 20));
        assert_eq!((size.wanted(), size.range()), (8192, (8192, 8192)));
    }
}
