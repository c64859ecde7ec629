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
/// What was not asked for during this time is forgotten.
const MEMORY: Duration = Duration::from_secs(600);

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
pub(crate) struct Queue(HashMap<SpaceId, Line, FxBuildHasher>);

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
        self.0.retain(|_, line| !line.wish.places.is_empty() || line.due + MEMORY > now);
        for wish in wishes {
            match self.0.get_mut(&wish.id) {
                Some(line) => {
                    line.wish.places.extend(wish.places);
                    line.wish.pids = wish.pids;
                }
                None => {
                    self.0.insert(wish.id, Line { wish, passes: 0, due: now });
                }
            }
        }
        if urgent {
            self.0.values_mut().for_each(|line| line.due = line.due.min(now));
        }
    }

    /// When there is something to do next, if anything waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting().map(|line| line.due).min()
    }

    /// What is to be done now: the kernel's first, then what is new, then that of which the most places wait.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Wish> {
        let due = self.waiting().filter(|line| line.due <= now);
        let rank = |line: &&Line| {
            let is_kernel = matches!(line.wish.space, Space::Kernel { .. });
            (is_kernel, line.passes == 0, line.wish.places.len(), std::cmp::Reverse(line.wish.id))
        };
        let id = due.max_by_key(rank)?.wish.id;
        let line = self.0.get_mut(&id)?;
        let places = std::mem::take(&mut line.wish.places);
        Some(Wish { id, space: line.wish.space.clone(), pids: std::mem::take(&mut line.wish.pids), places })
    }

    /// A space was looked at, from `begin` to `end`.
    pub(crate) fn done(&mut self, id: SpaceId, begin: Instant, end: Instant) {
        let Some(line) = self.0.get_mut(&id) else { return };
        line.passes = line.passes.saturating_add(1);
        let took = end.saturating_duration_since(begin);
        let times = 1_u32.checked_shl(line.passes).unwrap_or(MOST_REST).min(MOST_REST);
        line.due = end + (took * times).min(LONGEST_REST.max(took * LEAST_REST));
    }

    fn waiting(&self) -> impl Iterator<Item = &Line> {
        self.0.values().filter(|line| !line.wish.places.is_empty())
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
        assert!(queue.0.is_empty());
    }
}
