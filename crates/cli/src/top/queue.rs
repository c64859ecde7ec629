//! Which places are named next: at first sight at once, later the seldomer the more it costs.
//!
//! To name one place of an object, its symbols and much of its debug information are read. A program that runs shows a
//! few new places every second for hours; were each looked up as it comes, we would use more time than all that is
//! measured. So they wait for each other: after the *n*th pass over an object, the next one comes 2ⁿ times as late as
//! the pass took, up to [`MOST_REST`] times.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::{Pid, Space, SpaceId, StackEntry};
use rustc_hash::FxBuildHasher;

/// The rest between two passes over an object, in times of the pass before.
const MOST_REST: u32 = 256;
/// … but a name is not waited for longer than this,
const LONGEST_REST: Duration = Duration::from_secs(30);
/// … unless that were more than this share of the time: one in so many.
const LEAST_REST: u32 = 64;
/// What was not asked for during this time is forgotten,
const MEMORY: Duration = Duration::from_secs(600);
/// … and of that which nothing waits for, all but so many spaces: those of processes that came and went.
const MOST_IDLE: usize = 1024;
/// All that was looked at before may take this share of the time when it is looked at again, one in so many,
const SHARE: u32 = 500;
/// … but for so much that was saved up: in the beginning many names are missing, and at each change of what runs.
const CREDIT: Duration = Duration::from_secs(1);

/// Places of one space that are to be named.
#[derive(Debug)]
pub(crate) struct Wish {
    /// The number of the space, as those know it who ask.
    pub(crate) id: SpaceId,
    /// The space.
    pub(crate) space: Space,
    /// Processes that it was seen in.
    pub(crate) pids: Vec<Pid>,
    /// The places.
    pub(crate) places: Vec<StackEntry>,
}

/// The places that wait, by space.
#[derive(Default, Debug)]
pub(crate) struct Queue {
    lines: HashMap<SpaceId, Line, FxBuildHasher>,
    /// When all looks so far will have taken no more than their share.
    paid: Option<Instant>,
}

/// Places of one space that wait.
#[derive(Debug)]
struct Line {
    wish: Wish,
    /// How often the space was looked at.
    passes: u32,
    /// Not before this moment.
    due: Instant,
}

impl Queue {
    /// Adds what is asked for. What is urgent does not wait, and all that waits is urgent with it.
    pub(crate) fn add(&mut self, wishes: Vec<Wish>, urgent: bool, now: Instant) {
        self.forget(now);
        for wish in wishes {
            match self.lines.get_mut(&wish.id) {
                Some(line) => {
                    line.wish.places.extend(wish.places);
                    line.wish.pids = wish.pids;
                }
                None => {
                    self.lines.insert(wish.id, Line { wish, passes: 0, due: now });
                }
            }
        }
        if urgent {
            self.lines.values_mut().for_each(|line| line.due = line.due.min(now));
            self.paid = None;
        }
    }

    fn forget(&mut self, now: Instant) {
        self.lines.retain(|_, line| line.waits() || line.due + MEMORY > now);
        let mut idle: Vec<(Instant, SpaceId)> =
            self.lines.values().filter(|line| !line.waits()).map(|line| (line.due, line.wish.id)).collect();
        if let Some(surplus) = idle.len().checked_sub(MOST_IDLE).filter(|&surplus| surplus > 0) {
            // Half of the room, so that this is done seldom.
            let (gone, ..) = idle.select_nth_unstable(surplus + MOST_IDLE / 2);
            for (_, id) in gone {
                self.lines.remove(id);
            }
            self.lines.shrink_to(2 * self.lines.len());
        }
    }

    /// When there is something to do next, if anything waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting().map(|line| self.due_of(line)).min()
    }

    /// What is to be done now: the kernel's first, then what is new, then that of which the most places wait.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Wish> {
        let due = self.waiting().filter(|line| self.due_of(line) <= now);
        let rank = |line: &&Line| {
            let is_kernel = matches!(line.wish.space, Space::Kernel { .. });
            (is_kernel, line.passes == 0, line.wish.places.len(), std::cmp::Reverse(line.wish.id))
        };
        let id = due.max_by_key(rank)?.wish.id;
        self.lines.get_mut(&id).map(Line::take)
    }

    /// All that is due and takes no file, or a small one: what one process did not map, what it generated. Of processes
    /// that come and go by the thousand, each has such a space of its own.
    pub(crate) fn take_small(&mut self, now: Instant) -> Vec<Wish> {
        let due: Vec<SpaceId> = self
            .waiting()
            .filter(|line| line.wish.is_small() && self.due_of(line) <= now)
            .map(|line| line.wish.id)
            .collect();
        due.into_iter().filter_map(|id| self.lines.get_mut(&id).map(Line::take)).collect()
    }

    /// A space was looked at, from `begin` to `end`.
    pub(crate) fn done(&mut self, id: SpaceId, begin: Instant, end: Instant) {
        let Some(line) = self.lines.get_mut(&id) else { return };
        let took = end.saturating_duration_since(begin);
        if line.passes > 0 {
            self.paid = Some(self.paid.map_or(end, |paid| paid.max(end)) + took * SHARE);
        }
        line.passes = line.passes.saturating_add(1);
        let times = 1_u32.checked_shl(line.passes).unwrap_or(MOST_REST).min(MOST_REST);
        line.due = end + (took * times).min(longest_rest(took));
    }

    fn waiting(&self) -> impl Iterator<Item = &Line> {
        self.lines.values().filter(|line| line.waits())
    }

    /// Not before this moment: what was looked at before waits for its turn among all of them.
    fn due_of(&self, line: &Line) -> Instant {
        let rest = self.paid.and_then(|paid| paid.checked_sub(CREDIT * SHARE));
        rest.filter(|_| line.passes > 0).map_or(line.due, |rest| line.due.max(rest))
    }
}

/// After a look that took so long.
fn longest_rest(took: Duration) -> Duration {
    LONGEST_REST.max(took * LEAST_REST)
}

impl Wish {
    /// Whether it takes no file to name the places, or a small one.
    pub(crate) fn is_small(&self) -> bool {
        matches!(
            self.space,
            Space::Jit { .. } | Space::Unmapped { .. } | Space::Truncated(_) | Space::Foreign(_)
        )
    }
}

impl Line {
    fn take(&mut self) -> Wish {
        Wish {
            id: self.wish.id,
            space: self.wish.space.clone(),
            pids: std::mem::take(&mut self.wish.pids),
            places: std::mem::take(&mut self.wish.places),
        }
    }

    fn waits(&self) -> bool {
        !self.wish.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::AddressKind;

    const SECOND: Duration = Duration::from_secs(1);

    fn wish(id: u32, space: Space, places: u64) -> Wish {
        let place = |offset| StackEntry {
            offset,
            space: SpaceId(id),
            kind: AddressKind::InstructionPointer,
            in_kernel: false,
        };
        Wish { id: SpaceId(id), space, pids: Vec::new(), places: (0..places).map(place).collect() }
    }

    fn vdso() -> Space {
        Space::Vdso { build_id: None }
    }

    #[test]
    fn the_kernel_comes_first_then_the_new_then_the_many() {
        let now = Instant::now();
        let mut queue = Queue::default();
        let kernel = Space::Kernel { build_id: None, text_address: None };
        queue.add(vec![wish(1, vdso(), 5)], false, now);
        assert_eq!(queue.take(now).map(|wish| wish.places.len()), Some(5));
        queue.done(SpaceId(1), now, now);
        queue.add(
            vec![wish(1, vdso(), 50), wish(2, vdso(), 3), wish(3, vdso(), 4), wish(4, kernel, 1)],
            false,
            now,
        );
        let order: Vec<u32> = std::iter::from_fn(|| queue.take(now)).map(|wish| wish.id.0).collect();
        assert_eq!(order, [4, 3, 2, 1]);
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn what_costs_much_is_done_seldom_unless_it_is_urgent() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        let (mut busy, begin) = (Duration::ZERO, now);
        for _ in 0..40 {
            queue.add(vec![wish(1, vdso(), 1)], false, now);
            now = now.max(queue.due().unwrap());
            assert!(queue.take(now).is_some());
            queue.done(SpaceId(1), now, now + SECOND);
            (busy, now) = (busy + SECOND, now + SECOND);
        }
        assert!(busy * 40 < now - begin, "{:?} of {:?}", busy, now - begin);
        queue.add(vec![wish(1, vdso(), 1)], false, now);
        assert!(queue.take(now).is_none());
        queue.add(Vec::new(), true, now);
        assert!(queue.take(now).is_some());
    }

    #[test]
    fn spaces_of_long_ago_are_forgotten() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add((0..1000).map(|id| wish(id, vdso(), 1)).collect(), false, now);
        while let Some(wish) = queue.take(now) {
            queue.done(wish.id, now, now);
        }
        queue.add(Vec::new(), false, now + 2 * MEMORY);
        assert!(queue.lines.is_empty());
    }

    #[test]
    fn spaces_that_come_and_go_by_the_thousand_leave_little() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        for id in 0..100_000 {
            queue.add(vec![wish(id, vdso(), 1)], false, now);
            while let Some(wish) = queue.take(now) {
                queue.done(wish.id, now, now + Duration::from_micros(10));
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
        queue.add((0..500).map(|id| wish(id, unmapped(id), 2)).collect(), false, now);
        queue.add(vec![wish(1000, vdso(), 3)], false, now);
        let small = queue.take_small(now);
        assert_eq!((small.len(), small.iter().map(|wish| wish.places.len()).sum::<usize>()), (500, 1000));
        assert_eq!(queue.take(now).map(|wish| wish.id), Some(SpaceId(1000)));
        assert!(queue.take(now).is_none() && queue.take_small(now).is_empty());
    }

    #[test]
    fn many_spaces_share_what_one_may_cost() {
        let mut now = Instant::now();
        let mut queue = Queue::default();
        let begin = now;
        let (mut busy, mut credit_lasted) = (Duration::ZERO, None);
        for pass in 0..2000 {
            queue.add((0..20).map(|id| wish(id, vdso(), 1)).collect(), false, now);
            now = now.max(queue.due().unwrap());
            let Some(taken) = queue.take(now) else { panic!("nothing is due when it is due") };
            let end = now + SECOND / 100;
            queue.done(taken.id, now, end);
            // The first look at each is not put off.
            busy += if pass < 20 { Duration::ZERO } else { end - now };
            now = end;
            if busy >= CREDIT {
                credit_lasted.get_or_insert(now - begin);
            }
        }
        assert!((busy - CREDIT) * (SHARE - 10) < now - begin, "{busy:?} of {:?}", now - begin);
        // The rests of each are shorter than those of all.
        assert!(credit_lasted.is_some_and(|lasted| lasted < CREDIT * SHARE / 2), "{credit_lasted:?}");
    }
}
