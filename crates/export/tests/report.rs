//! Reports of a small profile, whole.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use model::{
    AddressKind, Frame, Loss, Name, ObjectIdentity, Pid, Resolution, Space, SpaceTable, StackEntry,
    Symbolized, Tid,
};
use prof_export::report::{EventReport, Format, Key, Options, Order, Query, write};
use prof_export::summary::Summary;
use profile::{Census, Detail, Pattern, PlaceId, Profile, Shape, Show, View, Weight};

const NAMES: [&str; 6] =
    ["main", "serve", "parse", "alloc::vec::Vec<T,A>::push_within_capacity", "=evil\x1b[2J\n|<b>\",", "idle"];

/// Stacks by their functions' positions in [`NAMES`], outermost first, with their periods.
fn report(stacks: &[(&[u64], u64)], options: &Options) -> String {
    let mut spaces = SpaceTable::default();
    let identity = ObjectIdentity { path: Name::from("/usr/bin/app"), build_id: None, file: None };
    let space = spaces.intern(Space::Object(identity));
    let mut profile = Profile::new(Detail::default());
    for (stack, period) in stacks {
        let entry =
            |&offset: &u64| StackEntry { offset, space, kind: AddressKind::ReturnAddress, in_kernel: false };
        let entries: Vec<_> = stack.iter().rev().map(entry).collect();
        let stack = profile.stacks.intern(&entries);
        profile.add(&Name::from("app"), Pid(1), Tid(1), stack, *period);
    }
    let names = NAMES.map(|name| {
        let frame = Frame { function: Arc::from(name), location: None, inlined: false };
        Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None })
    });
    let resolve = |_: PlaceId, entry: &StackEntry| names.get(entry.offset as usize);
    let show = Show { modules: true, ..Show::default() };
    let view = View::shaped(&profile, &spaces, resolve, show, Weight::Period, &Shape::default());
    let (loss, census) = (Loss::default(), Census::default());
    let summary = Summary {
        event: "cycles",
        total: profile.total(),
        unsampled: 0,
        weight: Weight::Period,
        loss: &loss,
        census: &census,
        remedies: &[],
        estimates: &[],
        foreign_unit: None,
    };
    let events = [EventReport { view: &view, summary, hints: vec!["app: try `harder`".to_owned()] }];
    let mut output = Vec::new();
    write(&events, options, &mut output).unwrap();
    String::from_utf8(output).unwrap()
}

fn options(query: Query, format: Format) -> Options {
    Options {
        query,
        order: Order::SelfWeight,
        totals: true,
        per_thread: false,
        min_share: None,
        limit: None,
        screen_rows: None,
        all_frames: false,
        full_names: false,
        format,
        title: "app".to_owned(),
    }
}

const STACKS: [(&[u64], u64); 5] =
    [(&[0, 1, 2], 500), (&[0, 1, 2, 1, 3], 250), (&[0, 1, 4], 240), (&[0, 5], 9), (&[], 1)];

const HEADING: &str = "\
# app
# 5 samples of cycles, weighted by period (sum 1,000), 0 lost, 0 % of frames without a name
# app: try `harder`
#
";

#[test]
fn a_table_fits_the_width_and_says_what_it_leaves_out() {
    let table = Query::Table(vec![Key::Module, Key::Function]);
    let text = report(
        &STACKS,
        &Options { min_share: Some(0.005), ..options(table, Format::Text { width: Some(48) }) },
    );
    let rows = "    self   total  module  function
  50.00%  75.00%  app     parse
  25.00%  25.00%  app     …::push_within_capaci…
  24.00%  24.00%  app     =evil\u{fffd}[2J\u{fffd}|<b>\",
   0.90%   0.90%  app     idle
   0.00%  99.90%  app     main
   0.00%  99.00%  app     serve
# 1 more row: 0.10% self
";
    assert_eq!(text, format!("{HEADING}{rows}"));
}

#[test]
fn chains_of_only_calls_go_straight_down() {
    let text = report(&STACKS, &options(Query::FromRoots, Format::Text { width: None }));
    let rows = "   total    self  function (module)
  99.90%   0.00%  main (app)
  99.00%   0.00%  ├ serve (app)
  75.00%  50.00%  │ ├ parse (app)
  25.00%   0.00%  │ │ serve (app)
  25.00%  25.00%  │ │ alloc::vec::Vec<T,A>::push_within_capacity (app)
  24.00%  24.00%  │ └ =evil\u{fffd}[2J\u{fffd}|<b>\", (app)
   0.90%   0.90%  └ idle (app)
";
    assert_eq!(text, format!("{HEADING}{rows}"));
    let callers = Query::Callers(Pattern::parse("serve").unwrap());
    let text = report(&STACKS, &options(callers, Format::Text { width: None }));
    let rows = "   total  function (module)
  99.00%  serve (app)
  99.00%  main (app)
";
    assert_eq!(text, format!("{HEADING}{rows}"), "the recursive call is no further caller");
    let csv = |query| report(&STACKS, &options(query, Format::Csv));
    assert!(
        !csv(Query::FromLeaves).contains("self"),
        "a call on the way to a function has no samples of its own"
    );
    assert!(csv(Query::FromRoots).contains("self"));
}

#[test]
fn other_programs_get_names_that_do_them_no_harm() {
    let table = || Query::Table(vec![Key::Function]);
    let csv = report(&STACKS, &options(table(), Format::Csv));
    let evil = csv.lines().find(|line| line.contains("evil")).unwrap();
    assert_eq!(evil, "\"'=evil\u{fffd}[2J\u{fffd}|<b>\"\",\",240,24.000,240,24.000");
    let markdown = report(&STACKS, &options(table(), Format::Markdown));
    let evil = markdown.lines().find(|line| line.contains("evil")).unwrap();
    assert_eq!(evil, "| =evil\u{fffd}\\[2J\u{fffd}\\|&lt;b&gt;\", | 240 | 24.000 | 240 | 24.000 |");
    let json: serde_json::Value =
        serde_json::from_str(&report(&STACKS, &options(table(), Format::Json))).unwrap();
    assert_eq!(json["rows"][2]["function"], "=evil\u{fffd}[2J\u{fffd}|<b>\",");
    assert_eq!(
        (&json["total"], &json["samples"], &json["unit"]),
        (&1000.into(), &5.into(), &"cycles".into())
    );
    assert_eq!(json["rows"].as_array().unwrap().len(), 7);
}
