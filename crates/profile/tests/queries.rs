//! Queries over call trees, and filters on stacks, against what a reader would do by hand, stack by stack.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{
    AddressKind, Frame, Name, ObjectIdentity, Pid, Resolution, Space, SpaceTable, StackEntry, Symbolized, Tid,
};
use prof_profile::queries::{ByLabel, CallTree, FunctionTable, NodeId};
use prof_profile::{Detail, FrameId, Label, Pattern, PlaceId, Profile, Shape, Show, View, ViewFrame, Weight};
use proptest::prelude::*;

/// Functions a, b, c… of two modules, whose names a profile's stacks spell, outermost first.
struct World {
    spaces: SpaceTable,
    names: BTreeMap<u8, (StackEntry, Resolution)>,
}

impl World {
    fn new() -> Self {
        let mut spaces = SpaceTable::default();
        let mut space = |path: &str| {
            let identity = ObjectIdentity { path: Name::from(path), build_id: None, file: None };
            spaces.intern(Space::Object(identity))
        };
        let spaces_of = [space("/lib/app"), space("/lib/libx.so")];
        let names = (b'a'..=b'g').map(|letter| {
            let space = spaces_of[usize::from(letter % 2)];
            let entry = StackEntry {
                offset: letter.into(),
                space,
                kind: AddressKind::ReturnAddress,
                in_kernel: false,
            };
            let function = Arc::from(char::from(letter).to_string());
            let frame = Frame { function, location: None, inlined: false };
            (
                letter,
                (entry, Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None })),
            )
        });
        Self { names: names.collect(), spaces }
    }

    fn profile(&self, stacks: &[(i32, String, u64)]) -> Profile {
        let mut profile = Profile::new(Detail { threads: true, ..Detail::default() });
        for (tid, stack, period) in stacks {
            let entries: Vec<_> = stack.bytes().rev().map(|letter| self.names[&letter].0).collect();
            let id = profile.stacks.intern(&entries);
            profile.add(&Name::from("t"), Pid(1), Tid(*tid), id, *period);
        }
        profile
    }

    fn view<'a>(&'a self, profile: &'a Profile, shape: &Shape) -> View<'a> {
        let resolve = |_: PlaceId, entry: &StackEntry| Some(&self.names[&(entry.offset as u8)].1);
        View::shaped(profile, &self.spaces, resolve, Show::default(), Weight::Period, shape)
    }
}

fn letter(frame: &ViewFrame) -> String {
    match &frame.label {
        Label::Function(name, _) => name.to_string(),
        Label::Module(name, _) => format!("[{name}]"),
        _ => String::new(),
    }
}

fn is(tree: &CallTree, name: &str) -> impl Fn(FrameId) -> bool {
    let of: Vec<bool> = tree.frames().iter().map(|frame| letter(frame) == name).collect();
    move |frame: FrameId| of[frame.index()]
}

/// The ways through a tree that end in samples, with their weights.
fn rows(tree: &CallTree) -> BTreeMap<String, Vec<u64>> {
    let mut rows = BTreeMap::new();
    for node in tree.nodes().filter(|&node| tree.self_weights(node).iter().any(|&weight| weight > 0)) {
        let (mut way, mut at) = (Vec::new(), node);
        while let Some(frame) = tree.frame(at) {
            way.push(letter(&tree.frames()[frame.index()]));
            at = tree.parent(at);
        }
        way.reverse();
        rows.insert(way.concat(), tree.self_weights(node).to_vec());
    }
    rows
}

/// Adds up what `change` makes of each stack, by profile.
fn by_hand(
    profiles: &[Vec<(i32, String, u64)>],
    change: impl Fn(&str) -> Option<String>,
) -> BTreeMap<String, Vec<u64>> {
    let mut rows: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (column, stacks) in profiles.iter().enumerate() {
        for (_, stack, period) in stacks {
            if let Some(stack) = change(stack) {
                rows.entry(stack).or_insert_with(|| vec![0; profiles.len()])[column] += period;
            }
        }
    }
    rows
}

fn reversed(stack: &str) -> String {
    stack.chars().rev().collect()
}

type Stacks = Vec<(i32, String, u64)>;

fn stacks() -> impl Strategy<Value = Stacks> {
    prop::collection::vec((1..4_i32, "[a-g]{0,9}", 1..1000_u64), 1..60)
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

proptest! {
    #[test]
    fn queries_agree_with_counting_by_hand(before in stacks(), after in stacks()) {
        let world = World::new();
        let both = [before, after];
        let profiles = [world.profile(&both[0]), world.profile(&both[1])];
        let views = [0, 1].map(|column| world.view(&profiles[column], &Shape::default()));
        let tree = CallTree::of(&[&views[0], &views[1]]);
        let merged = tree.merged_threads();
        let sums = [0, 1].map(|column| both[column].iter().map(|(.., period)| period).sum::<u64>());
        prop_assert_eq!(tree.totals(NodeId::ROOT), &sums[..]);
        prop_assert_eq!(merged.totals(NodeId::ROOT), &sums[..]);
        let some = |stack: String| Some(stack).filter(|stack| !stack.is_empty());
        let mut own = rows(&merged);
        own.remove("");
        prop_assert_eq!(own, by_hand(&both, |stack| some(stack.to_owned())));
        prop_assert_eq!(rows(&tree.from_leaves(|_| true)), by_hand(&both, |stack| some(reversed(stack))));
        for function in ["a", "d"] {
            let upto = |stack: &str| stack.find(function).map(|at| reversed(&stack[..=at]));
            prop_assert_eq!(rows(&tree.callers(is(&tree, function), |_| true)), by_hand(&both, upto));
            let from = |stack: &str| stack.find(function).map(|at| stack[at..].to_owned());
            prop_assert_eq!(rows(&tree.callees(is(&tree, function))), by_hand(&both, from));
        }
        let table = FunctionTable::new(&tree, &mut ByLabel::new(tree.frames()));
        let mut seen = BTreeSet::new();
        for (_, key, weights) in table.rows() {
            let name = tree.frames().get(key as usize).map(letter);
            prop_assert!(seen.insert(name.clone()), "one row each");
            for (column, weights) in weights.iter().enumerate() {
                let sum = |is: &dyn Fn(&str) -> bool| -> u64 {
                    let stacks = both[column].iter().filter(|(_, stack, _)| is(stack));
                    stacks.map(|(.., period)| period).sum()
                };
                let (own, total) = match &name {
                    Some(name) => (sum(&|stack| stack.ends_with(name.as_str())), sum(&|stack| stack.contains(name.as_str()))),
                    None => (sum(&str::is_empty), sum(&str::is_empty)),
                };
                prop_assert_eq!((weights.self_weight, weights.total), (own, total), "{:?}", name);
            }
        }
    }

    #[test]
    fn a_table_of_one_view_is_that_of_its_tree(stacks in stacks()) {
        let world = World::new();
        let profile = world.profile(&stacks);
        let view = world.view(&profile, &Shape::default());
        let tree = CallTree::of(&[&view]);
        let sorted = |table: &FunctionTable| {
            let mut rows: Vec<_> = table.rows().map(|(thread, frame, weights)| {
                (thread, frame, weights[0].self_weight, weights[0].total)
            }).collect();
            rows.sort_unstable();
            rows
        };
        let of_tree = FunctionTable::new(&tree, &mut ByLabel::new(tree.frames()));
        let of_view = FunctionTable::of_view(&view, &mut ByLabel::new(view.frames().frames())).unwrap();
        prop_assert_eq!(sorted(&of_view), sorted(&of_tree));
        let hides = Shape { hide: vec![pattern("a")], ..Shape::default() };
        let hiding = world.view(&profile, &Shape { keep: vec![pattern("d")], ..hides });
        prop_assert!(FunctionTable::of_view(&hiding, &mut ByLabel::new(hiding.frames().frames())).is_none());
    }

    #[test]
    fn callers_of_what_is_too_light_are_not_looked_for(stacks in stacks(), least in 0..3000_u64) {
        let world = World::new();
        let profile = world.profile(&stacks);
        let tree = CallTree::of(&[&world.view(&profile, &Shape::default())]);
        let (all, cut) = (tree.from_leaves(|_| true), tree.from_leaves(|weights| weights[0] >= least));
        let heavy = |tree: &CallTree| -> BTreeMap<String, u64> {
            let mut ways = BTreeMap::new();
            for node in tree.nodes().skip(1).filter(|&node| tree.totals(node)[0] >= least) {
                let (mut way, mut at) = (String::new(), node);
                while let Some(frame) = tree.frame(at) {
                    way.push_str(&letter(&tree.frames()[frame.index()]));
                    at = tree.parent(at);
                }
                ways.insert(way, tree.totals(node)[0]);
            }
            ways
        };
        prop_assert_eq!(heavy(&all), heavy(&cut));
        prop_assert_eq!(all.totals(NodeId::ROOT), cut.totals(NodeId::ROOT));
    }

    #[test]
    fn filters_do_to_trees_what_they_do_to_stacks(
        stacks in stacks(), hide: bool, keep: bool, root: bool, modules: bool, collapse_recursion: bool,
    ) {
        let world = World::new();
        let profile = world.profile(&stacks);
        let chosen = |is: bool, text: &str| is.then(|| pattern(text)).into_iter().collect::<Vec<_>>();
        let shape = Shape {
            hide: chosen(hide, "/[cf]/"),
            keep: chosen(keep, "d"),
            root_at: root.then(|| pattern("b")),
            collapse_modules: if modules { vec![Pattern::parse_module("libx").unwrap()] } else { vec![] },
            collapse_recursion,
        };
        let view = world.view(&profile, &shape);
        let tree = CallTree::of(&[&view]).merged_threads();
        let mut by_stack: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (thread, stack, count) in profile.counts() {
            let mut frames = Vec::new();
            view.stack(thread, stack, &mut frames);
            if !frames.is_empty() {
                let name = |frame: &FrameId| letter(&view.frames().frames()[frame.index()]);
                by_stack.entry(frames.iter().map(name).collect()).or_insert_with(|| vec![0])[0] += count.period;
            }
        }
        prop_assert_eq!(rows(&tree), by_stack.clone());
        if !modules && !collapse_recursion {
            let expected = by_hand(&[stacks], |stack| {
                let stack: String = stack.chars().filter(|letter| !hide || !"cf".contains(*letter)).collect();
                let stack = if root { &stack[stack.find('b')?..] } else { &stack };
                (!keep || stack.contains('d')).then(|| stack.to_owned())
            });
            // `keep` looks at the whole stack, also at what `root` cuts off.
            let kept_more: BTreeMap<_, _> = by_stack.into_iter().filter(|(stack, _)| !expected.contains_key(stack)).collect();
            prop_assert!(kept_more.is_empty() || keep && root, "{:?}", kept_more);
        }
    }
}

#[test]
fn recursion_goes_back_to_the_outermost_call() {
    let world = World::new();
    let shaped = |stack: &str, shape: Shape| {
        let profile = world.profile(&[(1, stack.to_owned(), 1)]);
        rows(&CallTree::of(&[&world.view(&profile, &shape)])).into_keys().collect::<Vec<_>>()
    };
    let recursion = || Shape { collapse_recursion: true, ..Shape::default() };
    assert_eq!(shaped("abbbc", recursion()), ["abc"]);
    assert_eq!(shaped("abcbcbd", recursion()), ["abd"], "through others, too");
    let modules =
        || Shape { collapse_modules: vec![Pattern::parse_module("libx").unwrap()], ..Shape::default() };
    assert_eq!(shaped("bacgedab", modules()), ["b[libx.so]d[libx.so]b"]);
    let root = |text: &str| Shape { root_at: Some(pattern(text)), ..Shape::default() };
    assert_eq!(shaped("abcbd", root("b")), ["bcbd"]);
    assert_eq!(shaped("abcbd", root("/[cd]/")), ["cbd"]);
    assert_eq!(shaped("abcbd", root("f")), [""; 0]);
    let keep = |text: &str| Shape { keep: vec![pattern(text)], ..Shape::default() };
    assert_eq!(shaped("abd", keep("mod:app")), ["abd"]);
    assert_eq!(shaped("ace", keep("mod:app")), [""; 0]);
    let hide = Shape { hide: vec![pattern("mod:libx")], ..Shape::default() };
    assert_eq!(shaped("abcd", hide), ["bd"]);
}
