//! From counted stacks to the rows of views.

mod world;

use std::collections::BTreeMap;

use model::{Name, Pid, Reason, Resolution, Space, StackEntry, Svma, Tid, TruncationReason};
use prof_profile::{Columns, Detail, Sample, Show, View, Weight};
use proptest::prelude::*;

use world::{World, text};

#[test]
fn stacks_that_read_alike_are_one_row() {
    let mut world = World::new(Detail::default());
    let (main, other_line) = (world.user(1, &["main"]), world.user(2, &["main"]));
    let work = world.user(3, &["inner", "outer"]);
    let syscall = world.kernel(0xffff_ffff_8000_0001, &["do_syscall"]);
    world.add(1, &[work, main], 10);
    world.add(2, &[work, other_line], 20);
    world.add(1, &[syscall, main], 5);
    let all = Show::default();
    assert_eq!(world.rows(all, Weight::Samples), ["app;main;do_syscall/k 1", "app;main;outer;inner/i 2"]);
    assert_eq!(world.rows(all, Weight::Period), ["app;main;do_syscall/k 5", "app;main;outer;inner/i 30"]);
    assert_eq!(
        world.rows(Show { inlined: false, kernel: false, ..all }, Weight::Samples),
        ["app;main 1", "app;main;outer 2"],
        "hidden frames do not hide samples"
    );
    assert_eq!(
        world.rows(Show { user: false, modules: true, ..all }, Weight::Samples),
        ["app 2", "app;kernel.kallsyms!do_syscall/k 1"]
    );
}

#[test]
fn threads_are_roots_where_kept_apart() {
    let mut world = World::new(Detail { threads: true, ..Detail::default() });
    let main = world.user(1, &["main"]);
    world.add(1, &[main], 1);
    world.add(2, &[main], 1);
    assert_eq!(world.rows(Show::default(), Weight::Samples), ["app-1/1;main 1", "app-1/2;main 1"]);
}

#[test]
fn what_has_no_name_is_shown_and_counted_by_reason() {
    let mut world = World::new(Detail::default());
    let (one, two) = (world.user(0x10, &[]), world.user(0x20, &[]));
    let main = world.user(1, &["main"]);
    let cut = world.entry(Space::Truncated(TruncationReason::CopyTooSmall), 0, &[]);
    let nowhere = world.entry(Space::Unmapped { pid: Pid(1), generation: 0 }, 0x30, &[]);
    let jit = world.entry(Space::Jit { pid: Pid(1), generation: 0, mapping: "//anon".into() }, 0x40, &[]);
    world.add(1, &[one, main], 1);
    world.add(1, &[two, main], 1);
    world.add(1, &[nowhere, jit, cut], 1);
    assert_eq!(
        world.rows(Show::default(), Weight::Samples),
        ["app;[stack copy too small];[anon None]/j;[? None] 1", "app;main;[app None] 2"]
    );
    assert_eq!(
        world.rows(Show { addresses: true, ..Show::default() }, Weight::Samples),
        [
            "app;[stack copy too small];[anon Some(64)]/j;[? Some(48)] 1",
            "app;main;[app Some(16)] 1",
            "app;main;[app Some(32)] 1"
        ]
    );
    // One of the two is known to lie in a function that begins before it, as the linker counts addresses.
    let delimited = Resolution::Delimited { reason: Reason::NoSymbols, start: Svma(0x1008), offset: 8 };
    world.names.insert(two, delimited);
    let shown = |show| world.rows(show, Weight::Samples)[1..].to_vec();
    assert_eq!(shown(Show::default()), ["app;main;[app None] 1", "app;main;[app Some(4104)] 1"]);
    let modules_only = Show { modules_only: true, ..Show::default() };
    assert_eq!(shown(modules_only), ["app;main;[app None] 2"]);
    let addresses = Show { addresses: true, ..Show::default() };
    assert_eq!(shown(addresses), ["app;main;[app Some(16)] 1", "app;main;[app Some(4112)] 1"]);
    let census = View::census(&world.profile, &world.spaces, |_, entry| world.names.get(entry));
    assert_eq!((census.frames, census.nameless, census.truncated), (6, 4, 1));
    let first = &census.reasons[0];
    assert_eq!((first.module.clone(), first.frames), (Some(Name::from("app")), 2));
}

#[test]
fn async_rust_is_folded_only_when_asked() {
    let mut world = World::new(Detail { samples: Some(Columns::default()), ..Detail::default() });
    let leaf = world.user(1, &["app::work"]);
    // Two async functions, one inlined into a closure, and the polls between them.
    let inner = world.user(2, &["app::read::{{closure}}", "app::serve::{{closure}}"]);
    let pin = world.user(3, &["<core::pin::Pin<P> as core::future::future::Future>::poll"]);
    let body = world.user(4, &["app::serve::{{closure}}"]);
    let plain = world.user(5, &["app::main"]);
    world.add(1, &[leaf, inner, pin, body, pin, plain], 1);
    world.add(1, &[pin, body, plain], 1);
    let folded = Show { fold_async: true, ..Show::default() };
    assert_eq!(
        world.rows(folded, Weight::Samples),
        [
            "app;app::main;app::serve;<core::pin::Pin<P> as core::future::future::Future>::poll 1",
            "app;app::main;app::serve;app::read/i;app::work 1",
        ]
    );
    let view = world.view(folded, Weight::Samples);
    let mut frames = Vec::new();
    let sample = world.profile.samples().iter().next().unwrap();
    view.stack(sample.thread, sample.stack, &mut frames);
    let frames: Vec<_> = frames.iter().map(|frame| text(&view.frames().frames()[frame.index()])).collect();
    assert_eq!(frames.join(";"), "app;app::main;app::serve;app::read/i;app::work");
    assert!(world.rows(Show::default(), Weight::Samples)[1].contains("app::serve::{{closure}}"));
}

/// A program in which different places read alike, in part, and some are not shown.
fn program(world: &mut World) -> Vec<StackEntry> {
    let user = [
        &["main"][..],
        &["main"],
        &["inner", "outer"],
        &["outer"],
        &["inner"],
        &["app::serve::{{closure}}"],
        &["<core::pin::Pin<P> as core::future::future::Future>::poll"],
        &[],
    ];
    let mut places: Vec<_> = user.into_iter().zip(1..).map(|(names, at)| world.user(at, names)).collect();
    places.push(world.kernel(0xffff_ffff_8000_0001, &["do_syscall"]));
    places.push(world.kernel(0xffff_ffff_8000_0002, &["sample", "do_syscall"]));
    places
}

#[test]
fn numbered_threads_are_one_and_processes_are_told_apart() {
    let detail = Detail { pools: true, ..Detail::default() };
    let rows = |detail: Detail| {
        let mut world = World::new(detail);
        let main = world.user(1, &["main"]);
        let stack = world.profile.stacks.intern(&[main]);
        for (comm, pid, tid) in [("cc1", 1, 1), ("w-1", 1, 2), ("w-2", 1, 3), ("w-1", 4, 4), ("w-1", 4, 5)] {
            let process = if pid == 1 { "cc1" } else { "w-1" };
            let thread = world.profile.thread(&Name::from(comm), Pid(pid), Tid(tid), || Name::from(process));
            world.profile.count(Sample {
                thread,
                stack,
                period: 1,
                time: None,
                cpu: None,
                is_continued: false,
            });
        }
        world.rows(Show::default(), Weight::Samples)
    };
    assert_eq!(rows(Detail::default()), ["cc1;main 1", "w-1;main 3", "w-2;main 1"]);
    assert_eq!(rows(detail), ["cc1;main 1", "w-*;main 2", "w-1;main 2"]);
    assert_eq!(
        rows(Detail { processes: true, ..detail }),
        ["cc1-1;cc1;main 1", "cc1-1;w-*;main 2", "w-1-4;w-1;main 2"]
    );
}

proptest! {
    #[test]
    fn a_tree_has_each_stack_as_far_as_it_is_wide(
        samples in prop::collection::vec((0_i32..3, prop::collection::vec(0_usize..10, 0..7), 1_u64..9), 0..60),
        (inlined, kernel, user, fold_async) in any::<(bool, bool, bool, bool)>(),
        least in prop_oneof![Just(0.0), 0.0..80.0],
    ) {
        let mut world = World::new(Detail { threads: true, samples: Some(Columns::default()), ..Detail::default() });
        let places = program(&mut world);
        for (tid, stack, period) in &samples {
            let entries: Vec<_> = stack.iter().map(|&place| places[place]).collect();
            world.add(*tid, &entries, *period);
        }
        let show = Show { inlined, kernel, user, fold_async, ..Show::default() };
        let view = world.view(show, Weight::Period);
        let stacks = world.profile.samples().iter().map(|sample| {
            let mut frames = Vec::new();
            view.stack(sample.thread, sample.stack, &mut frames);
            (frames, sample.period)
        });
        let stacks: Vec<_> = stacks.collect();
        for sample in world.profile.samples().iter() {
            let mut located = Vec::new();
            view.located_stack(sample.thread, sample.stack, &mut located);
            let innermost = located.last().and_then(|&(_, place)| place).map(|(place, _)| place);
            prop_assert_eq!(view.innermost_place(sample.thread, sample.stack), innermost);
        }
        let wide = |beginning: &[_]| {
            let within = stacks.iter().filter(|(stack, _)| stack.starts_with(beginning));
            beginning.len() == 1 || within.map(|(_, period)| period).sum::<u64>() as f64 >= least
        };
        let mut expected = BTreeMap::new();
        for (stack, period) in &stacks {
            let length = (1..=stack.len()).rev().find(|&length| wide(&stack[..length])).unwrap();
            let (own, left_out) = expected.entry(stack[..length].to_vec()).or_insert((0, 0));
            *(if length == stack.len() { own } else { left_out }) += period;
        }
        let mut rows = BTreeMap::new();
        view.tree(least).rows(|frames, weight, left_out| {
            assert_eq!(rows.insert(frames.to_vec(), (weight, left_out)), None, "equal stacks are one row");
        });
        prop_assert_eq!(rows, expected);
    }
}

#[test]
fn starts_are_one_frame_only_where_they_lead_to_others() {
    let mut world = World::new(Detail::default());
    let (start, main) = (world.user(1, &["_start"]), world.user(2, &["main"]));
    let runtime = world.user(3, &["std::panicking::catch_unwind", "std::rt::lang_start"]);
    let (own, work) = (world.user(4, &["app::main"]), world.user(5, &["work"]));
    world.add(1, &[work, own, runtime, main, start], 1);
    world.add(1, &[runtime, own, runtime, main, start], 1);
    world.add(1, &[runtime, main, start], 1);
    world.add(2, &[work, main, start], 1);
    world.add(2, &[start], 1);
    let folded = Show { fold_starts: true, ..Show::default() };
    let rt = "std::rt::lang_start;std::panicking::catch_unwind/i";
    assert_eq!(
        world.rows(folded, Weight::Samples),
        [
            format!("app;[start];app::main;{rt} 1"),
            "app;[start];app::main;work 1".to_owned(),
            "app;[start];work 1".to_owned(),
            "app;_start 1".to_owned(),
            format!("app;_start;main;{rt} 1"),
        ],
        "what calls a runtime is no program's main"
    );
    assert!(world.rows(Show::default(), Weight::Samples).iter().all(|row| !row.contains("[start]")));
}

#[test]
fn what_is_deep_and_hidden_is_passed_without_ado() {
    let mut world = World::new(Detail::default());
    let hidden: Vec<_> = (0..50_000).map(|at| world.kernel(0xffff_ffff_8000_0000 + at, &["deep"])).collect();
    let main = world.user(1, &["main"]);
    world.add(1, &[&[main], &hidden[..]].concat(), 1);
    assert_eq!(world.rows(Show { kernel: false, ..Show::default() }, Weight::Samples), ["app;main 1"]);
    assert_eq!(world.rows(Show::default(), Weight::Samples).len(), 1);
}
