//! The order in which addresses are symbolized: new spaces at once, known ones after a pause that grows with what they cost.
//!
//! To symbolize one address of an object, its symbols and much of its debug information are read. A running program shows a few new
//! addresses every second for hours. If each were looked up as it comes, we would use more CPU time than all that is measured. So
//! addresses are collected: after the *n*th pass over a space, the next one begins after 2ⁿ times the duration of that pass, at most
//! [`MAX_PAUSE_IN_PASSES`] times.
//!
//! An object is symbolized in two stages, each with pauses of its own. The symbol table comes first. Inlined calls come later: they
//! are in the debug information, which can take a hundred times as long to read. How much of this is waited for, [`Haste`] says.
//!
//! Durations of passes are CPU time: on a busy machine a pass lasts several times as long.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use model::{Pid, Space, SpaceId, StackEntry};
use rustc_hash::FxBuildHasher;

/// The longest pause between two passes over a space, in durations of the last pass: passes over a space take at most 1/64 of the time.
const MAX_PAUSE_IN_PASSES: u32 = 64;
/// Maximum number of spaces without requests that are remembered. They are left by processes that came and went.
const MAX_IDLE_SPACES: usize = 1024;
/// The budgets of passes, as divisors of the time: 1/400 for functions in spaces that were looked at before, and 1/1000 for inlined
/// calls. The first pass over a space has no budget.
const BUDGET_DIVISORS: [u32; 2] = [400, 1000];
/// The same for inlined calls with [`Haste::Functions`], a quarter of a per cent of two cores: half of what `prof watch` may take beside a
/// service. Beside builds of debug programs, whose debug information is new each time, inlined calls took more than all the rest.
const INTERVALS_DIVISOR: u32 = 200;
/// The CPU time that a budget may save up: many names are missing in the beginning, and whenever other programs run.
const MAX_CREDIT: Duration = Duration::from_secs(1);

/// The stage of symbolizing a space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Stage {
    /// The symbol table of an object. [`Stage::Full`] follows.
    Symbols,
    /// All sources of names, with inlined calls.
    Full,
}

/// The names that those who ask wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Haste {
    /// Nothing: names may come when they do.
    Calm,
    /// Functions, because they will be seen as they are then. Inlined calls come as their budget allows.
    Functions,
    /// All that there is.
    Everything,
}

/// A request for the functions at addresses of one space.
#[derive(Debug)]
pub(crate) struct NameRequest {
    /// The tracker's id of the space.
    pub(crate) id: SpaceId,
    /// The space.
    pub(crate) space: Space,
    /// Processes in which the space was seen.
    pub(crate) pids: Vec<Pid>,
    /// The addresses.
    pub(crate) entries: Vec<StackEntry>,
    /// The weight of the samples whose innermost address lies in the space.
    pub(crate) weight: u64,
}

/// The requests that wait, by space and stage.
#[derive(Debug)]
pub(crate) struct NameQueue {
    spaces: HashMap<Key, QueuedSpace, FxBuildHasher>,
    /// The budgets, see [`BUDGET_DIVISORS`].
    divisors: [u32; 2],
    /// For each budget, the time at which all passes so far will have taken no more than it allows.
    budgets_spent_until: [Option<Instant>; 2],
}

type Key = (SpaceId, Stage);

/// A stage of a space, with the addresses that wait for it.
#[derive(Debug)]
struct QueuedSpace {
    request: NameRequest,
    /// Number of passes over the space so far.
    passes: u32,
    /// The next pass begins no earlier.
    due: Instant,
}

impl Default for NameQueue {
    fn default() -> Self {
        Self { spaces: HashMap::default(), divisors: BUDGET_DIVISORS, budgets_spent_until: [None; 2] }
    }
}

impl NameQueue {
    /// Adds requests. If there is haste, all requests in the queue become due at once: those for functions alone, or all and in one stage.
    pub(crate) fn add(&mut self, requests: Vec<NameRequest>, haste: Haste, now: Instant) {
        self.forget_idle();
        for request in requests {
            let is_last = haste == Haste::Everything || !request.has_stages();
            self.enqueue(request, if is_last { Stage::Full } else { Stage::Symbols }, now);
        }
        if haste == Haste::Everything {
            let first_stages =
                self.spaces.extract_if(|(_, stage), space| *stage == Stage::Symbols && space.waits());
            for space in first_stages.map(|(_, space)| space).collect::<Vec<_>>() {
                self.enqueue(space.request, Stage::Full, now);
            }
            self.budgets_spent_until[1] = None;
        }
        if haste != Haste::Calm {
            self.spaces.values_mut().for_each(|space| space.due = space.due.min(now));
            self.budgets_spent_until[0] = None;
        }
        if haste == Haste::Functions {
            self.divisors[1] = INTERVALS_DIVISOR;
        }
    }

    /// Adds the second stage of a request whose symbols were looked up.
    pub(crate) fn add_second_stage(&mut self, request: NameRequest, now: Instant) {
        self.enqueue(request, Stage::Full, now);
    }

    fn enqueue(&mut self, request: NameRequest, stage: Stage, now: Instant) {
        match self.spaces.get_mut(&(request.id, stage)) {
            Some(space) => {
                space.request.entries.extend(request.entries);
                (space.request.pids, space.request.weight) = (request.pids, request.weight);
            }
            None => {
                self.spaces.insert((request.id, stage), QueuedSpace { request, passes: 0, due: now });
            }
        }
    }

    /// Drops the requests for all addresses that are not in `live`. Programs can show new addresses faster than these can be
    /// symbolized; many have left the window when their turn would come.
    pub(crate) fn retain(&mut self, live: &HashSet<StackEntry, FxBuildHasher>) {
        for space in self.spaces.values_mut() {
            space.request.entries.retain(|entry| live.contains(entry));
            space.request.entries.shrink_to(2 * space.request.entries.len());
        }
    }

    fn forget_idle(&mut self) {
        let idle = self.spaces.iter().filter(|(_, space)| !space.waits());
        let mut idle: Vec<(Instant, Key)> = idle.map(|(&key, space)| (space.due, key)).collect();
        if let Some(surplus) = idle.len().checked_sub(MAX_IDLE_SPACES).filter(|&surplus| surplus > 0) {
            // Half of all idle spaces at a time, so that this search is rare.
            let (oldest, ..) = idle.select_nth_unstable(surplus + MAX_IDLE_SPACES / 2);
            for (_, key) in oldest {
                self.spaces.remove(key);
            }
            self.spaces.shrink_to(2 * self.spaces.len());
        }
    }

    /// Returns the time at which the next request is due, if any waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.waiting().map(|(key, space)| self.due_of(key, space)).min()
    }

    /// Removes and returns the most important request that is due: one whose functions are not known before one that lacks inlined
    /// calls alone, of those a new space first, then the heaviest, then the one with most addresses.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(NameRequest, Stage)> {
        let due = self.waiting().filter(|(key, space)| self.due_of(key, space) <= now);
        let rank = |&(&(id, stage), space): &(&Key, &QueuedSpace)| {
            let is_nameless = stage == Stage::Symbols || !space.request.has_stages();
            let NameRequest { weight, entries, .. } = &space.request;
            (is_nameless, space.passes == 0, *weight, entries.len(), std::cmp::Reverse(id))
        };
        let (&key, _) = due.max_by_key(rank)?;
        self.spaces.get_mut(&key).map(|space| (space.take_request(), key.1))
    }

    /// Removes and returns all requests that are due and need no file, or a small one: generated code, unmapped code. Thousands of
    /// short processes have such a space each.
    pub(crate) fn pop_small(&mut self, now: Instant) -> Vec<NameRequest> {
        let is_due =
            |(key, space): &(&Key, &QueuedSpace)| space.request.is_small() && self.due_of(key, space) <= now;
        let due: Vec<Key> = self.waiting().filter(is_due).map(|(&key, _)| key).collect();
        due.into_iter().filter_map(|key| self.spaces.get_mut(&key).map(QueuedSpace::take_request)).collect()
    }

    /// Records a pass over a space that took this CPU time: charges its budget, and sets the pause before the next one.
    pub(crate) fn record_pass(&mut self, id: SpaceId, stage: Stage, took: Duration, end: Instant) {
        let key = (id, stage);
        let Some(space) = self.spaces.get_mut(&key) else { return };
        if let Some(budget) = space.budget(stage) {
            let until = &mut self.budgets_spent_until[budget];
            *until = Some(until.map_or(end, |until| until.max(end)) + took * self.divisors[budget]);
        }
        space.passes = space.passes.saturating_add(1);
        let times = 1_u32.checked_shl(space.passes).unwrap_or(MAX_PAUSE_IN_PASSES).min(MAX_PAUSE_IN_PASSES);
        space.due = end + took * times;
    }

    fn waiting(&self) -> impl Iterator<Item = (&Key, &QueuedSpace)> {
        self.spaces.iter().filter(|(_, space)| space.waits())
    }

    /// Returns when a space may be looked at: after its own pause, and when its budget has room again.
    fn due_of(&self, &(_, stage): &Key, space: &QueuedSpace) -> Instant {
        let budget = space.budget(stage).and_then(|budget| {
            self.budgets_spent_until[budget]?.checked_sub(MAX_CREDIT * self.divisors[budget])
        });
        budget.map_or(space.due, |budget| space.due.max(budget))
    }
}

impl NameRequest {
    /// Returns true if symbols and inlined calls are looked up one after the other.
    fn has_stages(&self) -> bool {
        matches!(self.space, Space::Object(_))
    }

    /// Returns true if no file has to be read for the addresses, or only a small one.
    pub(crate) fn is_small(&self) -> bool {
        matches!(
            self.space,
            Space::Jit { .. }
                | Space::JitDump { .. }
                | Space::JavaScript { .. }
                | Space::TaskLabel { .. }
                | Space::Python { .. }
                | Space::Unmapped { .. }
                | Space::Truncated(_)
                | Space::State(_)
                | Space::Foreign(_)
        )
    }
}

impl QueuedSpace {
    /// Removes the request; the space stays in the queue, as it remembers the pause before the next pass.
    fn take_request(&mut self) -> NameRequest {
        NameRequest {
            id: self.request.id,
            space: self.request.space.clone(),
            pids: std::mem::take(&mut self.request.pids),
            entries: std::mem::take(&mut self.request.entries),
            weight: self.request.weight,
        }
    }

    /// Returns the position in [`BUDGET_DIVISORS`] of the budget that pays for the next pass; `None` for the first pass for functions,
    /// which is free.
    fn budget(&self, stage: Stage) -> Option<usize> {
        match stage {
            Stage::Full if self.request.has_stages() => Some(1),
            _ => (self.passes > 0).then_some(0),
        }
    }

    fn waits(&self) -> bool {
        !self.request.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::AddressKind;

    const SECOND: Duration = Duration::from_secs(1);

    fn request(id: u32, space: Space, count: u64) -> NameRequest {
        let place = |offset| StackEntry {
            offset,
            space: SpaceId(id),
            kind: AddressKind::InstructionPointer,
            in_kernel: false,
        };
        let entries = (0..count).map(place).collect();
        NameRequest { id: SpaceId(id), space, pids: Vec::new(), entries, weight: 0 }
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
        let mut queue = NameQueue::default();
        queue.add(vec![request(1, vdso(), 5)], Haste::Calm, now);
        assert_eq!(queue.pop(now).map(|(request, _)| request.entries.len()), Some(5));
        queue.record_pass(SpaceId(1), Stage::Full, Duration::ZERO, now);
        let heavy = NameRequest { weight: 100, ..request(4, vdso(), 1) };
        queue.add(
            vec![request(1, vdso(), 50), request(2, vdso(), 3), request(3, vdso(), 4), heavy],
            Haste::Calm,
            now,
        );
        let order: Vec<u32> =
            std::iter::from_fn(|| queue.pop(now)).map(|(request, _)| request.id.0).collect();
        assert_eq!(order, [4, 3, 2, 1]);
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn what_is_gone_is_not_named() {
        let now = Instant::now();
        let mut queue = NameQueue::default();
        queue.add(vec![request(1, object("a"), 50), request(2, object("b"), 3)], Haste::Calm, now);
        let live = request(1, object("a"), 50).entries.into_iter().take(2).collect();
        queue.retain(&live);
        let left: Vec<_> =
            std::iter::from_fn(|| queue.pop(now)).map(|(request, _)| request.entries.len()).collect();
        assert_eq!(left, [2]);
        assert_eq!(queue.due(), None);
    }

    #[test]
    fn symbols_come_before_all_that_there_is_and_wait_for_nobody() {
        let mut now = Instant::now();
        let mut queue = NameQueue::default();
        queue.add(vec![request(1, object("a"), 2), request(2, object("b"), 1)], Haste::Calm, now);
        let mut order = Vec::new();
        while let Some((request, stage)) = queue.pop(now) {
            order.push((request.id.0, stage, request.entries.len()));
            let end = now + if stage == Stage::Symbols { SECOND / 1000 } else { 10 * SECOND };
            queue.record_pass(request.id, stage, end - now, end);
            now = end;
            if stage == Stage::Symbols {
                queue.add_second_stage(request, now);
            }
        }
        // The first request's second stage took more time than was saved up, so the other request waits for long.
        assert_eq!(order, [(1, Stage::Symbols, 2), (2, Stage::Symbols, 1), (1, Stage::Full, 2)]);
        assert!(queue.due().is_some_and(|due| due > now + 100 * SECOND));
        queue.add(vec![request(2, object("b"), 3)], Haste::Calm, now);
        assert_eq!(
            queue.pop(now).map(|(request, stage)| (request.entries.len(), stage)),
            Some((3, Stage::Symbols))
        );
    }

    #[test]
    fn what_is_urgent_is_looked_at_in_one_go() {
        let now = Instant::now();
        let mut queue = NameQueue::default();
        queue.add(vec![request(1, object("a"), 2)], Haste::Calm, now);
        queue.add(vec![request(2, object("b"), 1)], Haste::Everything, now);
        let mut order: Vec<(u32, Stage)> =
            std::iter::from_fn(|| queue.pop(now)).map(|(request, stage)| (request.id.0, stage)).collect();
        order.sort();
        assert_eq!(order, [(1, Stage::Full), (2, Stage::Full)]);
    }

    #[test]
    fn functions_are_waited_for_and_inlined_calls_keep_to_their_budget() {
        let mut now = Instant::now();
        let begin = now;
        let mut queue = NameQueue::default();
        let (mut functions, mut inlined) = (0, Duration::ZERO);
        for interval in 0..400 {
            // Each interval has a new program and new addresses of an old one.
            queue.add(
                vec![request(1, object("a"), 2), request(2 + interval, object("b"), 1)],
                Haste::Functions,
                now,
            );
            while let Some((request, stage)) = queue.pop(now) {
                let took = SECOND / 4;
                functions += u32::from(stage == Stage::Symbols);
                inlined += if stage == Stage::Full { took } else { Duration::ZERO };
                queue.record_pass(request.id, stage, took, now);
                if stage == Stage::Symbols {
                    queue.add_second_stage(request, now);
                }
            }
            now += 10 * SECOND;
        }
        assert_eq!(functions, 800, "all of them, at once");
        assert!(inlined <= MAX_CREDIT + SECOND / 2 + (now - begin) / INTERVALS_DIVISOR, "{inlined:?}");
        assert!(inlined >= (now - begin) / INTERVALS_DIVISOR, "{inlined:?}");
        queue.add(Vec::new(), Haste::Everything, now);
        assert!(queue.pop(now).is_some());
    }

    #[test]
    fn what_costs_much_is_done_seldom_unless_it_is_urgent() {
        let mut now = Instant::now();
        let mut queue = NameQueue::default();
        let (mut busy, begin) = (Duration::ZERO, now);
        for _ in 0..40 {
            queue.add(vec![request(1, vdso(), 1)], Haste::Calm, now);
            now = now.max(queue.due().unwrap());
            assert!(queue.pop(now).is_some());
            queue.record_pass(SpaceId(1), Stage::Full, SECOND, now + SECOND);
            (busy, now) = (busy + SECOND, now + SECOND);
        }
        assert!(busy * 40 < now - begin, "{:?} of {:?}", busy, now - begin);
        queue.add(vec![request(1, vdso(), 1)], Haste::Calm, now);
        assert!(queue.pop(now).is_none());
        queue.add(Vec::new(), Haste::Everything, now);
        assert!(queue.pop(now).is_some());
    }

    #[test]
    fn spaces_that_come_and_go_by_the_thousand_leave_little() {
        let mut now = Instant::now();
        let mut queue = NameQueue::default();
        for id in 0..100_000 {
            queue.add(vec![request(id, vdso(), 1)], Haste::Calm, now);
            while let Some((request, stage)) = queue.pop(now) {
                let took = Duration::from_micros(10);
                queue.record_pass(request.id, stage, took, now + took);
                now += Duration::from_micros(10);
            }
            assert!(queue.spaces.len() <= MAX_IDLE_SPACES + 1, "{}", queue.spaces.len());
        }
        assert!(queue.spaces.capacity() < 8 * MAX_IDLE_SPACES);
    }

    #[test]
    fn what_is_small_is_taken_together() {
        let now = Instant::now();
        let mut queue = NameQueue::default();
        let unmapped = |id: u32| Space::Unmapped { pid: Pid(id as i32), generation: 0 };
        queue.add((0..500).map(|id| request(id, unmapped(id), 2)).collect(), Haste::Calm, now);
        queue.add(vec![request(1000, vdso(), 3)], Haste::Calm, now);
        let small = queue.pop_small(now);
        assert_eq!(
            (small.len(), small.iter().map(|request| request.entries.len()).sum::<usize>()),
            (500, 1000)
        );
        assert_eq!(queue.pop(now).map(|(request, _)| request.id), Some(SpaceId(1000)));
        assert!(queue.pop(now).is_none() && queue.pop_small(now).is_empty());
    }

    #[test]
    fn many_spaces_share_what_one_may_cost() {
        let mut now = Instant::now();
        let mut queue = NameQueue::default();
        let begin = now;
        let (mut busy, mut credit_lasted) = (Duration::ZERO, None);
        for pass in 0..2000 {
            queue.add((0..20).map(|id| request(id, vdso(), 1)).collect(), Haste::Calm, now);
            now = now.max(queue.due().unwrap());
            let Some((taken, stage)) = queue.pop(now) else { panic!("nothing is due when it is due") };
            let end = now + SECOND / 100;
            queue.record_pass(taken.id, stage, end - now, end);
            // The first look at each is not put off.
            busy += if pass < 20 { Duration::ZERO } else { end - now };
            now = end;
            if busy >= MAX_CREDIT {
                credit_lasted.get_or_insert(now - begin);
            }
        }
        assert!(
            (busy - MAX_CREDIT) * (BUDGET_DIVISORS[0] - 10) < now - begin,
            "{busy:?} of {:?}",
            now - begin
        );
        // The rests of each are shorter than those of all.
        assert!(
            credit_lasted.is_some_and(|lasted| lasted < MAX_CREDIT * BUDGET_DIVISORS[0] / 2),
            "{credit_lasted:?}"
        );
    }
}
