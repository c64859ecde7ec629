//! Which places are named next: at first sight at once, later the seldomer the more it costs.
//!
//! To name one place of an object, its symbols and much of its debug information are read. A program that runs shows a
//! few new places every second for hours; were each looked up as it comes, we would use more time than all that is
//! measured. So they wait for each other: after the *n*th pass over an object, the next one comes 2ⁿ times as late as
//! the pass took, up to [`MOST_REST`] times.
//!
//! An object is looked at in two stages, each with a rest of its own. Its symbols come first, as they cost little; which
//! calls the compiler put into each other is in the debug information, and can take a hundred times as long.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use model::{Pid, Space, SpaceId, StackEntry};
use rustc_hash::FxBuildHasher;

/// The longest rest between two passes over an object, in times of the pass before.
const MOST_REST: u32 = 256;
/// The longest such rest after a short pass: names are not waited for longer.
const LONGEST_REST: Duration = Duration::from_secs(30);
/// The longest such rest after a long pass, in times of that: passes take no larger share of the time than one in so many.
const LEAST_REST: u32 = 64;
/// Spaces that were not asked for during this time are forgotten.
const MEMORY: Duration = Duration::from_secs(600);
/// The number of spaces that are kept of those that nothing waits for: they are of processes that came and went.
const MOST_IDLE: usize = 1024;
/// The shares of the time, one in so many each, that looks may take: for the names of places whose space was looked at before, and
/// for what there is behind symbols.
const SHARES: [u32; 2] = [400, 1000];
/// The time that a share may save up: in the beginning many names are missing, and at each change of what runs.
const CREDIT: Duration = Duration::from_secs(1);

/// The stage of looking a space up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Stage {
    /// The symbols of an object; all of it is looked at later.
    Symbols,
    /// All that there is.
    Whole,
}

/// Places of one space that are to be named.
#[derive(Debug)]
pub(crate) struct NameRequest {
    /// The number of the space, as those know it who ask.
    pub(crate) id: SpaceId,
    /// The space.
    pub(crate) space: Space,
    /// Processes that it was seen in.
    pub(crate) pids: Vec<Pid>,
    /// The places.
    pub(crate) places: Vec<StackEntry>,
    /// The weight of the samples of which one of the space's places is the innermost, as far as that is known.
    pub(crate) weight: u64,
}

/// The places that wait, by space.
#[derive(Default, Debug)]
pub(crate) struct Queue {
    lines: HashMap<Key, Line, FxBuildHasher>,
    /// The time at which all looks so far will have taken no more than their shares.
    paid: [Option<Instant>; 2],
}

type Key = (SpaceId, Stage);

/// Places of one space that wait.
#[derive(Debug)]
struct Line {
    request: NameRequest,
    /// The number of times that the space was looked at.
    passes: u32,
    /// Not before this moment.
    due: Instant,
}

impl Queue {
    /// Adds what is asked for. What is urgent does not wait, all that waits is urgent with it, and all that there is is
    /// looked at in one go.
    pub(crate) fn add(&mut self, requests: Vec<NameRequest>, urgent: bool, now: Instant) {
        self.forget(now);
        for request in requests {
            let stage = if urgent || !request.has_stages() { Stage::Whole } else { Stage::Symbols };
            self.line_up(request, stage, now);
        }
        if urgent {
            let symbols = self.lines.extract_if(|(_, stage), line| *stage == Stage::Symbols && line.waits());
            for line in symbols.map(|(_, line)| line).collect::<Vec<_>>() {
                self.line_up(line.request, Stage::Whole, now);
            }
            self.lines.values_mut().for_each(|line| line.due = line.due.min(now));
            self.paid = [None; 2];
        }
    }

    /// The symbols of a space were looked at: the rest comes later.
    pub(crate) fn add_rest(&mut self, request: NameRequest, now: Instant) {
        self.line_up(request, Stage::Whole, now);
    }

    fn line_up(&mut self, request: NameRequest, stage: Stage, now: Instant) {
        match self.lines.get_mut(&(request.id, stage)) {
            Some(line) => {
                line.request.places.extend(request.places);
                (line.request.pids, line.request.weight) = (request.pids, request.weight);
            }
            None => {
                self.lines.insert((request.id, stage), Line { request, passes: 0, due: now });
            }
        }
    }

    /// Forgets all places but these: programs show new ones faster than they can be named, and are gone by then.
    pub(crate) fn keep_only(&mut self, live: &HashSet<StackEntry, FxBuildHasher>) {
        for line in self.lines.values_mut() {
            line.request.places.retain(|place| live.contains(place));
            line.request.places.shrink_to(2 * line.request.places.len());
        }
    }

    fn forget(&mut self, now: Instant) {
        self.lines.retain(|_, line| line.waits() || line.due + MEMORY > now);
        let idle = self.lines.iter().filter(|(_, line)| !line.waits());
        let mut idle: Vec<(Instant, Key)> = idle.map(|(&key, line)| (line.due, key)).collect();
        if let Some(surplus) = idle.len().checked_sub(MOST_IDLE).filter(|&surplus| surplus > 0) {
            // Half of the room, so that this is done seldom.
            let (gone, ..) = idle.select_nth_unstable(surplus + MOST_IDLE / 2);
            for (_, key) in gone {
                self.lines.remove(key);
            }
            self.lines.shrink_to(2 * self.lines.len());
        }
    }

    /// Returns the time at which there is work next, if anything waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting().map(|(key, line)| self.due_of(key, line)).min()
    }

    /// Takes the work that is due now: what has no name yet, of that what is new, then the heaviest, then the most.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(NameRequest, Stage)> {
        let due = self.waiting().filter(|(key, line)| self.due_of(key, line) <= now);
        let rank = |&(&(id, stage), line): &(&Key, &Line)| {
            let is_nameless = stage == Stage::Symbols || !line.request.has_stages();
            let NameRequest { weight, places, .. } = &line.request;
            (is_nameless, line.passes == 0, *weight, places.len(), std::cmp::Reverse(id))
        };
        let (&key, _) = due.max_by_key(rank)?;
        self.lines.get_mut(&key).map(|line| (line.take(), key.1))
    }

    /// All that is due and takes no file, or a small one: what one process did not map, what it generated. Of processes
    /// that come and go by the thousand, each has such a space of its own.
    pub(crate) fn take_small(&mut self, now: Instant) -> Vec<NameRequest> {
        let is_due = |(key, line): &(&Key, &Line)| line.request.is_small() && self.due_of(key, line) <= now;
        let due: Vec<Key> = self.waiting().filter(is_due).map(|(&key, _)| key).collect();
        due.into_iter().filter_map(|key| self.lines.get_mut(&key).map(Line::take)).collect()
    }

    /// A space was looked at, from `begin` to `end`.
    pub(crate) fn done(&mut self, id: SpaceId, stage: Stage, begin: Instant, end: Instant) {
        let key = (id, stage);
        let Some(line) = self.lines.get_mut(&key) else { return };
        let took = end.saturating_duration_since(begin);
        if let Some(purse) = line.purse(stage) {
            let paid = &mut self.paid[purse];
            *paid = Some(paid.map_or(end, |paid| paid.max(end)) + took * SHARES[purse]);
        }
        line.passes = line.passes.saturating_add(1);
        let times = 1_u32.checked_shl(line.passes).unwrap_or(MOST_REST).min(MOST_REST);
        line.due = end + (took * times).min(longest_rest(took));
    }

    fn waiting(&self) -> impl Iterator<Item = (&Key, &Line)> {
        self.lines.iter().filter(|(_, line)| line.waits())
    }

    /// Not before this moment: what was looked at before waits for its turn among all of them.
    fn due_of(&self, &(_, stage): &Key, line: &Line) -> Instant {
        let rest = line.purse(stage).and_then(|purse| self.paid[purse]?.checked_sub(CREDIT * SHARES[purse]));
        rest.map_or(line.due, |rest| line.due.max(rest))
    }
}

/// After a look that took so long.
fn longest_rest(took: Duration) -> Duration {
    LONGEST_REST.max(took * LEAST_REST)
}

impl NameRequest {
    /// Returns true if symbols are one thing to look at, and the rest another.
    fn has_stages(&self) -> bool {
        matches!(self.space, Space::Object(_))
    }

    /// Returns true if it takes no file to name the places, or a small one.
    pub(crate) fn is_small(&self) -> bool {
        matches!(
            self.space,
            Space::Jit { .. }
                | Space::JitDump { .. }
                | Space::Unmapped { .. }
                | Space::Truncated(_)
                | Space::State(_)
                | Space::Foreign(_)
        )
    }
}

impl Line {
    fn take(&mut self) -> NameRequest {
        NameRequest {
            id: self.request.id,
            space: self.request.space.clone(),
            pids: std::mem::take(&mut self.request.pids),
            places: std::mem::take(&mut self.request.places),
            weight: self.request.weight,
        }
    }

    /// The share of [`SHARES`] that pays for a look; `None` for the first look for names, which is free.
    fn purse(&self, stage: Stage) -> Option<usize> {
        match stage {
            Stage::Whole if self.request.has_stages() => Some(1),
            _ => (self.passes > 0).then_some(0),
        }
    }

    fn waits(&self) -> bool {
        !self.request.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::AddressKind;

    const SECOND: Duration = Duration::from_secs(1);

    fn request(id: u32, space: Space, places: u64) -> NameRequest {
        let place = |offset| StackEntry {
            offset,
            space: SpaceId(id),
            kind: AddressKind::InstructionPointer,
            in_kernel: false,
        };
        let places = (0..places).map(place).collect();
        NameRequest { id: SpaceId(id), space, pids: Vec::new(), places, weight: 0 }
    }

    fn vdso() -> Space {
        Space::Vdso { build_id: None }
    }

    fn object(name: &str) -> Space {
        let identity = model::ObjectIdentity { path: name.into(), build_id: None, file: None };
        Space::Object(identity)
    }

    #[test]
    fn the_new_come_first_then_the_heavy_then_the_many() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add(vec![request(1, vdso(), 5)], false, now);
        assert_eq!(queue.take(now).map(|(request, _)| request.places.len()), Some(5));
        queue.done(SpaceId(1), Stage::Whole, now, now);
        let heavy = NameRequest { weight: 100, ..request(4, vdso(), 1) };
        queue.add(
            vec![request(1, vdso(), 50), request(2, vdso(), 3), request(3, vdso(), 4), heavy],
            false,
            now,
        );
        let order: Vec<u32> =
            std::iter::from_fn(|| queue.take(now)).map(|(request, _)| request.id.0).collect();
        assert_eq!(order, [4, 3, 2, 1]);
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn what_is_gone_is_not_named() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add(vec![request(1, object("a"), 50), request(2, object("b"), 3)], false, now);
        let live = request(1, object("a"), 50).places.into_iter().take(2).collect();
        queue.keep_only(&live);
        let left: Vec<_> =
            std::iter::from_fn(|| queue.take(now)).map(|(request, _)| request.places.len()).collect();
        assert_eq!(left, [2]);
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn symbols_come_before_all_that_there_is_and_wait_for_nobody() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        queue.add(vec![request(1, object("a"), 2), request(2, object("b"), 1)], false, now);
        let mut order = Vec::new();
        while let Some((request, stage)) = queue.take(now) {
            order.push((request.id.0, stage, request.places.len()));
            let end = now + if stage == Stage::Symbols { SECOND / 1000 } else { 10 * SECOND };
            queue.done(request.id, stage, now, end);
            now = end;
            if stage == Stage::Symbols {
                queue.add_rest(request, now);
            }
        }
        // What one of them took for the whole is more than was saved up: the other one waits for long.
        assert_eq!(order, [(1, Stage::Symbols, 2), (2, Stage::Symbols, 1), (1, Stage::Whole, 2)]);
        assert!(queue.due().is_some_and(|due| due > now + 100 * SECOND));
        queue.add(vec![request(2, object("b"), 3)], false, now);
        assert_eq!(
            queue.take(now).map(|(request, stage)| (request.places.len(), stage)),
            Some((3, Stage::Symbols))
        );
    }

    #[test]
    fn what_is_urgent_is_looked_at_in_one_go() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add(vec![request(1, object("a"), 2)], false, now);
        queue.add(vec![request(2, object("b"), 1)], true, now);
        let mut order: Vec<(u32, Stage)> =
            std::iter::from_fn(|| queue.take(now)).map(|(request, stage)| (request.id.0, stage)).collect();
        order.sort();
        assert_eq!(order, [(1, Stage::Whole), (2, Stage::Whole)]);
    }

    #[test]
    fn what_costs_much_is_done_seldom_unless_it_is_urgent() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        let (mut busy, begin) = (Duration::ZERO, now);
        for _ in 0..40 {
            queue.add(vec![request(1, vdso(), 1)], false, now);
            now = now.max(queue.due().unwrap());
            assert!(queue.take(now).is_some());
            queue.done(SpaceId(1), Stage::Whole, now, now + SECOND);
            (busy, now) = (busy + SECOND, now + SECOND);
        }
        assert!(busy * 40 < now - begin, "{:?} of {:?}", busy, now - begin);
        queue.add(vec![request(1, vdso(), 1)], false, now);
        assert!(queue.take(now).is_none());
        queue.add(Vec::new(), true, now);
        assert!(queue.take(now).is_some());
    }

    #[test]
    fn spaces_of_long_ago_are_forgotten() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add((0..1000).map(|id| request(id, vdso(), 1)).collect(), false, now);
        while let Some((request, stage)) = queue.take(now) {
            queue.done(request.id, stage, now, now);
        }
        queue.add(Vec::new(), false, now + 2 * MEMORY);
        assert!(queue.lines.is_empty());
    }

    #[test]
    fn spaces_that_come_and_go_by_the_thousand_leave_little() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        for id in 0..100_000 {
            queue.add(vec![request(id, vdso(), 1)], false, now);
            while let Some((request, stage)) = queue.take(now) {
                queue.done(request.id, stage, now, now + Duration::from_micros(10));
                now += Duration::from_micros(10);
            }
            assert!(queue.lines.len() <= MOST_IDLE + 1, "{}", queue.lines.len());
        }
        assert!(queue.lines.capacity() < 8 * MOST_IDLE);
    }

    #[test]
    fn what_is_small_is_taken_together() {
        let now = Instant::now();
        let mut queue = Queue::default();
        let unmapped = |id: u32| Space::Unmapped { pid: Pid(id as i32), generation: 0 };
        queue.add((0..500).map(|id| request(id, unmapped(id), 2)).collect(), false, now);
        queue.add(vec![request(1000, vdso(), 3)], false, now);
        let small = queue.take_small(now);
        assert_eq!(
            (small.len(), small.iter().map(|request| request.places.len()).sum::<usize>()),
            (500, 1000)
        );
        assert_eq!(queue.take(now).map(|(request, _)| request.id), Some(SpaceId(1000)));
        assert!(queue.take(now).is_none() && queue.take_small(now).is_empty());
    }

    #[test]
    fn many_spaces_share_what_one_may_cost() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        let begin = now;
        let (mut busy, mut credit_lasted) = (Duration::ZERO, None);
        for pass in 0..2000 {
            queue.add((0..20).map(|id| request(id, vdso(), 1)).collect(), false, now);
            now = now.max(queue.due().unwrap());
            let Some((taken, stage)) = queue.take(now) else { panic!("nothing is due when it is due") };
            let end = now + SECOND / 100;
            queue.done(taken.id, stage, now, end);
            // The first look at each is not put off.
            busy += if pass < 20 { Duration::ZERO } else { end - now };
            now = end;
            if busy >= CREDIT {
                credit_lasted.get_or_insert(now - begin);
            }
        }
        assert!((busy - CREDIT) * (SHARES[0] - 10) < now - begin, "{busy:?} of {:?}", now - begin);
        // The rests of each are shorter than those of all.
        assert!(credit_lasted.is_some_and(|lasted| lasted < CREDIT * SHARES[0] / 2), "{credit_lasted:?}");
    }
}
