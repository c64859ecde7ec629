//! How large the stack copies of a recording should be: as small as its stacks allow, since each byte is copied by the
//! kernel, through the ring and by us.

use super::record_size::LARGEST_COPY;

/// The sizes to choose from, bytes, where the rings are large enough. The last is the largest that the kernel takes.
const SIZES: [u32; 3] = [4 << 10, 16 << 10, LARGEST_COPY];

/// The largest size where it cannot change: most stacks fit it.
const MODEST: u32 = SIZES[1];

/// The sizes for events of which each occurrence is a sample: they come in bursts, hundreds of thousands a second, and a
/// ring has to hold a burst. The last is for those that turn out to be rare: of 140 switches of a Python program 27 % did not
/// fit into the one before.
const SIZES_IN_BURSTS: [u32; 3] = [1 << 10, 4 << 10, 16 << 10];

/// Events are rare if a ring would have been filled to a quarter at most with copies of the size in question, each of so many
/// times in a row that one was emptied. Programs start slowly, and then come hundreds of thousands.
const RARE: u64 = 4;
const RARE_CHUNKS: u32 = 8;

/// A ring holds at least so many copies.
const COPIES_PER_RING: u64 = 4;

/// At the rate asked for, a ring is full with copies of the first size after this time at the earliest, ms: longer than a
/// busy machine lets a reader wait. No size is better to begin with than the largest of these: programs that run for a tenth
/// of a second, and the first moments of others, are over before the size has grown.
const LEAST_TIME: u64 = 40;

/// The least such time with copies of any size, ms: what is copied is a burden, however well the readers keep up.
const LEAST_TIME_EVER: u64 = 6;

/// After so many stacks, or this many that were cut, it is decided anew.
const WINDOW: u32 = 512;
const CUT_IN_WINDOW: u32 = 4;

/// A smaller size must have held all but one in so many stacks.
const NEARLY_ALL: u32 = 256;

/// So many windows have to pass in which a smaller size would have done, before it is taken; each further time twice as many.
/// Programs have phases: interpreters load modules, and compute.
const CALM: u32 = 1;
const MOST_CALM: u32 = 64;

/// So many copies of the larger size before may still be on their way.
const SETTLING: u32 = 16;

/// After the rings ran hot, so many windows pass before copies grow again; each further time twice as many. Once may have been a
/// moment in which a virtual machine did not get its CPUs.
const PATIENCE: u32 = 2;
const MOST_PATIENCE: u32 = 512;

/// The largest copy that a ring of `ring_size` bytes has room for, with others of its kind.
pub(crate) fn largest_copy(ring_size: u64) -> u32 {
    let size = (ring_size / COPIES_PER_RING) & !7;
    u32::try_from(size).map_or(LARGEST_COPY, |size| size.clamp(8, LARGEST_COPY))
}

/// The sizes that a recording chooses from.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CopySizes {
    /// Bytes, from the smallest on; none where no stacks are copied.
    sizes: Vec<u32>,
    /// The one to begin with.
    first: usize,
    /// The largest for events that are not rare, where their rate is not known before.
    largest_in_bursts: Option<usize>,
}

impl CopySizes {
    /// One size that does not change.
    pub(crate) fn fixed(size: u32) -> Self {
        Self { sizes: vec![size], ..Self::default() }
    }

    /// Returns the copy size that suits rings of `ring_size` bytes at `rate` samples per second and CPU; `None` where
    /// it cannot be known. A sample
    /// has room for `room` bytes ([`super::room_for_copy`]).
    pub(crate) fn fitting(ring_size: u64, room: u32, rate: Option<u64>) -> Self {
        let largest = largest_copy(ring_size).min(room);
        let Some(rate) = rate else {
            let mut sizes = SIZES_IN_BURSTS.map(|size| size.min(largest)).to_vec();
            sizes.dedup();
            return Self { sizes, first: 0, largest_in_bursts: Some(1) };
        };
        let mut sizes: Vec<u32> = SIZES.iter().copied().filter(|&size| size < largest).collect();
        sizes.push(largest);
        let lasts = |size: u32, milliseconds: u64| {
            let per_second = u64::from(size).saturating_mul(rate);
            per_second.saturating_mul(milliseconds) / 1000 <= ring_size
        };
        let affordable = sizes.iter().take_while(|&&size| lasts(size, LEAST_TIME_EVER)).count();
        sizes.truncate(affordable.max(1));
        let first = sizes.iter().take_while(|&&size| lasts(size, LEAST_TIME)).count();
        Self { first: first.saturating_sub(1), sizes, largest_in_bursts: None }
    }

    /// The same, without a choice, for stacks of all depths.
    pub(crate) fn only_one(&self) -> Self {
        let level = self.largest_in_bursts.unwrap_or(self.first);
        Self::fixed(self.at(level.min(self.sizes.len().saturating_sub(1))).min(MODEST))
    }

    /// The size to begin with; 0 where no stacks are copied.
    pub(crate) fn first(&self) -> u32 {
        self.at(self.first)
    }

    /// Returns true if `size` is one of them.
    pub(crate) fn contains(&self, size: u32) -> bool {
        self.sizes.contains(&size)
    }

    /// The other sizes.
    pub(crate) fn others(&self) -> impl Iterator<Item = u32> {
        let first = self.first();
        self.sizes.iter().copied().filter(move |&size| size != first)
    }

    fn at(&self, level: usize) -> u32 {
        self.sizes.get(level).copied().unwrap_or(0)
    }
}

/// Decides on the copy size.
#[derive(Default, Debug)]
pub(super) struct CopySize {
    sizes: CopySizes,
    level: usize,
    /// The smallest and the largest level so far.
    chosen: (usize, usize),
    stacks: u32,
    cut: u32,
    /// Stacks of this window that the next smaller size would have cut.
    need_this: u32,
    /// Windows in a row, up to this one, in which the next smaller size would have done.
    calm: u32,
    /// The number of calm rounds that it takes.
    wanted_calm: u32,
    /// Stacks to come that may still be copies of the larger size before.
    settling: u32,
    /// Windows to pass before copies grow again.
    patience: u32,
    /// The number that they will be the next time.
    next_patience: u32,
    ring_size: u64,
    /// The number of times in a row that a ring held so little when it was emptied that events seem to be rare.
    rare_chunks: u32,
}

impl CopySize {
    pub(super) fn new(sizes: CopySizes, ring_size: u64) -> Self {
        let level = sizes.first;
        // The first size is larger than most stacks need: it is decided sooner.
        let stacks = WINDOW / 2;
        Self {
            sizes,
            level,
            chosen: (level, level),
            stacks,
            wanted_calm: CALM,
            next_patience: PATIENCE,
            ring_size,
            ..Self::default()
        }
    }

    /// The size that copies should have, bytes.
    pub(super) fn wanted(&self) -> u32 {
        self.sizes.at(self.level)
    }

    /// The smallest and the largest size that was wanted, bytes.
    pub(super) fn chosen(&self) -> (u32, u32) {
        (self.sizes.at(self.chosen.0), self.sizes.at(self.chosen.1))
    }

    /// Returns true if a copy of so many bytes would have been longer with another size. Where a record cannot hold the size asked for
    /// beside its other parts, the copy is shorter by these (`perf_sample_ustack_size()` in the kernel).
    pub(super) fn is_full(&self, length: usize) -> bool {
        let is_nearly = |size: u32| (size as usize - size as usize / 8..=size as usize).contains(&length);
        self.sizes.sizes.iter().any(|&size| is_nearly(size))
    }

    /// A ring held so many bytes when it was emptied. Hot is one that would have run over, had the next look at it come a
    /// third later: its reader has not come when it was woken.
    pub(super) fn note_fill(&mut self, fill: u64) {
        let (this, next) = (self.wanted().max(1), self.sizes.at(self.level + 1));
        let grown = fill.saturating_mul(u64::from(next)) / u64::from(this);
        self.rare_chunks =
            if grown <= self.ring_size / RARE { self.rare_chunks.saturating_add(1) } else { 0 };
        if fill > self.ring_size / 4 * 3 && self.level > 0 && self.settling == 0 {
            self.patience = self.next_patience;
            self.next_patience = (self.next_patience * 2).min(MOST_PATIENCE);
            self.set_level(self.level - 1);
        }
    }

    /// A stack came out; `depth` is how many of its bytes were needed, `None` where the copy was too small.
    pub(super) fn note_stack(&mut self, depth: Option<u64>) {
        self.stacks += 1;
        self.settling = self.settling.saturating_sub(1);
        match depth {
            None => self.cut += 1,
            Some(depth) => {
                let smaller = self.level.checked_sub(1).map(|level| u64::from(self.sizes.at(level)));
                self.need_this += u32::from(smaller.is_none_or(|smaller| depth > smaller));
            }
        }
        if self.stacks >= WINDOW || (self.cut >= CUT_IN_WINDOW && self.patience == 0) {
            self.decide();
        }
    }

    fn decide(&mut self) {
        self.patience = self.patience.saturating_sub(1);
        if self.cut >= CUT_IN_WINDOW && self.patience == 0 && self.can_grow() {
            self.set_level(self.level + 1);
        } else if self.stacks >= WINDOW {
            let is_calm = (self.cut + self.need_this) * NEARLY_ALL < self.stacks;
            self.calm = if is_calm { self.calm + 1 } else { 0 };
            if self.calm >= self.wanted_calm {
                self.wanted_calm = (self.wanted_calm * 2).min(MOST_CALM);
                self.set_level(self.level.saturating_sub(1));
            }
        }
        (self.stacks, self.cut, self.need_this) = (0, 0, 0);
    }

    /// True if there is a larger size, and either events may be frequent with it or they are rare.
    fn can_grow(&self) -> bool {
        let largest = self.sizes.sizes.len().saturating_sub(1);
        let may_be_frequent = self.sizes.largest_in_bursts.is_none_or(|largest| self.level < largest);
        self.level < largest && (may_be_frequent || self.rare_chunks >= RARE_CHUNKS)
    }

    fn set_level(&mut self, level: usize) {
        self.settling = if level < self.level { SETTLING } else { 0 };
        self.level = level;
        self.chosen = (self.chosen.0.min(level), self.chosen.1.max(level));
        (self.stacks, self.cut, self.need_this, self.calm) = (0, 0, 0, 0);
        self.rare_chunks = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_ring(ring_size: u64) -> CopySize {
        CopySize::new(CopySizes::fitting(ring_size, LARGEST_COPY, Some(997)), ring_size)
    }

    fn feed(size: &mut CopySize, stacks: u32, depth: u64) {
        for _ in 0..stacks {
            let fits = depth <= u64::from(size.wanted());
            size.note_stack(fits.then_some(depth));
        }
    }

    #[test]
    fn sizes_fit_the_ring_and_the_rate() {
        let sizes = |ring, rate| {
            let sizes = CopySizes::fitting(ring, LARGEST_COPY, rate);
            (sizes.first(), sizes.others().collect::<Vec<_>>())
        };
        assert_eq!(sizes(4 << 20, Some(997)), (65_528, vec![4 << 10, 16 << 10]));
        assert_eq!(sizes(4 << 20, Some(4_999)), (16 << 10, vec![4 << 10, 65_528]));
        assert_eq!(sizes(4 << 20, None), (1 << 10, vec![4 << 10, 16 << 10]));
        assert_eq!(sizes(4 << 10, None), (1 << 10, vec![]));
        assert_eq!(sizes(4 << 20, Some(9_997)), (4 << 10, vec![16 << 10, 65_528]));
        assert_eq!(sizes(4 << 20, Some(49_999)), (4 << 10, vec![]));
        assert_eq!(sizes(512 << 10, Some(997)), (4 << 10, vec![16 << 10, 65_528]));
        assert_eq!(sizes(128 << 10, Some(99)), (32 << 10, vec![4 << 10, 16 << 10]));
        assert_eq!(
            CopySizes::fitting(4 << 20, LARGEST_COPY, Some(997)).only_one(),
            CopySizes::fixed(16 << 10)
        );
        assert_eq!(
            CopySizes::fitting(4 << 20, LARGEST_COPY, Some(9_997)).only_one(),
            CopySizes::fixed(4 << 10)
        );
        assert_eq!(sizes(16 << 10, Some(997)), (4 << 10, vec![]));
        assert_eq!(sizes(4 << 10, Some(49_999)), (1 << 10, vec![]));
        assert_eq!(sizes(0, Some(u64::MAX)), (8, vec![]));
        let beside_registers = CopySizes::fitting(4 << 20, 63_000, Some(997));
        assert_eq!(beside_registers.first(), 63_000);
        assert_eq!(beside_registers.others().collect::<Vec<_>>(), [4 << 10, 16 << 10]);
        assert_eq!(CopySizes::fitting(4 << 20, 2_000, Some(997)), CopySizes::fixed(2_000));
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
        assert_eq!(size.chosen(), (4 << 10, 65_528));
    }

    #[test]
    fn a_size_that_is_needed_again_and_again_stays() {
        let mut size = with_ring(4 << 20);
        let mut too_small = Vec::new();
        for _ in 0..5 {
            too_small.push(size.wanted() < 30_000);
            feed(&mut size, 100, 30_000);
            feed(&mut size, 2 * WINDOW, 9_000);
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
        size.note_fill(3 << 20);
        assert_eq!(size.wanted(), 65_528);
        size.note_fill(HOT);
        assert_eq!(size.wanted(), 16 << 10);
        // The other rings may still hold copies of the size before.
        size.note_fill(HOT);
        assert_eq!(size.wanted(), 16 << 10);
        feed(&mut size, WINDOW * (PATIENCE - 1), 30_000);
        assert_eq!(size.wanted(), 16 << 10);
        feed(&mut size, WINDOW, 30_000);
        assert_eq!(size.wanted(), 65_528);
        feed(&mut size, WINDOW + 1, 30_000);
        size.note_fill(HOT);
        feed(&mut size, WINDOW * (2 * PATIENCE - 1), 30_000);
        assert_eq!(size.wanted(), 16 << 10);
        feed(&mut size, WINDOW, 30_000);
        assert_eq!(size.wanted(), 65_528);
    }

    #[test]
    fn events_of_unknown_rate_get_the_largest_size_where_they_are_rare() {
        let ring = 4 << 20;
        let deep = 12 << 10;
        let bursts = || CopySize::new(CopySizes::fitting(ring, LARGEST_COPY, None), ring);
        let mut rare = bursts();
        for _ in 0..=RARE_CHUNKS {
            rare.note_fill(10 << 10);
            feed(&mut rare, CUT_IN_WINDOW, deep);
        }
        assert_eq!(rare.wanted(), 16 << 10);
        let mut frequent = bursts();
        for chunk in 0..100 {
            frequent.note_fill(if chunk % 8 == 0 { ring / 2 } else { 10 << 10 });
            feed(&mut frequent, CUT_IN_WINDOW, deep);
        }
        assert_eq!(frequent.wanted(), 4 << 10);
        // A burst takes it away again.
        rare.note_fill(ring - 1);
        assert_eq!(rare.wanted(), 4 << 10);
    }

    #[test]
    fn one_size_stays() {
        let mut size = CopySize::new(CopySizes::fixed(8192), 4 << 20);
        feed(&mut size, 5000, 100);
        feed(&mut size, 5000, 100_000);
        size.note_fill(4 << 20);
        assert_eq!((size.wanted(), size.chosen()), (8192, (8192, 8192)));
    }
}
