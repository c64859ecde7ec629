use model::{Name, Pid, Tid};

use super::chains;
use super::lanes::{Doing, Ender, Lane, Lanes, Place, PlaceNumber, Segment};
use super::parallelism::Parallelism;
use super::path::path;
use super::replay::wall;
use crate::FrameId;

/// A thread of a test: its name, and its segments with the numbers of their places.
type Thread<'t> = (&'t str, &'t [(u64, u64, u32, Doing)]);

/// The places of tests: number N has function N alone.
fn lanes(threads: &[Thread<'_>]) -> Lanes {
    let lane = |(number, (name, segments)): (usize, &Thread<'_>)| Lane {
        pid: Pid(1),
        tid: Tid(number as i32 + 1),
        name: Name::from(*name),
        start: None,
        segments: segments
            .iter()
            .map(|&(start, end, place, doing)| Segment { start, end, place: PlaceNumber(place), doing })
            .collect(),
    };
    let place = |number| Place { own: vec![FrameId::from_index(number)], ..Place::default() };
    Lanes { lanes: threads.iter().enumerate().map(lane).collect(), places: (0..20).map(place).collect() }
}

const RAN: Doing = Doing::Running;
const SLEPT: Doing = Doing::Blocked(Ender::Elsewhere);
const JOINED: u32 = 1;
const WAITED: u32 = 2;
const HELD: u32 = 3;
const SLEPT_HOLDING: u32 = 4;
const COMPUTED: u32 = 5;

fn blocked_by(lane: u32) -> Doing {
    Doing::Blocked(Ender::Lane(lane))
}

/// A thread waits for a lock, whose holder sleeps with it; the first thread joins both.
fn sleeping_holder() -> Lanes {
    lanes(&[
        ("main", &[(0, 10, 0, RAN), (10, 100, JOINED, blocked_by(1)), (100, 110, 0, RAN)]),
        ("waiter", &[(5, 20, COMPUTED, RAN), (20, 80, WAITED, blocked_by(2)), (80, 100, COMPUTED, RAN)]),
        ("holder", &[(5, 15, HELD, RAN), (15, 70, SLEPT_HOLDING, SLEPT), (70, 85, HELD, RAN)]),
    ])
}

fn steps(chains: &[chains::Chain]) -> Vec<(Vec<(String, u32)>, u64)> {
    let chain = |chain: &chains::Chain| {
        let steps = chain.steps.iter().map(|step| (step.thread.to_string(), step.place.0)).collect();
        (steps, chain.weight)
    };
    chains.iter().map(chain).collect()
}

fn named(steps: &[(&str, u32)], weight: u64) -> (Vec<(String, u32)>, u64) {
    (steps.iter().map(|(name, place)| ((*name).to_owned(), *place)).collect(), weight)
}

#[test]
fn a_wait_is_for_what_its_waker_did_meanwhile_and_for_whom_that_waited() {
    let found = steps(&chains::find(&sleeping_holder()).chains);
    let main = ("main", JOINED);
    let waiter = ("waiter", WAITED);
    for chain in [
        named(&[waiter, ("holder", SLEPT_HOLDING)], 50),
        named(&[waiter, ("holder", HELD)], 10),
        named(&[main, waiter, ("holder", SLEPT_HOLDING)], 50),
        named(&[main, waiter, ("holder", HELD)], 10),
        named(&[main, ("waiter", COMPUTED)], 30),
        named(&[("holder", SLEPT_HOLDING)], 55),
    ] {
        assert!(found.contains(&chain), "{chain:?} in {found:?}");
    }
    let of_main: u64 = found.iter().filter(|(steps, _)| steps[0].0 == "main").map(|(_, weight)| weight).sum();
    assert_eq!(of_main, 90, "each moment of a wait counts once");
}

#[test]
fn threads_that_wake_each_other_end_a_chain() {
    let both = lanes(&[
        ("a", &[(0, 50, WAITED, blocked_by(1)), (50, 60, 0, RAN)]),
        ("b", &[(0, 40, HELD, blocked_by(0)), (40, 60, 0, RAN)]),
    ]);
    let found = steps(&chains::find(&both).chains);
    assert!(found.contains(&named(&[("a", WAITED), ("b", HELD)], 40)), "{found:?}");
}

#[test]
fn the_critical_path_goes_from_a_wait_to_its_waker() {
    let path = path(&sleeping_holder(), 0, 110);
    let told: Vec<_> =
        path.iter().map(|stretch| (stretch.lane, stretch.segment.start, stretch.segment.end)).collect();
    assert_eq!(told, [(2, 5, 15), (2, 15, 70), (2, 70, 80), (1, 80, 100), (0, 100, 110)]);
}

#[test]
fn what_is_not_known_of_a_thread_is_no_part_of_the_path() {
    let lanes = lanes(&[("main", &[(0, 10, 0, RAN), (10, 30, JOINED, Doing::Blocked(Ender::Unknown))])]);
    let path = path(&lanes, 0, 50);
    assert_eq!(path.last().map(|last| (last.segment.start, last.segment.doing)), Some((30, Doing::Unknown)));
    assert_eq!(path.len(), 3, "a wait that nobody is known to have ended is itself on it");
}

#[test]
fn time_is_run_again_without_a_function() {
    let lanes = sleeping_holder();
    let without = |place: u32| wall(&lanes, 0, 4, |at| at.0 == place);
    assert_eq!(without(19), Some(110), "all of it takes as long as it did");
    // The holder gives the lock at 25, the waiter has ended at 45, and the first thread at 55.
    assert_eq!(without(SLEPT_HOLDING), Some(55));
    assert_eq!(without(COMPUTED), Some(90));
}

#[test]
fn threads_share_the_cpus_that_there_are() {
    let two = lanes(&[
        ("main", &[(0, 10, 0, RAN), (10, 50, JOINED, blocked_by(1)), (50, 60, 0, RAN)]),
        ("one", &[(0, 50, COMPUTED, RAN)]),
        ("other", &[(0, 50, COMPUTED, RAN)]),
    ]);
    assert_eq!(wall(&two, 0, 4, |_| false), Some(60));
    assert_eq!(wall(&two, 0, 1, |_| false), Some(120));
}

#[test]
fn a_thread_is_alone_where_no_other_runs() {
    let Parallelism { times, alone } = Parallelism::of(&sleeping_holder(), Some((0, 120)));
    // Nobody from 20 to 70 and from 110; two from 5 to 15 and from 80 to 85, and three from 5 to 10.
    assert_eq!(times, [60, 45, 10, 5]);
    let of_computed = alone.iter().find(|(function, _)| *function == FrameId::from_index(COMPUTED as usize));
    assert_eq!(of_computed.map(|(_, time)| *time), Some(20), "{alone:?}");
}
