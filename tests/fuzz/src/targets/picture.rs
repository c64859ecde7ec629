//! From a recording to folded stacks and a picture: tracker, profile, symbolizer and export on one another. The objects
//! that it maps are real ones: those of the other targets, by the length of their path.

use std::collections::HashMap;

use decoder::{Record, Sample};
use elf::Object;
use export::flamegraph::Options;
use model::{Pid, Resolution, Space, StackEntry, Tid};
use perfdata::{EntryKind, Reader, Source};
use profile::{Columns, Detail, PlaceId, Profile, Show, View, Weight};
use symbolizer::{LookupAddress, ObjectFiles, ObjectSymbolizer};
use tracker::{Orderer, RawStack, Tracker};

use crate::{objects, seeds};

/// Samples beyond these add time, not ways.
const MOST_SAMPLES: u64 = 2000;

pub(super) fn run(bytes: &[u8]) {
    let Ok(mut reader) = Reader::open(Source::File(Box::new(bytes.to_vec()))) else { return };
    let (mut orderer, mut tracker) = (Orderer::default(), Tracker::new());
    let mut profile =
        Profile::new(Detail { threads: true, samples: Some(Columns::default()), ..Detail::default() });
    while let Ok(entry) = reader.next_entry() {
        let ended = entry.is_none();
        match entry {
            Some(entry) if entry.kind == EntryKind::Kernel => {
                orderer.push(entry.time.unwrap_or_default(), entry.record);
            }
            Some(entry) => reader.release(entry.record),
            None => orderer.finish(),
        }
        while let Some((_, record)) = orderer.pop() {
            if let Ok((raw, layout)) = reader.record_and_layout(record) {
                match layout.decode(&raw) {
                    Ok(Record::Sample(sample)) => count(&sample, &mut tracker, &mut profile),
                    Ok(other) => tracker.apply(&other),
                    Err(_) => {}
                }
            }
            reader.release(record);
        }
        if ended || profile.total().samples >= MOST_SAMPLES {
            break;
        }
    }
    draw(&profile, &tracker);
}

fn count(sample: &Sample<'_>, tracker: &mut Tracker, profile: &mut Profile) {
    let (pid, tid) = sample.thread.unwrap_or((Pid::NONE, Tid(-1)));
    let mut entries = Vec::new();
    let chain = sample.callchain.map(|chain| chain.iter());
    tracker.map_callchain(RawStack { pid, mode: sample.mode, ip: sample.ip, chain }, &mut entries);
    let stack = profile.stacks.intern(&entries);
    let back = profile.stacks.entries(stack);
    assert!(
        back.map(|place| profile.stacks.places()[place.index()]).eq(entries),
        "a stack comes back as it went in"
    );
    profile.add(tracker.comm(pid, tid), pid, tid, stack, sample.period.unwrap_or(1));
}

fn draw(profile: &Profile, tracker: &Tracker) {
    let objects = objects::seeds();
    let mut names: HashMap<StackEntry, Resolution> = HashMap::new();
    for &entry in profile.stacks.places() {
        let Space::Object(identity) = tracker.spaces().get(entry.space) else { continue };
        let object = objects.get(identity.path.as_bytes().len() % objects.len().max(1));
        let Some(Ok(object)) = object.map(|bytes| Object::parse(bytes.as_slice())) else { continue };
        if names.len() < 64 {
            names.insert(entry, name(&object, entry));
        }
    }
    let resolve = |_: PlaceId, entry: &StackEntry| names.get(entry);
    let view = View::new(profile, tracker.spaces(), resolve, Show::default(), Weight::Samples);
    let _ = View::census(profile, tracker.spaces(), resolve);
    // Writing to memory does not fail.
    let (mut folded, mut picture) = (Vec::new(), Vec::new());
    let _ = export::folded::write(&view, &mut folded);
    let text = String::from_utf8_lossy(&folded);
    let weights =
        text.lines().map(|line| line.rsplit(' ').next().and_then(|weight| weight.parse::<u64>().ok()));
    let sum: Option<u64> = weights.sum();
    assert_eq!(sum, Some(profile.total().samples), "each sample is in a line");
    let _ = export::flamegraph::write(&view, &options(), &mut picture);
}

fn name(object: &Object<&[u8]>, entry: StackEntry) -> Resolution {
    let files = ObjectFiles { object, debug: None, minidebug: None, supplementary: None, package: None };
    let symbolizer = ObjectSymbolizer::new(&files, symbolizer::Options::default());
    let mut plan = symbolizer.plan(&[LookupAddress::from(&entry)]);
    let mut walks = Vec::new();
    loop {
        walks.extend((0..plan.tasks()).map(|task| symbolizer.walk(&plan, task, &|_| None)));
        if !plan.next_pass(&walks) {
            break;
        }
    }
    let mut found = symbolizer.finish(&plan, walks);
    assert_eq!(found.len(), 1, "one answer for each place");
    found.remove(0)
}

fn options() -> Options {
    Options {
        title: "title".to_owned(),
        subtitle: "subtitle".to_owned(),
        colors: export::flamegraph::Colors::Kinds,
        width: Some(1200),
        min_width: 0.1,
        inverted: false,
        reverse: false,
        unit: "samples".to_owned(),
        per_unit: 1,
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    vec![seeds::mapped_file(), seeds::file()]
}
