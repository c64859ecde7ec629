//! The page of `prof view`: what goes in comes out of it, whatever it is called.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{
    AddressKind, CpuId, Frame, Name, ObjectIdentity, Pid, Resolution, Space, SpaceId, SpaceTable, StackEntry,
    Symbolized, Tid, Timestamp,
};
use prof_export::view::{Page, PageEvent, PageSamples, PageStacks, pack, write};
use profile::{Columns, Detail, PlaceId, Profile, Sample as Counted, Show, View, Weight};
use proptest::prelude::*;
use serde_json::Value;

const DETAIL: Detail = Detail {
    threads: true,
    pools: true,
    processes: true,
    cpus: false,
    containers: false,
    cgroups: false,
    samples: Some(Columns { times: true, cpus: true }),
};

/// A sample: thread, CPU, nanoseconds, period, and functions by their numbers, outermost first.
type Sample = (i32, u32, u64, u64, Vec<usize>);

/// The page of some samples of functions with these names.
fn page(names: &[String], comm: &str, samples: &[Sample], weight: Weight) -> String {
    let mut spaces = SpaceTable::default();
    let identity = ObjectIdentity { path: Name::from("/opt/x"), build_id: None, file: None };
    let space = spaces.intern(Space::Object(identity));
    let resolutions: Vec<Resolution> = names
        .iter()
        .map(|name| {
            let frame = Frame { function: Arc::from(&**name), location: None, inlined: false };
            Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None })
        })
        .collect();
    let mut profile = Profile::new(DETAIL);
    for (thread, cpu, time, period, stack) in samples {
        let entries: Vec<StackEntry> = stack.iter().rev().map(|&function| entry(space, function)).collect();
        let stack = profile.stacks.intern(&entries);
        let thread = profile.thread(&Name::from(comm), Pid(1), Tid(*thread), || Name::from(comm));
        let (time, cpu) = (Some(Timestamp(*time)), Some(CpuId(*cpu)));
        profile.count(Counted { thread, stack, period: *period, time, cpu, is_continued: false });
    }
    let resolve = |_: PlaceId, entry: &StackEntry| resolutions.get(entry.offset as usize);
    let view = View::new(&profile, &spaces, resolve, Show { modules: true, ..Show::default() }, weight);
    let page = Page {
        title: comm.to_owned(),
        facts: vec![comm.to_owned()],
        caveats: names.to_vec(),
        events: vec![PageEvent { name: comm.to_owned(), view: &view, is_clock: false, is_time: false }],
        gaps: vec![(0, 2000, 7)],
        switch_gaps: Vec::new(),
        waits: &[],
        waiting: None,
        wakers: None,
        is_own_code: &|_| true,
        package_of: &|_, _| None,
        folds_starts: true,
        source: None,
        has_lines: false,
        recording: names.concat(),
        sides: None,
        code: &[],
    };
    let mut html = Vec::new();
    let samples = PageSamples::of(std::iter::once(&view), false);
    let stacks = PageStacks::of(std::iter::once(&view), None);
    let pack_all = |blocks: &[Vec<u8>]| blocks.iter().map(|block| pack(block)).collect();
    write(&page, samples, stacks, &pack_all, &mut html).unwrap();
    String::from_utf8(html).unwrap()
}

fn entry(space: SpaceId, function: usize) -> StackEntry {
    StackEntry { offset: function as u64, space, kind: AddressKind::InstructionPointer, in_kernel: false }
}

/// The blocks of a page, unpacked.
fn blocks(html: &str) -> BTreeMap<&str, Vec<u8>> {
    let pieces = html.split("<script type=\"text/plain\" data-block=\"").skip(1);
    pieces
        .map(|piece| {
            let (name, rest) = piece.split_once("\">").unwrap();
            let packed = STANDARD.decode(rest.split_once("</script>").unwrap().0).unwrap();
            let mut bytes = vec![0; 1 << 20];
            let (read, _) = zlib_rs::decompress_slice(&mut bytes, &packed, zlib_rs::InflateConfig::default());
            (name, read.to_vec())
        })
        .collect()
}

/// Reads a column of integers.
struct Column(std::vec::IntoIter<u8>);

impl Column {
    fn next(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.0.next().unwrap();
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }

    fn next_signed(&mut self) -> i64 {
        let value = self.next();
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }
}

/// The samples that a page has, as it was given them (microseconds instead of nanoseconds), in an order of their own.
fn samples_of(html: &str) -> Vec<(i64, i64, i64, i64, Vec<String>)> {
    let mut blocks = blocks(html);
    let meta: Value = serde_json::from_slice(&blocks["meta"]).unwrap();
    let mut column = |name: &str| Column(blocks.remove(name).unwrap_or_default().into_iter());
    let (mut nodes, mut stacks, mut times) = (column("nodes"), column("stacks"), column("times"));
    let (mut samples, mut cpus, mut weights) = (column("samples"), column("cpus"), column("weights"));
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let running = |numbers: &Value| -> Vec<usize> {
        let add = |sum: &mut i64, number: &Value| {
            *sum += number.as_i64().unwrap();
            Some(*sum as usize)
        };
        numbers.as_array().unwrap().iter().scan(0, add).collect()
    };
    let (functions, names) = (running(&meta["frames"]["function"]), running(&meta["functions"]["name"]));
    let text = |frame: u64| meta["names"][names[functions[frame as usize]]].as_str().unwrap().to_owned();
    let count = nodes.next();
    let mut parents = vec![0_usize];
    for node in 1..count as usize {
        let parent = (0..nodes.next()).fold(node - 1, |above, _| parents[above]);
        parents.push(parent);
    }
    let mut paths: Vec<Vec<String>> = vec![Vec::new()];
    for &parent in &parents[1..] {
        let path = [&paths[parent][..], &[text(nodes.next())]].concat();
        paths.push(path);
    }
    let mut leaf = 0;
    let leaves: Vec<usize> = (0..stacks.next())
        .map(|_| {
            leaf += stacks.next() as usize;
            leaf
        })
        .collect();
    let mut all = Vec::new();
    for segment in meta["segments"].as_array().unwrap() {
        let tid = meta["threads"][number(&segment[1])]["tid"].as_i64().unwrap();
        let (mut stack, mut time, mut distance, mut cpu, mut period) = (0, 0, 0, 0, 0);
        for _ in 0..number(&segment[2]) {
            distance += times.next_signed();
            time += distance;
            cpu += cpus.next_signed();
            if meta["events"][0]["weighted"].as_bool().unwrap() {
                period += weights.next_signed();
            }
            stack += samples.next_signed();
            let path = paths[leaves[stack as usize]].clone();
            all.push((tid, cpu, meta["origin"].as_i64().unwrap() + time, period, path));
        }
    }
    let rests = [nodes, stacks, times, samples, cpus, weights].map(|column| column.0.len());
    assert_eq!(rests, [0; 6], "what the page would not read");
    all
}

fn hostile_name() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[<>&'\"/a-c!\\-]{0,12}",
        Just("</script><script>alert(1)</script>".to_owned()),
        Just("<!--<script>".to_owned()),
        Just("\u{202e}abc\u{2066}\u{7}\u{1b}[31m\r\n".to_owned()),
        Just("</style></title><img src=x onerror=alert(1)>".to_owned()),
        Just("x".repeat(100_000)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn samples_come_back_and_names_are_text(
        names in prop::collection::vec(hostile_name(), 1..6),
        comm in hostile_name(),
        weighted in any::<bool>(),
        samples in prop::collection::vec(
            (1..4_i32, 0..200_u32, 0..u64::from(u32::MAX), any::<u32>(), prop::collection::vec(0..6_usize, 0..9)), 1..40),
    ) {
        let weight = if weighted { Weight::Period } else { Weight::Samples };
        let mut samples: Vec<Sample> = samples
            .into_iter()
            .map(|(tid, cpu, time, period, stack)| {
                (tid, cpu, time, period.into(), stack.iter().map(|function| function % names.len()).collect())
            })
            .collect();
        samples.sort_by_key(|sample| sample.2);
        let html = page(&names, &comm, &samples, weight);
        // Names never end the element that they stand in, or begin one.
        let counts = ["<script", "</script>", "<style", "<title>", "<img", "<!--", "<main", "<h1>"]
            .map(|markup| html.matches(markup).count());
        prop_assert_eq!(counts, [8 - usize::from(!weighted), 8 - usize::from(!weighted), 1, 1, 0, 0, 1, 1]);
        let has_control = html.contains([char::from(27), char::from(7)]);
        prop_assert!(!has_control);
        let expected = |sample: &Sample| {
            let (tid, cpu, time, period, stack) = sample;
            let shown = |name: &str| Name::from(name).to_string();
            let path = std::iter::once(shown(&comm)).chain(stack.iter().map(|&function| shown(&names[function])));
            let period = if weighted { *period as i64 } else { 0 };
            (i64::from(*tid), i64::from(*cpu), (*time / 1000) as i64, period, path.collect::<Vec<_>>())
        };
        let mut expected: Vec<_> = samples.iter().map(expected).collect();
        let mut read = samples_of(&html);
        expected.sort();
        read.sort();
        prop_assert_eq!(read, expected);
    }
}

#[test]
fn without_scripts_the_hottest_functions_are_a_table() {
    let names = ["main", "a<b>", "leaf"].map(str::to_owned);
    let samples: Vec<Sample> = (0..10)
        .map(|number| (1, 0, number * 1000, 1, if number < 7 { vec![0, 1, 0, 2] } else { vec![0, 1] }))
        .collect();
    let html = page(&names, "app", &samples, Weight::Samples);
    let rows: Vec<&str> = html.lines().filter(|line| line.starts_with("<tr><td>")).collect();
    assert_eq!(
        rows,
        [
            "<tr><td>70.0 %</td><td>7</td><td>70.0 %</td><td>7</td><td>x</td><td>leaf</td></tr>",
            "<tr><td>30.0 %</td><td>3</td><td>100.0 %</td><td>10</td><td>x</td><td>a&lt;b&gt;</td></tr>",
            "<tr><td>0.0 %</td><td>0</td><td>100.0 %</td><td>10</td><td>x</td><td>main</td></tr>",
        ]
    );
}

#[test]
fn equal_recordings_give_equal_pages() {
    let names = ["main", "b", "a"].map(str::to_owned);
    let samples: Vec<Sample> =
        vec![(1, 0, 5000, 1, vec![0, 1]), (2, 1, 6000, 1, vec![0, 2]), (1, 0, 7000, 1, vec![0, 2])];
    let html = page(&names, "app", &samples, Weight::Samples);
    assert_eq!(html, page(&names, "app", &samples, Weight::Samples));
    let moved = ["a", "main", "b"].map(str::to_owned);
    let renumbered: Vec<Sample> = samples
        .iter()
        .map(|(tid, cpu, time, period, stack)| {
            (*tid, *cpu, *time, *period, stack.iter().map(|&function| (function + 1) % 3).collect())
        })
        .collect();
    let again = page(&moved, "app", &renumbered, Weight::Samples);
    assert_eq!(blocks(&html)["nodes"], blocks(&again)["nodes"], "siblings lie in the order of names");
}
