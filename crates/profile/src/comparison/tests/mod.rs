//! Comparisons of trees written as stacks.

mod assessed;

use model::Name;

use super::{AFTER, BEFORE, Comparison, Side};
use crate::queries::{CallTree, CallTreeBuilder, NodeId};
use crate::{FrameKind, FrameTable, Label, ViewFrame};

/// Makes the tree of stacks like `app:main;app:f`, each with its weight. `*` before a name: inlined.
pub(crate) fn tree(stacks: &[(&str, u64)]) -> CallTree {
    let mut frames = FrameTable::default();
    let mut tree = CallTreeBuilder::new(1);
    for (stack, weight) in stacks {
        let comm = ViewFrame { label: Label::Comm(Name::from("t")), kind: FrameKind::User, line: None };
        let mut node = tree.child(NodeId::ROOT, frames.intern(comm));
        for name in stack.split(';') {
            let (kind, name) = match name.strip_prefix('*') {
                Some(name) => (FrameKind::Inlined, name),
                None => (FrameKind::User, name),
            };
            let (module, name) = name.split_once(':').unwrap();
            let label = match name.strip_prefix("+0x") {
                Some(offset) => {
                    Label::Module(Name::from(module), Some(u64::from_str_radix(offset, 16).unwrap()))
                }
                None => Label::Function(name.into(), Some(Name::from(module))),
            };
            node = tree.child(node, frames.intern(ViewFrame { label, kind, line: None }));
        }
        tree.add(node, &[*weight]);
    }
    tree.finish(frames.frames())
}

fn side(runs: &[&[(&str, u64)]]) -> Side {
    let mut side = Side::new(false);
    for run in runs {
        side.add_tree(&tree(run), run.iter().map(|(_, weight)| weight).sum());
    }
    side
}

fn name(comparison: &Comparison, frame: crate::FrameId) -> String {
    match &comparison.tree().frames()[frame.index()].label {
        Label::Function(name, module) => format!("{}:{name}", module.as_ref().unwrap()),
        Label::Module(module, at) => format!("[{module}{at:?}]"),
        other => format!("{other:?}"),
    }
}

fn selves(comparison: &Comparison) -> Vec<(String, Vec<u64>, Vec<u64>)> {
    let weights = |runs: &[crate::queries::Weights]| runs.iter().map(|run| run.self_weight).collect();
    let row = |function: &super::FunctionRuns| {
        let [before, after] = &function.runs;
        (name(comparison, function.frame), weights(before), weights(after))
    };
    let mut rows: Vec<_> = comparison.functions().iter().map(row).collect();
    rows.sort();
    rows
}

#[test]
fn builds_of_a_program_share_their_functions() {
    let before = side(&[
        &[("app-1:main;app-1:parse.llvm.1;*app-1:read", 10), ("app-1:main;libc-2.31.so:copy", 3)],
        &[("app-1:main;app-1:parse.llvm.1", 7)],
    ]);
    let after = side(&[&[
        ("app-2:main;app-2:parse.llvm.9;app-2:read", 20),
        ("app-2:main;libc-2.36.so:copy", 4),
        ("app-2:main;app-2:write", 1),
    ]]);
    let joined = Comparison::new(before, after, |_| false);
    let expected = [
        ("app-2:main", vec![0, 0], vec![0]),
        ("app-2:parse", vec![0, 7], vec![0]),
        ("app-2:read", vec![10, 0], vec![20]),
        ("app-2:write", vec![0, 0], vec![1]),
        ("libc-2.36.so:copy", vec![3, 0], vec![4]),
    ];
    assert_eq!(selves(&joined), expected.map(|(name, before, after)| (name.to_owned(), before, after)));
    assert_eq!(joined.tree().totals(NodeId::ROOT), [20, 25]);
    assert_eq!((joined.runs(BEFORE).len(), joined.runs(AFTER)[0].weight), (2, 25));
    // The root of the tree calls main: threads are left out.
    let main = joined.tree().heaviest_child(NodeId::ROOT).unwrap();
    assert_eq!(name(&joined, joined.tree().frame(main).unwrap()), "app-2:main");
}

#[test]
fn addresses_are_compared_only_within_one_build() {
    let stacks: [&[(&str, u64)]; 2] = [&[("x.so:+0x10", 5)], &[("x.so:+0x20", 6)]];
    let joined = |is_rebuilt: bool| {
        let [before, after] = stacks.map(|run| side(&[run]));
        selves(&Comparison::new(before, after, |_| is_rebuilt)).len()
    };
    assert_eq!((joined(false), joined(true)), (2, 1));
}

#[test]
fn threads_are_a_part_where_both_sides_keep_them() {
    let kept = |runs: &[(&str, u64)]| {
        let mut side = Side::new(true);
        side.add_tree(&tree(runs), 1);
        side
    };
    let joined = Comparison::new(kept(&[("a:f", 1)]), kept(&[("a:f", 2)]), |_| false);
    let thread = joined.tree().heaviest_child(NodeId::ROOT).unwrap();
    assert!(joined.tree().is_thread(thread));
    assert_eq!(joined.functions().len(), 1);
}
