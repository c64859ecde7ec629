//! Findings of made-up profiles.

mod world;

use model::{CpuId, Name, Pid, StackEntry, Tid, Timestamp};
use prof_profile::explain::{CostKind, Explanation, explain};
use prof_profile::{Columns, Detail, FrameId, Sample, Show, Weight};
use proptest::prelude::*;
use world::{World, text};

/// Functions by name, each at an address of its own.
fn functions(world: &mut World, names: &[&str]) -> Vec<StackEntry> {
    names.iter().zip(1..).map(|(name, at)| world.user(at, &[name])).collect()
}

/// Explains what was added, and says of each cause its path and weight.
fn causes(world: &World) -> Vec<(String, u64)> {
    let view = world.view(Show::default(), Weight::Period);
    let name = |frame: &FrameId| text(&view.frames().frames()[frame.index()]);
    let causes = explain(&view).causes;
    causes
        .iter()
        .map(|cause| (cause.path.iter().map(name).collect::<Vec<_>>().join(";"), cause.weight))
        .collect()
}

#[test]
fn wrappers_are_passed_and_the_time_is_followed_to_where_it_divides() {
    let mut world = World::new(Detail::default());
    let f = functions(&mut world, &["start", "main", "parse", "draw", "copy"]);
    // Innermost first.
    world.add(1, &[f[2], f[1], f[0]], 50);
    world.add(1, &[f[4], f[3], f[1], f[0]], 40);
    world.add(1, &[f[3], f[1], f[0]], 1);
    world.add(1, &[f[1], f[0]], 9);
    let expected = [("app;main;parse", 50), ("app;main;copy", 40), ("app;main", 9)];
    assert_eq!(causes(&world), expected.map(|(path, weight)| (path.to_owned(), weight)));
}

#[test]
fn recursion_is_one_function_with_all_that_it_called() {
    let mut world = World::new(Detail::default());
    let f = functions(&mut world, &["main", "walk", "visit", "leaf"]);
    world.add(1, &[f[3], f[1], f[2], f[1], f[2], f[1], f[0]], 60);
    world.add(1, &[f[2], f[1], f[2], f[1], f[0]], 40);
    let expected = [("app;walk;leaf", 60), ("app;walk;visit", 40)];
    assert_eq!(causes(&world), expected.map(|(path, weight)| (path.to_owned(), weight)));
}

#[test]
fn work_is_known_by_the_innermost_function_that_tells_it() {
    let mut world = World::new(Detail::default());
    let f = functions(&mut world, &["main", "malloc", "memcpy"]);
    let fault = world.kernel(9, &["asm_exc_page_fault"]);
    world.add(1, &[fault, f[1], f[0]], 5);
    world.add(1, &[f[1], f[0]], 3);
    world.add(1, &[f[2], f[0]], 2);
    world.add(1, &[f[0]], 90);
    let found = explain(&world.view(Show::default(), Weight::Period));
    let costs: Vec<_> = found.costs.iter().map(|cost| (cost.kind, cost.weight)).collect();
    assert_eq!(costs, [(CostKind::PageFaults, 5), (CostKind::Allocation, 3), (CostKind::Copies, 2)]);
    assert_eq!((found.kernel, found.total), (5, 100));
}

/// A second of `first`, then one of `second`, a sample each millisecond.
fn phases(first: &str, second: &str) -> Explanation {
    let columns = Columns { times: true, cpus: false };
    let mut world = World::new(Detail { samples: Some(columns), ..Detail::default() });
    let stacks = functions(&mut world, &[first, second]).into_iter().map(|entry| {
        let stack = world.profile.stacks.intern(&[entry]);
        (world.profile.thread(&Name::from("app"), Pid(1), Tid(1), || Name::from("app")), stack)
    });
    for (index, (thread, stack)) in stacks.collect::<Vec<_>>().into_iter().enumerate() {
        for millisecond in 0..1_000 {
            let time =
                Some(Timestamp(5_000_000_000 + index as u64 * 1_000_000_000 + millisecond * 1_000_000));
            world.profile.count(Sample { thread, stack, period: 1, time, cpu: Some(CpuId(0)) });
        }
    }
    explain(&world.view(Show::default(), Weight::Samples))
}

#[test]
fn phases_are_told_where_other_functions_run() {
    let found = phases("read", "write").phases;
    let [one, two] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.end, one.weight + two.weight), (two.start, 2_000));
    let middle = (one.end.0 - one.start.0) as f64 / (two.end.0 - one.start.0) as f64;
    assert!((middle - 0.5).abs() < 0.05, "{middle}");
    assert_eq!(phases("read", "read").phases, []);
}

proptest! {
    #[test]
    fn the_parts_are_never_more_than_the_whole(
        samples in prop::collection::vec((0_i32..3, prop::collection::vec(0_usize..6, 0..9), 1_u64..9), 0..60),
    ) {
        let mut world = World::new(Detail { threads: true, ..Detail::default() });
        let places = functions(&mut world, &["a", "b", "c", "malloc", "memcpy", "e"]);
        for (tid, stack, period) in &samples {
            let entries: Vec<_> = stack.iter().map(|&place| places[place]).collect();
            world.add(*tid, &entries, *period);
        }
        let total: u64 = samples.iter().map(|sample| sample.2).sum();
        let found = explain(&world.view(Show::default(), Weight::Period));
        prop_assert_eq!(found.total, total);
        prop_assert_eq!(found.threads.iter().map(|part| part.weight).sum::<u64>(), total);
        prop_assert_eq!(found.modules.iter().map(|part| part.weight).sum::<u64>(), total);
        prop_assert!(found.causes.iter().map(|cause| cause.weight).sum::<u64>() <= total);
        prop_assert!(found.costs.iter().map(|cost| cost.weight).sum::<u64>() <= total);
        prop_assert!(found.functions.iter().map(|function| function.own).sum::<u64>() <= total);
        for cause in &found.causes {
            prop_assert_eq!(cause.inside.iter().map(|part| part.weight).sum::<u64>(), cause.weight);
        }
    }
}
