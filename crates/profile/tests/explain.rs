//! Findings of made-up profiles.

mod world;

use model::{CpuId, Name, ObjectIdentity, Pid, Space, StackEntry, Tid, Timestamp};
use prof_profile::explain::{self, Cause, CostKind, Phase, Step, explain};
use prof_profile::{Columns, Detail, FrameId, Sample, Show, Weight};
use proptest::prelude::*;
use world::{World, text};

/// Functions by name, each at an address of its own.
fn functions(world: &mut World, names: &[&str]) -> Vec<StackEntry> {
    names.iter().zip(1..).map(|(name, at)| world.user(at, &[name])).collect()
}

/// Explains what was added, and says of each cause its path and weight: of its functions those that stand.
fn causes(world: &World) -> Vec<(String, u64)> {
    paths(world, &|_| true, |step| step.stands)
}

/// As [`causes`], with these of its functions; of a function that many ways lead to with their number.
fn paths(
    world: &World,
    is_users: &dyn Fn(&str) -> bool,
    is_told: impl Fn(&Step) -> bool,
) -> Vec<(String, u64)> {
    let view = world.view(Show { modules: true, ..Show::default() }, Weight::Period);
    let name = |step: &Step| {
        let text = text(&view.frames().frames()[step.frame.index()]);
        let name = text.rsplit_once('!').map_or(&*text, |(_, name)| name);
        if step.ways > 0 { format!("{} ways;{name}", step.ways) } else { name.to_owned() }
    };
    let told = |cause: &Cause| cause.path.iter().filter(|step| is_told(step)).map(name).collect::<Vec<_>>();
    let causes = explain(&view, is_users).causes;
    causes.iter().map(|cause| (told(cause).join(";"), cause.weight)).collect()
}

fn owned(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|&(path, weight)| (path.to_owned(), weight)).collect()
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
    let expected = [("app;main;parse", 50), ("app;main;draw;copy", 40), ("app;main", 9)];
    assert_eq!(causes(&world), expected.map(|(path, weight)| (path.to_owned(), weight)));
}

#[test]
fn the_first_function_after_each_branch_stands() {
    let mut world = World::new(Detail::default());
    let f = functions(&mut world, &["w", "parse_request", "grab", "update", "spin"]);
    world.add(1, &[f[4], f[1], f[0]], 50);
    world.add(1, &[f[4], f[3], f[2], f[0]], 49);
    let expected = owned(&[("app;w;parse_request;spin", 50), ("app;w;grab;spin", 49)]);
    assert_eq!(causes(&world), expected);
    let whole = owned(&[("app;w;parse_request;spin", 50), ("app;w;grab;update;spin", 49)]);
    assert_eq!(paths(&world, &|_| true, |_| true), whole);
}

#[test]
fn a_function_that_many_call_is_one_cause() {
    let mut world = World::new(Detail::default());
    let handlers: Vec<String> = (0..40).map(|number| format!("handler_{number}")).collect();
    let names: Vec<&str> =
        ["dispatch", "validate", "match"].into_iter().chain(handlers.iter().map(|name| &**name)).collect();
    let f = functions(&mut world, &names);
    for handler in &f[3..] {
        world.add(1, &[f[2], f[1], *handler, f[0]], 2);
        world.add(1, &[*handler, f[0]], 1);
    }
    let expected = owned(&[("app;dispatch;40 ways;validate;match", 80), ("app;dispatch", 40)]);
    assert_eq!(causes(&world), expected);
}

#[test]
fn paths_end_at_what_the_programs_own_code_calls() {
    let mut world = World::new(Detail::default());
    let mut of = |module: &str, offset, name: &str| {
        let path = Name::from(format!("/x/{module}").as_str());
        world.entry(Space::Object(ObjectIdentity { path, build_id: None, file: None }), offset, &[name])
    };
    let [main, check, eval] = [of("app", 1, "main"), of("app", 2, "check"), of("libvm.so", 1, "eval")];
    let [regex, inner] = [of("libre.so", 1, "regex"), of("libre.so", 2, "inner")];
    let copy = of("libc.so.6", 1, "memcpy");
    // The machine that runs a program calls itself for each of its functions.
    world.add(1, &[inner, regex, eval, check, eval, main, eval], 60);
    world.add(1, &[copy, inner, regex, eval, check, eval, main, eval], 30);
    world.add(1, &[inner, eval], 10);
    let is_users = |module: &str| module == "app";
    // A stack without the user's own code is told by that of other programs.
    let expected = owned(&[("app;main;check;eval", 90), ("app;eval;inner", 10)]);
    assert_eq!(paths(&world, &is_users, |_| true), expected);
    let view = world.view(Show { modules: true, ..Show::default() }, Weight::Period);
    let found = explain(&view, &is_users);
    let name = |frame: FrameId| text(&view.frames().frames()[frame.index()]);
    let hot = &found.functions[0];
    assert_eq!((name(hot.function).as_str(), hot.own), ("libre.so!inner", 70));
    let callers: Vec<_> = hot.callers.iter().map(|caller| (name(caller.what), caller.weight)).collect();
    assert_eq!(callers, [("app!check".to_owned(), 60), ("libvm.so!eval".to_owned(), 10)]);
    assert_eq!(found.functions.iter().map(|hot| hot.total).max(), Some(100), "recursion counts once");
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
    let found = explain(&world.view(Show::default(), Weight::Period), &|_| true);
    let costs: Vec<_> = found.costs.iter().map(|cost| (cost.kind, cost.weight)).collect();
    assert_eq!(costs, [(CostKind::PageFaults, 5), (CostKind::Allocation, 3), (CostKind::Copies, 2)]);
    assert_eq!((found.kernel, found.total), (5, 100));
}

/// A second of `first`, then one of `second`, a sample each millisecond.
fn phases(first: &str, second: &str) -> Vec<Phase> {
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
            world.profile.count(Sample {
                thread,
                stack,
                period: 1,
                time,
                cpu: Some(CpuId(0)),
                is_continued: false,
            });
        }
    }
    explain::phases(&world.view(Show::default(), Weight::Samples))
}

#[test]
fn phases_are_told_where_other_functions_run() {
    let found = phases("read", "write");
    let [one, two] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.end, one.weight + two.weight), (two.start, 2_000));
    let middle = (one.end.0 - one.start.0) as f64 / (two.end.0 - one.start.0) as f64;
    assert!((middle - 0.5).abs() < 0.05, "{middle}");
    assert_eq!(phases("read", "read"), []);
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
        let found = explain(&world.view(Show::default(), Weight::Period), &|_| true);
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
