//! Profiles that are written here byte by byte, and what is read of them.

use model::{Name, Resolution};
use proptest::prelude::*;

use super::{ForeignError, ForeignProfile, Format};

/// Writes messages of protobuf.
#[derive(Clone, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn packed(self, field: u64, values: &[u64]) -> Self {
        let mut list = Self::default();
        values.iter().for_each(|&value| list.varint(value));
        self.bytes(field, &list.0)
    }
}

/// The strings of all profiles here, by position.
const STRINGS: [&str; 14] = [
    "",
    "samples",
    "count",
    "cpu",
    "nanoseconds",
    "main",
    "leaf",
    "_ZN3foo3barEv",
    "/bin/work",
    "tid",
    "comm",
    "worker",
    "work.c",
    "inlined",
];

/// Samples first, then what they refer to, as Go writes profiles. Location 1 is `leaf` with `inlined` in it, 2 is `main`, 3 has no name.
fn profile(samples: &[(&[u64], [i64; 2])]) -> Vec<u8> {
    let mut profile = Message::default();
    for [kind, unit] in [[1, 2], [3, 4]] {
        profile = profile.bytes(1, &Message::default().number(1, kind).number(2, unit).0);
    }
    for (locations, values) in samples {
        let label = Message::default().number(1, 10).number(2, 11);
        let thread = Message::default().number(1, 9).number(3, 42);
        let sample = Message::default().packed(1, locations).packed(2, &values.map(|value| value as u64));
        profile = profile.bytes(2, &sample.bytes(3, &label.0).bytes(3, &thread.0).0);
    }
    let mapping = Message::default().number(1, 1).number(2, 0x1000).number(3, 0x2000).number(5, 8);
    profile = profile.bytes(3, &mapping.0);
    let line = |function, line| Message::default().number(1, function).number(2, line).0;
    let location = |id, address| Message::default().number(1, id).number(2, 1).number(3, address);
    profile = profile
        .bytes(4, &location(1, 0x1010).bytes(4, &line(3, 7)).bytes(4, &line(1, 9)).0)
        .bytes(4, &location(2, 0x1020).bytes(4, &line(2, 3)).0)
        .bytes(4, &location(3, 0x1030).0);
    for (id, name) in [(1, 6), (2, 5), (3, 13)] {
        profile = profile.bytes(5, &Message::default().number(1, id).number(2, name).number(4, 12).0);
    }
    STRINGS.iter().fold(profile, |profile, text| profile.bytes(6, text.as_bytes())).0
}

fn parse(bytes: &[u8]) -> ForeignProfile {
    ForeignProfile::parse(bytes).unwrap().unwrap()
}

#[test]
fn a_profile_of_pprof_has_its_functions_threads_and_values() {
    let read = parse(&profile(&[(&[1, 2], [3, 30]), (&[3, 2], [1, 10])]));
    assert_eq!(read.format, Format::Pprof);
    assert_eq!((read.default_quantity().name.as_str(), read.quantities().len()), ("cpu", 2));
    assert_eq!(read.values, [3, 30, 1, 10]);
    let thread = &read.threads[0];
    assert_eq!((&thread.comm, thread.tid.map(|tid| tid.0)), (&Name::from("worker"), Some(42)));
    let entries: Vec<_> = read.stacks.entries(read.samples[0].stack).collect();
    let leaf = &read.stacks.places()[entries[0].index()];
    let Some(Resolution::Resolved(found)) = read.resolutions.get(leaf) else { panic!("no name") };
    let frames: Vec<_> = found.frames.iter().map(|frame| (&*frame.function, frame.inlined)).collect();
    assert_eq!(frames, [("inlined", true), ("leaf", false)]);
    let line = found.frames[0].location.as_ref().unwrap();
    assert_eq!((&*line.file, line.line), ("work.c", 7));
    // What has no name in the profile lies in an object, which may have one: at the offset in its file.
    assert_eq!(read.unresolved.iter().map(|entry| entry.offset).collect::<Vec<_>>(), [0x30]);
}

#[test]
fn differences_and_profiles_without_samples_are_refused() {
    let negative = ForeignProfile::parse(&profile(&[(&[1], [1, 5]), (&[1], [0, -5])]));
    assert_eq!(negative.unwrap_err(), ForeignError::Negative { sample: 2 });
    assert_eq!(ForeignProfile::parse(&profile(&[])).unwrap_err(), ForeignError::Without("sample"));
}

/// A profile of locations that have so many inlined functions each.
fn inlined(locations: u64, lines: usize, samples: &[Vec<u64>]) -> Vec<u8> {
    let mut profile = Message::default().bytes(1, &Message::default().number(1, 1).number(2, 2).0);
    for stack in samples {
        profile = profile.bytes(2, &Message::default().packed(1, stack).packed(2, &[1]).0);
    }
    for id in 1..=locations {
        let line = Message::default().number(1, 1).number(2, id).0;
        let location = (0..lines).fold(Message::default().number(1, id), |all, _| all.bytes(4, &line));
        profile = profile.bytes(4, &location.0);
    }
    profile = profile.bytes(5, &Message::default().number(1, 1).number(2, 6).0);
    STRINGS.iter().fold(profile, |profile, text| profile.bytes(6, text.as_bytes())).0
}

#[test]
fn a_stack_has_a_bounded_number_of_frames_with_the_inlined_ones() {
    let deep = parse(&inlined(2, 250, &[vec![1; 4096], vec![2; 16]]));
    let lengths: Vec<usize> =
        deep.samples.iter().map(|sample| deep.stacks.entries(sample.stack).count()).collect();
    assert_eq!(lengths, [16, 16]);
    let [remark] = deep.remarks.as_slice() else { panic!("{:?}", deep.remarks) };
    assert!(remark.starts_with("1 stack has its outermost frames left out: more than 4096"), "{remark}");
}

#[test]
fn a_small_profile_has_a_bounded_number_of_frames_in_all() {
    let stacks: Vec<Vec<u64>> =
        (0..4000).map(|number| (0..16).chain([number % 16]).map(|id| id % 16 + 1).collect()).collect();
    let bytes = inlined(16, 250, &stacks);
    let read = parse(&bytes);
    let entries: usize = read.samples.iter().map(|sample| read.stacks.entries(sample.stack).count()).sum();
    assert!(250 * entries < (2 << 20) + 8 * bytes.len() + bytes.len(), "{entries} of {} bytes", bytes.len());
    assert!(read.remarks[0].contains("more than its bytes where others have many"), "{:?}", read.remarks);
    assert_eq!(read.values.iter().sum::<u64>(), 4000, "all samples count");
}

#[test]
fn an_address_of_all_ones_is_not_the_kernels() {
    let stack = |address| {
        let location = Message::default().number(1, 9).number(3, address);
        let bytes = Message(profile(&[(&[9], [1, 1])])).bytes(4, &location.0).0;
        let read = parse(&bytes);
        read.stacks.places()[0].in_kernel
    };
    assert_eq!([u64::MAX, u64::MAX - 0xfff].map(stack), [false, true]);
}

#[test]
fn texts_of_go_are_named_as_what_they_are() {
    for text in ["heap profile: 1: 2 [3: 4] @ heap/8192\n", "--- mutex:\ncycles/second=1\n"] {
        assert_eq!(ForeignProfile::parse(text.as_bytes()).unwrap_err(), ForeignError::GoText);
    }
}

#[test]
fn folded_names_are_demangled_without_hashes() {
    let read = parse(b"a;_ZN4core3fmt5write17h0123456789abcdefE 3\n");
    let names: Vec<_> = read.stacks.places().iter().filter_map(|place| read.resolutions.get(place)).collect();
    let is_named = |resolution: &&Resolution| matches!(resolution, Resolution::Resolved(found) if &*found.frames[0].function == "core::fmt::write");
    assert_eq!(names.iter().filter(|name| is_named(name)).count(), 1);
}

#[test]
fn what_is_no_profile_is_left_to_others() {
    let elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0".as_slice();
    for bytes in [b"PERFILE2 and so on".as_slice(), elf, b"text\n", b"", &[0; 64]] {
        assert!(ForeignProfile::parse(bytes).unwrap().is_none(), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn folded_stacks_keep_their_counts_and_names(
        stacks in prop::collection::btree_map(
            "[a-z]{1,9};[a-z_:<>() ]{0,9}[a-z](;[a-z.$]{1,5}){0,4}", 1_u64..1 << 40, 1..40),
    ) {
        let text: String = stacks.iter().map(|(stack, count)| format!("{stack} {count}\n")).collect();
        let read = parse(text.as_bytes());
        prop_assert_eq!(read.format, Format::Folded);
        let counts: Vec<u64> = stacks.values().copied().collect();
        prop_assert_eq!(&read.values, &counts);
        for (sample, stack) in read.samples.iter().zip(stacks.keys()) {
            let name = |place: profile::PlaceId| {
                match read.resolutions.get(&read.stacks.places()[place.index()]) {
                    Some(Resolution::Resolved(found)) => found.frames[0].function.to_string(),
                    _ => String::new(),
                }
            };
            let names: Vec<String> = read.stacks.entries(sample.stack).map(name).collect();
            let expected: Vec<&str> = stack.split(';').rev().map(str::trim).collect();
            prop_assert!(names.len() + usize::from(read.tells_threads) == expected.len());
            prop_assert_eq!(&names[..], &expected[..names.len()]);
        }
    }

    #[test]
    fn profiles_of_pprof_keep_every_value(
        samples in prop::collection::vec(
            (prop::collection::vec(0_u64..5, 0..6), 0..i64::MAX, 1..i64::MAX), 1..20),
    ) {
        let given: Vec<(&[u64], [i64; 2])> =
            samples.iter().map(|(locations, count, time)| (locations.as_slice(), [*count, *time])).collect();
        let read = parse(&profile(&given));
        let expected: Vec<u64> =
            given.iter().flat_map(|(_, values)| values.map(|value| value as u64)).collect();
        prop_assert_eq!(&read.values, &expected);
        for (sample, (locations, _)) in read.samples.iter().zip(&given) {
            prop_assert_eq!(read.stacks.entries(sample.stack).count(), locations.len());
        }
    }

    #[test]
    fn damage_gives_an_error_and_no_panic(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = profile(&[(&[1, 2], [3, 30]), (&[3, 2], [1, 10])]);
        let length = cut.index(bytes.len());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = ForeignProfile::parse(&bytes);
        let _ = ForeignProfile::parse(&bytes[..length]);
    }
}
