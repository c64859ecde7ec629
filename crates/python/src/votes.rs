//! Which places of a native frame hold the pointer to bytecode, and which the interpreter's frame: as the compiler has chosen.

use std::cmp::Reverse;

use model::Avma;
use rustc_hash::FxHashMap;

use crate::evidence::{Activation, Candidate, Location};

/// The votes of all calls of `_PyEval_EvalFrameDefault`, and of those that go on at one address: each may have places of its own.
#[derive(Default, Debug)]
pub(crate) struct Votes {
    all: PlaceVotes,
    of_sites: FxHashMap<Option<Avma>, PlaceVotes>,
}

/// The maximum number of addresses whose votes are counted apart, of one KiB each; further ones have the votes of all.
const MAX_SITES: usize = 64;

impl Votes {
    /// Counts a place that held it, or something else of its kind.
    pub(crate) fn add(&mut self, site: Option<Avma>, location: Location, is_right: bool) {
        self.all.add(location, is_right);
        if let Some(votes) = self.of_site(site) {
            votes.add(location, is_right);
        }
    }

    /// Counts the places of a call of which is known what was looked for: those that hold this word, and those that have held such a one.
    pub(crate) fn add_word(&mut self, activation: &Activation, word: u64) {
        for candidate in &activation.candidates {
            let is_right = candidate.word == word;
            if is_right || self.all.counts(candidate.location).right > 0 {
                self.add(activation.site, candidate.location, is_right);
            }
        }
    }

    /// Returns the votes of a site; `None` where there are too many sites.
    fn of_site(&mut self, site: Option<Avma>) -> Option<&mut PlaceVotes> {
        let is_counted = self.of_sites.len() < MAX_SITES || self.of_sites.contains_key(&site);
        is_counted.then(|| self.of_sites.entry(site).or_default())
    }

    /// Returns the votes of a site if it has some.
    fn own(&self, site: Option<Avma>) -> Option<&PlaceVotes> {
        self.of_sites.get(&site).filter(|votes| votes.are_likely())
    }

    /// Returns the votes of a site, or of all as long as it has few.
    pub(crate) fn at(&self, site: Option<Avma>) -> &PlaceVotes {
        self.own(site).unwrap_or(&self.all)
    }

    /// Returns true if a site has votes of its own.
    pub(crate) fn knows(&self, site: Option<Avma>) -> bool {
        self.own(site).is_some()
    }

    /// Returns true if more votes of a call that goes on at `site` are wanted. Of a call of functions that are always left before the
    /// process is read there are none to be had.
    pub(crate) fn wants_more(&mut self, site: Option<Avma>) -> bool {
        if !self.all.are_enough() {
            return true;
        }
        let Some(votes) = self.of_site(site) else { return false };
        votes.wanted = votes.wanted.saturating_add(1);
        !votes.are_enough() && votes.wanted <= MOST_WANTED
    }

    /// Returns the word in the place of a call that was right most often, once there are some votes.
    pub(crate) fn likely_place(&self, activation: &Activation) -> Option<u64> {
        let votes = Some(self.at(activation.site)).filter(|votes| votes.are_likely())?;
        let candidates = activation.candidates.iter();
        candidates.max_by_key(|of| votes.counts(of.location).right).map(|likely| likely.word)
    }

    /// Puts the candidates of a call into `order`: those of the places with most votes in all calls first, others in their order. Without
    /// places that are not trusted, once there are enough votes: those of calls from its site, or else of all.
    pub(crate) fn sort(&self, activation: &Activation, order: &mut Vec<Candidate>) {
        let votes = self.of_sites.get(&activation.site).filter(|votes| votes.are_enough());
        let votes = votes.unwrap_or(&self.all);
        order.clear();
        order.extend(activation.candidates.iter().filter(|candidate| votes.trusts(candidate.location)));
        order.sort_by_key(|candidate| Reverse(votes.counts(candidate.location).right));
    }
}

/// Counts how often each place held what was looked for, and how often something else of its kind, such as the pointer of an earlier
/// call.
#[derive(Debug)]
pub(crate) struct PlaceVotes {
    counts: [Counts; 256],
    /// The number of a place that was right most often.
    best: u8,
    total: u32,
    /// How often [`Votes::wants_more`] was asked.
    wanted: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    right: u16,
    wrong: u16,
}

/// A count of this halves all: the votes of a program's start may be of rare code.
const MAX_COUNT: u16 = 1 << 14;

/// The number of votes from which on places are trusted or not.
const ENOUGH: u32 = 64;
/// The number of calls from one address in which votes of it are looked for.
const MOST_WANTED: u32 = 4 * ENOUGH;
/// The number of votes from which on the best place is taken for the right one, where another fact must agree.
const LIKELY: u32 = 8;
/// A place with less than this share (1/N) of the votes of the best one is not trusted.
const LEAST_SHARE: u16 = 32;
/// A place that is right less than this share (1/N) as often as the best one, when it holds something, is not trusted.
const LEAST_PRECISION: u32 = 2;

impl Default for PlaceVotes {
    fn default() -> Self {
        Self { counts: [Counts::default(); 256], best: 0, total: 0, wanted: 0 }
    }
}

impl PlaceVotes {
    /// Counts a place that held it, or something else of its kind.
    fn add(&mut self, location: Location, is_right: bool) {
        let Some(counts) = self.counts.get_mut(usize::from(location.number())) else { return };
        let count = if is_right { &mut counts.right } else { &mut counts.wrong };
        *count += 1;
        if *count >= MAX_COUNT {
            self.counts.iter_mut().for_each(|counts| {
                *counts = Counts { right: counts.right / 2, wrong: counts.wrong / 2 };
            });
        }
        if self.counts(location).right > self.best().right {
            self.best = location.number();
        }
        self.total = self.total.saturating_add(u32::from(is_right));
    }

    /// Returns true if there are so many votes that some places are trusted, and others not.
    pub(crate) fn are_enough(&self) -> bool {
        self.total >= ENOUGH
    }

    /// Returns true if there are so many votes that the best place is probably the right one.
    pub(crate) fn are_likely(&self) -> bool {
        self.total >= LIKELY
    }

    fn best(&self) -> Counts {
        self.counts.get(usize::from(self.best)).copied().unwrap_or_default()
    }

    fn counts(&self, location: Location) -> Counts {
        self.counts.get(usize::from(location.number())).copied().unwrap_or_default()
    }

    /// Returns false for a place that is not trusted beside the best one. All are, until there are enough votes.
    fn trusts(&self, location: Location) -> bool {
        !self.are_enough() || self.counts(location).are_trusted_beside(self.best())
    }
}

impl Counts {
    fn are_trusted_beside(self, best: Self) -> bool {
        let all = |counts: Self| u32::from(counts.right) + u32::from(counts.wrong);
        let is_precise =
            LEAST_PRECISION * u32::from(self.right) * all(best) >= u32::from(best.right) * all(self);
        self.right > 0 && self.right >= best.right / LEAST_SHARE && is_precise
    }
}

/// A slot of the native frame that always holds a frame of the interpreter, by where it was when threads were looked at.
#[derive(Default, Debug)]
pub(crate) struct FrameSlot {
    seen: Vec<(Location, u32)>,
}

/// The number of looks from which on the slot is known, if most of them agree.
const LEAST_LOOKS: u32 = 3;

impl FrameSlot {
    /// Counts a look at a thread, in which it was here.
    pub(crate) fn add(&mut self, location: Location) {
        match self.seen.iter_mut().find(|(seen, _)| *seen == location) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => self.seen.push((location, 1)),
        }
    }

    /// Returns the frame that a call has there; `None` as long as the slot is not known.
    pub(crate) fn frame_of(&self, activation: &Activation) -> Option<u64> {
        let slot = self.known()?;
        activation.candidates.iter().find(|candidate| candidate.location == slot).map(|found| found.word)
    }

    /// Returns the slot; `None` as long as it is not known.
    pub(crate) fn known(&self) -> Option<Location> {
        let all = self.seen.iter().fold(0, |all: u32, (_, count)| all.saturating_add(*count));
        let &(location, count) = self.seen.iter().max_by_key(|(_, count)| *count)?;
        (count >= LEAST_LOOKS && count > all / 2).then_some(location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_places_are_not_trusted() {
        let mut votes = Votes::default();
        let [good, stale, rare] = [1, 2, 3].map(Location::from_number);
        let candidates = [rare, stale, good].map(|location| Candidate { location, word: 0 });
        let sorted = |votes: &Votes| {
            let mut order = Vec::new();
            votes.sort(&Activation { site: None, end: None, candidates: candidates.to_vec() }, &mut order);
            order.into_iter().map(|candidate| candidate.location).collect::<Vec<_>>()
        };
        assert_eq!(sorted(&votes), [rare, stale, good]);
        for number in 0..100 {
            votes.add(None, good, true);
            votes.add(None, stale, number % 3 == 0);
        }
        assert_eq!(sorted(&votes), [good]);
        (0..100_000).for_each(|_| votes.add(None, good, true));
        (0..5_000).for_each(|_| votes.add(None, rare, true));
        assert_eq!(sorted(&votes), [good, rare]);
    }
}
