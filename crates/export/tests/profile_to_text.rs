//! A profile's views as folded text and as pictures.

#![allow(clippy::unwrap_used, reason = "functions of a test file are not seen as tests by clippy")]

use std::sync::Arc;

use model::{
    AddressKind, Frame, Name, ObjectIdentity, Pid, Resolution, Space, SpaceTable, StackEntry, Symbolized, Tid,
};
use prof_export::flamegraph::{self, Options};
use prof_export::folded;
use profile::{Detail, PlaceId, Profile, Show, View, Weight};

/// Names every place `f` and its offset.
fn resolution(offset: u64) -> Resolution {
    let frame = Frame { function: Arc::from(format!("f{offset}")), location: None, inlined: false };
    Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None })
}

/// A profile of these samples: thread, offsets innermost first.
fn sampled(detail: Detail, samples: &[(i32, &[u64])]) -> (Profile, SpaceTable) {
    let mut spaces = SpaceTable::default();
    let identity = ObjectIdentity { path: Name::from("/bin/x"), build_id: None, file: None };
    let space = spaces.intern(Space::Object(identity));
    let mut profile = Profile::new(detail);
    for &(tid, offsets) in samples {
        let kind = AddressKind::ReturnAddress;
        let entry = |&offset| StackEntry { offset, space, kind, in_kernel: false };
        let stack = profile.stacks.intern(&offsets.iter().map(entry).collect::<Vec<_>>());
        profile.add(&Name::from("x;y 1"), Pid(1), Tid(tid), stack, 1);
    }
    (profile, spaces)
}

fn options() -> Options {
    Options {
        title: "Flame Graph".to_owned(),
        subtitle: String::new(),
        colors: "hot".parse().unwrap(),
        width: Some(1000),
        min_width: 0.0,
        inverted: false,
        reverse: false,
        unit: "samples".to_owned(),
        per_unit: 1,
    }
}

const SAMPLES: [(i32, &[u64]); 6] =
    [(1, &[2, 1]), (2, &[3, 1]), (1, &[4, 1]), (1, &[2, 1]), (1, &[2, 1]), (2, &[3, 1])];

#[test]
fn folded_lines_are_counted_and_safe() {
    let (profile, spaces) = sampled(Detail::default(), &SAMPLES);
    let names: Vec<_> = (0..5).map(resolution).collect();
    let resolve = |_: PlaceId, entry: &StackEntry| names.get(entry.offset as usize);
    let view = View::new(&profile, &spaces, resolve, Show::default(), Weight::Samples);
    let mut text = Vec::new();
    folded::write(&view, &mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "x:y\u{a0}1;f1;f2 3\nx:y\u{a0}1;f1;f3 2\nx:y\u{a0}1;f1;f4 1\n"
    );
}

#[test]
fn reversed_stacks_meet_at_what_they_call() {
    let (profile, spaces) = sampled(Detail::default(), &[(1, &[2, 1]), (1, &[2, 3]), (1, &[4])]);
    let names: Vec<_> = (0..5).map(resolution).collect();
    let resolve = |_: PlaceId, entry: &StackEntry| names.get(entry.offset as usize);
    let view = View::new(&profile, &spaces, resolve, Show::default(), Weight::Samples);
    let mut svg = Vec::new();
    flamegraph::write(&view, &Options { reverse: true, ..options() }, &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert!(svg.contains("<title>f2 (2 samples, 66.67%)</title>"), "{svg}");
    assert!(svg.contains("<title>f3 (1 samples, 33.33%)</title>"));
}
